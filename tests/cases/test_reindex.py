"""A change of the analyser, or of how words are weighed, is carried into what is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from context_engine import PUBLIC, TRUSTED, Document, Engine, ModelMismatch
from context_engine.models.hashing import HashingEmbedder
from context_engine.testing import Oracle

DOCUMENTS = [
    Document(name="Compilers", text="The compilation of kernels " + "and more words " * 200, acl=PUBLIC),
    Document(name="Kernels", text="A report on compilers.", acl=["a"]),
    *(Document(name=f"Note {number}", text=f"kernel report {number}", acl=["b"]) for number in range(30)),
]
CHANGES = [
    {"language": "simple"},
    {"language": "german", "stopwords": "none"},
    {"stopwords": ["report"]},
    {"k1": 0.9, "b": 0.4, "length_pivot": 30.0, "name_weight": 1.0},
]
QUERIES = ["compilation", "kernels report", "kernl", "the more", "Note 7"]


@pytest.mark.parametrize("analyser", CHANGES, ids=["simple", "german", "stopwords", "weights"])
def test_reindex_makes_it_as_if_ingested_so(
    analyser: dict[str, object], new_engine: Callable[..., Engine], database_url: str
) -> None:
    new_engine(database_url).ingest(DOCUMENTS)
    changed = new_engine(database_url, analyser=analyser)
    with pytest.raises(ModelMismatch, match="reindex"):
        changed.count(principals=TRUSTED)
    seen: list[tuple[int, int | None]] = []
    assert changed.reindex(lambda done, total: seen.append((done, total))) == len(DOCUMENTS)
    assert seen == [(len(DOCUMENTS), len(DOCUMENTS))]
    oracle = Oracle(DOCUMENTS, HashingEmbedder(32), changed.settings)
    fresh = new_engine(analyser=analyser)
    fresh.ingest(DOCUMENTS)
    for query in QUERIES:
        for principals in (TRUSTED, ["a"]):
            found = changed.search(query, principals=principals)
            assert oracle.differences(found, query, principals=principals) == []
            assert found.hits == fresh.search(query, principals=principals).hits
    with pytest.raises(ModelMismatch, match="reindex"):
        new_engine(database_url).count(principals=TRUSTED)


def test_a_reindex_that_fails_changes_nothing(new_engine: Callable[..., Engine], database_url: str) -> None:
    engine = new_engine(database_url)
    engine.ingest(DOCUMENTS)
    before = [engine.search(query, principals=TRUSTED).hits for query in QUERIES]

    def fail(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        new_engine(database_url, analyser={"language": "simple"}).reindex(fail)
    assert [engine.search(query, principals=TRUSTED).hits for query in QUERIES] == before
    assert engine.reindex() == len(DOCUMENTS)
    assert [engine.search(query, principals=TRUSTED).hits for query in QUERIES] == before
