"""The audit trail: what is kept, that no call waits for it, and that nothing is lost in silence."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from context_engine import (
    PUBLIC,
    TRUSTED,
    AsyncEngine,
    AuditRecord,
    ConfigError,
    Document,
    Engine,
    InputError,
    NotFound,
    Settings,
    StoreError,
    document_id,
)
from context_engine.model import chunk_id
from context_engine.models.hashing import HashingEmbedder

NewEngine = Callable[..., Engine]
ON = {"audit": {"enabled": True}}
KEY = "0123456789abcdef"
OTTER, HERON = (document_id("default", name) for name in ("otter", "heron"))


def fill(engine: Engine) -> None:
    engine.ingest(
        [
            Document(text="an otter swims", external_id="otter", acl=["ada"], metadata={"year": 2024}),
            Document(text="a heron wades", external_id="heron", acl=PUBLIC),
        ]
    )


def records(engine: Engine, **wanted: Any) -> list[AuditRecord]:
    assert engine.audit.flush()
    return list(engine.audit.records(**wanted))


@pytest.fixture
def audited(new_engine: NewEngine) -> Engine:
    engine = new_engine(**ON)
    fill(engine)
    return engine


def test_a_search_is_kept(audited: Engine) -> None:
    before = datetime.now(UTC)
    result = audited.search(
        "otter or heron", principals=["ada", "bo", "ada"], top_k=7, metadata={"year": 2024}, weights={"trgm": 0}
    )
    [record] = records(audited)
    assert record.action == "search"
    assert record.principals == ("ada", "bo")
    assert (record.query, record.query_hash, record.error) == ("otter or heron", None, None)
    assert record.filters == {
        "metadata": '($."year" == 2024)',
        "top_k": 7,
        "exact": False,
        "weights": {"trgm": 0},
    }
    assert record.document_ids == (OTTER,) == tuple(hit.document.id for hit in result.hits)
    assert record.chunk_ids == (chunk_id(OTTER, 0),)
    fts = result.report.legs["fts"]
    assert record.legs["fts"] == asdict(fts) and (fts.route, fts.exact, fts.candidates) == ("bm25", True, 1)
    assert record.legs["trgm"]["route"] == "off"
    assert before <= record.at <= datetime.now(UTC)
    assert 0 < record.duration_ms < 60_000
    assert not result.report.notes


def test_every_way_of_reading_is_kept(audited: Engine) -> None:
    audited.search("heron", principals=[])
    audited.get_document(HERON, principals=["bo"])
    with pytest.raises(NotFound):
        audited.get_document(OTTER, principals=["bo"])
    with pytest.raises(NotFound):
        audited.get_document(7, principals=["bo"])
    list(audited.list_documents(principals=TRUSTED, sources=["default"]))
    audited.count(principals=["ada"])
    kept = [(r.action, r.principals, r.document_ids, r.error) for r in reversed(records(audited))]
    assert kept == [
        ("search", (), (HERON,), None),
        ("get", ("bo",), (HERON,), None),
        ("get", ("bo",), (), "not_found"),
        ("get", ("bo",), (), "not_found"),
        ("list", None, tuple(sorted([OTTER, HERON])), None),
        ("count", ("ada",), (), None),
    ]


def test_the_record_of_a_hidden_document_is_that_of_a_missing_one(audited: Engine) -> None:
    for key in (OTTER, 7):
        with pytest.raises(NotFound):
            audited.get_document(key, principals=["bo"])
    missing, hidden = records(audited)
    assert (hidden.filters.pop("document"), missing.filters.pop("document")) == (OTTER, 7)
    assert hidden.filters == missing.filters and hidden.error == missing.error


def test_calls_that_read_nothing_are_not_kept(audited: Engine) -> None:
    with pytest.raises(InputError):
        audited.search("otter", principals="ada")
    with pytest.raises(InputError):
        audited.get_document(-1, principals=[])
    assert records(audited) == []


def test_a_search_that_fails_is_kept(audited: Engine, caplog: pytest.LogCaptureFixture) -> None:
    audited.count(principals=[])
    with psycopg.connect(audited._url, autocommit=True) as connection:
        connection.execute("ALTER TABLE context_engine.tally RENAME TO away")
    with pytest.raises(StoreError):
        audited.search("otter", principals=["ada"])
    assert records(audited)[0].error == "schema_out_of_date"


def test_filters(audited: Engine) -> None:
    audited.search("otter", principals=["ada"])
    audited.search("heron", principals=["bo"])
    audited.search("heron", principals=TRUSTED)
    audited.count(principals=["bo"])
    everything = records(audited)
    assert [r.at for r in everything] == sorted((r.at for r in everything), reverse=True)
    count, trusted, bo, ada = everything
    assert records(audited, principal="bo") == [count, bo]
    assert records(audited, principal="b") == []
    assert records(audited, trusted=True) == [trusted]
    assert records(audited, action="count") == [count]
    assert records(audited, document=OTTER) == [trusted, ada], "the vector leg shows TRUSTED both"
    assert records(audited, query="heron") == [trusted, bo]
    assert records(audited, since=bo.at) == [count, trusted, bo]
    assert records(audited, until=bo.at) == [ada]
    assert records(audited, since=bo.at, until=trusted.at) == [bo]
    assert records(audited, limit=2) == [count, trusted]
    assert records(audited, limit=0) == []


def test_pages_of_records(audited: Engine) -> None:
    with psycopg.connect(audited._url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO context_engine.audit SELECT gen_random_uuid(), now() - (n / 3) * interval '1 second',"
            " 'count', '{}', NULL, NULL, jsonb_build_object('n', n), '{}', '{}', '{}', 1, NULL"
            " FROM generate_series(1, 2500) AS n"
        )
    for limit, expected in ((None, 2500), (1000, 1000), (1001, 1001), (2500, 2500)):
        found = records(audited, limit=limit)
        assert len({record.id for record in found}) == len(found) == expected


def test_a_question_as_a_keyed_hash(new_engine: NewEngine, database_url: str) -> None:
    hashed = new_engine(database_url, audit={"enabled": True, "query": "hash", "hash_key": KEY})
    other = new_engine(database_url, audit={"enabled": True, "query": "hash", "hash_key": KEY[::-1]})
    silent = new_engine(database_url, audit={"enabled": True, "query": "none"})
    for engine in (hashed, hashed, other, silent):
        engine.search("otter", principals=["ada"])
        assert engine.audit.flush()
    none, second, first, again = records(hashed)
    assert first.query is None and first.query_hash and len(first.query_hash) == 64
    assert first.query_hash == again.query_hash != second.query_hash
    assert (none.query, none.query_hash) == (None, None)
    assert records(hashed, query="otter") == [first, again]
    assert records(hashed, query="heron") == []
    with psycopg.connect(database_url) as connection:
        [row] = connection.execute("SELECT count(*) FROM context_engine.audit AS a WHERE a::text ~ 'otter'").fetchall()
    assert row == (0,)


def test_a_hash_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="hash_key"):
        Settings(audit={"query": "hash"})
    with pytest.raises(ConfigError):
        Settings(audit={"query": "hash", "hash_key": "short"})
    assert KEY not in repr(Settings(audit={"query": "hash", "hash_key": KEY}))


def test_off_by_default(engine: Engine) -> None:
    fill(engine)
    engine.search("otter", principals=["ada"])
    assert records(engine) == []
    assert engine.audit.state.written == 0


def test_the_hook(new_database: Callable[[], str], caplog: pytest.LogCaptureFixture) -> None:
    seen: list[AuditRecord] = []
    threads: set[int] = set()

    def hook(record: AuditRecord) -> None:
        seen.append(record)
        threads.add(threading.get_ident())
        raise RuntimeError("the hook's own")

    with Engine(new_database(), embedder=HashingEmbedder(32), settings=Settings(), audit_hook=hook) as engine:
        fill(engine)
        for query in ("otter", "heron"):
            engine.search(query, principals=["ada"])
        assert engine.audit.flush()
        assert [record.query for record in seen] == ["otter", "heron"]
        assert threading.get_ident() not in threads
        assert engine.audit.state.hook_failures == 2
        assert list(engine.audit.records()) == [], "the hook alone: nothing is stored"
    assert "the audit hook failed" in caplog.text


@pytest.fixture
def locked(audited: Engine) -> Iterator[psycopg.Connection]:
    """Another session holds the audit table."""
    with psycopg.connect(audited._url) as connection:
        connection.execute("LOCK TABLE context_engine.audit IN ACCESS EXCLUSIVE MODE")
        yield connection


def test_no_search_waits_for_the_trail(audited: Engine, locked: psycopg.Connection) -> None:
    for _ in range(50):
        assert audited.search("otter", principals=["ada"]).hits
    assert audited.audit.state.written == 0
    assert not audited.audit.flush(timeout_s=0.01)
    locked.rollback()
    assert len(records(audited)) == 50


def hold_up(engine: Engine) -> psycopg.Connection:
    """Lock the table and wait until the trail's thread hangs on it with one record."""
    connection = psycopg.connect(engine._url)
    connection.execute("LOCK TABLE context_engine.audit IN ACCESS EXCLUSIVE MODE")
    engine.count(principals=[])
    waiting: tuple[Any, ...] | None = None
    while waiting != (1,):
        waiting = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return connection


