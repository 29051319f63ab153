# Generated from db/_async/pinned.py by tools/unasync.py: change that file instead.
"""One transaction for many calls: they all see one snapshot, and what they write is undone at the end.

What reads twice and compares must not meet somebody else's writing in between; and what tries something out on a
database in use must leave nothing behind, however it ends: the server itself undoes an open transaction.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from context_engine.db._sync.store import BEGIN_WRITE, CUSTOM_PLANS, Row, Store, Transaction
from context_engine.db.errors import translated
from context_engine.retrieval.compose import Statement

_BEGIN: dict[bool, LiteralString] = {
    False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    True: "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE",
}
_NO_TIMEOUT = "0"


class _Step(Transaction):
    """A part of the one transaction: it neither begins nor commits."""

    def __init__(self, store: Store, connection: Connection[TupleRow]) -> None:
        super().__init__(store, connection, "SELECT")
        self._begun = True


class PinnedStore(Store):
    """A store on one open transaction; what would be a transaction elsewhere is a savepoint here."""

    def __init__(self, origin: Store, connection: Connection[TupleRow], schema_name: str | None = None) -> None:
        name = schema_name or origin.settings.schema_name
        super().__init__("", origin.settings.model_copy(update={"schema_name": name}))
        self.lasting = False
        self.session_values = origin.session_values
        self._vector_schema = origin._vector_schema
        self._origin_schema = origin._schema
        self._pinned = connection

    def beside(self, schema_name: str) -> PinnedStore:
        """Return a store in the same transaction on the tables of another schema; `{origin}` names those of this."""
        return PinnedStore(self, self._pinned, schema_name)

    def render(self, text: LiteralString, **parts: sql.Composable) -> bytes:
        """Write the schemas' names into a statement."""
        origin = {"origin": self._origin_schema} if "{origin}" in text else {}
        return super().render(text, **origin, **parts)

    def has_idle(self) -> bool:
        """Tell that there is no second connection: it would not see what this one wrote."""
        return False

    @contextmanager
    def _transaction(self, begin: LiteralString) -> Generator[Transaction]:
        with translated():
            self._pinned.execute("SAVEPOINT step")
            try:
                yield _Step(self, self._pinned)
                if begin == BEGIN_WRITE:  # what a commit would check
                    self._pinned.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    self._pinned.execute("SET CONSTRAINTS ALL DEFERRED")
            except BaseException:
                if not self._pinned.closed:
                    self._pinned.execute("ROLLBACK TO SAVEPOINT step")
                raise
            self._pinned.execute("RELEASE SAVEPOINT step")

    def query(self, statement: Statement) -> list[Row]:
        """Run one statement."""
        with self.read() as transaction:
            [rows] = transaction.run(statement)
        return rows


@contextmanager
def pin(store: Store, *, write: bool) -> Generator[PinnedStore]:
    """Open a transaction for many calls, and undo it at the end; with `write` they may write, for each other."""
    with translated():
        with store.connection() as connection:
            connection.execute(_BEGIN[write])
            try:
                connection.execute(*store.configuration(CUSTOM_PLANS, {"statement_timeout": _NO_TIMEOUT}))
                yield PinnedStore(store, connection)
            finally:
                if not connection.closed:
                    connection.execute("ROLLBACK")
