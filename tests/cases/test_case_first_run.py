"""Cases about the first start: many at once, extensions elsewhere, and roles that may not."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from case_embedders import Same
from case_support import DEADLINE_S, Background, as_role, at_once, check_stored, doc, found, one
from psycopg import sql

from context_engine import TRUSTED, ConfigError, Engine
from context_engine.db._sync.store import Transaction
from context_engine.models.hashing import HashingEmbedder
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

NewEngine = Callable[..., Engine]
NewDatabase = Callable[..., str]

EXTENSIONS: dict[str, dict[str, str]] = {
    "both missing": {},
    "vector elsewhere": {"vector": "extensions"},
    "both elsewhere": {"vector": "extensions", "pg_trgm": "extensions"},
    "each elsewhere": {"vector": "extensions", "pg_trgm": "other place"},
    "odd names": {"vector": 'My "Ext"; --', "pg_trgm": "select"},
    "trigrams elsewhere": {"pg_trgm": "Übung"},
    "both in public": {"vector": "public", "pg_trgm": "public"},
}


def prepare(database_url: str, extensions: dict[str, str]) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name, schema in extensions.items():
            place = sql.Identifier(schema)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(place))
            connection.execute(sql.SQL("CREATE EXTENSION {} SCHEMA {}").format(sql.Identifier(name), place))


ONE_PROCESS = """
import json, os, sys
from context_engine import Document, Engine, PUBLIC
from context_engine.models.hashing import HashingEmbedder
url, how = sys.argv[1:]
engine = Engine(url, embedder=HashingEmbedder(32))
print("ready", flush=True)
sys.stdin.readline()
if how == "migrate":
    answer = engine.migrate()
else:
    document = Document(text="an otter swims", external_id=f"by {os.getpid()}", acl=PUBLIC)
    answer = [item.error for item in engine.ingest([document]).failed]
