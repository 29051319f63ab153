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


_NO_SESSION: Final = (
    ("password authentication failed", "the database refused the user or the password"),
    ("no password supplied", "the database asks for a password, and the URL has none"),
    ("no pg_hba.conf entry", "the database lets no such user in from here (pg_hba.conf)"),
    ('role "', "the database knows no such role, or does not let it log in"),
    ('database "', "there is no such database on that server, or the role may not connect to it"),
)
_NOT_THERE: Final = (
    ("Connection refused", "nothing listens there"),
    ("No such file or directory", "there is no such socket"),
    ("translate host name", "the host is not known"),
    ("resolve host", "the host is not known"),
    ("Name or service not known", "the host is not known"),
)
"""What the driver says of a connection that failed, which has no SQLSTATE, and what we do."""


def refused(error: Exception) -> ConfigError | None:
    """Return our error where a server answered and will not let us in; None where it may only be away for now."""
    if isinstance(error, psycopg.ProgrammingError):
        return ConfigError("that is no PostgreSQL URL: write postgresql://user@host:5432/database")
    said = str(error)
    answered = "FATAL" in said or "fe_sendauth" in said
    found = next((ours for theirs, ours in _NO_SESSION if answered and theirs in said), None)
    return ConfigError(found) if found else None


def why_away(error: Exception) -> str | None:
    """Say why no server answered, where that is known."""
    return next((ours for theirs, ours in _NOT_THERE if theirs in str(error)), None)


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
