"""A Context Engine database: the engine's own statements are measured, and its searches lose nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from exposure_world import caller
from psycopg import sql

from context_engine import ACL, PUBLIC, Document, InputError, SchemaOutOfDate, Settings
from context_engine.db.exposure.measure import Request, measure
from context_engine.exposure.model import Report

WORDS = "laser seal recall budget notice pay lease badge server plan".split()


def fill(new_engine: Callable[..., Any], url: str, documents: int, **sections: Any) -> None:
    engine = new_engine(url, **sections)
    made = [
        Document(
            text=f"{WORDS[n % 10]} {WORDS[n % 7]} number {n}",
            external_id=str(n),
            acl=PUBLIC if n % 50 == 0 else ACL([f"group:{n % 3}"], deny=["user:bo"] if n % 2 else []),
        )
        for n in range(documents)
    ]
    assert not engine.ingest(made).failed


def measured(url: str, settings: Settings | None = None, **request: Any) -> Report:
    return measure(url, Request(**{"show_acl": True, "samples": 5, **request}), settings or Settings())


def test_nothing_but_the_url_is_needed(new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url, 300)
    report = measured(database_url)
    assert report.target.preset == "context-engine" and report.target.index is None
    assert report.method == "routed" and report.acl_values == 3
    assert {each.values for each in report.callers} == {("group:0",), ("group:1",), ("group:2",)}
    for each in report.callers:
        principal = each.values[0] if each.values else ""
        visible = sum(n % 50 == 0 or f"group:{n % 3}" == principal for n in range(300))
        assert each.visible == visible and each.routed_exact
        for kind in ("own", "others"):
            assert each.figures[kind]["routed"].recall == 1
            assert each.figures[kind]["planned"].recall == 1
            assert each.figures[kind]["routed"].questions == 5
    assert report.verdict[0].level == "no gap" and "rule of three" in report.verdict[0].what
    assert report.filter_index == "embedding_by_acl"


def test_given_principals_are_one_caller_as_in_a_search(new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url, 300)
    report = measured(database_url, callers=(("group:1", "user:bo"), ("user:stranger",)))
    bo = caller(report, "group:1", "user:bo")
    assert bo.visible == sum(n % 50 == 0 or (n % 3 == 1 and n % 2 == 0) for n in range(300))
    assert caller(report, "user:stranger").visible == 6, "the public ones"


@pytest.mark.parametrize("kept_as", ["halfvec", "vector"])
def test_the_route_is_the_one_that_a_search_takes(kept_as: str, new_engine: Any, database_url: str) -> None:
    few = {"storage": {"ann_exact_threshold": 120, "vector_type": kept_as}, "search": {"ann_rows": 100}}
    fill(new_engine, database_url, 900, **few)
    report = measured(database_url, Settings(**few), callers=(("group:0",), ("nobody",)))
    engine = new_engine(database_url, **few)
    for principal, exact in (("group:0", False), ("nobody", True)):
        found = caller(report, principal)
        taken = engine.search("laser", principals=[principal]).report.legs["ann"]
        assert found.routed_exact == taken.exact == exact
        assert found.figures["own"]["planned"].recall == 1
        assert found.figures["own"]["routed"].recall > 0.9
    assert caller(report, "nobody").figures["others"]["routed"].recall == 1


def test_select_alone_is_enough(new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url, 60)
    role = sql.Identifier(f"own_reader_{os.getpid()}")
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA context_engine TO {}").format(role))
        admin.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {}").format(role))
        try:
            report = measured(database_url.replace("postgres@", f"own_reader_{os.getpid()}@", 1))
        finally:
            admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(role))
    assert report.environment.role.startswith("own_reader") and len(report.callers) == 3


def test_tables_of_another_version(new_engine: Any, database_url: str) -> None:
    fill(new_engine, database_url, 60)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("DROP TABLE context_engine.untallied CASCADE")
    with pytest.raises(SchemaOutOfDate, match="context-engine migrate"):
        measured(database_url)


def test_an_empty_database_is_an_error_that_says_so(database_url: str) -> None:
    with pytest.raises(InputError, match="empty: ingest documents first"):
        measured(database_url)
