"""The server dies in the middle of a change: nothing acknowledged is lost or half there, and the next call works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from case_support import check_stored, doc, key
from fire_support import OwnServer, name_of, open_engine

from context_engine import PUBLIC, TRUSTED, Document, Engine, Policy, Settings, StoreError
from context_engine.db._sync import migrate as migrate_module
from context_engine.db._sync.store import Store, Transaction
from context_engine.models.hashing import HashingEmbedder
from context_engine.sql import migrations

ALL = "CONTEXT_ENGINE_FIRE" in os.environ
SHORT = (2, -1)
"""Of an operation's steps, those that the suite kills the server at; `make fire` takes all."""

CALLERS: list[Any] = [[], ["ada"], ["bo", "cy"], TRUSTED]


def text(name: str, parts: int, version: int = 1) -> str:
    return "\n\n".join(f"Part {part} of {name}, version {version}, on otters and herons." for part in range(parts))


def fill(engine: Engine) -> None:
    engine.set_policy("team", ["bo"])
    acls: list[Any] = [["ada"], PUBLIC, Policy("team"), ["ada", "bo"], []]
    documents = [doc(f"old {at}", text(f"old {at}", 1 + at % 4), acls[at % 5]) for at in range(20)]
    assert engine.ingest(documents).created == 20


OPERATIONS: dict[str, Callable[[Engine], Any]] = {
    "ingest of new documents": lambda engine: engine.ingest(
        [doc(f"new {at}", text(f"new {at}", 3), ["ada"]) for at in range(10)]
    ),
    "ingest over old documents": lambda engine: engine.ingest(
        [doc(f"old {at}", text(f"old {at}", 2 + at % 3, 2), ["cy"]) for at in range(10)]
    ),
    "set_acl": lambda engine: engine.set_acl([key(f"old {at}") for at in range(20)], ["cy"]),
    "set_policy": lambda engine: engine.set_policy("team", ["cy", "ada"]),
    "delete": lambda engine: engine.delete([key(f"old {at}") for at in range(0, 20, 2)]),
}


def state(engine: Engine) -> dict[str, Any]:
    """All that anyone can see, and the rules behind it."""
    listed = list(engine.list_documents(principals=TRUSTED))
    searches = {
        str(caller): [
            (hit.chunk_id, hit.score, hit.text)
            for hit in engine.search("otters part", principals=caller, top_k=100).hits
        ]
        for caller in CALLERS
    }
    return {
        "texts": {item.external_id: engine.get_document(item.id, principals=TRUSTED).text for item in listed},
        "acls": {item.external_id: engine.get_acl(item.id) for item in listed},
        "policies": engine.policies(),
        "counts": [engine.count(principals=caller) for caller in CALLERS],
        "searches": searches,
    }


