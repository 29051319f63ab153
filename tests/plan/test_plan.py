"""Every statement that reads documents carries the access condition on every scan, whatever the planner does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, combinations
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from plan_check import conjuncts, guarded_scans, nodes, unguarded
from psycopg import sql

from context_engine import ACL, PUBLIC, Document, Engine, Settings, StoreError, document_id
from context_engine.access import Filters, make_scope
from context_engine.db._sync.store import Store
from context_engine.db.embedded import EmbeddedServer
from context_engine.model import AclLike, chunk_id
from context_engine.models.hashing import HashingEmbedder
from context_engine.retrieval import compose as compose_module
from context_engine.retrieval import legs
from context_engine.retrieval.compose import READS, Statement, Visibility, compose, resolve_scope
from context_engine.retrieval.legs import VectorIndex
from context_engine.retrieval.query import quote_lexeme, read_question
from context_engine.sql import load
from context_engine.text.analyse import Analyser

SQL = Path(str(files("context_engine.sql")))
GROUPS = ["a", "b", "c", "d"]
IDS = [document_id("default", f"n{number}") for number in range(400)]
FILTERS: dict[str, dict[str, Any]] = {
    "sources": {"sources": ["default", "wiki"]},
    "documents": {"documents": [*IDS[:40], 7]},
    "metadata": {"metadata": {"year": {"gte": 2022}}},
}
COMBINATIONS = list(chain.from_iterable(combinations(FILTERS, size) for size in range(len(FILTERS) + 1)))
# What a planner may come to think of on other data.
PLANNERS: dict[str, dict[str, str]] = {
    "as it likes": {},
    "no sequential scans": {"enable_seqscan": "off"},
    "no bitmaps": {"enable_seqscan": "off", "enable_bitmapscan": "off"},
    "no index scans": {"enable_indexscan": "off", "enable_indexonlyscan": "off"},
    "nothing but loops": {"enable_hashjoin": "off", "enable_mergejoin": "off"},
    "in parallel": {
        "parallel_setup_cost": "0",
        "parallel_tuple_cost": "0",
        "min_parallel_table_scan_size": "0",
    },
}
QUESTION = read_question('report "server budget" kernel -secret', Analyser())
FREQUENCIES = {term: 3 for term in QUESTION.terms}
VECTOR = "[" + ",".join(["0.25"] * 16) + "]"


def _fts(visibility: Visibility, rank: str) -> Statement:
    settings = Settings(search={"lexical_rank": rank})
    route = legs.fts(visibility, QUESTION, FREQUENCIES, visibility.chunks, settings, 100)
    assert route is not None
    return route.statement


def _scan(visibility: Visibility) -> Statement:
    params = {"match": QUESTION.match, "limit": 100, "term_weights": "{1:0.5,7:2}/1000000000"}
    return compose("legs/fts_bm25_scan", visibility, params)


def _tally(visibility: Visibility) -> Statement:
    params = {"queries": [quote_lexeme(term) for term in QUESTION.terms], "words": list(QUESTION.terms)}
    return compose("legs/document_frequency_tally", replace(visibility, untallied=1), params)


STATEMENTS: dict[str, Callable[[Visibility], Statement]] = {
    "legs/document_frequency": lambda seen: legs.document_frequency(replace(seen, chunks=10_000), QUESTION.terms),
    "legs/document_frequency_tally": _tally,
    "legs/document_frequency_few": lambda seen: legs.document_frequency(replace(seen, chunks=10), QUESTION.terms),
    "legs/visible_words": lambda seen: legs.visible_words(seen, ["kernel"], ["kern"], "kern"),
    "legs/visible_completions": lambda seen: legs.completions(seen, "kern"),
    "legs/fts_bm25": lambda seen: _fts(seen, "bm25"),
    "legs/fts_bm25_scan": _scan,
    "legs/fts_ts_rank_cd": lambda seen: _fts(seen, "ts_rank_cd"),
    "legs/fts_ts_rank": lambda seen: _fts(seen, "ts_rank"),
    "legs/ann_exact": lambda seen: legs.ann_exact(seen, QUESTION, VECTOR, 100).statement,
    "legs/ann_ivf": lambda seen: (
        legs.ann_ivf(replace(seen, untallied=1), QUESTION, VECTOR, VectorIndex(0, 40, 400), 1_000, 100).statement
    ),
    "read/count": lambda seen: compose("read/count", seen),
    "read/hydrate": lambda seen: compose(
        "read/hydrate",
        seen,
        {"document_ids": IDS[:10], "chunk_ids": [chunk_id(key, 0) for key in IDS[:10]]},
    ),
    "read/document": lambda seen: compose("read/document", seen, {"document_id": IDS[0]}),
    "read/documents": lambda seen: compose("read/documents", seen, {"after": -1, "limit": 500}),
    "read/neighbours": lambda seen: compose("read/neighbours", seen, {"document_id": IDS[0], "first": 0, "last": 2}),
    "read/sample": lambda seen: compose("read/sample", seen, {"start": IDS[0]}),
    "read/chunk_facts": lambda seen: compose(
        "read/chunk_facts",
        seen,
        {"document_id": IDS[0], "queries": ["'report'"], "match": "'report'", "unwanted": "'secret'"},
    ),
}


@pytest.fixture(scope="module")
def store(server: EmbeddedServer, template: str) -> Iterator[Store]:
    """A database with enough rows for its indexes to be worth it, the vector index among them."""
    name = f"plan_{os.getpid()}"
    identifiers = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY").format(**identifiers))
        settings = Settings(storage={"ann_exact_threshold": 0})
        with Engine(server.url(name), embedder=HashingEmbedder(16), settings=settings) as engine:
            assert not engine.ingest(_documents()).failed
        opened = Store(server.url(name), settings.storage)
        opened.open()
        opened.locate_extensions()
        yield opened
        opened.close()
        admin.execute(sql.SQL("DROP DATABASE {name} WITH (FORCE)").format(**identifiers))


def _documents() -> Iterator[Document]:
    for number in range(400):
        group = GROUPS[number % len(GROUPS)]
        acls: list[AclLike] = [
            [group],
            [group, f"user:{number}"],
            PUBLIC,
            ACL(allow=[group], deny=["d"]),
        ]
        yield Document(
            text=f"report {number} on the server budget of team {group}, kernel {number % 7}",
            external_id=f"n{number}",
            source="default" if number % 3 else "wiki",
            acl=acls[number % 3],
            metadata={"year": 2020 + number % 5},
        )


def resolve(store: Store, principals: Sequence[str], filters: Iterable[str] = ()) -> Visibility:
    """Resolve a caller with some of the filters."""
    given = {name: value for key in filters for name, value in FILTERS[key].items()}
    scope = make_scope(list(principals), Filters(**given))
    with store.read() as transaction:
        [[found]] = transaction.run(resolve_scope(scope))
    return Visibility(scope, *found)


def explain(store: Store, statement: Statement, planner: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Plan a statement as the engine would run it, in the engine's own kind of transaction."""
    settings = {**(planner or {}), **statement.settings}
    asked = Statement("EXPLAIN (VERBOSE, FORMAT JSON) " + statement.text, statement.params, settings)
    with store.read() as transaction:
        [[(plans,)]] = transaction.run(asked)
    return plans[0]["Plan"]


