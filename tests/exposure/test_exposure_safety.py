"""Safe on a production database: reads only, holds nothing but read locks, leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest
from exposure_world import World, literal, make_world, run
from psycopg import sql
from psycopg.conninfo import make_conninfo

from context_engine import ConfigError, InputError, Settings, StoreError
from context_engine.db.exposure.measure import Request, measure
from context_engine.db.exposure.session import Session, Timeout
from context_engine.exposure.budget import fit, rows_of_a_question

Fill = Callable[..., str]
HNSW = "hnsw (embedding vector_cosine_ops)"
MAIN = (
    "import signal; from context_engine.surfaces.cli.app import main\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a run in the background starts with it ignored
    "main()"
)
OURS = "context-engine check-acl-exposure"
LOCKS = """
SELECT locktype, mode, backend_xid IS NULL FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE application_name = %s AND datname = current_database()
"""
STATE = """
SELECT
    (SELECT array_agg((relname, n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd, n_dead_tup, n_live_tup)::text
        ORDER BY relid) FROM pg_stat_user_tables),
    (SELECT array_agg((oid, relname, relkind)::text ORDER BY oid) FROM pg_class),
    (SELECT array_agg((relname, reltuples, relpages)::text ORDER BY oid) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace),
    (SELECT array_agg(setconfig::text) FROM pg_db_role_setting),
    (SELECT sum(hashtextextended(docs::text, 0)) FROM docs)
"""


def state(url: str) -> Any:
    """Everything that a write would change; autovacuum, which changes some of it too, is kept from the table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE docs SET (autovacuum_enabled = false)")
        connection.execute("SELECT pg_stat_force_next_flush()")
        return connection.execute(STATE).fetchone()


@contextmanager
def reader(url: str) -> Iterator[str]:
    """Make a role that may do nothing but SELECT on `docs`; gives the URL to connect as it."""
    role = sql.Identifier(f"reader_{os.getpid()}")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("REVOKE ALL ON SCHEMA public FROM public")
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role))
        try:
            yield url.replace("postgres@", f"reader_{os.getpid()}@", 1)
        finally:
            admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(role))


def test_select_alone_is_enough(world: World, fill: Fill) -> None:
    url = fill(world, index=HNSW)
    with reader(url) as limited:
        with pytest.raises(InputError, match=r"no table with a vector column can be seen.*privileges"):
            run(limited)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(sql.SQL("GRANT SELECT (id) ON docs TO {}").format(sql.Identifier(f"reader_{os.getpid()}")))
        with pytest.raises(ConfigError, match="may not read column 'embedding': grant SELECT"):
            run(limited)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(sql.SQL("GRANT SELECT ON docs TO {}").format(sql.Identifier(f"reader_{os.getpid()}")))
        report = run(limited, samples=2)
        assert report.environment.role.startswith("reader_") and len(report.callers) == 4


