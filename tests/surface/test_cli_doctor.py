"""`doctor`: facts, what is wrong with them, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest

from context_engine import Document, Engine, Settings
from context_engine.diagnostics.doctor import changed_settings, judge
from context_engine.diagnostics.facts import Counts, DatabaseFacts, Extension, Server
from context_engine.models.hashing import HashingEmbedder
from context_engine.sql import migrations

NewDatabase = Callable[..., str]


def change(url: str, statement: LiteralString, *values: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, values)


def fill(new_engine: Any, url: str, **sections: Any) -> Engine:
    engine: Engine = new_engine(url, **sections)
    documents = [Document(name=f"D{n}", text=f"text {n}", acl=["a"]) for n in range(3)]
    assert not engine.ingest(documents).failed
    return engine


def report(cli: Any, exits: int = 0, **options: Any) -> dict[str, Any]:
    return json.loads(cli("doctor", "--json", exits=exits, **options).stdout)


def test_a_healthy_database(cli: Any, new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url)
    answer = report(cli)
    assert answer["ok"] and answer["settings"] == {}
    database = answer["database"]
    assert not database["embedded"]
    assert database["server"]["version"].startswith("18.")
    assert database["extensions"]["vector"]["schema"] == "public"
    assert database["migrations"] == [version for version, _, _ in migrations()]
    assert database["recorded"] == database["expected"]
    assert database["vector_index"] == "absent"
    counts = {"documents": 3, "chunks": 3, "embeddings": 3, "access_classes": 1, "policies": 0}
    assert database["counts"] == {**counts, "tallied_documents": 3, "tallied_chunks": 3}
    output = cli("doctor").output
    for words in (
        "PostgreSQL",
        "18.",
        "remote",
        "pg_trgm",
        "hashing-32",
        "3 documents, 3 chunks",
        "none: it is built",
    ):
        assert words in output


def test_p40_a_superuser_is_warned_of(cli: Any) -> None:
    [finding] = report(cli)["findings"]
    assert finding["level"] == "warning"
    assert "row-level policies would not bind this role" in finding["what"]


def test_an_empty_database_is_left_empty(cli: Any, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    answer = report(cli, exits=1, url=url)
    assert not answer["ok"]
    assert answer["database"]["counts"] is None
    problems = [item for item in answer["findings"] if item["level"] == "problem"]
    assert len(problems) == 3
    assert all("context-engine migrate" in item["advice"] for item in problems)
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT to_regnamespace('context_engine')").fetchone()
    assert row == (None,)
    cli("migrate", url=url)
    assert report(cli, url=url)["ok"]


@pytest.mark.parametrize(("version", "advice"), [(9999, "upgrade"), (0, "context-engine migrate")])
def test_a_schema_of_another_version(cli: Any, database_url: str, version: int, advice: str) -> None:
    change(database_url, "DELETE FROM context_engine.migration")
    change(database_url, "INSERT INTO context_engine.migration VALUES (%s, 'other')", version)
    [problem, _] = report(cli, exits=1)["findings"]
    assert str(version) in problem["what"] and advice in problem["advice"]
    assert f"problem: the schema is at version {version}" in cli("doctor", exits=1).output


def test_p06_another_model(cli: Any, new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url)
    answer = report(cli, exits=1, embedder=HashingEmbedder(48))
    [problem, _] = answer["findings"]
    assert "hashing-32" in problem["what"] and "hashing-48" in problem["what"]


def test_a_broken_tally(cli: Any, new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url)
    change(database_url, "UPDATE context_engine.tally SET chunks = chunks + 2")
    [problem, _] = report(cli, exits=1)["findings"]
    assert "3 chunks are stored" in problem["what"] and "3 and 5" in problem["what"]


def test_the_vector_index(cli: Any, new_engine: Any, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_STORAGE__ANN_EXACT_THRESHOLD", "2")
    fill(new_engine, database_url)
    answer = report(cli)
    assert answer["database"]["vector_index"] == "valid"
    assert answer["settings"] == {"storage.ann_exact_threshold": 2}
    change(database_url, "DELETE FROM context_engine.setting WHERE name = 'vector_index'")
    assert "there is no vector index" in str(report(cli)["findings"])


class _Broken:
    name, dim = "hashing-32", 32

    def embed_documents(self, texts: Any) -> Any:
        raise ConnectionError

    embed_query = embed_documents


def test_a_model_that_fails(cli: Any) -> None:
    answer = report(cli, exits=1, embedder=_Broken())
    assert "failed: ConnectionError" in answer["findings"][0]["what"]
    assert answer["database"]["server"], "the rest is looked at all the same"


def test_something_that_is_no_model(cli: Any) -> None:
    assert "is not an embedder" in str(report(cli, exits=1, embedder="model")["findings"])


FACTS = DatabaseFacts(
    embedded=False,
    server=Server("18.6", 180_006, "docs", "app", False, False, "UTF8"),
    extensions={
        "vector": Extension("0.8.6", "0.8.6", "public"),
        "pg_trgm": Extension("1.6", "1.6", "public"),
    },
    migrations=tuple(version for version, _, _ in migrations()),
    expected={"embedder": {"name": "m", "dim": 3}},
    recorded={"embedder": {"name": "m", "dim": 3}},
    counts=Counts(2, 4, 4, 1, 0, 2, 4),
    vector_index="absent",
)


@pytest.mark.parametrize(
    ("changes", "level", "what"),
    [
        (
            {"server": replace(FACTS.server, version="14.2", version_number=140_002)},
            "problem",
            "14.2 is too old",
        ),
        ({"server": replace(FACTS.server, encoding="LATIN1")}, "problem", "LATIN1"),
        ({"server": replace(FACTS.server, superuser=True)}, "warning", "app is superuser:"),
        (
            {"server": replace(FACTS.server, bypasses_row_security=True)},
            "warning",
            "app is BYPASSRLS:",
        ),
        ({"extensions": {"vector": FACTS.extensions["vector"]}}, "problem", "no extension pg_trgm"),
        (
            {"extensions": {**FACTS.extensions, "vector": Extension("0.8.6", "0.7.4", "x")}},
            "problem",
            "pgvector 0.7.4 is too old",
        ),
        ({"counts": Counts(2, 4, 3, 1, 0, 2, 4)}, "warning", "1 chunks have no vector"),
    ],
)
def test_judging(changes: dict[str, Any], level: str, what: str) -> None:
    [finding] = judge(replace(FACTS, **changes), Settings())
    assert finding.level == level and what in finding.what and finding.advice


def test_nothing_to_judge() -> None:
    assert judge(FACTS, Settings()) == []
    powerful = replace(FACTS.server, superuser=True, bypasses_row_security=True)
    assert judge(replace(FACTS, server=powerful, embedded=True), Settings()) == []


def test_problems_come_first() -> None:
    facts = replace(FACTS, server=replace(FACTS.server, superuser=True), counts=Counts(2, 4, 4, 1, 0, 2, 5))
    assert [finding.level for finding in judge(facts, Settings())] == ["problem", "warning"]


def test_settings_that_differ() -> None:
    settings = Settings(
        database_url="postgresql://u:hidden@h/x",
        search={"candidates": 7},
        fusion={"weights": {"ann": 0}},
    )
    changed = changed_settings(settings)
    assert changed["database_url"] == "set"
    assert changed["search.candidates"] == 7
    assert changed["fusion.weights"]["ann"] == 0
    assert "hidden" not in str(changed)
    assert changed_settings(Settings()) == {}