engine.close()
print(json.dumps(answer))
"""


def start_processes(database_url: str, how: str, count: int = 8) -> list[tuple[int, str, str]]:
    """Start processes that wait for each other at the door; returns code, answer and errors of each."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", ONE_PROCESS, database_url, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(count)
    ]
    try:
        for process in started:
            assert process.stdout and process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=DEADLINE_S) for process in started]
        return [(process.returncode, *answer) for process, answer in zip(started, answers, strict=True)]
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("how", ["migrate", "first use"])
def test_p48_eight_processes_at_once(how: str, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    prepare(url, {"vector": "extensions"})
    answers = start_processes(url, how)
    assert not [errors[-2_000:] for code, _, errors in answers if code]
    told = [json.loads(answer) for _, answer, _ in answers]
    if how == "migrate":
        assert sorted(map(len, told)) == [0] * 7 + [max(map(len, told))]
    else:
        assert told == [[]] * 8
        assert one(url, "SELECT count(*) FROM context_engine.document") == 8
    assert one(url, "SELECT count(*) = count(DISTINCT version) FROM context_engine.migration")


def test_p48_the_schema_comes_while_another_waits(
    new_engine: NewEngine, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for a lock does not tell a session, whose caches are warm, of what was created meanwhile."""
    url = new_database(empty=True)
    engine = new_engine(url, storage={"pool_size": 1})
    script = load("admin/lock_schema").replace("%(schema_name)s", "'context_engine'")
    run = Transaction.run
    locks = itertools.count(1)

    def watched(self: Transaction, *statements: Statement, **options: bool) -> Any:
        if statements[0].text != load("admin/lock_schema") or next(locks) != 2:
            return run(self, *statements, **options)
        first = psycopg.connect(url)
        first.execute(script)
        first.execute("CREATE SCHEMA context_engine")

        def commit_once_it_waits() -> None:
            with first, psycopg.connect(url, autocommit=True) as watcher:
                query = (
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event = 'advisory'"
                )
                deadline = time.monotonic() + DEADLINE_S
                while watcher.execute(query).fetchone() == (0,):
                    assert time.monotonic() < deadline

        background = Background(commit_once_it_waits)
        try:
            return run(self, *statements, **options)
        finally:
            background.result()

    monkeypatch.setattr(Transaction, "run", watched)
    assert engine.ingest([doc("one", "an otter swims")]).created == 1


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize("how", ["migrate", "first use"])
def test_p48_engines_meet_at_an_empty_database(
    name: str, how: str, new_engine: NewEngine, new_database: NewDatabase
) -> None:
    url = new_database(empty=True)
    prepare(url, EXTENSIONS[name])
    engines = [new_engine(url, storage={"ann_exact_threshold": 0}) for _ in range(4)]

    def start(number: int) -> Callable[[], Any]:
        if how == "migrate":
            return engines[number].migrate
        return lambda: engines[number].ingest([doc(f"otter {number}", "an otter swims")])

    at_once(*map(start, range(4)))
    for number, engine in enumerate(engines):
        assert not engine.ingest([doc(f"otter {number}", "an otter swims"), doc("h", "heron")]).failed
    for query in ("otter", "ottter", "heron"):
        result = engines[0].search(query, principals=[])
        assert result.hits and not result.report.degraded
        assert result.report.legs["ann"].route == "ivf"
    for extension, schema in EXTENSIONS[name].items():
        assert schema == one(
            url,
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = %s",
            extension,
        ).strip('"').replace('""', '"')
    if "public" in (EXTENSIONS[name].get("vector", "public"),):
        assert check_stored(url, 256).documents == 5


def test_p48_a_second_schema_beside_the_first(new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    engines = [
        new_engine(url, HashingEmbedder(dim), storage={"schema_name": name})
        for dim, name in ((16, "first"), (24, "second"), (32, "select"))
    ]
    at_once(*(lambda engine=engine: engine.ingest([doc("one", "an otter")]) for engine in engines))
    engines[1].delete([item.id for item in engines[1].list_documents(principals=TRUSTED)])
    found_now = [found(engine.search("otter", principals=[])) for engine in engines]
    assert found_now == [["one"], [], ["one"]]
    assert one(url, "SELECT to_regnamespace('context_engine') IS NULL")


@pytest.fixture
def role(server: Any) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    name = f"low_{os.getpid()}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        quoted = sql.Identifier(name)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(quoted, sql.Literal(name)))
        yield name
        databases = admin.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE %s", (f"t_{os.getpid()}_%",)
        ).fetchall()
        for (database,) in databases:
            with psycopg.connect(server.url(database), autocommit=True) as connection:
                connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(quoted))
        admin.execute(sql.SQL("DROP ROLE {}").format(quoted))


def grant(database_url: str, *statements: Any, role: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))


@pytest.mark.parametrize("name", ["both missing", "vector elsewhere", "both elsewhere"])
def test_p48_a_role_without_rights(name: str, role: str, new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    prepare(url, EXTENSIONS[name])
    calls: list[Callable[[Engine], Any]] = [
        lambda engine: engine.migrate(),
        lambda engine: engine.ingest([doc("one", "an otter")]),
        lambda engine: engine.search("otter", principals=[]),
    ]
    for call in calls:
        with pytest.raises(ConfigError) as refusal:
            call(new_engine(as_role(url, role)))
        assert "permission denied" not in str(refusal.value)
    assert one(url, "SELECT to_regnamespace('context_engine') IS NULL")
    # The owner comes, and it works.
    assert new_engine(url).ingest([doc("one", "an otter")]).created == 1


def test_p48_a_role_that_may_not_see_the_schema(role: str, new_engine: NewEngine, database_url: str) -> None:
    new_engine(database_url).ingest([doc("one", "an otter")])
    with pytest.raises(ConfigError):
        new_engine(as_role(database_url, role)).search("otter", principals=[])


READ = (
    "GRANT USAGE ON SCHEMA context_engine TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {role}",
)
WRITE = (
    *READ,
    "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA context_engine TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA context_engine TO {role}",
)


def test_p48_a_role_that_may_read(role: str, new_engine: NewEngine, database_url: str) -> None:
    new_engine(database_url).ingest([doc("one", "an otter", ["ada"])])
    grant(database_url, *READ, role=role)
    reader = new_engine(as_role(database_url, role))
    for query in ("otter", "ottter"):
        result = reader.search(query, principals=["ada"])
        assert found(result) == ["one"] and not result.report.degraded
    assert not reader.search("otter", principals=[]).hits
    assert reader.count(principals=TRUSTED).documents == 1
    for call in (
        lambda: reader.ingest([doc("two", "a heron", ["ada"])]),
        lambda: reader.ingest([doc("two", "a heron", ["somebody new"])]),
        lambda: reader.set_policy("p", ["ada"]),
        lambda: reader.delete(1),
    ):
        with pytest.raises(ConfigError, match="privilege"):
            call()
    assert check_stored(database_url, 256).documents == 1


@pytest.mark.parametrize("threshold", [50, 10_000])
def test_p48_a_role_that_may_write_but_owns_nothing(
    threshold: int, role: str, new_engine: NewEngine, database_url: str
) -> None:
    """Upkeep is for the owner; a writer's documents are stored all the same, and it is told so."""
    new_engine(database_url, Same()).ingest([doc("one", "an otter")])
    grant(database_url, *WRITE, role=role)
    writer = new_engine(as_role(database_url, role), Same(), storage={"ann_exact_threshold": threshold})
    documents = [doc(str(number), f"an otter {number}", [f"u:{number}"]) for number in range(250)]
    assert writer.ingest(documents).created == 250
    result = writer.search("otter 7", principals=["u:7"])
    assert "7" in found(result) and not result.report.degraded
    assert check_stored(database_url, 256).documents == 251