def test_nothing_is_written_and_no_lock_is_beyond_a_reads(fill: Fill) -> None:
    url = fill(make_world(600), index=HNSW)
    before = state(url)
    held: set[tuple[str, str, bool]] = set()
    ended = threading.Event()

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as eye:
            while not ended.is_set():
                held.update(eye.execute(LOCKS, (OURS,)).fetchall())

    eye = threading.Thread(target=watch)
    eye.start()
    measure(url, Request(samples=10), Settings())
    ended.set()
    eye.join()
    with psycopg.connect(url, autocommit=True) as watcher:
        wait_for(watcher, lambda rows: not rows, None)
    assert ("relation", "AccessShareLock", True) in held
    # pgvector takes a share lock on one page of an HNSW index for each walk, whoever walks it.
    others = {(kind, mode) for kind, mode, _ in held if kind not in ("virtualxid", "page")}
    assert others == {("relation", "AccessShareLock")}
    assert {mode for kind, mode, _ in held if kind == "page"} <= {"ShareLock"}
    assert all(without_xid for *_, without_xid in held), "no transaction wrote"
    assert state(url) == before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_at_work_it_leaves_nothing_behind(fill: Fill, how: signal.Signals) -> None:
    url = fill(make_world(2_000), index=HNSW)
    before = state(url)
    command = [sys.executable, "-c", MAIN, "check-acl-exposure", "--samples", "2000"]
    environment = {**os.environ, "CONTEXT_ENGINE_DATABASE_URL": url}
    with (
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        wait_for(watcher, lambda rows: any(begun for (begun,) in rows), process)
        process.send_signal(how)
        _, errors = process.communicate()
        wait_for(watcher, lambda rows: not rows, None)
    assert process.returncode != 0
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert b"stopped: nothing was changed" in errors and b"Traceback" not in errors
    assert state(url) == before


def wait_for(
    watcher: psycopg.Connection[Any], condition: Callable[[list[Any]], bool], process: subprocess.Popen[bytes] | None
) -> None:
    """Look at our sessions until the condition holds; (whether it has read from the table,) for each."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = watcher.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = a.pid AND relation = 'docs'::regclass) "
            "FROM pg_stat_activity AS a WHERE application_name = %s AND datname = current_database()",
            (OURS,),
        ).fetchall()
        if condition(rows):
            return
        assert process is None or process.poll() is None, process.communicate() if process else None
    raise AssertionError("it did not come to that in time")


class Wire:
    """Stands between client and server on a socket of its own, and keeps what the server said."""

    def __init__(self, url: str, folder: Path) -> None:
        parts = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self._behind = f"{parts['host']}/.s.PGSQL.{parts['port']}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self.said = bytearray()
        self.url = urlsplit(url)._replace(query=f"host={quote(str(folder), safe='')}&port=5432").geturl()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._behind)
            up = threading.Thread(target=self._pass, args=(client, server, bytearray()))
            up.start()
            self._pass(server, client, self.said)
            up.join()

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        while data := source.recv(65_536):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


def test_no_document_text_leaves_the_server(world: World, fill: Fill, tmp_path_factory: pytest.TempPathFactory) -> None:
    url = fill(world, index=HNSW)
    wire = Wire(url, tmp_path_factory.mktemp("w"))
    run(f"{wire.url}&sslmode=disable", samples=3)
    wire.close()
    assert b"tight" in wire.said and b"embedding" in wire.said, "the wire was listened to"
    assert b"SECRET" not in wire.said


def test_a_statement_that_takes_too_long_leaves_the_snapshot_usable(database_url: str) -> None:
    session = Session(database_url, 0.05)
    with session.snapshot() as snapshot:
        [first] = snapshot.ask(sql.SQL("SELECT now()::text").format(), {}, {"enable_sort": "off"}).rows
        with pytest.raises(Timeout):
            snapshot.ask(sql.SQL("SELECT pg_sleep(20)").format(), {}, {"enable_sort": "off"})
        again = snapshot.ask(sql.SQL("SELECT now()::text, current_setting('enable_sort')").format()).rows
        assert again == [(first[0], "on")], "the same transaction, with the setting as it was"
        for name, value in (("transaction_read_only", "on"), ("transaction_isolation", "repeatable read")):
            shown = snapshot.ask(sql.SQL("SELECT current_setting(%(name)s)").format(), {"name": name}).rows
            assert shown == [(value,)]
        with pytest.raises(StoreError, match="25006"):
            snapshot.ask(sql.SQL("CREATE TEMP TABLE t ()").format())
    session.close()


SLOW = "CREATE POLICY slow ON docs USING (CASE WHEN {} THEN pg_sleep(60) IS NOT NULL ELSE true END)"


@contextmanager
def slow_when(url: str, condition: LiteralString) -> Iterator[str]:
    """Let statements that meet the condition never end, for a role that may only read."""
    with reader(url) as limited, psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("GRANT SELECT ON docs TO {}").format(sql.Identifier(f"reader_{os.getpid()}")))
        admin.execute("ALTER TABLE docs ENABLE ROW LEVEL SECURITY")
        admin.execute(sql.SQL(SLOW).format(sql.SQL(condition)))
        yield limited


def test_a_timeout_before_anything_is_known_says_what_to_do(world: World, fill: Fill) -> None:
    with slow_when(fill(world), "true") as url, pytest.raises(StoreError, match="raise --timeout-s"):
        run(url, timeout_s=0.5)


def test_a_way_that_times_out_is_told_and_given_up(world: World, fill: Fill) -> None:
    with slow_when(fill(world, index=HNSW), "current_setting('enable_seqscan') = 'off'") as url:
        questions = tuple(literal(vector) for vector in world.vectors[:4])
        report = run(url, samples=4, timeout_s=1, callers=(("half",),), questions=questions)
    [found] = report.callers
    forced, planned = found.figures["given"]["forced"], found.figures["given"]["planned"]
    assert (forced.questions, forced.timeouts) == (0, 2), "not tried a third time"
    assert planned.recall == 1 and planned.questions == 4


def test_exact_answers_that_time_out_end_the_caller(world: World, fill: Fill) -> None:
    with slow_when(fill(world, index=HNSW), "current_query() LIKE '%ORDER BY distance%'") as url:
        report = run(url, samples=4, timeout_s=1, callers=(("half",),))
    [found] = report.callers
    assert found.dropped == 8 and not found.figures
    assert any("half: exact answers ran into the statement timeout" in note for note in report.notes)
    assert report.verdict[0].level == "not measured"


def test_a_locked_table_is_not_waited_for(world: World, fill: Fill) -> None:
    url = fill(world)
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE docs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreError, match="keeps readers out"):
            run(url)


def test_the_row_budget_holds(world: World, fill: Fill) -> None:
    url = fill(world)
    report = run(url, samples=50, row_budget=40_000)
    assert report.samples == 3 and any("the row budget had room for" in note for note in report.notes)
    few = run(url, samples=50, row_budget=8_000)
    assert few.samples == 1 and len(few.callers) < 4
    with pytest.raises(InputError, match="--row-budget 100 is too small"):
        run(url, row_budget=100)


def test_the_rows_really_read_stay_within_the_budget(fill: Fill) -> None:
    """What the server counted as read, by scans of any kind, beside what the budget allows."""
    url = fill(make_world(1_000))
    counted = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables"
    with psycopg.connect(url, autocommit=True) as watcher:
        before = watcher.execute(counted).fetchone()
        run(url, samples=50, row_budget=100_000)
        # A session's counts are in the statistics before it is gone.
        wait_for(watcher, lambda rows: not rows, None)
        after = watcher.execute(counted).fetchone()
    assert before and after
    fixed = 1_000 * (3 + 5 * 3)  # counting rows, values and each caller's rows, and drawing
    assert 20_000 < after[0] - before[0] < 100_000 + fixed


def test_fit() -> None:
    assert rows_of_a_question(1_000, served=False, indexed=False) == 11_000
    assert rows_of_a_question(1_000, served=True, indexed=True) == 5_500
    assert rows_of_a_question(10**6, served=False, indexed=True) == 5_040_000
    assert fit(10, 20, 100, 10**9) == fit(10, 20, 100, 42_000) and not fit(10, 20, 100, 42_000).notes
    assert fit(10, 20, 100, 41_999).samples == 19
    cut = fit(10, 20, 100, 1_000)
    assert (cut.scopes, cut.samples) == (4, 1)
    assert "1 questions of each kind in place of 20 and 4 callers in place of 10" in cut.notes[0]


def test_row_level_security_is_told(world: World, fill: Fill) -> None:
    url = fill(world)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ALTER TABLE docs ENABLE ROW LEVEL SECURITY")
    assert any("row-level security is on" in note for note in run(url, samples=1).notes)


def test_a_connection_string_works_too(world: World, fill: Fill) -> None:
    assert run(make_conninfo(fill(world)), samples=1).vectors == 120
