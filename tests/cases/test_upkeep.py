"""Upkeep: what waits is taken in, indexes are made, and no answer changes by it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
from case_support import Background, check_stored, doc, found, one, only, waits_for_a_lock

from context_engine import TRUSTED, Engine, Maintenance, ModelMismatch
from context_engine.db._sync import vector_index
from context_engine.names import Progress

NewEngine = Callable[..., Engine]
MANY = {"ann_exact_threshold": 100}
GROUPS = ["ada", "bo", "cy"]


def answers(engine: Engine) -> list[Any]:
    return [
        (found(result), [hit.score for hit in result.hits])
        for principals in (["ada"], ["ada", "bo"], TRUSTED)
        for exact in (True, False)
        for result in [engine.search("note 17 on otters", principals=principals, exact=exact)]
    ]


def fill(engine: Engine, start: int, count: int) -> None:
    documents = [doc(f"n{at}", f"note {at} on otter{at % 7}", [GROUPS[at % 3]]) for at in range(start, start + count)]
    assert not engine.ingest(documents).failed


def waiting(database_url: str) -> int:
    return one(database_url, "SELECT count(*) FROM context_engine.untallied")


def test_upkeep_changes_no_answer(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage=MANY)
    fill(engine, 0, 150)
    engine.set_acl([hit.document.id for hit in engine.search("otter3", principals=["ada"]).hits], ["bo"])
    engine.delete([hit.document.id for hit in engine.search("otter5", principals=["cy"]).hits])
    before, kept = answers(engine), waiting(database_url)
    assert kept > 100
    steps: list[str] = []
    assert engine.maintain(reorder=True, rebuild=True, step=steps.append) == Maintenance(kept, True, True)
    assert (answers(engine), waiting(database_url), len(steps)) == (before, 0, 4)
    check_stored(database_url)
    assert engine.maintain() == Maintenance(0, False, False)


def test_the_index_reports_what_it_ranked(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage=MANY, search={"ann_rows": 120})
    fill(engine, 0, 300)
    legs = [
        engine.search("otter", principals=principals, weights=only("ann")).report.legs["ann"]
        for principals in (["ada"], ["ada", "bo"], TRUSTED)
    ]
    assert [(leg.route, leg.examined) for leg in legs] == [("exact", None), ("ivf", 120), ("ivf", 120)]


def test_an_index_is_made_anew_once_it_is_too_coarse(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage=MANY)
    state = "SELECT (value ->> 'chunks')::int FROM context_engine.setting WHERE name = 'vector_index'"
    fill(engine, 0, 250)
    assert one(database_url, state) == 250
    fill(engine, 250, 250)
    assert one(database_url, state) == 250
    fill(engine, 500, 600)
    assert one(database_url, state) == 1_100
    check_stored(database_url)


def test_changes_while_an_index_is_built(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of a build a document is added, changed, moved and deleted, and someone searches."""
    monkeypatch.setattr(vector_index, "_FILED_AT_ONCE", 40)
    engine = new_engine(database_url, storage=MANY)
    fill(engine, 0, 200)
    other = new_engine(database_url, storage=MANY)
    turns = 0

    def change(done: int, total: int | None) -> None:
        nonlocal turns
        turns += 1
        fill(other, 1_000 + turns, 1)
        ids = [item.id for item in other.list_documents(principals=TRUSTED)]
        other.set_acl(ids[done % len(ids)], ["bo"])
        other.delete(ids[(done + 7) % len(ids)])
        assert not other.ingest([doc(f"n{turns}", f"otters, changed in turn {turns}", ["ada"])]).failed
        with_index, exactly = (
            other.search("otters changed", principals=TRUSTED, exact=exact).hits for exact in (False, True)
        )
        assert with_index == exactly

    assert engine.maintain(rebuild=True, progress=change).index_built
    assert turns > 4 and waiting(database_url) > 0
    check_stored(database_url)
    engine.maintain()
    assert waiting(database_url) == 0
    check_stored(database_url)


class _Stop(Exception):
    pass


def _stop_at(count: int) -> Progress:
    def progress(done: int, total: int | None) -> None:
        if done >= count:
            raise _Stop

    return progress


def test_a_build_that_was_interrupted_leaves_the_old_index(
    new_engine: NewEngine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "_FILED_AT_ONCE", 40)
    engine = new_engine(database_url, storage=MANY)
    fill(engine, 0, 200)
    before = answers(engine)
    with pytest.raises(_Stop):
        engine.maintain(rebuild=True, progress=_stop_at(80))
    assert answers(engine) == before
    left = "SELECT count(*) FROM context_engine.code"
    assert one(database_url, left) == 280
    assert engine.maintain(rebuild=True).index_built
    assert (one(database_url, left), answers(engine)) == (200, before)


@pytest.mark.parametrize("age", ["1 minute", "11 minutes"])
def test_only_one_builds_and_a_dead_builder_is_forgotten(age: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage=MANY)
    fill(engine, 0, 200)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO context_engine.setting VALUES"
            " ('vector_index_build', jsonb_build_object('claimed_at', now() - %s::interval))",
            [age],
        )
    alive = age == "1 minute"
    fill(engine, 200, 200)
    assert waiting(database_url) == (200 if alive else 0)
    assert engine.maintain(rebuild=True).index_built is not alive


def test_a_database_of_an_older_schema_is_brought_up_to_date(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, storage=MANY)
    fill(engine, 0, 150)
    before = answers(engine)
    tables: Sequence[Any] = ("audit", "code", "centroid", "untallied", "word_tally")
    with psycopg.connect(database_url) as connection:
        for table in tables:
            connection.execute(f"DROP TABLE context_engine.{table}")
        connection.execute("DELETE FROM context_engine.migration WHERE version > 1")
        connection.execute("DELETE FROM context_engine.setting WHERE name = 'vector_index'")
        for lexicon in (
            "TABLE context_engine.lexicon RENAME COLUMN keys TO deletions",
            "TABLE context_engine.lexicon RENAME CONSTRAINT lexicon_keys_not_null TO lexicon_deletions_not_null",
            "INDEX context_engine.lexicon_keys RENAME TO lexicon_deletions",
        ):
            connection.execute(f"ALTER {lexicon}")
        connection.execute("CREATE INDEX lexicon_trigrams ON context_engine.lexicon (length(word))")
        connection.execute("UPDATE context_engine.setting SET value = %s WHERE name = 'analyser'", ['{"name": "2"}'])
    again = new_engine(database_url, storage=MANY)
    with pytest.raises(ModelMismatch, match="reindex"):
        again.migrate()
    assert again.reindex() == 150
    assert again.migrate() == []
    assert (waiting(database_url), answers(again)) == (150, before)
    again.maintain(rebuild=True)
    assert answers(again) == before
    check_stored(database_url)


def test_upkeep_waits_for_another_that_is_at_it(new_engine: NewEngine, database_url: str) -> None:
    """The server's own ANALYZE holds the same lock; nobody who reads or writes waits for the one that waits for it."""
    engine = new_engine(database_url)
    fill(engine, 0, 20)
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE context_engine.chunk IN SHARE UPDATE EXCLUSIVE MODE")
        upkeep = Background(engine.maintain)
        assert waits_for_a_lock(database_url, threading.Event())
        fill(engine, 20, 5)
        assert found(engine.search("note 22", principals=TRUSTED))[0] == "n22"
        other.execute("SELECT pg_sleep(0.5)")  # longer than the upkeep that follows an ingest would wait
    upkeep.result()
