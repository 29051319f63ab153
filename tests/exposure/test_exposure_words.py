"""The pure parts: choice of callers, grades, bounds, budget, plots."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.exposure.methods import plan_methods
from context_engine.exposure.model import Candidate, Figures, VectorIndex
from context_engine.exposure.plot import Line, share_plot
from context_engine.exposure.scopes import choose_scopes, label, random_bound
from context_engine.exposure.statistics import Outcome, at_most, best, compare, interval, pool, summarise
from context_engine.exposure.verdict import level_of

INDEX = VectorIndex("vec", "hnsw", "<=>", "vector", 8, False, False)


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=60), st.integers(1, 20))
def test_scopes_span_the_range(rows: list[int], most: int) -> None:
    candidates = [Candidate((str(place),), count) for place, count in enumerate(rows)]
    chosen = choose_scopes(candidates, most)
    assert len(chosen) == min(most, len(rows)) and len(set(chosen)) == len(chosen)
    assert [each.rows for each in chosen] == sorted((each.rows for each in chosen), reverse=True)
    assert chosen[0].rows == max(rows)
    if most > 1:
        assert chosen[-1].rows == min(rows)


def test_scopes_are_even_in_the_logarithm() -> None:
    chosen = choose_scopes([Candidate((str(n),), n) for n in range(1, 10_001)], 5)
    assert [each.rows for each in chosen] == [10_000, 1_000, 100, 10, 1]


def test_values_that_open_nothing_are_no_callers() -> None:
    assert choose_scopes([Candidate(("a",), 0)], 3) == []


def test_labels_depend_on_the_key_and_not_on_the_order() -> None:
    assert label(("a", "b"), b"k") == label(("b", "a"), b"k") != label(("a", "b"), b"other")
    assert label(("a", "b"), b"k") != label(("ab",), b"k")


@pytest.mark.parametrize(("share", "bound"), [(0, -(2**63)), (0.5, 0), (1, 2**63 - 1), (0.25, -(2**62))])
def test_the_bound_of_a_random_set(share: float, bound: int) -> None:
    assert random_bound(share) == bound


def test_recall_counts_rows_as_near_as_the_last_one() -> None:
    exact = best([(("t", n), n / 10) for n in range(5)], None, 3)
    assert exact == [0.0, 0.1, 0.2]
    assert compare([0.0, 0.2, 0.2], exact, 1.0) == Outcome(3, 3, 3, 1.0)
    assert compare([0.1, 0.3], exact, 1.0) == Outcome(1, 2, 3, 1.0)
    assert compare([], exact, 1.0) == Outcome(0, 0, 3, 1.0)


def test_the_questions_own_row_and_rows_without_distance_do_not_count() -> None:
    answer = [(("t", 1), 0.0), (("t", 2), math.nan), (("t", 3), 0.5)]
    assert best(answer, ("t", 1), 10) == [0.5]


def test_summing_up() -> None:
    outcomes = [Outcome(10, 10, 10, 1.0), Outcome(5, 5, 10, 2.0), Outcome(0, 0, 10, 3.0), Outcome(9, 10, 10, 4.0)]
    figures = summarise(outcomes, timeouts=2)
    assert (figures.questions, figures.recall, figures.lossy, figures.timeouts) == (4, 0.6, 3, 2)
    assert (figures.short, figures.empty, figures.p50_ms) == (0.5, 0.25, 2.5)
    both = pool([figures, summarise([Outcome(1, 1, 1, 10.0)] * 4)])
    assert (both.questions, both.recall, both.lossy, both.empty, both.p50_ms) == (8, 0.8, 3, 0.125, 6.25)
    assert pool([]).questions == 0 == summarise([]).questions


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_interval_holds_the_share(hits: int, misses: int) -> None:
    first, last = interval(hits, hits + misses)
    share = hits / (hits + misses) if hits + misses else 0.5
    assert 0 <= first <= share <= last <= 1


def test_the_rule_of_three() -> None:
    assert at_most(300) == 0.01 and at_most(0) == 1 and at_most(2) == 1
    # The exact bound: 1 - 0.05 ** (1 / n), which 3 / n stands a little above.
    assert 1 - 0.05 ** (1 / 300) == pytest.approx(at_most(300), rel=0.01)


def test_wilson_beside_known_values() -> None:
    assert interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert interval(0, 20) == pytest.approx((0, 0.1611), abs=1e-4)


@pytest.mark.parametrize(
    ("recall", "lossy", "short", "empty", "level"),
    [
        (1, 0, 0, 0, "no gap"),
        (0.97, 3, 0, 0, "slight"),
        (0.97, 3, 0.05, 0, "gap"),
        (0.9, 3, 0, 0, "gap"),
        (0.4, 9, 0, 0, "severe"),
        (0.9, 2, 0.1, 0.1, "severe"),
    ],
)
def test_grades(recall: float, lossy: int, short: float, empty: float, level: str) -> None:
    assert level_of(Figures(20, recall, lossy, short, empty, 1, 1)) == level


def test_no_question_is_no_grade() -> None:
    assert level_of(Figures(0, 0, 0, 0, 0, 0, 0)) == "not measured"


def test_ways_follow_what_the_database_has() -> None:
    plain = [method.name for method in plan_methods(None, 10, 40, True)]
    assert plain == ["after-1x", "after-10x", "after-50x", "planned", "routed"]
    full = [method.name for method in plan_methods(INDEX, 10, 40, True)]
    assert full == [
        *("after-1x", "after-10x", "after-10x-ef", "after-50x", "after-50x-ef"),
        *("planned", "forced", "iterative", "routed"),
    ]
    assert "iterative" not in [method.name for method in plan_methods(INDEX, 10, 40, False)]
    assert "forced-ef" in [method.name for method in plan_methods(INDEX, 60, 40, True)]


def test_ef_search_leaves_room_for_the_questions_own_row() -> None:
    [after, *_] = plan_methods(INDEX, 40, 40, True)
    assert after.settings(1) == {"hnsw.ef_search": "41"} and after.settings(0) == {"hnsw.ef_search": "40"}
    [widest] = [each for each in plan_methods(INDEX, 40, 40, True) if each.name == "after-50x-ef"]
    assert widest.limit == 2_000 and widest.settings(1) == {"hnsw.ef_search": "1000"}


def test_plots_place_points_inside() -> None:
    points = ((0.00001, 0.0), (0.01, 0.5), (1.0, 1.0))
    for logarithmic in (False, True):
        drawn = share_plot("t <i>", [Line("a & b", points, 0)], "ms", logarithmic)
        assert "t &lt;i&gt;" in drawn and "a &amp; b" in drawn
        places = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
        assert len(places) == 3 and all(50 < x < 560 and 20 < y < 265 for x, y in places)
        assert places == sorted(places) and [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert share_plot("t", [], "ms") == ""