def test_a_full_queue_is_counted_told_and_written_down(new_engine: NewEngine, caplog: pytest.LogCaptureFixture) -> None:
    engine = new_engine(audit={"enabled": True, "queue_size": 3})
    fill(engine)
    with hold_up(engine) as blocker:
        notes = [engine.search("otter", principals=["ada"]).report.notes for _ in range(8)]
        assert notes[:3] == [()] * 3
        assert "lost 5 records" in notes[-1][0]
        state = engine.audit.state
        assert (state.written, state.waiting, state.lost) == (0, 4, 5)
        blocker.rollback()
    kept = records(engine)
    assert [record.action for record in kept].count("search") == 3
    [gap] = [record for record in kept if record.action == "lost"]
    assert gap.filters == {"records": 5}
    engine.search("otter", principals=["ada"])
    assert len(records(engine, action="lost")) == 1, "a gap is told once"
    assert "loses records" in caplog.text


def test_no_answer_without_a_record(new_engine: NewEngine) -> None:
    engine = new_engine(audit={"enabled": True, "queue_size": 1, "when_full": "refuse"})
    fill(engine)
    with hold_up(engine) as blocker:
        engine.search("otter", principals=["ada"])
        calls: list[Callable[[], Any]] = [
            lambda: engine.search("otter", principals=["ada"]),
            lambda: engine.get_document(OTTER, principals=["ada"]),
            lambda: list(engine.list_documents(principals=["ada"])),
            lambda: engine.count(principals=["ada"]),
        ]
        for call in calls:
            with pytest.raises(StoreError, match="audit") as refusal:
                call()
            assert refusal.value.retryable
        blocker.rollback()
    assert engine.audit.flush()
    assert engine.search("otter", principals=["ada"]).hits


