"""A connection that can only read: snapshots, timeouts, and settings that end with their statement."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, IsolationLevel, sql
from psycopg import errors as pg
from psycopg.rows import TupleRow

from context_engine.db.errors import translate, unreachable
from context_engine.errors import ConfigError, ContextEngineError, InputError, StoreError
from context_engine.sql import load

Row = tuple[Any, ...]

_CONNECT_TIMEOUT_S: Final = 10
_LOCK_TIMEOUT: Final = "2s"
_IDLE_TIMEOUT: Final = "60s"
_SET: LiteralString = "SELECT set_config(%s, %s, true)"
_SAID: Final[tuple[tuple[type[Exception], type[ContextEngineError], str], ...]] = (
    (
        pg.InsufficientPrivilege,
        ConfigError,
        "the role lacks SELECT on what is measured: GRANT SELECT on the table to it",
    ),
    (
        pg.LockNotAvailable,
        StoreError,
        f"someone holds a lock on the table that keeps readers out (waited {_LOCK_TIMEOUT}): try again later",
    ),
    (
        psycopg.DataError,
        InputError,
        "the database cannot compare the vectors or the ACL values: do all rows, and the questions, have one "
        "dimension, and are the values given with --as of the column's type?",
    ),
    (pg.UndefinedTable, StoreError, "the table is gone: it was there when the measurement began"),
    (
        pg.UndefinedFunction,
        ConfigError,
        "this pgvector has no such distance operator for the column's type: choose with --distance",
    ),
)


def _translate(error: psycopg.Error) -> ContextEngineError:
    for kind, made, text in _SAID:
        if isinstance(error, kind):
            return made(text)
    return translate(error)


class Timeout(Exception):
    """A statement ran into the statement timeout."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows, and how long the client waited for them."""

    rows: list[Row]
    ms: float


class Snapshot:
    """One read-only transaction. A statement that fails or times out leaves it usable."""

    def __init__(self, connection: Connection[TupleRow], vector_schema: str | None) -> None:
        self._connection = connection
        self._schema = sql.Identifier(vector_schema or "public")

    def ask(
        self,
        statement: sql.Composed,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Timed:
        """Run a statement with settings of its own.

        Raises:
            Timeout: it ran into the statement timeout.
            ContextEngineError: the database refused it.
        """
        set_all = [
            sql.SQL("; SET LOCAL {} = {}").format(sql.Identifier(*name.split(".")), sql.Literal(value))
            for name, value in (settings or {}).items()
        ]
        self._connection.execute(sql.SQL("SAVEPOINT asked") + sql.Composed(set_all))
        try:
            started = time.perf_counter()
            rows = self._connection.execute(statement, params or {}).fetchall()
            timed = Timed(rows, (time.perf_counter() - started) * 1000)
        except psycopg.Error as error:
            self._undo()
            raise (Timeout() if isinstance(error, pg.QueryCanceled) else _translate(error)) from error
        # Not where the user interrupts: the driver's late cancellation would meet this statement, and hide that.
        self._undo()
        return timed

    def _undo(self) -> None:
        if not self._connection.closed and self._connection.info.transaction_status.name != "ACTIVE":
            self._connection.execute("ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked")

    def load(self, name: LiteralString, params: Mapping[str, Any] | None = None, **parts: sql.Composable) -> list[Row]:
        """Run `sql/exposure/<name>.sql`, with `parts` put in.

        Raises:
            StoreError: it ran into the statement timeout, or the database refused it.
        """
        try:
            return self.ask(self.compose(name, **parts), params).rows
        except Timeout as error:
            raise StoreError(
                "reading what the measurement starts from ran into the statement timeout: raise --timeout-s"
            ) from error

    def compose(self, name: LiteralString, **parts: sql.Composable) -> sql.Composed:
        """Put `parts` into `sql/exposure/<name>.sql`."""
        return sql.SQL(load(f"exposure/{name}")).format(vector_schema=self._schema, **parts)

    def explain(
        self, statement: sql.Composed, params: Mapping[str, Any], settings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the plan of a statement, as EXPLAIN (FORMAT JSON) tells it; the statement does not run."""
        [[[plan]]] = self.ask(sql.SQL("EXPLAIN (FORMAT JSON) ") + statement, params, settings).rows
        return plan["Plan"]


class Session:
    """A connection to the database that is measured."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._timeout_ms = str(round(timeout_s * 1000))
        self._vector_schema: str | None = None
        try:
            self._connection = psycopg.connect(
                url,
                connect_timeout=_CONNECT_TIMEOUT_S,
                application_name="context-engine check-acl-exposure",
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise unreachable(getattr(error, "sqlstate", None) or "no SQLSTATE") from error
        self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
        self._connection.read_only = True

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    @property
    def vector_schema(self) -> sql.Identifier:
        """The schema of the vector types, quoted."""
        return sql.Identifier(self._vector_schema or "public")

    def look_in(self, vector_schema: str) -> None:
        """Find vector types and operators in this schema, and all else by full names."""
        self._vector_schema = vector_schema

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """Open a transaction that sees one state of the database, and end it without a trace."""
        try:
            path = sql.Identifier("pg_catalog").as_string(None)
            if self._vector_schema:
                path += ", " + sql.Identifier(self._vector_schema).as_string(None)
            for name, value in (
                ("search_path", path),
                ("statement_timeout", self._timeout_ms),
                ("lock_timeout", _LOCK_TIMEOUT),
                ("idle_in_transaction_session_timeout", _IDLE_TIMEOUT),
            ):
                self._connection.execute(_SET, (name, value))
            yield Snapshot(self._connection, self._vector_schema)
        except psycopg.Error as error:
            raise _translate(error) from error
        finally:
            self._end()

    def _end(self) -> None:
        if self._connection.closed:
            return
        try:
            self._connection.rollback()
        except psycopg.Error:  # what came before says why
            self._connection.close()
