"""By which route the vector leg goes."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.access import make_scope
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Visibility
from context_engine.retrieval.legs import VectorIndex
from context_engine.retrieval.query import read_question
from context_engine.settings import Settings
from context_engine.text.analyse import Analyser

INDEX = VectorIndex(0, 400, 10_000)
QUESTION = read_question("", Analyser())


def seen(chunks: int, stored: float, untallied: int = 0) -> Visibility:
    return Visibility(make_scope(["a"]), "{1}", chunks, chunks, untallied, stored=stored)


@pytest.mark.parametrize(
    ("stored", "most"), [(0, 50_000), (100_000, 50_000), (240_000, 50_000), (540_000, 75_000), (1_000_000, 102_062)]
)
def test_the_exact_route_reaches_further_in_a_large_table(stored: int, most: int) -> None:
    settings = Settings()
    assert legs.ann_is_exact(seen(most, stored), most, INDEX, settings)
    assert not legs.ann_is_exact(seen(most + 1, stored), most + 1, INDEX, settings)


def test_zero_asks_the_index_whatever_the_size() -> None:
    settings = Settings(storage={"ann_exact_threshold": 0})
    assert not legs.ann_is_exact(seen(1, 1_000_000), 1, INDEX, settings)
    assert legs.ann_is_exact(seen(1, 1_000_000), 1, None, settings)
    assert legs.ann_is_exact(seen(1, 1_000_000, 501), 1, INDEX, settings)


@pytest.mark.parametrize(
    ("dim", "chunks", "limit", "rows", "scored"),
    [
        (384, 40_000, 100, 20_000, 1_000),
        (384, 250_000, 100, 50_000, 2_500),
        (384, 1_000_000, 100, 100_000, 5_000),
        (384, 1_000_000, 2_000, 100_000, 10_000),
        (48, 40_000, 100, 20_000, 8_000),
        (1_024, 40_000, 10, 20_000, 1_000),
    ],
)
def test_how_much_is_ranked_and_scored(dim: int, chunks: int, limit: int, rows: int, scored: int) -> None:
    vector = "[" + ",".join(["0.1"] * dim) + "]"
    settings = Settings(storage={"ann_exact_threshold": 0})
    route = legs.ann(seen(chunks, 1_000_000), QUESTION, vector, chunks, INDEX, settings, limit)
    asked: dict[str, Any] = route.statement.params
    assert (route.name, route.exact, asked["rows"], asked["rescored"]) == ("ivf", False, rows, scored)
    assert legs.ann(seen(chunks, 1_000_000), QUESTION, vector, chunks, INDEX, settings, limit, exact=True).exact