def test_writes_are_tried_again(audited: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with psycopg.connect(audited._url, autocommit=True) as connection:
        connection.execute("ALTER TABLE context_engine.audit RENAME TO away")
        assert audited.search("otter", principals=["ada"]).hits
        with audited._opened.trail._changed:
            assert audited._opened.trail._changed.wait_for(lambda: audited.audit.state.error, 60)
        connection.execute("ALTER TABLE context_engine.away RENAME TO audit")
    assert audited.audit.flush(60)
    assert len(records(audited)) == 1
    state = audited.audit.state
    assert (state.lost, state.error) == (0, None)
    assert "cannot be written" in caplog.text


def test_the_trail_s_connection_is_cut(audited: Engine) -> None:
    audited.search("otter", principals=["ada"])
    assert audited.audit.flush()
    with psycopg.connect(audited._url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ~ 'audit|COMMIT'"
        )
    for _ in range(3):
        try:
            audited.count(principals=["ada"])
        except StoreError as error:
            assert error.connection_lost
    assert audited.audit.flush(60)
    assert {record.action for record in records(audited)} >= {"search", "count"}
    assert audited.audit.state.lost == 0


def test_a_record_that_the_database_refuses_harms_no_other(audited: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with psycopg.connect(audited._url, autocommit=True) as connection:
        connection.execute("ALTER TABLE context_engine.audit ADD CHECK (query <> 'refused')")
    with hold_up(audited) as blocker:
        for query in ("otter", "refused", "heron"):
            audited.search(query, principals=["ada"])
        blocker.rollback()
    kept = records(audited, action="search")
    assert sorted(str(record.query) for record in kept) == ["heron", "otter"]
    assert audited.audit.state.lost == 1


def test_a_role_that_may_not_write_it_is_told_at_once(new_engine: NewEngine, database_url: str) -> None:
    fill(new_engine(database_url))
    role = sql.Identifier(f"no_audit_{database_url.rpartition('/')[2].partition('?')[0]}")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA context_engine TO {}").format(role))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {}").format(role))
        url = make_conninfo(database_url, user=role._obj[0])
        try:
            with pytest.raises(ConfigError, match="audit"):
                new_engine(url, **ON).search("otter", principals=["ada"])
            connection.execute(sql.SQL("GRANT INSERT ON context_engine.audit TO {}").format(role))
            engine = new_engine(url, **ON)
            assert engine.search("otter", principals=["ada"]).hits
            assert engine.audit.flush()
            engine.close()
            assert connection.execute("SELECT count(*) FROM context_engine.audit").fetchone() == (1,)
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(role, role))