def test_a_statement_defines_only_what_it_names(store: Store) -> None:
    visibility = resolve(store, ["a"])
    named = {
        name: sorted(set(re.findall(r"\{schema\}\.(\w+)", compose(name, visibility, {"excluded": None}).text)))
        for name in ("legs/fts_bm25", "legs/ann_exact", "read/hydrate")
    }
    assert named == {
        "legs/fts_bm25": ["chunk"],
        "legs/ann_exact": ["embedding"],
        "read/hydrate": ["chunk", "document"],
    }


@pytest.mark.parametrize(("stored", "few"), [(0, True), (-1, True), (400, True), (399, False)])
def test_who_sees_little_of_what_is_stored_is_found_by_class(stored: float, few: bool, store: Store) -> None:
    visibility = replace(resolve(store, ["a"]), chunks=100, stored=stored)
    many = replace(visibility, acls="{" + ",".join(map(str, range(1, 100))) + "}")
    assert ("AND acl_id = ANY ((SELECT" in compose("read/count", many).text) is few
    for seen, name in ((many, "legs/fts_bm25"), (visibility, "read/count"), (visibility, "legs/fts_bm25")):
        assert ("AND acl_id = ANY (%" in compose(name, seen).text) is few
        assert ("AND (acl_id IN (SELECT" in compose(name, seen).text) is not few
    assert "AND acl_id + 0 = ANY" in compose("read/hydrate", visibility).text


