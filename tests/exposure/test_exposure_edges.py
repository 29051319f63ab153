"""Tables that are not as one would wish: the right answer, or an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest
from exposure_world import DIM, World, caller, literal, make_world, run

from context_engine import ConfigError, InputError, StoreError
from context_engine.exposure.target import Wanted

Fill = Callable[..., str]
HNSW = "hnsw (embedding vector_cosine_ops)"


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_no_rows(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, "TRUNCATE docs")
    with pytest.raises(InputError, match=r"public\.docs has no rows with a vector"):
        run(url)


def test_no_rows_in_a_librarys_table(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, "CREATE TABLE data_x (embedding vector(3), metadata_ jsonb, node_id text)", "DROP TABLE docs")
    with pytest.raises(InputError, match=r"public\.data_x has no rows with a vector"):
        run(url)


def test_rows_without_a_vector_are_counted_and_never_found(world: World, fill: Fill) -> None:
    url = fill(world, index=HNSW)
    change(url, "UPDATE docs SET embedding = NULL WHERE id % 2 = 0", "ANALYZE docs")
    report = run(url, callers=(("some",), ("half",)))
    assert report.rows == 120 and report.vectors == 60
    assert any("60 of 120 rows have no vector in embedding" in note for note in report.notes)
    found = caller(report, "half")
    assert found.visible == world.visible("half")[::2].sum()
    assert found.figures["own"]["planned"].recall == 1


def test_fewer_visible_vectors_than_asked_for(world: World, fill: Fill) -> None:
    """Rows without a vector come last in a plain scan: they fill no list."""
    url = fill(world)
    change(url, "UPDATE docs SET embedding = NULL WHERE 'tight' = ANY(acl) AND id > 20")
    report = run(url, callers=(("tight",),))
    left = int(world.visible("tight")[:20].sum())
    assert 1 < left < 10
    found = caller(report, "tight")
    assert found.visible == left
    assert found.figures["own"]["planned"].recall == 1 and not found.figures["own"]["planned"].short


def test_a_zero_vector_has_no_cosine(world: World, fill: Fill) -> None:
    zero = literal(np.zeros(DIM, np.float32))
    url = fill(world)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE docs SET embedding = %s WHERE id <= 60", (zero,))
    report = run(url, samples=200, callers=(("half",),))
    figures = caller(report, "half").figures
    assert figures["own"]["planned"].recall == 1
    assert figures["own"]["planned"].questions == world.visible("half")[60:].sum()
    assert caller(report, "half").dropped == 60


def test_no_vector_index(world: World, fill: Fill) -> None:
    report = run(fill(world))
    assert report.target.index is None and "forced" not in report.methods
    assert report.verdict[0].level == "no gap"
    assert any("no vector index" in finding.what for finding in report.verdict)
    assert any("no vector index tells the distance" in note for note in report.notes)


@pytest.mark.parametrize(
    ("type_", "using"),
    [("timestamptz", "now()"), ("jsonb", "'{}'::jsonb"), ("float8", "1.5"), ("bytea", "'\\x00'::bytea")],
)
def test_an_acl_column_of_the_wrong_type(world: World, fill: Fill, type_: str, using: str) -> None:
    url = fill(world)
    change(url, f"ALTER TABLE docs ALTER acl TYPE {type_} USING {using}")
    with pytest.raises(InputError, match=r"cannot say who may read|is a JSON document: name the key"):
        run(url, wanted=Wanted(acl_column="acl"))


def test_a_json_key_of_the_wrong_type(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, """ALTER TABLE docs ALTER acl TYPE jsonb USING '{"who": {"a": 1}}'::jsonb""")
    with pytest.raises(InputError, match=r"acl\.who holds object in the rows"):
        run(url, wanted=Wanted(acl_column="acl.who"))
    with pytest.raises(InputError, match=r"acl\.what holds nothing in the rows"):
        run(url, wanted=Wanted(acl_column="acl.what"))
    with pytest.raises(InputError, match="has no column 'nope.a'"):
        run(url, wanted=Wanted(acl_column="nope.a"))


SCALARS = [("text", "'t' || id % 3"), ("integer", "id % 3"), ("bigint", "id % 3"), ("varchar(9)", "'t' || id % 3")]
SCALARS += [("uuid", "md5((id % 3)::text)::uuid"), ("integer[]", "ARRAY[id % 3]"), ("varchar(9)[]", "ARRAY['t']")]


@pytest.mark.parametrize(("type_", "using"), SCALARS)
def test_acl_columns_of_other_types(world: World, fill: Fill, type_: str, using: str) -> None:
    url = fill(world)
    change(url, f"ALTER TABLE docs ALTER acl TYPE {type_} USING {using}")
    report = run(url, samples=3)
    assert report.target.acl.kind == ("array" if "[]" in type_ else "scalar")
    assert all(each.visible == (120 if "'t']" in using else 40) for each in report.callers)
    assert all(each.figures["own"]["planned"].recall == 1 for each in report.callers)


def test_a_value_that_the_column_cannot_hold(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, "ALTER TABLE docs ALTER acl TYPE integer USING id % 3")
    with pytest.raises(InputError, match="of the column's type"):
        run(url, callers=(("hr",),))


@pytest.mark.parametrize(
    ("type_", "using", "acl", "index"),
    [
        ("text[]", "acl", "acl", "acl_index"),
        ("text", "acl[1]", "acl", "acl_index"),
        ("jsonb", "jsonb_build_object('it''s', jsonb_build_object('g', acl))", "acl.it's.g", "acl_index"),
        ("json", "json_build_object('g', acl)", "acl.g", "acl_index"),
        ("jsonb", "jsonb_build_object('o', jsonb_build_object('g', acl[1]))", "acl.o.g", "acl_index"),
    ],
)
def test_the_index_that_is_advised_is_the_one_that_serves(
    world: World, fill: Fill, type_: str, using: str, acl: str, index: str
) -> None:
    url = fill(world)
    change(url, f"ALTER TABLE docs ALTER acl TYPE {type_} USING {using}", "ANALYZE docs")
    wanted = Wanted(acl_column=acl)
    report = run(url, samples=2, wanted=wanted)
    assert report.filter_index is None
    [advice] = [finding.fix for finding in report.verdict if finding.fix and "CREATE INDEX" in finding.fix]
    change(url, advice.replace("CONCURRENTLY ON", f"{index} ON"), "ANALYZE docs")
    report = run(url, samples=2, wanted=wanted)
    assert report.filter_index == index
    assert not any(finding.fix and "CREATE INDEX" in finding.fix for finding in report.verdict)


ODD = '"My ""odd"" tab.le %s"'


def test_names_that_need_quoting(world: World, fill: Fill) -> None:
    url = fill(world, table=ODD, index=HNSW)
    change(
        url,
        f'ALTER TABLE {ODD} RENAME embedding TO "The %(vec)s"',
        f'ALTER TABLE {ODD} RENAME acl TO "a.c""l %"',
        'CREATE SCHEMA "Other %"',
        f'ALTER TABLE {ODD} SET SCHEMA "Other %"',
    )
    for table in ('My "odd" tab.le %s', ODD, f'"Other %".{ODD}', 'Other %.My "odd" tab.le %s', None):
        wanted = Wanted(table=table, acl_column='a.c"l %')
        report = run(url, samples=3, wanted=wanted)
        assert caller(report, "half").figures["own"]["routed"].recall == 1
    report = run(url, samples=3, wanted=Wanted(acl_column='"a.c""l %"', embedding_column='"The %(vec)s"'))
    assert report.target.embedding.name == "The %(vec)s"
    assert any('ON "Other %".' in (finding.fix or "") for finding in report.verdict)


def test_what_was_named_is_not_there(world: World, fill: Fill) -> None:
    url = fill(world)
    with pytest.raises(InputError, match=r"no table 'nope' .*with one: public\.docs"):
        run(url, wanted=Wanted(table="nope"))
    with pytest.raises(InputError, match="no column 'nope'; it has id, body, embedding, acl"):
        run(url, wanted=Wanted(embedding_column="nope"))
    with pytest.raises(InputError, match="'body' is of type text, not vector"):
        run(url, wanted=Wanted(embedding_column="body"))
    with pytest.raises(InputError, match="--method faster is none of"):
        run(url, method="faster")
    with pytest.raises(InputError, match="--collection is for LangChain"):
        run(url, wanted=Wanted(collection="x"))
    change(url, "ALTER TABLE docs RENAME acl TO who")
    with pytest.raises(
        InputError, match="say which column it is with --acl-column; there are id, body, embedding, who"
    ):
        run(url)


def test_views_and_many_tables(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, "CREATE VIEW seen AS SELECT * FROM docs")
    assert run(url, samples=1).target.table.name == "docs"
    with pytest.raises(InputError, match="is a view: name the table behind it"):
        run(url, wanted=Wanted(table="seen"))
    change(url, "CREATE MATERIALIZED VIEW kept AS SELECT * FROM docs", "ANALYZE kept")
    with pytest.raises(InputError, match=r"choose with --table, of public\.docs .*public\.kept"):
        run(url)
    assert run(url, samples=1, wanted=Wanted(table="kept")).vectors == 120
    change(url, "CREATE SCHEMA b", "CREATE TABLE b.docs (embedding vector(3), acl text[])")
    with pytest.raises(InputError, match=r"more than one table is called 'docs'"):
        run(url, wanted=Wanted(table="docs"))
    assert run(url, samples=1, wanted=Wanted(table="public.docs")).vectors == 120


def test_a_partitioned_table(fill: Fill) -> None:
    world = make_world(1_000)
    url = fill(world)
    change(
        url,
        f"CREATE TABLE parts (id int, embedding vector({DIM}), acl text[]) PARTITION BY HASH (id)",
        "CREATE TABLE part0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE part1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        "INSERT INTO parts SELECT id, embedding, acl FROM docs",
        f"CREATE INDEX ON parts USING {HNSW}",
        "ANALYZE parts",
    )
    report = run(url, wanted=Wanted(table="parts"), callers=(("tight",),))
    assert report.vectors == 1_000 and report.target.index
    found = caller(report, "tight")
    assert found.visible == world.visible("tight").sum()
    assert found.figures["others"]["forced"].recall < 1
    assert found.figures["others"]["routed"].recall == 1


def test_vectors_of_different_dimensions(world: World, fill: Fill) -> None:
    url = fill(world)
    change(
        url, "ALTER TABLE docs ALTER embedding TYPE vector", "INSERT INTO docs (embedding, acl) VALUES ('[1,2]', '{a}')"
    )
    with pytest.raises(InputError, match=r"different dimensions \(2, 8\)"):
        run(url)
    change(url, "DELETE FROM docs WHERE id > 120")
    assert run(url, samples=1).target.dim == DIM
    with pytest.raises(InputError, match="one dimension"):
        run(url, questions=("[1,2,3]",))


def test_an_interrupted_index_build_is_left_aside(world: World, fill: Fill) -> None:
    url = fill(world, index=HNSW)
    change(url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'vec'::regclass")
    report = run(url, samples=1)
    assert report.target.index is None
    assert any("vec is not valid" in note for note in report.notes)


def test_indexes_for_two_distances(world: World, fill: Fill) -> None:
    url = fill(world, index=HNSW)
    change(url, "CREATE INDEX l2 ON docs USING hnsw (embedding vector_l2_ops)")
    with pytest.raises(InputError, match="choose with --distance, of cosine, l2"):
        run(url)
    report = run(url, samples=1, wanted=Wanted(metric="l2"))
    assert report.target.index and report.target.index.name == "l2"


def test_more_rows_asked_for_than_the_index_gives(fill: Fill) -> None:
    world = make_world(1_500)
    url = fill(world, index=HNSW)
    report = run(url, top_k=60, callers=(("half",),))
    assert any("below the 60 rows asked for" in finding.what for finding in report.verdict)
    assert report.everything
    alone = report.everything.figures["own"]
    assert alone["forced"].short == 1 and alone["forced"].recall == pytest.approx(40 / 60)
    assert alone["forced-ef"].recall > 0.95
    set_by_the_application = run(url, top_k=60, callers=(("half",),), ef_search=200)
    assert set_by_the_application.environment.ef_search == 200
    assert "forced-ef" not in set_by_the_application.methods


def test_no_pgvector(new_database: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match="no extension vector"):
        run(new_database(empty=True))


def test_nobody_to_measure_for(world: World, fill: Fill) -> None:
    url = fill(world)
    change(url, "UPDATE docs SET acl = '{}'")
    with pytest.raises(InputError, match="nobody to measure for"):
        run(url)


def test_nothing_answers(tmp_path: Any) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        run(f"postgresql://postgres@/none?host={tmp_path}")
