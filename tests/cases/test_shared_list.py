"""The fuzzy leg takes from the lexical what they rank alike (decision 0042): the same list as when it runs alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from context_engine import Document, Engine
from context_engine.db._sync.store import Transaction
from context_engine.engine._sync import search
from context_engine.retrieval import fusion, legs
from context_engine.retrieval.compose import Statement

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


def route(weights: dict[str, float]) -> legs.Route:
    return legs.Route("words", True, legs.Statement(""), weights=weights)


def changed(lexical: legs.Route, fuzzy: dict[str, float], count: int = 1) -> list[str] | None:
    return legs.changed_words(lexical, route(fuzzy), dict.fromkeys(fuzzy, count), 10)


def test_words_that_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed(route({"a": 1.0}), {"a": 1.0, "b": 2.0}) == ["b"]
    assert changed(route({"a": 1.0}), {"a": 1.5, "b": 2.0}) == ["a", "b"]
    assert changed(route({"a": 1.0}), {"a": 1.0}) == []
    assert changed(route({"a": 2.0}), {"a": 1.0, "b": 2.0}) is None
    assert changed(legs.Route("bm25", True, legs.Statement("")), {"a": 1.0}) is None
    # Held by so many chunks that the fuzzy leg's own way, which leaves common words to rare ones, reads fewer.
    assert changed(route({"a": 1.0}), {"a": 1.0, "b": 2.0}, 150) == ["b"]
    assert changed(route({"a": 1.0}), {"a": 1.0, "b": 2.0}, 151) is None
    # Two words in one dimension: each counts what the other does.
    monkeypatch.setattr(legs, "dimension", lambda _: 7)
    assert changed(route({"a": 1.0}), {"a": 1.0, "b": 2.0}) is None


@pytest.mark.parametrize("broken", [["'report'"], ["'report'", "'kernel'"]])
def test_a_leg_that_failed_ranks_nothing(
    broken: list[str], new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lexical leg fails, and with it the fuzzy leg asked in full; what its narrow form had found is dropped."""
    engine = new_engine()
    texts = ["report budget", "report kernel", "laser kernel"]
    engine.ingest([Document(text=text, external_id=text, acl=["a"]) for text in texts])
    run = Transaction.run

    def failing(self: Transaction, *statements: Statement, **options: Any) -> Any:
        parts = [
            Statement("SELECT 1 / 0") if any(word in str(one.params.get("match")) for word in broken) else one
            for one in statements
        ]
        return run(self, *parts, **options)

    monkeypatch.setattr(Transaction, "run", failing)
    result = engine.search("report kernle", principals=["a"])
    assert {leg for leg, report in result.report.legs.items() if report.error} == {"fts", "trgm"}
    assert result.report.degraded and result.hits
    assert all(set(hit.legs) == {"ann"} for hit in result.hits)
