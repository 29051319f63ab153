"""The numbers, beside an oracle in numpy and beside statements that the tests run by themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import psycopg
import pytest
from exposure_world import World, caller, cosine_distances, expect_after, literal, make_world, run, same

from context_engine.exposure.target import Wanted

K = 5


@pytest.mark.parametrize("values", [("half",), ("tight",), ("some",), ("one",), ("tight", "some")])
def test_drawn_questions_beside_the_oracle(world: World, fill: Callable[..., str], values: tuple[str, ...]) -> None:
    """Without an index the search is exact, so that numpy can tell what filtering afterwards leaves."""
    report = run(fill(world), top_k=K, samples=1_000, callers=(values,))
    found = caller(report, *values)
    visible = world.visible(*values)
    assert found.visible == visible.sum() and found.share == visible.mean()
    for kind, rows in (("own", np.flatnonzero(visible)), ("others", np.flatnonzero(~visible))):
        questions = [(world.vectors[row], int(row)) for row in rows]
        if values == ("one",) and kind == "own":
            assert kind not in found.figures, "there is no other row to find"
            continue
        figures = found.figures[kind]
        for fetch in (1, 10, 50):
            assert same(figures[f"after-{fetch}x"], expect_after(world, values, questions, K, fetch * K)), (kind, fetch)
        for name in ("planned", "routed"):
            assert figures[name].recall == 1 and not figures[name].lossy
        assert figures["planned"].questions == len(questions)
    assert found.plan == "sequential scan"


def test_given_questions_are_asked_as_they_are(world: World, fill: Callable[..., str]) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((12, world.vectors.shape[1])).astype(np.float32)
    given = tuple(literal(vector) for vector in vectors)
    report = run(fill(world), top_k=K, samples=12, callers=(("tight",),), questions=given)
    figures = caller(report, "tight").figures
    assert set(figures) == {"given", "random"}
    expected = expect_after(world, ("tight",), [(vector, None) for vector in vectors], K, K)
    assert same(figures["given"]["after-1x"], expected) and expected.lossy


@pytest.mark.parametrize("index", ["hnsw (embedding vector_cosine_ops)", "ivfflat (embedding vector_cosine_ops)"])
def test_the_forced_index_beside_the_same_statement(fill: Callable[..., str], index: str) -> None:
    world = make_world(3_000)
    url = fill(world, index=index)
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((15, world.vectors.shape[1])).astype(np.float32)
    report = run(url, top_k=K, samples=15, callers=(("tight",),), questions=tuple(map(literal, vectors)))
    figures = caller(report, "tight").figures["given"]
    assert report.target.index and report.target.index.name == "vec"
    visible = world.visible("tight")
    recalls: dict[str, list[float]] = {"forced": [], "iterative": [], "after-10x": []}
    statements = {
        "forced": "SELECT id FROM docs WHERE acl && '{tight}' ORDER BY embedding <=> %s::vector LIMIT 5",
        "iterative": "SELECT id FROM docs WHERE acl && '{tight}' ORDER BY embedding <=> %s::vector LIMIT 5",
        "after-10x": "SELECT id FROM (SELECT * FROM docs ORDER BY embedding <=> %s::vector LIMIT 50) AS f "
        "WHERE acl && '{tight}' LIMIT 5",
    }
    with psycopg.connect(url) as connection:
        for name in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
            connection.execute(f"SET {name} = off".encode())
        for name, statement in statements.items():
            order = "relaxed_order" if name == "iterative" else "off"
            connection.execute("SELECT '[1]'::vector")
            connection.execute(f"SET {index.partition(' ')[0]}.iterative_scan = {order}".encode())
            for vector in vectors:
                rows = connection.execute(statement.encode(), (literal(vector),)).fetchall()
                order_of_all = np.argsort(cosine_distances(world, vector))
                best = [int(row) + 1 for row in order_of_all if visible[row]][:K]
                recalls[name].append(len({row[0] for row in rows} & set(best)) / K)
    assert figures["forced"].recall == pytest.approx(np.mean(recalls["forced"]))
    assert figures["iterative"].recall == pytest.approx(np.mean(recalls["iterative"]))
    assert figures["forced"].recall < 0.9
    assert figures["routed"].recall == 1
    if index.startswith("hnsw"):
        assert figures["after-10x"].recall == pytest.approx(np.mean(recalls["after-10x"]))


def test_the_layout_beside_the_oracle(fill: Callable[..., str]) -> None:
    world = make_world(240)
    report = run(fill(world), top_k=K, samples=5, callers=(("tight",), ("some",)))
    tight, some = caller(report, "tight").layout, caller(report, "some").layout
    visible = world.visible("tight")
    shares: list[float] = []
    for row in np.flatnonzero(visible):
        order = [each for each in np.argsort(cosine_distances(world, world.vectors[row])) if each != row][:50]
        shares.append(visible[order].mean())
    assert min(shares) <= tight.near_own <= max(shares)
    assert tight.near_own > 0.5 > tight.near_others
    assert tight.lift and tight.lift > 3
    assert some.lift == pytest.approx(1, abs=0.6)
    assert tight.expected == visible.mean()


def test_a_random_set_of_the_same_size(fill: Callable[..., str]) -> None:
    """What is drawn at random has about the same size, and the same rows each time."""
    world = make_world(2_000)
    report = run(fill(world), top_k=10, samples=60, callers=(("tight",),))
    found = caller(report, "tight")
    random = found.figures["random"]["after-10x"]
    # Of 100 rows about share × 100 are in the set: more than the ten asked for, so little is lost.
    assert found.share == pytest.approx(1 / 6, abs=0.05)
    assert random.questions == 120 and random.recall > 0.95
    # Of as many rows as are asked for, the share that is visible is left.
    assert found.figures["random"]["after-1x"].recall == pytest.approx(found.share, abs=0.05)
    assert found.figures["others"]["after-10x"].recall < random.recall


def test_ties_any_of_equal_rows_will_do(fill: Callable[..., str]) -> None:
    vectors = np.tile(np.eye(8, dtype=np.float32)[:2], (50, 1))
    world = World(vectors, [["a"]] * 100)
    report = run(fill(world, index="hnsw (embedding vector_cosine_ops)"), top_k=K, callers=(("a",),))
    assert caller(report, "a").figures["own"]["planned"].recall == 1


def test_other_distances(world: World, fill: Callable[..., str]) -> None:
    for operator_class, operator, metric in (
        ("vector_l2_ops", "<->", "l2"),
        ("vector_ip_ops", "<#>", "inner"),
        ("vector_l1_ops", "<+>", "l1"),
    ):
        url = fill(world, index=f"hnsw (embedding {operator_class})")
        report = run(url, top_k=K, callers=(("half",),))
        assert report.target.operator == operator
        assert caller(report, "half").figures["own"]["forced"].recall > 0.5
        chosen = run(fill(world), top_k=K, callers=(("half",),), wanted=Wanted(metric=metric))
        assert chosen.target.operator == operator


def test_an_index_on_a_cast(world: World, fill: Callable[..., str]) -> None:
    url = fill(world, index="hnsw ((embedding::halfvec(8)) halfvec_cosine_ops)")
    report = run(url, top_k=K, callers=(("half",),))
    assert report.target.index and report.target.index.cast and report.target.index.type == "halfvec"
    found = caller(report, "half").figures["own"]
    assert 0.8 < found["forced"].recall <= 1 and found["forced"].questions


def test_scopes_are_chosen_over_the_whole_range(fill: Callable[..., str]) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((600, 8)).astype(np.float32)
    groups = [[f"g{size}" for size in range(1, 60) if row % size == 0] for row in range(600)]
    report = run(fill(World(vectors, groups)), samples=1, max_scopes=4)
    shares = [each.share for each in report.callers]
    assert len(shares) == 4 and shares == sorted(shares, reverse=True)
    assert shares[0] == 1 and shares[-1] < 0.02
    assert report.acl_values == 59
