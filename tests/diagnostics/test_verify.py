"""`verify` holds the promise on a database, sees it broken, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pytest

from context_engine import ACL, PUBLIC, TRUSTED, AsyncEngine, Document, Engine, InputError, Policy, VerifyReport, sql
from context_engine.diagnostics.verify import draw_callers, draw_questions, plan_probe, slip
from context_engine.models.hashing import HashingEmbedder
from context_engine.retrieval import compose, legs
from context_engine.testing import Oracle

NewEngine = Callable[..., Engine]
TABLES = (
    "setting",
    "acl",
    "acl_member",
    "document",
    "chunk",
    "embedding",
    "tally",
    "lexicon",
    "migration",
    "word_tally",
    "untallied",
)
TEXTS = [
    "the kernel report of the server team, with budget and zephyr",
    "budget review: the quokka team reads every kernal report",
    "obsidian servers and their authentication, a handbook",
    "marzipan for the board, kernels for the team",
]
ACLS: list[Any] = [
    PUBLIC,
    ["a"],
    ["a", "b"],
    ACL(["a", "b"], require=["c"]),
    ACL(PUBLIC, deny=["a"]),
    Policy("board"),
    [],
]


def documents(count: int = 28) -> list[Document]:
    return [
        Document(
            text=f"{TEXTS[number % 4]} {number % 5}. {TEXTS[number % 3]}",
            external_id=f"d{number}",
            source="wiki" if number % 3 else "mail",
            acl=ACLS[number % 7],
            metadata={"year": 2020 + number % 3},
        )
        for number in range(count)
    ]


def fill(engine: Engine, count: int = 28) -> Engine:
    engine.set_policy("board", ACL(["b"], deny=["c"]))
    assert engine.ingest(documents(count)).created == count
    return engine


def dump(database_url: str) -> dict[str, Any]:
    """Every stored row, and every schema."""
    with psycopg.connect(database_url) as connection:
        rows: dict[str, Any] = {
            table: connection.execute(f"SELECT t::text FROM context_engine.{table} AS t ORDER BY 1").fetchall()  # noqa: S608
            for table in TABLES
        }
        rows["schemas"] = connection.execute("SELECT nspname FROM pg_namespace ORDER BY 1").fetchall()
    return rows


def faults(report: VerifyReport) -> set[str]:
    return {difference.call for check in report.callers for difference in check.differences}


@pytest.mark.parametrize(("copy_chunks", "kept_as"), [(20_000, "halfvec"), (0, "halfvec"), (20_000, "vector")])
def test_it_holds_and_leaves_nothing(copy_chunks: int, kept_as: str, new_engine: NewEngine, database_url: str) -> None:
    storage = {"pool_size": 1, "vector_type": kept_as}
    engine = fill(new_engine(database_url, storage=storage, ingest={"chunk_tokens": 16}))
    before = dump(database_url)
    report = engine.verify(callers=6, queries=6, probe=True, seed=1, copy_chunks=copy_chunks)
    assert report.ok, report.callers
    assert dump(database_url) == before
    assert {check.against for check in report.callers} == {"copy" if copy_chunks else "views"}
    oracle = Oracle(documents(), engine._embedder, engine.settings, {"board": ACL(["b"], deny=["c"])})
    assert [check.principals for check in report.callers][:2] == [(), ("a", "b", "c")]
    for check in report.callers:
        count = oracle.count(check.principals)
        assert (check.documents, check.chunks) == (count.documents, count.chunks)
        assert check.answers > 4 * 5 and check.probed and check.probed > 3 * 4 * 8
        assert not check.approximate
    assert len({check.documents for check in report.callers}) > 2


def test_many_chunks_ask_the_lexicon(new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.setattr(legs, "FEW_CHUNKS", 0)
    monkeypatch.setattr(legs, "_FEW_TO_READ", 0)
    engine = fill(new_engine(database_url))
    for copy_chunks in (20_000, 0):
        report = engine.verify(
            callers=[["a"], ["b", "c"]],
            queries=["kernl reprot", "quoka", "obsidain"],
            probe=True,
            copy_chunks=copy_chunks,
        )
        assert report.ok, report.callers


def test_an_approximate_route_is_told_and_compared_exact(new_engine: NewEngine, database_url: str) -> None:
    engine = fill(new_engine(database_url, storage={"ann_exact_threshold": 0}))
    report = engine.verify(callers=[["a"], ["nobody"]], queries=3, probe=True)
    assert report.ok, report.callers
    assert [check.approximate for check in report.callers] == [True, True]
    assert fill(new_engine()).verify(callers=[["a"]], queries=1).callers[0].approximate is False


def drop_acl_line(relation: str) -> Callable[[str], str]:
    pattern = rf"{relation} AS NOT MATERIALIZED .*?\n\)"

    def edit(text: str) -> str:
        return re.sub(pattern, lambda found: re.sub(r"\n[^\n]*-- if scoped.*", "", found[0]), text, flags=re.DOTALL)

    return edit


def read_bare(text: str) -> str:
    return re.sub(r"(FROM|JOIN) visible_(\w+)", r"\1 {schema}.\2 AS visible_\2", text)


MUTATIONS: dict[str, tuple[str, Callable[[str], str], set[str]]] = {
    "documents": ("visible", drop_acl_line("visible_document"), {"document", "list"}),
    "chunks": ("visible", drop_acl_line("visible_chunk"), {"fts", "trgm", "fused"}),
    "embeddings": ("visible", drop_acl_line("visible_embedding"), {"ann", "fused"}),
    "idf over everything": ("legs/document_frequency_few", read_bare, {"fts"}),
    "words of everything": ("legs/visible_words", read_bare, {"trgm", "fused"}),
    "bm25 over everything": ("legs/fts_bm25", read_bare, {"fts", "fused"}),
    "vectors over everything": ("legs/ann_exact", read_bare, {"ann", "fused"}),
    "deny ignored": (
        "read/scope",
        lambda text: text.replace("member.kind = 'deny' AND", "false AND"),
        {"list", "count", "fused"},
    ),
    "public ignored": (
        "read/scope",
        lambda text: text.replace("WHERE public", "WHERE false"),
        {"list", "count", "fused"},
    ),
}


@contextmanager
def mutated(monkeypatch: pytest.MonkeyPatch, statement: str, edit: Callable[[str], str]) -> Iterator[None]:
    edited = edit(sql.load(statement))
    assert edited != sql.load(statement), "the mutation no longer fits the statement"
    with monkeypatch.context() as patch:
        patch.setattr(compose, "load", lambda name: edited if name == statement else sql.load(name))
        compose._text.cache_clear()
        yield
    compose._text.cache_clear()


@pytest.mark.parametrize(
    ("mutation", "copy_chunks"), [*((name, 20_000) for name in MUTATIONS), ("chunks", 0), ("deny ignored", 0)]
)
def test_a_broken_promise_is_seen(
    mutation: str, copy_chunks: int, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement, edit, wanted = MUTATIONS[mutation]
    engine = fill(new_engine())
    asked: dict[str, Any] = {"callers": [["a"], []], "queries": ["kernel report", "budget"]}
    with mutated(monkeypatch, statement, edit):
        report = engine.verify(**asked, copy_chunks=copy_chunks)
    assert not report.ok and wanted <= faults(report)


@pytest.mark.parametrize("mutation", ["chunks", "embeddings", "words of everything", "vectors over everything"])
def test_the_probe_sees_it_alone(mutation: str, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, edit, _ = MUTATIONS[mutation]
    engine = fill(new_engine())
    with mutated(monkeypatch, statement, edit):
        report = engine.verify(callers=[["nobody"]], queries=[], probe=True)
    [check] = report.callers
    probed = [difference for difference in check.differences if difference.call == "probe"]
    assert probed and "with canaries planted" in probed[0].what


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        ("INSERT INTO context_engine.tally SELECT acl_id, source, 1, 1 FROM context_engine.document", {"count"}),
        (
            "ALTER TABLE context_engine.embedding DROP CONSTRAINT embedding_document_id_acl_id_fkey;"
            "UPDATE context_engine.embedding SET acl_id = (SELECT id FROM context_engine.acl WHERE public LIMIT 1)",
            {"ann", "fused"},
        ),
        (
            "ALTER TABLE context_engine.chunk DROP CONSTRAINT chunk_document_id_acl_id_fkey;"
            "UPDATE context_engine.chunk SET acl_id = (SELECT id FROM context_engine.acl WHERE public LIMIT 1)",
            {"fts", "trgm", "fused"},
        ),
    ],
)
def test_a_damaged_database_is_seen(damage: Any, wanted: set[str], new_engine: NewEngine, database_url: str) -> None:
    engine = fill(new_engine(database_url))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(damage)
    assert wanted <= faults(engine.verify(callers=[["a"]], queries=["kernel report"]))


def test_an_interrupted_verification_leaves_nothing(new_engine: NewEngine, database_url: str) -> None:
    engine = fill(new_engine(database_url))
    before = dump(database_url)

    def stop(done: int, total: int | None) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.verify(callers=3, queries=2, probe=True, progress=stop)
    assert dump(database_url) == before
    assert engine.verify(callers=1, queries=1).ok


KILLED = """
import os, signal, sys
from context_engine import Engine
from context_engine.engine._sync import verify
from context_engine.models.hashing import HashingEmbedder

