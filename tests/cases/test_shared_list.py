"""The fuzzy leg takes from the lexical what they rank alike (decision 0042): the same list as when it runs alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from context_engine import Document, Engine
from context_engine.engine._sync import search
from context_engine.retrieval import fusion, legs

WORDS = (
    "report reports kernel kernels budget server servers sever travel travels laser lasers compile compiled compiler "
    "window windows winter printer printers paper ax4410 iec13818 netbook notebook"
).split()
NewEngine = Callable[..., Engine]


def slip(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :] if rng.random() < 0.7 else word[:at] + word[at + 1 :]


@pytest.fixture
def filled(new_engine: NewEngine) -> Callable[[int], Engine]:
    def fill(count: int) -> Engine:
        rng = random.Random(11)
        engine = new_engine(search={"candidates": 10, "trgm_expand_below": 40})
        documents = [
            Document(text=" ".join(rng.choices(WORDS, k=rng.randrange(2, 9))), external_id=str(n), acl=[f"g{n % 3}"])
            for n in range(count)
        ]
        assert not engine.ingest(documents).failed
        return engine

    return fill


def questions(count: int) -> list[str]:
    rng = random.Random(5)
    asked: list[str] = []
    for _ in range(count):
        words = rng.sample(WORDS, rng.randrange(1, 7))
        words = [slip(word, rng) if len(word) > 4 and rng.random() < 0.4 else word for word in words]
        asked.append(" ".join(words) + rng.choice(["", "", " -paper"]))
    return asked


def fuzzy(
    engine: Engine, question: str, weights: dict[Any, float], principals: Sequence[str]
) -> list[fusion.Candidate]:
    """Return the fuzzy leg's list as it goes into fusion."""
    lists: dict[Any, list[fusion.Candidate]] = {}

    def fuse(found: Any, *parts: Any) -> list[fusion.Fused]:
        lists.update(found)
        return fusion.fuse(found, *parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "fuse", fuse)
        result = engine.search(question, principals=principals, weights={"ann": 0.0, **weights})
    assert result.report.legs["trgm"].candidates == len(lists.get("trgm", []))
    return lists.get("trgm", [])


@pytest.mark.parametrize("count", [150, 900])
def test_the_fuzzy_leg_is_the_same_beside_the_lexical(
    count: int, filled: Callable[[int], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = filled(count)
    narrowed: list[int] = []
    holding = legs.holding

    def counted(*parts: Any) -> legs.Route:
        narrowed.append(len(parts[3]))
        return holding(*parts)

    monkeypatch.setattr(legs, "holding", counted)
    for question in questions(60):
        for principals in (["g0"], ["g0", "g1", "g2"]):
            alone = fuzzy(engine, question, {"fts": 0.0, "trgm": 1.0}, principals)
            before = len(narrowed)
            beside = fuzzy(engine, question, {"fts": 1.0, "trgm": 1.0}, principals)
            assert beside == alone, question
            assert len(narrowed) <= before + 1
    assert sum(map(bool, narrowed)) > 20


def test_words_in_one_dimension_are_asked_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def route(weights: dict[str, float]) -> legs.Route:
        return legs.Route("words", True, legs.Statement(""), weights=weights)

    assert legs.changed_words(route({"a": 1.0}), route({"a": 1.0, "b": 2.0})) == ["b"]
    assert legs.changed_words(route({"a": 1.0}), route({"a": 1.5, "b": 2.0})) == ["a", "b"]
    assert legs.changed_words(route({"a": 1.0}), route({"a": 1.0})) == []
    assert legs.changed_words(route({"a": 2.0}), route({"a": 1.0, "b": 2.0})) is None
    assert legs.changed_words(legs.Route("bm25", True, legs.Statement("")), route({"a": 1.0})) is None
    monkeypatch.setattr(legs, "dimension", lambda _: 7)
    assert legs.changed_words(route({"a": 1.0}), route({"a": 1.0, "b": 2.0})) is None
