"""Common words can win: a short chunk full of them beats a long one that holds a rare word once."""

import pytest
from promise import EMBEDDER

from context_engine import PUBLIC, TRUSTED, Document, Engine
from context_engine.retrieval import legs
from context_engine.testing import Oracle

LONG = " ".join(f"filler{number}" for number in range(150))
DOCUMENTS = [
    *(Document(name=f"rare {number}", text=f"zebra {LONG}", acl=PUBLIC) for number in range(3)),
    *(Document(name=f"full {number}", text="report " * 6 + "server " * 6, acl=PUBLIC) for number in range(4)),
    *(Document(name=f"thin {number}", text=f"report server {LONG}", acl=PUBLIC) for number in range(20)),
    *(Document(name=f"other {number}", text=f"{LONG}", acl=PUBLIC) for number in range(20)),
]


@pytest.mark.parametrize("candidates", [1, 2, 3, 5, 30])
def test_a_first_list_of_rare_words_is_not_the_answer(
    candidates: int, new_engine: type[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legs, "_WORTH_A_PROBE", 0)
    monkeypatch.setattr(legs, "_PROBED", 1)
    engine = new_engine(embedder=EMBEDDER, search={"candidates": candidates}, ingest={"chunk_tokens": 1024})
    engine.ingest(DOCUMENTS)
    oracle = Oracle(DOCUMENTS, EMBEDDER, engine.settings)
    for query in ("zebra report server", "zebra report", "report server", "zebra filler1 report"):
        asked = {"principals": TRUSTED, "top_k": candidates, "weights": {"ann": 0.0, "trgm": 0.0}}
        assert not oracle.differences(engine.search(query, **asked), query, **asked)
