"""Connections and transactions: one snapshot a read, pipelined; nothing set outlives its transaction."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString

from psycopg import AsyncConnection, AsyncCursor, OperationalError, ProgrammingError, sql
from psycopg.errors import FeatureNotSupported, InsufficientPrivilege, InvalidSchemaName, UndefinedFile
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from context_engine.db import copy_format
from context_engine.db.errors import refused, translated, unreachable, why_away
from context_engine.errors import ConfigError
from context_engine.retrieval.compose import Statement
from context_engine.settings import StorageSettings
from context_engine.sql import load

Row = tuple[Any, ...]

_SET: LiteralString = "SELECT set_config(%s, %s, true)"
BEGIN_READ: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_WRITE: LiteralString = "BEGIN ISOLATION LEVEL READ COMMITTED"
CUSTOM_PLANS = "force_custom_plan"
_PLANS: dict[LiteralString, str] = {BEGIN_READ: CUSTOM_PLANS, BEGIN_WRITE: "auto"}
"""How the server plans: what reads, anew each time; a writer's foreign keys, once for all of the rows that moved."""


class AsyncTransaction:
    """One transaction on one connection. Its first batch of statements opens it, in the same round trip."""

    def __init__(self, store: AsyncStore, connection: AsyncConnection[TupleRow], begin: LiteralString) -> None:
        self._store = store
        self._connection = connection
        self._begin: LiteralString = begin
        self._begun = False

    @property
    def process(self) -> int:
        """The process that the connection was said to be served by."""
        return self._connection.info.backend_pid

    async def _open(self, local: Mapping[str, str] | None = None) -> None:
        """Begin, if that is still to be done, and set what holds until the end."""
        begun, self._begun = self._begun, True
        if not begun:
            await self._connection.execute(self._begin)
        if not begun or local:
            plans = _PLANS.get(self._begin, CUSTOM_PLANS)
            await self._connection.execute(*self._store.configuration(plans, local or {}))

    async def run(self, *statements: Statement) -> list[list[Row]]:
        """Run statements in one round trip, each with its own settings; returns the rows of each."""
        cursors: list[AsyncCursor[TupleRow]] = []
        async with self._connection.pipeline():
            await self._open({name: value for statement in statements for name, value in statement.local.items()})
            for statement in statements:
                for name, value in statement.settings.items():
                    await self._connection.execute(_SET, (name, value))
                text = self._store.render(statement.text)
                cursors.append(await self._connection.execute(text, statement.params))
                for name in statement.settings:
                    reset = sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.Identifier(*name.split(".")))
                    await self._connection.execute(reset)
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    async def binary(self, statement: Statement) -> list[Row]:
        """Run one statement and return its rows in binary format: a bytea column comes as it is."""
        async with self._connection.pipeline():
            await self._open()
            text = self._store.render(statement.text)
            cursor = await self._connection.execute(text, statement.params, binary=True)
        return await cursor.fetchall()

    async def affected(self, statement: Statement) -> int:
        """Run one statement and return how many rows it touched."""
        async with self._connection.pipeline():
            await self._open()
            cursor = await self._connection.execute(self._store.render(statement.text), statement.params)
        return cursor.rowcount

    async def attempt(self, *statements: Statement) -> list[list[Row]]:
        """Run statements that may fail without ending the transaction; a failure comes as our own error."""
        with translated():
            try:
                return (await self.run(Statement("SAVEPOINT attempt"), *statements))[1:]
            except Exception:
                await self.run(Statement("ROLLBACK TO SAVEPOINT attempt"))
                raise

    async def script(self, text: LiteralString, **parts: sql.Composable) -> None:
        """Run several statements without parameters."""
        async with self._connection.pipeline():
            await self._open()
        await self._connection.execute(self._store.render(text, **parts))

    async def create_extension(self, name: str) -> None:
        """Create an extension in the schema that the server chooses."""
        await self._connection.execute("SET LOCAL search_path TO DEFAULT")
        try:
            await self._connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))
        except (InsufficientPrivilege, UndefinedFile, FeatureNotSupported, InvalidSchemaName) as error:
            raise ConfigError(
                f"the extension {name} is missing and cannot be created here: install it on the server, and run "
                f"CREATE EXTENSION {name} as a role that may"
            ) from error

    async def copy(self, name: LiteralString, rows: Iterable[bytes]) -> None:
        """Load rows in binary COPY format through the COPY statement in `sql/<name>.sql`."""
        async with self._connection.pipeline():
            await self._open()
        cursor = self._connection.cursor()
        async with cursor.copy(self._store.render(load(name))) as copy:
            await copy.write(copy_format.HEADER)
            await copy.write(b"".join(rows))
            await copy.write(copy_format.TRAILER)

    async def commit(self) -> None:
        """Commit; deferred constraints are checked here.

        In a round trip of its own: the driver ends a pipeline with a Flush, and for one that comes after the
        transaction's end PgBouncer takes a server connection and holds it until this client's next transaction.
        """
        if self._begun:
            self._begun = False
            await self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        """Undo everything since the transaction began."""
        if self._begun:
            self._begun = False
            if self._connection.pgconn.pipeline_status:  # cut off amidst a pipeline: it takes no statement any more
                await self._connection.close()
            else:
                await self._connection.execute("ROLLBACK")


