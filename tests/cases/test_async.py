"""The asynchronous engine: the same flow, many at once on few connections, and a caller who leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import psycopg
import pytest
from case_support import DEADLINE_S, LEGS, check_stored, doc, found, key, one, only

from context_engine import (
    PUBLIC,
    TRUSTED,
    AsyncEngine,
    Count,
    Document,
    LegError,
    NotFound,
    Settings,
)
from context_engine.models.hashing import HashingEmbedder


class AsyncHashing:
    """An embedder whose methods are coroutines; a gated text waits."""

    name = "hashing-32"
    dim = 32

    def __init__(self) -> None:
        self._inner = HashingEmbedder(32)
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.at_once = self.most = 0

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return self._inner.embed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if "gated" in text:
                self.reached.set()
                await asyncio.wait_for(self.opened.wait(), DEADLINE_S)
            else:
                await asyncio.to_thread(int)  # elsewhere, and back on the loop
            return self._inner.embed_query(text)
        finally:
            self.at_once -= 1


NewAsyncEngine = Callable[..., AsyncEngine]


@pytest.fixture
async def new_async_engine(database_url: str) -> AsyncIterator[NewAsyncEngine]:
    made: list[AsyncEngine] = []

    def make(embedder: object | None = None, **sections: Any) -> AsyncEngine:
        settings = Settings(**sections)
        made.append(AsyncEngine(database_url, embedder=embedder or AsyncHashing(), settings=settings))
        return made[-1]

    yield make
    for engine in made:
        await engine.close()


async def test_the_whole_flow(new_async_engine: NewAsyncEngine, database_url: str) -> None:
    async with new_async_engine() as engine:
        assert await engine.migrate() == []
        await engine.set_policy("team", ["ada"])
        seen: list[tuple[int, int | None]] = []
        report = await engine.ingest(
            [
                doc("one", "an otter swims", ["ada"]),
                doc("two", "an otter eats", PUBLIC),
                Document(text="no acl", external_id="three"),
            ],
            progress=lambda done, total: seen.append((done, total)),
        )
        assert (report.created, len(report.failed), seen[-1]) == (2, 1, (3, 3))
        for weights in (None, *map(only, LEGS)):
            hits = await engine.search("otter", principals=["ada"], weights=weights)
            assert sorted(found(hits)) == ["one", "two"]
            hits = await engine.search("otter", principals=["bo"], weights=weights)
            assert found(hits) == ["two"]
        document = await engine.get_document(key("one"), principals=["ada"])
        assert document.text == "an otter swims"
        with pytest.raises(NotFound):
            await engine.get_document(key("one"), principals=[])
        listed = [item.external_id async for item in engine.list_documents(principals=["ada"])]
        assert sorted(listed) == ["one", "two"]
        assert await engine.count(principals=[]) == Count(1, 1)
        await engine.set_acl(key("two"), ["bo"])
        assert await engine.count(principals=[]) == Count(0, 0)
        assert await engine.delete([key("one"), key("two")]) == 2
        assert check_stored(database_url, 256).documents == 0


async def test_searches_at_once_on_two_connections(new_async_engine: NewAsyncEngine, database_url: str) -> None:
    embedder = AsyncHashing()
    engine = new_async_engine(embedder, storage={"pool_size": 2})
    await engine.ingest(doc(str(number), f"an otter {number}", [f"user:{number % 8}"]) for number in range(80))

    async def search(number: int) -> set[str]:
        return set(found(await engine.search("otter", principals=[f"user:{number % 8}"])))

    async with asyncio.timeout(DEADLINE_S):
        answers = await asyncio.gather(*map(search, range(40)))
    for number, answer in enumerate(answers):
        assert answer == {str(at) for at in range(number % 8, 80, 8)}
    assert embedder.most > 2  # no connection is held while the query is embedded
    backends = one(
        database_url,
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    assert backends <= 2


async def test_the_first_calls_open_it_once(new_async_engine: NewAsyncEngine) -> None:
    engine = new_async_engine(storage={"pool_size": 1})
    async with asyncio.timeout(DEADLINE_S):
        counts = await asyncio.gather(*(engine.count(principals=TRUSTED) for _ in range(10)))
    assert counts == [Count(0, 0)] * 10


LOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock' AND state = 'active'"
)


async def blocked(watcher: psycopg.AsyncConnection[Any], wanted: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            row = await (await watcher.execute(LOCKED)).fetchone()
            if row == (wanted,):
                return


@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_p52_cancelled_in_the_database(
    how: str, pool_size: int, new_async_engine: NewAsyncEngine, database_url: str
) -> None:
    """The statement stops on the server, and the connection serves the next caller."""
    engine = new_async_engine(storage={"pool_size": pool_size, "statement_timeout_s": 600})
    await engine.ingest([doc("one", "an otter swims", ["ada"])])
    async with (
        asyncio.timeout(DEADLINE_S),
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as watcher,
    ):
        for _ in range(3):
            async with await psycopg.AsyncConnection.connect(database_url) as locker:
                await locker.execute("LOCK TABLE context_engine.chunk IN ACCESS EXCLUSIVE MODE")
                search = asyncio.create_task(engine.search("otter", principals=["ada"]))
                await blocked(watcher, 1)
                if how == "cancelled":
                    search.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await search
                else:
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(search, 0.01)
                await blocked(watcher, 0)
                # Still locked: what needs no such row is answered by the same pool.
                assert await engine.count(principals=["ada"]) == Count(1, 1)
            for _ in range(pool_size + 1):
                result = await engine.search("otter", principals=["ada"])
                assert found(result) == ["one"] and not result.report.degraded
    assert not found(await engine.search("otter", principals=[]))


async def test_cancelled_while_the_query_is_embedded(new_async_engine: NewAsyncEngine) -> None:
    embedder = AsyncHashing()
    engine = new_async_engine(embedder, storage={"pool_size": 1})
    await engine.ingest([doc("one", "an otter swims")])
    search = asyncio.create_task(engine.search("gated otter", principals=[]))
    await asyncio.wait_for(embedder.reached.wait(), DEADLINE_S)
    assert found(await engine.search("otter", principals=[])) == ["one"]
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert found(await engine.search("otter", principals=[])) == ["one"]


async def test_an_ingest_that_is_cancelled_writes_all_or_nothing(
    new_async_engine: NewAsyncEngine, database_url: str
) -> None:
    engine = new_async_engine(storage={"pool_size": 1})
    await engine.ingest([doc("one", "an otter swims", ["ada"])])
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as watcher:
        async with await psycopg.AsyncConnection.connect(database_url) as locker:
            await locker.execute("LOCK TABLE context_engine.embedding IN ACCESS EXCLUSIVE MODE")
            change = [doc("one", "a heron wades", ["bo"]), doc("two", "a heron", ["bo"])]
            ingest = asyncio.create_task(engine.ingest(change))
            await blocked(watcher, 1)
            ingest.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ingest
            await blocked(watcher, 0)
    assert check_stored(database_url, 256).documents == 1
    assert found(await engine.search("otter", principals=["ada"])) == ["one"]
    assert (await engine.ingest(change)).created == 1
    assert check_stored(database_url, 256).documents == 2


async def test_a_leg_that_fails_is_named(new_async_engine: NewAsyncEngine, database_url: str) -> None:
    engine = new_async_engine(storage={"pool_size": 1})
    await engine.ingest([doc("one", "an otter swims")])
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "ALTER TABLE context_engine.embedding ALTER COLUMN embedding TYPE halfvec USING '[1, 2]'"
        )
    result = await engine.search("otter", principals=[])
    assert result.report.degraded and found(result) == ["one"]
    assert result.report.legs["ann"].error and not result.report.legs["fts"].error
    assert "dimension" not in str(result.report)
    with pytest.raises(LegError, match="ann"):
        await engine.search("otter", principals=[], weights=only("ann"))
    result = await engine.search("otter", principals=[], weights={"ann": 0})
    assert not result.report.degraded
