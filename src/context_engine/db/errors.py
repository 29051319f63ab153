"""Turn the driver's errors into ours. The driver's text stays in `__cause__`, out of every message."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from context_engine.errors import ConfigError, SchemaOutOfDate, StoreError


def unreachable(state: str) -> StoreError:
    """Say that there is no connection."""
    return StoreError(
        f"the database cannot be reached or went away ({state}): check the URL and that the server runs",
        retryable=True,
        connection_lost=True,
    )


def translate(error: Exception) -> Exception:
    """Return our error for a driver's."""
    state = getattr(error, "sqlstate", None) or "no SQLSTATE"
    match error:
        case pg.UndefinedTable() | pg.UndefinedColumn() | pg.InvalidSchemaName():
            return SchemaOutOfDate("the tables are missing or old: run `context-engine migrate`")
        case pg.InsufficientPrivilege():
            return ConfigError("the database role lacks a privilege that this call needs")
        case pg.QueryCanceled():
            return StoreError(
                "the statement ran into storage.statement_timeout_s or was cancelled",
                retryable=True,
            )
        case PoolTimeout() | TooManyRequests():
            return StoreError(
                "no database connection became free in time: raise storage.pool_size",
                retryable=True,
            )
        case PoolClosed():
            return StoreError("the engine is closed")
        case pg.DiskFull() | pg.OutOfMemory() | pg.ConfigurationLimitExceeded():
            return StoreError(f"the database is out of a resource ({state})", retryable=True)
        case pg.SerializationFailure() | pg.DeadlockDetected() | pg.LockNotAvailable():
            return StoreError("the transaction met another one: try again", retryable=True)
        case pg.ProgramLimitExceeded() | pg.StatementTooComplex():
            return StoreError(
                f"more than the database can take at once ({state}): for a document lower ingest.chunk_tokens, "
                "for a search ask for less"
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return unreachable(state)
        case _:
            return StoreError(f"the database refused a statement ({state})")


@contextmanager
def translated() -> Generator[None]:
    """Raise our errors for the driver's."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests) as error:
        raise translate(error) from error
