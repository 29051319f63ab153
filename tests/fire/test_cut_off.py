"""Connections that break: in the middle of an answer, one or all, by the network or by an administrator."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from case_support import Background, check_stored, doc, found, key
from fire_support import open_engine
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from context_engine import PUBLIC, TRUSTED, Engine, StoreError


class Proxy:
    """Stands between a client and the server's socket, and breaks off after so many bytes of answers."""

    def __init__(self, folder: Path, target: str) -> None:
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(50)
        self._pairs: list[socket.socket] = []
        self._lock = threading.Lock()
        self.answered = 0
        self.cut_after: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._pairs += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if answers and not self._pass(sink, data):
                    return
                if not answers:
                    sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass(self, sink: socket.socket, data: bytes) -> bool:
        with self._lock:
            left = None if self.cut_after is None else self.cut_after - self.answered
            if left is not None and left < len(data):
                sink.sendall(data[: max(left, 0)])
                self.cut_after = None
                self.cut()
                return False
            self.answered += len(data)
        sink.sendall(data)
        return True

    def cut(self) -> None:
        """Break every connection."""
        ends, self._pairs = self._pairs, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()


@pytest.fixture
def proxy(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, str]]:
    folder = tmp_path_factory.mktemp("p")
    given = conninfo_to_dict(database_url)
    made = Proxy(folder, f"{given['host']}/.s.PGSQL.{given['port']}")
    yield made, make_conninfo(database_url, host=str(folder))
    made.close()


def fill(engine: Engine) -> None:
    engine.ingest([doc(f"d{at}", f"an otter swims in river {at}", ["ada"] if at % 2 else PUBLIC) for at in range(20)])


def answer(engine: Engine, principals: Any) -> Any:
    result = engine.search("otter river", principals=principals)
    return [(hit.chunk_id, hit.score, hit.legs) for hit in result.hits], result.report.legs


def test_cut_off_in_the_middle_of_a_search(proxy: tuple[Proxy, str]) -> None:
    between, url = proxy
    with open_engine(url) as engine:
        fill(engine)
        expected = answer(engine, ["ada"])
        start = between.answered
        answer(engine, ["ada"])
        size = between.answered - start
        assert size > 1_000
        for share in range(10):
            between.answered, between.cut_after = 0, size * share // 10
            with pytest.raises(StoreError) as lost:
                answer(engine, ["ada"])
            assert lost.value.retryable and lost.value.connection_lost
            assert "otter" not in str(lost.value)
            assert answer(engine, ["ada"]) == expected, "the next call"
            assert len(answer(engine, [])[0]) == 10


def test_cut_off_in_the_middle_of_a_write(proxy: tuple[Proxy, str], database_url: str) -> None:
    between, url = proxy
    with open_engine(url) as engine:
        fill(engine)
        for turn, allowed in enumerate((0, 40, 150, 400, 800, 1_200)):
            between.answered, between.cut_after = 0, allowed
            change = [doc("d1", f"a heron wades in turn {turn}", ["bo"]), doc(f"new {turn}", "a heron", ["bo"])]
            lost = False
            try:
                engine.ingest(change)
            except StoreError as error:
                assert error.retryable and error.connection_lost
                lost = True
            between.cut_after = None
            check_stored(database_url, 16)
            if lost:  # all of it, or nothing
                now = engine.get_document(key("d1"), principals=TRUSTED).text == change[0].text
                assert bool(engine.search("heron", principals=["bo"], documents=[key(f"new {turn}")]).hits) == now
            assert not engine.ingest(change).failed
            assert engine.get_document(key("d1"), principals=["bo"]).text == change[0].text


def test_every_connection_of_the_pool_is_cut(proxy: tuple[Proxy, str]) -> None:
    """One call is told; the others' connections are replaced before anyone gets them."""
    between, url = proxy
    with open_engine(url) as engine:
        fill(engine)
        many = [Background(lambda: answer(engine, ["ada"])) for _ in range(12)]
        assert len({str(call.result()) for call in many}) == 1
        between.cut()
        with pytest.raises(StoreError) as lost:
            answer(engine, ["ada"])
        assert lost.value.connection_lost
        for _ in range(6):
            assert len(answer(engine, ["ada"])[0]) == 10


@pytest.mark.parametrize("how", ["pg_terminate_backend", "pg_cancel_backend"])
def test_an_administrator_ends_a_search(how: str, database_url: str) -> None:
    with open_engine(database_url) as engine:
        fill(engine)
        expected = answer(engine, ["ada"])
        with psycopg.connect(database_url) as locker, psycopg.connect(database_url, autocommit=True) as admin:
            locker.execute("LOCK TABLE context_engine.chunk IN ACCESS EXCLUSIVE MODE")
            search = Background(lambda: answer(engine, ["ada"]))
            waiting: list[Any] = []
            while not waiting:
                waiting = admin.execute(
                    "SELECT pid FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'"
                ).fetchall()
            admin.execute(f"SELECT {how}(%s)", waiting[0])  # type: ignore[arg-type]
            if how == "pg_cancel_backend":
                # A leg that is ended is tried apart from the others, which may answer alone.
                locker.rollback()
                assert search.result()[0] == expected[0]
            else:
                with pytest.raises(StoreError) as lost:
                    search.result()
                assert lost.value.connection_lost
        assert answer(engine, ["ada"]) == expected
        assert sorted(found(engine.search("otter", principals=[], top_k=50))) == sorted(
            f"d{at}" for at in range(0, 20, 2)
        )
