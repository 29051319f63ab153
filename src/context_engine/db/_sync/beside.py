# Generated from db/_async/beside.py by tools/unasync.py: change that file instead.
"""One statement beside a transaction: on a second connection, in the same snapshot, while the first goes on."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, LiteralString

from psycopg import Connection, Cursor, Error, sql
from psycopg.errors import QueryCanceled
from psycopg.rows import TupleRow
from psycopg_pool import PoolTimeout

from context_engine.db._sync.store import BEGIN_READ, CUSTOM_PLANS, Row, Store, Transaction
from context_engine.retrieval.compose import Statement

_SHARE: Final[LiteralString] = "SELECT pg_export_snapshot(), pg_postmaster_start_time()::text, pg_backend_pid()"
_WHICH_SERVER: Final = b", pg_postmaster_start_time()::text"
_NO_SNAPSHOT: Final = {"22023", "42704", "55000", "58P01", "0A000"}
"""What a server says to the name of a snapshot that it has not given, or cannot take."""
_LOCK_TIMEOUT: Final = "100ms"
"""Whoever holds a lock and waits for the first transaction would be waited for by the second, unseen by the server."""
_PATIENCE_S: Final = 0.05
_CANCEL_S: Final = 1.0


class Answer:
    """The rows of a statement that is under way.

    The second connection is never needed: where it cannot be used, the rows are asked for as if there were none.
    """

    def __init__(self, connection: Connection[TupleRow], server: str) -> None:
        self._connection = connection
        self._pipeline = connection.pipeline()
        self._server = server
        self._cursors: tuple[Cursor[TupleRow], Cursor[TupleRow]] | None = None
        self.same_server = True
        self.whole = False
        """Whether all rows have come, and the connection is as it was."""

    def send(self, store: Store, snapshot: str, statement: Statement) -> None:
        """Send everything, the end of the transaction too, and wait for nothing."""
        execute = self._connection.execute
        settings = {"lock_timeout": _LOCK_TIMEOUT, **statement.local, **statement.settings}
        prepare, values = store.configuration(CUSTOM_PLANS, settings)
        with suppress(Error):
            self._pipeline.__enter__()
            execute(BEGIN_READ)
            execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
            which = execute(prepare + _WHICH_SERVER, values)
            cursor = execute(store.render(statement.text), statement.params)
            execute("COMMIT")
            self._cursors = which, cursor

    def rows(self) -> list[Row] | None:
        """Wait for the rows; None where they have to be asked for again.

        Raises:
            QueryCanceled: when the statement took longer than a statement may.
        """
        if self._cursors is None:
            return None
        which, cursor = self._cursors
        try:
            [(*_, server)] = which.fetchall()
            rows: list[Row] = cursor.fetchall()
            self._pipeline.__exit__(None, None, None)
        except QueryCanceled:
            raise
        except Error as error:  # no such snapshot, a lock that was not to be had, a lost connection
            self.same_server = error.sqlstate not in _NO_SNAPSHOT
            return None
        self.whole = True
        self.same_server = server == self._server
        return rows if self.same_server else None

    def give_up(self) -> None:
        """Stop what nobody waits for any more."""
        with suppress(Error):
            self._connection.cancel_safe(timeout=_CANCEL_S)
        with suppress(Error):
            self._pipeline.__exit__(None, None, None)
        self._connection.close()


class Beside:
    """Asks one statement beside a transaction, where there is an idle connection to the same server for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._possible = True
        """Whether two connections come to one server, and each has it for itself."""

    @contextmanager
    def ask(self, transaction: Transaction, statement: Statement | None) -> Generator[Answer | None]:
        """Send a statement; its rows are fetched inside the block. None where that cannot be done, or is not wanted."""
        if statement is None or not self._possible or not self._store.has_idle():
            yield None
            return
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._store.connection(_PATIENCE_S))
            except PoolTimeout:
                connection = None
            shared = self._share(transaction) if connection else None
            if connection is None or shared is None:
                yield None
                return
            snapshot, server = shared
            answer = Answer(connection, server)
            try:
                answer.send(self._store, snapshot, statement)
                yield answer
            finally:
                self._possible = answer.same_server
                if not answer.whole:
                    answer.give_up()

    def _share(self, transaction: Transaction) -> tuple[str, str] | None:
        """Offer the transaction's snapshot; behind a pooler, which may have one connection for all of us, None.

        A pooler tells its clients of processes that the server does not know.
        """
        [[(snapshot, server, process)]] = transaction.run(Statement(_SHARE))
        self._possible = process == transaction.process
        return (snapshot, server) if self._possible else None