def test_retention(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, **ON)
    fill(engine)
    for _ in range(3):
        engine.search("otter", principals=["ada"])
    assert len(records(engine)) == 3
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE context_engine.audit SET at = at - interval '40 days' WHERE id IN"
            " (SELECT id FROM context_engine.audit LIMIT 2)"
        )
    with pytest.raises(InputError, match="retention_days"):
        engine.audit.prune()
    assert engine.audit.prune(41) == 0
    # Another engine with the setting deletes them by itself.
    keeper = new_engine(database_url, audit={"enabled": True, "retention_days": 30})
    keeper.count(principals=[])
    assert keeper.audit.flush()
    found = records(keeper)
    assert [record.action for record in found] == ["count", "search"]
    assert keeper.audit.prune() == 0
    assert keeper.audit.prune(0) == 2


def test_closing_writes_what_waits(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, **ON)
    fill(engine)
    blocker = hold_up(engine)
    for _ in range(700):
        engine.count(principals=["ada"])
    blocker.close()
    engine.close()
    assert len(records(new_engine(database_url, **ON))) == 701


NEVER_CLOSED = """
import sys
from context_engine import Engine, Settings
from context_engine.models.hashing import HashingEmbedder
engine = Engine(sys.argv[1], embedder=HashingEmbedder(32), settings=Settings(audit={"enabled": True}))
engine.count(principals=["ada"])
"""


def test_a_program_that_ends_without_closing(new_engine: NewEngine, database_url: str) -> None:
    subprocess.run([sys.executable, "-c", NEVER_CLOSED, database_url], check=True, timeout=60)
    assert len(records(new_engine(database_url, **ON))) == 1


async def test_the_asynchronous_engine(database_url: str) -> None:
    settings = Settings(**ON)
    async with AsyncEngine(database_url, embedder=HashingEmbedder(32), settings=settings) as engine:
        await engine.ingest([Document(text="an otter swims", external_id="otter", acl=["ada"])])
        await asyncio.gather(*(engine.search("otter", principals=["ada"]) for _ in range(20)))
        assert await engine.audit.flush()
        found = [record async for record in engine.audit.records(action="search")]
        assert [record.document_ids for record in found] == [(OTTER,)] * 20
        assert engine.audit.state.written == 20
        async with await psycopg.AsyncConnection.connect(database_url) as locker:
            await locker.execute("LOCK TABLE context_engine.document IN ACCESS EXCLUSIVE MODE")
            search = asyncio.create_task(engine.get_document(OTTER, principals=["ada"]))
            await asyncio.sleep(0)
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
        assert await engine.audit.flush()
        cancelled = [record async for record in engine.audit.records(action="get")]
        assert [record.error for record in cancelled] in (["cancelled"], [])
        assert await engine.audit.prune(0) >= 20


def test_the_command_line(audited: Engine, cli: Any, tmp_path: Path) -> None:
    audited.search("otter", principals=["ada"])
    audited.search("heron", principals=[])
    audited.get_document(HERON, principals=TRUSTED)
    assert audited.audit.flush()
    url = audited._url
    shown = cli("audit", "list", url=url).output
    for words in ("anonymous", "TRUSTED", "ada", "otter", "1 hits", "bm25", "3 records"):
        assert words in shown
    listed = json.loads(cli("audit", "list", "--as", "ada", "--json", url=url).stdout)
    assert [record["query"] for record in listed] == ["otter"]
    assert listed[0]["document_ids"] == [str(OTTER), str(HERON)]
    assert json.loads(cli("audit", "list", "--since", "2999-01-01", "--json", url=url).stdout) == []
    file = tmp_path / "trail.jsonl"
    assert "3 records" in cli("audit", "export", file, url=url).output
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["action"] for line in lines] == ["get", "search", "search"]
    assert datetime.fromisoformat(lines[0]["at"]) > datetime.now(UTC) - timedelta(hours=1)
    cli("audit", "export", file, url=url, exits=2)
    assert len(cli("audit", "export", "-", "--document", OTTER, url=url).stdout.splitlines()) == 1
    assert "--older-than DAYS" in cli("audit", "prune", url=url, exits=2).output
    assert "3 records deleted" in cli("audit", "prune", "--older-than", 0, url=url).output
    cli("audit", "list", "--as", "ada", "--trusted", url=url, exits=2)


def test_the_log_has_no_question(audited: Engine, locked: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        audited.search("a private question", principals=["ada"])
        locked.rollback()
        assert audited.audit.flush()
    assert "private" not in caplog.text