class Steps:
    """Counts the round trips of an operation, and does something before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        self._at: int | None = None
        self._strike: Callable[[], None] = lambda: None
        for owner, names in ((Transaction, ("run", "affected", "copy", "script", "commit")), (Store, ("query",))):
            for name in names:
                monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:
            if self.taken == self._at:
                self._at = None
                self._strike()
            self.taken += 1
            return method(*args, **named)

        return step

    @contextmanager
    def strike(self, at: int, what: Callable[[], None]) -> Iterator[None]:
        self.taken, self._at, self._strike = 0, at, what
        yield
        self._at = None

    def count(self, call: Callable[[], Any]) -> int:
        self.taken = 0
        call()
        return self.taken


@pytest.fixture(scope="module")
def before_and_after(own_server: OwnServer) -> dict[str, Any]:
    """The state before each operation, the state after it, and how many steps it takes."""
    url = own_server.new_database()
    with open_engine(url) as engine:
        fill(engine)
        before = state(engine)
    after: dict[str, Any] = {}
    steps: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        counter = Steps(patch)
        for name, operation in OPERATIONS.items():
            with open_engine(own_server.new_database(name_of(url))) as engine:
                engine.count(principals=[])
                steps[name] = counter.count(lambda engine=engine, operation=operation: operation(engine))
                after[name] = state(engine)
                assert after[name] != before
    return {"url": url, "before": before, "after": after, "steps": steps}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_a_step(
    operation: str, own_server: OwnServer, before_and_after: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Steps(monkeypatch)
    steps = before_and_after["steps"][operation]
    points = range(steps) if ALL else sorted({at % steps for at in SHORT if abs(at) <= steps})
    whole = (before_and_after["before"], before_and_after["after"][operation])
    for point in points:
        url = own_server.new_database(name_of(before_and_after["url"]))
        engine = open_engine(url)
        engine.count(principals=[])
        acknowledged = False
        with counter.strike(point, own_server.kill):
            try:
                OPERATIONS[operation](engine)
                acknowledged = True
            except StoreError as error:
                assert error.retryable and error.connection_lost, point
        own_server.restart()
        # The same engine, the next call: no connection of the dead server is in the way.
        found = state(engine)
        assert found in whole, f"half done, killed before step {point}"
        assert not acknowledged or found == whole[1], f"acknowledged and lost, killed before step {point}"
        check_stored(url, 16)
        # And what was cut off can be done again.
        OPERATIONS[operation](engine)
        assert state(engine) == whole[1], point
        check_stored(url, 16)
        engine.close()


def test_killed_after_it_was_acknowledged(own_server: OwnServer, before_and_after: dict[str, Any]) -> None:
    for name, operation in OPERATIONS.items():
        url = own_server.new_database(name_of(before_and_after["url"]))
        with open_engine(url) as engine:
            operation(engine)
            own_server.kill()
            own_server.restart()
            with pytest.raises(StoreError) as lost:  # the connections died with the server: told once
                engine.count(principals=[])
            assert lost.value.retryable and lost.value.connection_lost
            assert state(engine) == before_and_after["after"][name]


def test_down_for_a_while(own_server: OwnServer, before_and_after: dict[str, Any]) -> None:
    """Calls fail, and say why; once the server is back the next call works, whatever was tried meanwhile."""
    url = own_server.new_database(name_of(before_and_after["url"]))
    settings = Settings(storage={"pool_size": 2, "connect_timeout_s": 1}, ingest={"chunk_tokens": 16})
    with Engine(url, embedder=HashingEmbedder(32), settings=settings) as engine:
        engine.count(principals=[])
        own_server.kill()
        for _ in range(4):
            with pytest.raises(StoreError) as lost:
                engine.search("otters", principals=["ada"])
            assert lost.value.retryable and lost.value.connection_lost
        own_server.restart()
        assert state(engine) == before_and_after["before"]


MORE = (
    (len(migrations()) + 1, "more", "CREATE TABLE {schema}.more (id int); CREATE INDEX ON {schema}.more (id);"),
    (
        len(migrations()) + 2,
        "again",
        "ALTER TABLE {schema}.more ADD name text; INSERT INTO {schema}.more VALUES (1, 'x');",
    ),
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("start", ["empty", "filled"])
def test_killed_in_the_middle_of_a_migration(
    start: str, own_server: OwnServer, before_and_after: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Steps(monkeypatch)
    template = "template1" if start == "empty" else name_of(before_and_after["url"])
    known = (*migrations(), *MORE)
    monkeypatch.setattr(migrate_module, "migrations", lambda: known)
    with open_engine_unopened(own_server.new_database(template)) as engine:
        steps = counter.count(engine.migrate)
    for point in range(steps) if ALL else (steps // 2, steps - 2):
        url = own_server.new_database(template)
        with counter.strike(point, own_server.kill):
            with open_engine_unopened(url) as engine, pytest.raises(StoreError) as lost:
                engine.migrate()
        assert lost.value.retryable
        own_server.restart()
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT to_regclass('context_engine.more') IS NULL, to_regclass('context_engine.audit') IS NULL"
            ).fetchone()
        assert row in ((True, start == "empty"), (False, False)), f"half migrated, killed before step {point}"
        with open_engine_unopened(url) as engine:
            engine.migrate()
            assert engine.migrate() == []
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT * FROM context_engine.more").fetchall() == [(1, "x")]
            if start == "filled":
                assert state(engine) == before_and_after["before"]
            else:
                assert engine.ingest([Document(text="an otter", external_id="one", acl=PUBLIC)]).created == 1


@contextmanager
def open_engine_unopened(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.close()