class AsyncStore:
    """A database: its pool, its schema, and the extensions' place in it."""

    def __init__(self, url: str, settings: StorageSettings) -> None:
        self.settings = settings
        self.lasting = True
        """Whether what is written stays, so that upkeep after it is worth the while."""
        self.session_values: tuple[str, str] = ("pg_catalog", "0")
        self._schema = sql.Identifier(settings.schema_name)
        self._vector_schema = sql.Identifier("public")
        self._vector_type = sql.Identifier(settings.vector_type)
        self._rendered: dict[str, bytes] = {}
        self._url = url
        self._pool = AsyncConnectionPool(
            url,
            min_size=min(2, settings.pool_size),  # a search may use two at once
            max_size=settings.pool_size,
            open=False,
            timeout=settings.connect_timeout_s,
            # After an outage the pool tries again at each call, not at the end of a pause that has grown with it.
            reconnect_timeout=settings.connect_timeout_s,
            name="context-engine",
            # No prepared statements: they break behind a pooler in transaction mode, and plans are custom anyway.
            kwargs={"autocommit": True, "prepare_threshold": None},
        )

    async def open(self) -> None:
        """Open the pool and make sure that a connection can be had."""
        with translated():
            why = await self._try()
            await self._pool.open()
            try:
                await self._pool.wait(self.settings.connect_timeout_s)
            except PoolTimeout as error:
                await self._pool.close()
                raise unreachable(why or "no connection in storage.connect_timeout_s") from error
            except BaseException:
                await self._pool.close()
                raise

    async def _try(self) -> str | None:
        """Connect once, for the reason where that fails: the pool goes on trying, and keeps it to itself."""
        try:
            timeout = max(2, round(self.settings.connect_timeout_s))
            connection = await AsyncConnection.connect(self._url, autocommit=True, connect_timeout=timeout)
        except (OperationalError, ProgrammingError) as error:
            if never := refused(error):
                raise never from error
            return why_away(error)
        await connection.close()
        return None

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    def render(self, text: LiteralString, **parts: sql.Composable) -> bytes:
        """Write the schema's name, and other quoted parts, into a statement."""
        rendered = None if parts else self._rendered.get(text)
        if rendered is None:
            names = {"schema": self._schema, "vector_schema": self._vector_schema, "vector_type": self._vector_type}
            rendered = sql.SQL(text).format(**(names | parts)).as_bytes(None)
            if not parts:
                self._rendered[text] = rendered
        return rendered

    def configuration(self, plans: str, more: Mapping[str, str]) -> tuple[bytes, list[str]]:
        """Write the statement that sets what a transaction needs, and its values: one is sooner sent than several."""
        path, timeout_ms = self.session_values
        settings = {"search_path": path, "statement_timeout": timeout_ms, "plan_cache_mode": plans, **more}
        calls = ", ".join(["set_config(%s, %s, true)"] * len(settings))
        return f"SELECT {calls}".encode(), [part for pair in settings.items() for part in pair]

    async def locate_extensions(self) -> None:
        """Find the schemas of the extensions and put them, and nothing else, on the search path.

        Raises:
            ConfigError: when pgvector or pg_trgm is not installed, or pgvector is too old.
        """
        rows = await self.query(Statement(load("admin/extensions")))
        found = {name: (schema, version) for name, schema, version in rows}
        missing = [name for name in ("vector", "pg_trgm") if name not in found]
        if missing:
            raise ConfigError(
                f"the database lacks the extension {' and '.join(missing)}: run `context-engine migrate` as a role "
                "that may create extensions"
            )
        version = str(found["vector"][1])
        if tuple(int(part) for part in version.split(".")[:2]) < (0, 8):
            raise ConfigError(f"pgvector {version} is too old: 0.8 or newer is needed")
        schemas = sorted({str(found[name][0]) for name in ("vector", "pg_trgm")})
        path = ", ".join(['"' + name.replace('"', '""') + '"' for name in schemas])
        self._vector_schema = sql.Identifier(str(found["vector"][0]))
        timeout_ms = str(round(self.settings.statement_timeout_s * 1000))
        self.session_values = (f"pg_catalog, {path}", timeout_ms)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncTransaction]:
        """Open a read-only transaction on one snapshot."""
        async with self._transaction(BEGIN_READ) as transaction:
            yield transaction

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncTransaction]:
        """Open a transaction that commits when the block ends well."""
        async with self._transaction(BEGIN_WRITE) as transaction:
            yield transaction

    def has_idle(self) -> bool:
        """Whether at least half of the open connections lie idle."""
        stats = self._pool.get_stats()
        idle = stats.get("pool_available", 0)
        return idle > 0 and 2 * idle >= stats.get("pool_size", 0)

    @asynccontextmanager
    async def connection(self, timeout: float | None = None) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """Lend a connection; where it breaks, those that lie idle are looked at too, so that the next call has none.

        Args:
            timeout: how long to wait for one, in seconds; None waits `storage.connect_timeout_s`.
        """
        async with self._pool.connection(timeout) as connection:
            try:
                yield connection
            finally:
                if connection.closed:
                    await self._pool.check()

    @asynccontextmanager
    async def _transaction(self, begin: LiteralString) -> AsyncGenerator[AsyncTransaction]:
        with translated():
            async with self.connection() as connection:
                transaction = AsyncTransaction(self, connection, begin)
                try:
                    yield transaction
                    await transaction.commit()
                finally:
                    if not connection.closed:
                        await transaction.rollback()

    async def query(self, statement: Statement) -> list[Row]:
        """Run one statement by itself, outside any transaction block."""
        with translated():
            async with self.connection() as connection:
                cursor = await connection.execute(self.render(statement.text), statement.params)
                return await cursor.fetchall() if cursor.description else []