kept = getattr(verify, sys.argv[2])
def killed(*arguments, **named):
    kept(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(verify, sys.argv[2], killed)
Engine(sys.argv[1], embedder=HashingEmbedder(32)).verify(callers=[["a"]], queries=1, probe=True)
"""


@pytest.mark.parametrize("after", ["_put_apart", "ask", "_ingest", "_unarmed"])
def test_a_killed_verification_leaves_nothing(after: str, new_engine: NewEngine, database_url: str) -> None:
    engine = fill(new_engine(database_url))
    before = dump(database_url)
    done = subprocess.run([sys.executable, "-c", KILLED, database_url, after], check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    # The server notices at its next write to the dead client; a lock that the other held would show it waiting.
    with psycopg.connect(database_url) as connection:
        connection.execute("LOCK TABLE context_engine.document, context_engine.chunk IN ACCESS EXCLUSIVE MODE")
    assert dump(database_url) == before
    assert engine.count(principals=TRUSTED).documents == 28


def test_no_writer_waits_for_the_canaries(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others write meanwhile is written at once: new words, new ACLs, changes to any document."""
    from context_engine.engine._sync import verify  # noqa: PLC0415 - to be looked into

    engine = fill(new_engine(database_url))
    other = new_engine(database_url, storage={"statement_timeout_s": 5})
    planted = verify._ingest
    rounds: list[int] = []

    def meanwhile(*arguments: Any) -> None:
        planted(*arguments)
        number = len(rounds)
        rounds.append(number)
        text = f"word{number} the report of the bait beside ordinary documents"
        report = other.ingest([Document(text=text, external_id=f"new{number}", acl=[f"new{number}"])])
        assert report.created == 1 and not report.notes
        ids = [item.id for item in other.list_documents(principals=TRUSTED)]
        other.set_acl(ids, [[], ["a"], PUBLIC][number])  # type: ignore[arg-type]
        other.set_policy("board", [f"b{number}"])
        assert other.delete(ids[:2]) == 2

    monkeypatch.setattr(verify, "_ingest", meanwhile)
    assert engine.verify(callers=[["a", "b"]], queries=2, probe=True).ok
    assert len(rounds) == 3


def test_nobody_else_sees_the_canaries(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from context_engine.engine._sync import verify  # noqa: PLC0415 - to be looked into

    engine, other = fill(new_engine(database_url)), new_engine(database_url)
    seen: list[int] = []
    planted = verify._ingest

    def watched(*arguments: Any) -> None:
        planted(*arguments)
        seen.append(other.count(principals=TRUSTED).documents)

    monkeypatch.setattr(verify, "_ingest", watched)
    assert engine.verify(callers=[["a"]], queries=1, probe=True).ok
    assert seen == [28] * 3


@pytest.mark.parametrize(
    "arguments",
    [
        {"callers": 0},
        {"callers": True},
        {"callers": "ada"},
        {"callers": [TRUSTED]},
        {"callers": [None]},
        {"callers": [["a"], "b"]},
        {"queries": "kernel"},
        {"queries": -1},
        {"queries": [None]},
    ],
)
def test_what_cannot_be_verified_is_refused(arguments: dict[str, Any], engine: Engine) -> None:
    with pytest.raises(InputError):
        engine.verify(**arguments)


async def test_with_an_async_engine(new_engine: NewEngine, database_url: str) -> None:
    fill(new_engine(database_url))
    before = dump(database_url)
    done: list[tuple[int, int | None]] = []
    async with AsyncEngine(database_url, embedder=HashingEmbedder(32)) as engine:
        report = await engine.verify(callers=[["a"], []], queries=2, probe=True, progress=lambda *at: done.append(at))
        assert report.ok and done == [(0, 2), (1, 2), (2, 2)]
        async with asyncio.timeout(60):
            under_way = asyncio.Event()
            task = asyncio.create_task(engine.verify(callers=3, queries=2, progress=lambda *at: under_way.set()))
            await under_way.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await engine.search("kernel", principals=["a"])).hits
    assert dump(database_url) == before


def test_an_empty_database(engine: Engine) -> None:
    report = engine.verify(probe=True)
    assert report.ok and [check.principals for check in report.callers] == [()]
    assert report.callers[0].documents == 0


def test_the_same_seed_draws_the_same(new_engine: NewEngine) -> None:
    engine = fill(new_engine())
    first, again = (engine.verify(callers=4, queries=2, seed=1) for _ in range(2))
    assert first == again and len(first.callers) == 4


def test_what_is_drawn() -> None:
    names = [f"p{number}" for number in range(20)]
    callers = draw_callers(names, Random(0), 12)
    assert callers[:2] == [(), tuple(sorted(names))]
    assert {len(caller) for caller in callers} >= {0, 1, 2, 3, 6, 10, 20}
    assert len(set(callers)) == len(callers) == 12
    assert draw_callers(names, Random(1), 12) != callers
    assert set(draw_callers(["a", "b"], Random(0), 50)) == {(), ("a",), ("b",), ("a", "b")}
    assert draw_callers([], Random(0), 5) == [()]
    questions = draw_questions(TEXTS, Random(0), 12)
    assert len(questions) > 8 and any(text.startswith('"') for text in questions)
    assert any(" -" in text for text in questions)
    assert draw_questions([], Random(0), 3) == draw_questions(["", "  "], Random(0), 3) == []
    assert slip("cat", Random(0)) == "cat"
    for caller in ([], ["a"], ["a", "b"]):
        probe = plan_probe(caller, Random(0))
        oracle_rules = [document.acl for document in probe.canaries]
        assert len(set(map(str, oracle_rules))) == (7 if caller else 5)
        assert len(set(probe.ids)) == len(probe.ids) == len(probe.changed)
