"""Cases about callers who see little, or much, of a large vector index; the sizes are a tenth of the cases' own.

benchmarks/vector has them at 100,000 and 1,000,000 chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from case_support import doc, found, key, only

from context_engine import PUBLIC, Document, Engine
from context_engine.model import AclLike

Library = Callable[..., Engine]
DIM = 48
QUESTION = "the question"
NEAR, OWN, MIXED = 2_000, 20, 3_000
INDEXED = {"storage": {"ann_exact_threshold": 50}}
VECTORS = only("ann")


class Placed:
    """Puts texts that begin with `near` about the question, and all others far from it, in directions of their own."""

    name = "placed"
    dim = DIM

    def embed_query(self, text: str) -> Any:
        question = np.random.default_rng(0).normal(size=DIM)
        if text == QUESTION:
            return (question / np.linalg.norm(question)).astype(np.float32)
        noise = np.random.default_rng(list(text.encode())).normal(size=DIM)
        towards = {"near": 4.0, "mixed": 1.0}.get(text.split()[0], -1.0)
        vector = towards * question + noise
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return np.stack([self.embed_query(text) for text in texts])


def nearest(texts: dict[str, str], count: int) -> list[str]:
    """Rank by brute force on vectors as they are stored: unit length, half precision."""
    placed = Placed()
    names = sorted(texts, key=lambda name: key(name))
    stored = placed.embed_documents([texts[name] for name in names]).astype(np.float16).astype(np.float32)
    scores = stored @ placed.embed_query(QUESTION).astype(np.float16).astype(np.float32)
    return [names[row] for row in np.argsort(-scores, kind="stable")[:count]]


@pytest.fixture
def large(library: Library) -> Engine:
    """2,000 chunks near the question for all hands, 20 far ones for Dana, 3,000 by tenths and hundredths."""
    acls: list[AclLike] = [["group:half"] if number % 2 else ["group:most"] for number in range(MIXED)]
    for number in range(0, MIXED, 100):
        acls[number] = ["group:few"]
    documents = [
        *(doc(f"near {number}", f"near {number}", ["group:staff"]) for number in range(NEAR)),
        *(doc(f"own {number}", f"own {number}", ["user:dana"]) for number in range(OWN)),
        *(doc(f"mixed {number}", f"mixed {number}", acl) for number, acl in enumerate(acls)),
    ]
    return library("narrow callers", documents, Placed(), **INDEXED)


@pytest.mark.parametrize("exact", [True, False])
def test_p01_a_narrow_caller_among_rows_nearer_to_the_question(exact: bool, large: Engine) -> None:
    result = large.search(QUESTION, principals=["user:dana"], top_k=10, weights=VECTORS, exact=exact)
    assert found(result) == nearest({f"own {number}": f"own {number}" for number in range(OWN)}, 10)
    assert result.report.exact


@pytest.mark.parametrize("top_k", [100, 500])
def test_p01_a_limit_above_what_an_index_gives(top_k: int, large: Engine) -> None:
    """500 rows and more are readable, and so many are given, none of them twice."""
    result = large.search(QUESTION, principals=["group:half"], top_k=top_k, weights=VECTORS)
    assert result.report.legs["ann"].route == "ivf"
    assert len(result.hits) == len(set(found(result))) == top_k
    assert all(hit.text.startswith("mixed") for hit in result.hits)


@pytest.mark.parametrize("threshold", [0, 1_000])
def test_p03_the_same_documents_through_one_group_or_five(threshold: int, library: Library) -> None:
    teams = [f"group:{number}" for number in range(5)]
    documents = [
        Document(
            text=f"near {number}",
            external_id=f"near {number}",
            acl=["group:all", teams[number % 5]] if number < 100 else ["group:others"],
            metadata={"year": 2020 + number % 3},
        )
        for number in range(400)
    ]
    engine = library(f"through groups {threshold}", documents, Placed(), storage={"ann_exact_threshold": threshold})

    def ask(principals: list[str], **filters: Any) -> list[str]:
        return found(engine.search(QUESTION, principals=principals, top_k=10, weights=VECTORS, **filters))

    texts = {f"near {number}": f"near {number}" for number in range(100)}
    assert ask(["group:all"]) == ask(teams) == ask(["group:all", *teams]) == nearest(texts, 10)
    of_a_year = {name: text for name, text in texts.items() if int(name.split()[1]) % 3 == 1}
    assert ask(teams, metadata={"year": 2021}) == ask(["group:all"], metadata={"year": 2021}) == nearest(of_a_year, 10)
    wider = engine.search(QUESTION, principals=teams, top_k=100, weights=VECTORS, exact=True)
    assert set(ask(teams[:2])) <= set(found(wider))
    assert len(ask(teams[:1], documents=[key("near 0"), key("near 5"), key("near 1")])) == 2


@pytest.mark.parametrize("top_k", [10, 200])
@pytest.mark.parametrize(
    ("principals", "visible"),
    [(["group:few"], 30), (["group:half"], 1_500), (["group:staff", "group:half", "group:most", "group:few"], 5_000)],
)
def test_p05_limit_and_share_decide_no_index(principals: list[str], visible: int, top_k: int, large: Engine) -> None:
    """1, 30 and nearly all percent, ten and 200 rows: the right rows each time, by the route that is said."""
    assert large.count(principals=principals).chunks == visible
    exact = large.search(QUESTION, principals=principals, top_k=top_k, weights=VECTORS, exact=True)
    result = large.search(QUESTION, principals=principals, top_k=top_k, weights=VECTORS)
    assert len(result.hits) == len(exact.hits) == min(top_k, visible)
    assert result.report.legs["ann"].route == ("exact" if visible <= 50 else "ivf")
    assert len(set(found(result)) & set(found(exact))) >= 0.98 * len(exact.hits)
    readable: dict[str, str] = {}
    for item in large.list_documents(principals=principals):
        readable[str(item.external_id)] = str(item.external_id)
    assert found(exact) == nearest(readable, top_k)


def test_p05_everyone_may_read_everything(library: Library) -> None:
    documents = [doc(f"near {number}", f"near {number}", PUBLIC) for number in range(400)]
    engine = library("all of it", documents, Placed(), **INDEXED)
    result = engine.search(QUESTION, principals=[], top_k=10, weights=VECTORS)
    assert found(result) == nearest({f"near {number}": f"near {number}" for number in range(400)}, 10)
