"""Callers who see little have each chunk scored; it is the same answer as the index of words gives."""

from dataclasses import replace

import pytest
from promise import EMBEDDER

from context_engine import TRUSTED, Document, Engine
from context_engine.access import Filters, make_scope
from context_engine.model import SearchResult
from context_engine.retrieval import bm25, legs
from context_engine.retrieval.compose import Visibility

SEEN = Visibility(make_scope(["a"], Filters()), "{1}", documents=100, chunks=100, untallied=0, stored=1_000)
WORDS_ONLY = {"fts": 1.0}


@pytest.mark.parametrize(
    ("stored", "matched", "sooner"),
    [(1_000, 39, False), (1_000, 41, True), (100_000, 1, True), (400, 66, False), (400, 67, True), (399, 100, False)],
)
def test_the_more_of_others_the_index_holds_the_sooner_all_is_read(stored: int, matched: int, sooner: bool) -> None:
    assert legs._is_read_sooner(replace(SEEN, stored=stored), matched) is sooner


@pytest.mark.parametrize("filters", [Filters(sources=["wiki"]), Filters(documents=[1]), Filters(metadata={"year": 1})])
def test_with_a_filter_the_index_is_asked(filters: Filters) -> None:
    assert legs._is_read_sooner(replace(SEEN, scope=make_scope(["a"], filters)), 100) is False


@pytest.mark.parametrize("stored", [0, -1, 50])
def test_without_statistics_nobody_is_taken_to_see_more_than_there_is(stored: float) -> None:
    seen = replace(SEEN, stored=stored)
    assert legs._is_read_sooner(seen, 100) is False
    assert legs._is_read_sooner(seen, 101) is (stored <= 0)


def test_a_chunk_with_another_word_of_the_same_dimension_is_not_found(
    new_engine: type[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = bm25.dimension

    def alike(word: str) -> int:
        return hashed("kernel" if word == "otter" else word)

    monkeypatch.setattr(bm25, "dimension", alike)
    monkeypatch.setattr(legs, "dimension", alike)
    engine = new_engine(embedder=EMBEDDER, search={"candidates": 5})
    engine.ingest(
        [
            *(Document(name=f"n{number}", text="otter otter otter", acl=["a"]) for number in range(8)),
            *(Document(name=f"k{number}", text="the kernel of a long report", acl=["a"]) for number in range(7)),
        ]
    )

    def names() -> list[str | None]:
        result: SearchResult = engine.search("kernel", top_k=5, principals=TRUSTED, weights=WORDS_ONLY)
        assert result.report.legs["fts"].route == "bm25"
        return [hit.document.name for hit in result.hits]

    asked = names()
    monkeypatch.setattr(legs, "_READ_ENTRIES", 0)
    monkeypatch.setattr(legs, "FEW", 1.0)
    assert names() == asked
    assert len(asked) == 5 and all(name and name.startswith("k") for name in asked)
