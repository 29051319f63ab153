"""Turn the driver's errors into ours. The driver's text stays in `__cause__`, out of every message."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from context_engine.errors import ConfigError, ContextEngineError, SchemaOutOfDate, StoreError

_POOL: Final = (PoolTimeout, PoolClosed, TooManyRequests)
_MISSING: Final = (pg.UndefinedTable, pg.UndefinedColumn, pg.InvalidSchemaName)
_REFUSED: Final[tuple[tuple[tuple[type[Exception], ...], str, bool], ...]] = (
    ((pg.QueryCanceled,), "the statement ran into storage.statement_timeout_s or was cancelled", True),
    (
        (PoolTimeout, TooManyRequests),
        "no database connection became free in time: raise storage.pool_size",
        True,
    ),
    ((PoolClosed,), "the engine is closed", False),
    ((pg.DiskFull, pg.OutOfMemory, pg.ConfigurationLimitExceeded), "the database is out of a resource", True),
    (
        (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable),
        "the transaction met another one: try again",
        True,
    ),
    (
        (pg.UniqueViolation, pg.DuplicateSchema, pg.DuplicateTable, pg.DuplicateObject),
        "someone else made the same thing at the same time: try again",
        True,
    ),
    (
        (pg.ProgramLimitExceeded, pg.StatementTooComplex),
        "more than the database can take at once: for a document lower ingest.chunk_tokens, for a search ask for less",
        False,
    ),
)
"""Kinds of errors, what to say, and whether the same call may succeed later."""


def unreachable(state: str) -> StoreError:
    """Say that there is no connection."""
    return StoreError(
        f"the database cannot be reached or went away ({state}): check the URL and that the server runs",
        retryable=True,
        connection_lost=True,
    )


def translate(error: Exception) -> ContextEngineError:
    """Return our error for a driver's."""
    state = getattr(error, "sqlstate", None) or "no SQLSTATE"
    if isinstance(error, _MISSING):
        return SchemaOutOfDate("the tables are missing or old: run `context-engine migrate`")
    if isinstance(error, pg.InsufficientPrivilege):
        return ConfigError("the database role lacks a privilege that this call needs")
    for kinds, message, retryable in _REFUSED:
        if isinstance(error, kinds):
            pooled = isinstance(error, _POOL)
            return StoreError(f"{message} ({state})", retryable=retryable, connection_lost=pooled)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return unreachable(state)
    return StoreError(f"the database refused a statement ({state})")


@contextmanager
def translated() -> Generator[None]:
    """Raise our errors for the driver's."""
    try:
        yield
    except (psycopg.Error, *_POOL) as error:
        raise translate(error) from error