def test_every_reading_statement_is_listed() -> None:
    reading = {
        str(path.relative_to(SQL).with_suffix(""))
        for path in SQL.rglob("*.sql")
        if path.name != "visible.sql" and "visible_" in path.read_text(encoding="utf-8")
    }
    assert set(READS) == reading == set(STATEMENTS)
    assert len(READS) == len(set(READS))


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", READS)
def test_every_scan_carries_the_access_condition(
    name: str, planner: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn, principals in enumerate(([], ["a"], ["a", "b", "user:7"])):
        for number, filters in enumerate(COMBINATIONS):
            # In turn as for who sees little of what is stored, and for who sees much.
            visibility = replace(resolve(store, principals, filters), stored=(turn + number) % 2)
            assert visibility.acls is not None
            # As for a few classes, and for many.
            monkeypatch.setattr(compose_module, "_MANY_CLASSES", (turn + number // 2) % 2 * 64)
            plan = explain(store, STATEMENTS[name](visibility), PLANNERS[planner])
            assert guarded_scans(plan), "the statement reads nothing: the check would be empty"
            assert unguarded(plan, visibility.acls) == [], (principals, filters)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM {schema}.chunk",
        "SELECT count(*) FROM visible_chunk JOIN {schema}.document ON document.id = document_id",
        "SELECT (SELECT count(*) FROM {schema}.embedding), (SELECT count(*) FROM visible_embedding)",
        "SELECT id FROM {schema}.chunk WHERE acl_id = ANY (%(visible_acls)s::int[]) OR position = 0",
        "SELECT id FROM {schema}.chunk WHERE NOT acl_id = ANY (%(visible_acls)s::int[])",
        "SELECT id FROM {schema}.chunk WHERE acl_id = ANY ('{{1,2,3,4,5,6,7,8,9}}'::int[])",
        "SELECT id FROM visible_chunk UNION SELECT id FROM {schema}.chunk",
    ],
)
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_check_fails_for_a_statement_that_reads_a_table_bare(
    text: LiteralString, planner: str, store: Store
) -> None:
    visibility = resolve(store, ["a"])
    assert visibility.acls is not None
    assert visibility.acls.count(",") > 1
    statement = _composed(visibility, text)
    assert len(unguarded(explain(store, statement, PLANNERS[planner]), visibility.acls)) == 1


@pytest.mark.parametrize("name", READS)
def test_the_check_fails_for_each_statement_once_it_reads_bare_tables(name: str, store: Store) -> None:
    visibility = resolve(store, ["a"])
    assert visibility.acls is not None
    statement = STATEMENTS[name](visibility)
    text = re.sub(r"(FROM|JOIN) visible_(\w+) AS", r"\1 {schema}.\2 AS", statement.text)
    text = re.sub(r"(FROM|JOIN) visible_(\w+)", r"\1 {schema}.\2 AS visible_\2", text)
    assert unguarded(explain(store, replace(statement, text=text)), visibility.acls)


@pytest.mark.parametrize("many", [0, 64])
@pytest.mark.parametrize("stored", [0, 399])
@pytest.mark.parametrize("name", READS)
def test_the_check_fails_where_others_than_the_visible_classes_are_listed(
    name: str, stored: float, many: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose_module, "_MANY_CLASSES", many)
    visibility = replace(resolve(store, ["a"]), stored=stored)
    assert visibility.acls is not None
    others = replace(visibility, acls=visibility.acls.replace("}", ",9999}"))
    plan = explain(store, STATEMENTS[name](others))
    assert len(unguarded(plan, visibility.acls)) == len(guarded_scans(plan)) > 0


def _composed(visibility: Visibility, text: LiteralString) -> Statement:
    """Put a statement that no file holds behind the relations it may name."""
    marks = compose_module._marks(visibility, "row")
    whole = compose_module._kept_lines("WITH " + load("visible") + text, marks)
    return Statement(whole, compose("read/count", visibility).params)


@pytest.mark.parametrize("text", ["SELECT * FROM document", "SELECT * FROM chunk", "SELECT * FROM embedding"])
def test_a_statement_that_names_a_table_without_its_schema_fails(text: LiteralString, store: Store) -> None:
    statement = _composed(resolve(store, ["a"]), text)
    with pytest.raises(StoreError) as caught, store.read() as transaction:
        transaction.run(statement)
    assert isinstance(caught.value.__cause__, psycopg.errors.UndefinedTable)


def test_no_reading_file_names_a_guarded_table() -> None:
    bare = re.compile(r"\{schema\}\s*\.\s*\"?(document|chunk|embedding|code|word_tally)\b", re.IGNORECASE)
    paths = [path for folder in ("legs", "read") for path in (SQL / folder).rglob("*.sql")]
    assert len(paths) > len(READS)
    assert [path.name for path in paths if bare.search(path.read_text(encoding="utf-8"))] == []
    assert len(bare.findall((SQL / "visible.sql").read_text(encoding="utf-8"))) == 5


@pytest.mark.parametrize("filters", COMBINATIONS)
@pytest.mark.parametrize("planner", PLANNERS)
def test_lists_are_read_one_by_one_in_their_order(planner: str, filters: tuple[str, ...], store: Store) -> None:
    visibility = resolve(store, ["a", "b"], filters)
    plan = explain(store, STATEMENTS["legs/ann_ivf"](visibility), PLANNERS[planner])
    [seen] = [node for node in nodes(plan) if node.get("Alias") == "seen"]
    [limit] = seen["Plans"]
    [loop] = limit["Plans"]
    assert limit["Node Type"] == "Limit"
    outer, inner = loop["Plans"]
    assert (loop["Node Type"], outer["Node Type"], outer["CTE Name"]) == ("Nested Loop", "CTE Scan", "nearest_list")
    lists = [node for node in nodes(inner) if node.get("Relation Name") == "code"]
    assert all("list = nearest_list.list" in str(node) for node in lists)
    assert lists


def test_a_list_is_read_from_its_index(store: Store) -> None:
    plan = explain(store, STATEMENTS["legs/ann_ivf"](resolve(store, ["a", "b"])))
    assert {"code_by_list", "embedding_pkey"} <= _indexes(plan)


def _indexes(plan: dict[str, Any]) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def test_an_expression_is_split_at_its_outermost_ands() -> None:
    assert conjuncts("((a = 1) AND ((b = 'x AND (y') OR (c AND d)) AND (e))") == [
        "a = 1",
        "(b = 'x AND (y') OR (c AND d)",
        "e",
    ]
    assert conjuncts("(a) OR (b)") == ["(a) OR (b)"]
    assert conjuncts("(a = 'it''s') AND b") == ["a = 'it''s'", "b"]
