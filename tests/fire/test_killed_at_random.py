"""The server is killed at any moment while documents are written, moved and deleted: what was acknowledged stands."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from case_support import check_stored, doc, key
from fire_support import OwnServer, open_engine

from context_engine import ACL, TRUSTED, ContextEngineError, Engine, NotFound, StoreError

NAMES = [f"d{number}" for number in range(6)]
State = tuple[str, tuple[str, ...]] | None


def body(name: str, version: int) -> str:
    return "\n\n".join(f"Part {part} of {name} in version {version}." for part in range(1 + version % 4))


class Writer:
    """Changes documents one at a time, and keeps what was acknowledged and what was under way."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._rng = random.Random(seed)  # noqa: S311
        self.acknowledged: dict[str, State] = dict.fromkeys(NAMES)
        self.under_way: tuple[str, State] | None = None
        self.changes = 0
        self.wanted = threading.Event()
        self.target = 0

    def run(self) -> None:
        while True:
            name = self._rng.choice(NAMES)
            before = self.acknowledged[name]
            acl = (f"g{self._rng.randrange(3)}",)
            after: State
            call: Callable[[], Any]
            kind = self._rng.choice(["ingest", "ingest", "set_acl", "delete"])
            if kind == "ingest" or before is None:
                text = body(name, self.changes)
                after, call = (text, acl), partial(self._engine.ingest, [doc(name, text, list(acl))])
            elif kind == "set_acl":
                after, call = (before[0], acl), partial(self._engine.set_acl, key(name), list(acl))
            else:
                after, call = None, partial(self._engine.delete, key(name))
            self.under_way = (name, after)
            try:
                call()
            except StoreError as error:
                assert error.retryable and error.connection_lost, error
                return
            self.acknowledged[name], self.under_way = after, None
            self.changes += 1
            if self.changes >= self.target:
                self.wanted.set()


def stored(engine: Engine, name: str) -> State:
    try:
        document = engine.get_document(key(name), principals=TRUSTED)
        acl = engine.get_acl(key(name))
    except NotFound:
        return None
    assert isinstance(acl, ACL)
    return document.text, tuple(str(item) for item in acl.allow)


@pytest.mark.timeout(900)
def test_killed_at_any_moment(own_server: OwnServer, rounds: Callable[[int], int]) -> None:
    url = own_server.new_database()
    rng = random.Random(7)  # noqa: S311
    with open_engine(url) as engine:
        acknowledged: dict[str, State] = dict.fromkeys(NAMES)
        for turn in range(rounds(3)):
            writer = Writer(engine, turn)
            writer.acknowledged, writer.target = dict(acknowledged), rng.randrange(3, 15)
            errors: list[BaseException] = []

            def work(writer: Writer = writer, errors: list[BaseException] = errors) -> None:
                try:
                    writer.run()
                except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
                    errors.append(error)

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            assert writer.wanted.wait(60)
            own_server.kill()
            thread.join(60)
            assert not thread.is_alive() and not errors, errors
            own_server.restart()
            for name in NAMES:
                allowed = [writer.acknowledged[name]]
                if writer.under_way and writer.under_way[0] == name:
                    allowed.append(writer.under_way[1])
                acknowledged[name] = _settled(engine, name)
                assert acknowledged[name] in allowed, f"round {turn}, {name}"
            check_stored(url, 16)
            for name, state in acknowledged.items():
                for group in range(3):
                    hits = engine.search(name, principals=[f"g{group}"], documents=[key(name)]).hits
                    assert bool(hits) == (state is not None and state[1] == (f"g{group}",))


def _settled(engine: Engine, name: str) -> State:
    """Read; the first call after a kill may still meet a dead connection, and no second one does."""
    try:
        return stored(engine, name)
    except ContextEngineError as error:
        assert isinstance(error, StoreError) and error.connection_lost
        return stored(engine, name)
