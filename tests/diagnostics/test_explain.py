"""Why a document is or is not in a result: each reason, and that the answers are those of the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine import (
    ACL,
    PUBLIC,
    TRUSTED,
    AsyncEngine,
    Document,
    Engine,
    Explanation,
    InputError,
    NotFound,
    Policy,
    document_id,
)
from context_engine.access import normalise_rule
from context_engine.diagnostics.explain import judge
from context_engine.models.hashing import HashingEmbedder

NewEngine = Callable[..., Engine]


def key(name: str) -> int:
    return document_id("default", name)


def doc(name: str, text: str, acl: Any = PUBLIC, **more: Any) -> Document:
    return Document(text=text, external_id=name, acl=acl, **more)


RULES: list[tuple[Any, list[str], bool, str]] = [
    (PUBLIC, [], True, "it is public"),
    (["a"], ["a", "z"], True, "it is open to a"),
    (["a"], [], False, "the caller has none of the 1 principals it is open to"),
    ([], ["a"], False, "it is open to nobody but TRUSTED"),
    (ACL(["a"], require=["r"]), ["a"], False, "it requires r, which the caller lacks"),
    (ACL(["a"], require=["r"]), ["a", "r"], True, "it is open to a; the caller has r, which it requires"),
    (ACL(PUBLIC, deny=["d"]), ["d"], False, "it denies d, which the caller has"),
    (
        ACL(["a"], require=["r"], deny=["d"]),
        ["d"],
        False,
        "the caller has none of the 1 principals it is open to; it requires r, which the caller lacks;"
        " it denies d, which the caller has",
    ),
    (["cafe\u0301"], ["caf\u00e9"], True, "it is open to caf\u00e9"),
    (["Ada"], ["ada"], False, "the caller has none of the 1 principals it is open to"),
]


@pytest.mark.parametrize("through", ["itself", "policy"])
@pytest.mark.parametrize(("acl", "caller", "visible", "reason"), RULES)
def test_by_which_rule(
    acl: Any, caller: list[str], visible: bool, reason: str, through: str, new_engine: NewEngine
) -> None:
    engine = new_engine()
    if through == "policy":
        engine.set_policy("p", acl)
    engine.ingest([doc("one", "an otter swims", Policy("p") if through == "policy" else acl)])
    explained = engine.explain(key("one"), "otter", principals=caller)
    assert explained.access.visible == visible == bool(engine.count(principals=caller).documents)
    assert "; ".join(explained.access.reasons) == reason
    assert explained.access.policy == ("p" if through == "policy" else None)
    assert normalise_rule(explained.access.acl) == normalise_rule(acl)
    if visible:
        assert explained.verdict == "in the result, at rank 1"
    else:
        assert explained.verdict == f"not visible to this caller: {reason}"
        assert (explained.chunks, explained.report) == ((), None)


def test_a_trusted_caller(engine: Engine) -> None:
    engine.ingest([doc("one", "an otter", [])])
    assert engine.explain(key("one"), "otter", principals=TRUSTED).access.reasons == ("TRUSTED reads everything",)
    assert judge(normalise_rule([]), None)[0]


def legs(explained: Explanation, position: int = 0) -> dict[str, str]:
    return {leg: place.why for leg, place in explained.chunks[position].legs.items()}


def test_why_a_leg_has_no_candidate(engine: Engine) -> None:
    engine.ingest(
        [
            doc("one", "an otter swims in the river"),
            doc("two", "a heron wades in the river", ["ada"]),
            doc("three", "the badger digs"),
        ]
    )

    def ask(query: str, name: str = "two", **options: Any) -> dict[str, str]:
        return legs(engine.explain(key(name), query, principals=["ada"], **options))

    none, near = "it holds none of the question's words", ", and no near spelling of one"
    assert ask("otter") == {"fts": none, "trgm": none + near, "ann": ask("otter")["ann"]}
    assert ask("otter")["ann"].startswith("ranked ")
    assert ask("badgr", "three") == {"fts": none, "trgm": "ranked 1", "ann": ask("badgr", "three")["ann"]}
    assert ask("river -heron") == dict.fromkeys(("fts", "trgm", "ann"), "it holds what the question excludes")
    assert ask('"heron river"')["fts"] == "it holds heron, river, but the question wants each phrase, or every word"
    assert ask("the of")["fts"] == "the question has no words to look for"
    assert ask("-otter")["ann"] == "the question has nothing to embed"
    assert ask("heron", weights={"trgm": 0})["trgm"] == "the leg has weight 0"
    assert engine.explain(key("two"), "-otter", principals=["ada"]).verdict == (
        "visible, but no leg gives a candidate of it"
    )


class OneBlind(HashingEmbedder):
    """Has no vector for one text."""

    def embed_documents(self, texts: Any) -> Any:
        vectors = super().embed_documents(texts)
        vectors[["blind" in text for text in texts]] = 0
        return vectors


def test_a_chunk_without_a_vector_and_a_leg_that_fails(new_engine: NewEngine) -> None:
    class Failing(OneBlind):
        def embed_query(self, text: str) -> Any:
            raise TimeoutError

    first = new_engine(embedder=OneBlind(32))
    first.ingest([doc("one", "blind mole")])
    assert legs(first.explain(key("one"), "mole", principals=[]))["ann"] == "it has no vector"
    second = new_engine(first._url, embedder=Failing(32))
    explained = second.explain(key("one"), "mole", principals=[])
    assert explained.chunks[0].legs["ann"].standing == "failed"
    assert "TimeoutError" in explained.chunks[0].legs["ann"].why
    assert explained.report and explained.report.degraded


FILTERED: list[tuple[dict[str, Any], str]] = [
    ({"sources": ["wiki"]}, "its source is default"),
    ({"documents": [key("two")]}, "it is not among the documents asked for"),
    ({"metadata": {"year": 2020}}, "its metadata 'year' is 2024"),
    ({"metadata": {"kind": "x", "year": {"gte": 2024}}}, "its metadata 'kind' is 'not there'"),
    ({"sources": [], "metadata": {"year": []}}, "its source is default; its metadata 'year' is 2024"),
]


@pytest.mark.parametrize(("filters", "reason"), FILTERED)
def test_left_out_by_a_filter(filters: dict[str, Any], reason: str, engine: Engine) -> None:
    engine.ingest([doc("one", "an otter", metadata={"year": 2024}), doc("two", "an otter")])
    explained = engine.explain(key("one"), "otter", principals=[], **filters)
    assert explained.verdict == f"visible, but left out by the filters of the call: {reason}"
    assert explained.access.visible and not explained.chunks
    assert engine.explain(key("one"), "otter", principals=[], metadata={"year": 2024}).report


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("method", ["rrf", "minmax"])
@pytest.mark.parametrize("candidates", [3, 100])
def test_the_ranks_are_those_of_the_search(candidates: int, method: str, adaptive: bool, new_engine: NewEngine) -> None:
    engine = new_engine(
        search={"candidates": candidates, "lexical_candidates": 5},
        fusion={"method": method, "adaptive": adaptive},
        ingest={"chunk_tokens": 16},
    )
    words = ["otter", "river", "heron", "badger"]
    texts = [" ".join(words[(n * m) % 4] for m in range(1, 4 + n % 5)) for n in range(12)]
    texts.append("the otter swims in the cold river. " * 4)
    engine.ingest([doc(str(n), text, ["ada"] if n % 3 else PUBLIC) for n, text in enumerate(texts)])
    for query in ("otter", "otter river", "otteer heron -badger"):
        result = engine.search(query, principals=["ada"], top_k=4)
        ranked = {hit.chunk_id: (rank, hit) for rank, hit in enumerate(result.hits, 1)}
        seen = 0
        for number in range(len(texts)):
            for chunk in engine.explain(key(str(number)), query, principals=["ada"], top_k=4).chunks:
                assert chunk.returned == (chunk.chunk_id in ranked)
                if chunk.returned:
                    rank, hit = ranked[chunk.chunk_id]
                    assert (chunk.rank, chunk.score) == (rank, hit.score)
                    placed = {
                        leg: (place.rank, place.score)
                        for leg, place in chunk.legs.items()
                        if place.standing == "candidate"
                    }
                    assert placed == {leg: (place.rank, place.score) for leg, place in hit.legs.items()}
                    seen += 1
                elif chunk.rank is not None:
                    assert chunk.rank > 4 and chunk.why == f"rank {chunk.rank}, cut by top_k 4"
        assert seen == len(result.hits)


def test_below_the_candidates_and_cut_by_top_k(new_engine: NewEngine) -> None:
    engine = new_engine(search={"candidates": 2})
    engine.ingest([doc(str(n), "otter " * (n + 1) + "swims " * 5) for n in range(5)])
    last = engine.explain(key("0"), "otter", principals=[], top_k=1, weights={"ann": 0, "trgm": 0})
    assert legs(last)["fts"] == "ranked 5, and the first 2 take part (search.candidates)"
    assert last.chunks[0].legs["fts"].standing == "too low" and last.chunks[0].legs["fts"].rank == 5
    assert last.verdict == "visible, but no leg gives a candidate of it"
    second = engine.explain(key("3"), "otter", principals=[], top_k=1, weights={"ann": 0, "trgm": 0})
    assert second.verdict == "found, at rank 2, and cut by top_k 1"


def test_what_is_not_there(engine: Engine) -> None:
    engine.ingest([doc("one", "an otter")])
    with pytest.raises(NotFound):
        engine.explain(5, "otter", principals=[])
    with pytest.raises(NotFound):
        engine.who_can(5)
    for bad in (None, "ada", [""]):
        with pytest.raises(InputError):
            engine.explain(key("one"), "otter", principals=bad)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            engine.diff("otter", a=[], b=bad)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        engine.explain(key("one"), "otter", principals=[], top_k=0)


def test_who_can(engine: Engine) -> None:
    rule = ACL(["a", "b"], require=["r"], deny=["d"])
    engine.set_policy("team", rule)
    engine.ingest([doc("one", "an otter", Policy("team")), doc("two", "a heron", [PUBLIC, "a"])])
    by_policy = engine.who_can(key("one"))
    assert (by_policy.policy, normalise_rule(by_policy.acl)) == ("team", normalise_rule(rule))
    assert by_policy.document.external_id == "one"
    own = engine.who_can(key("two"))
    assert (own.policy, normalise_rule(own.acl)) == (None, normalise_rule([PUBLIC, "a"]))


def test_diff(engine: Engine) -> None:
    engine.ingest(
        [
            doc("both", "an otter swims"),
            doc("ada's", "the otter eats", ["ada"]),
            doc("not ada's", "otter otter", ACL(PUBLIC, deny=["ada"])),
        ]
    )
    found = engine.diff("otter", a=["ada"], b=["bo"])
    rows = {row.document.external_id: row for row in found.rows}
    assert set(rows) == {"both", "ada's", "not ada's"}
    assert rows["both"].a and rows["both"].b and rows["both"].why == ""
    assert rows["ada's"].b is None
    assert rows["ada's"].why == "B: not visible: the caller has none of the 1 principals it is open to"
    assert rows["not ada's"].why == "A: not visible: it denies ada, which the caller has"
    for principals, side in ((["ada"], "a"), (["bo"], "b")):
        hits = engine.search("otter", principals=principals).hits
        places = [getattr(rows[hit.document.external_id], side) for hit in hits]
        assert [(place.rank, place.score) for place in places] == [(n, hit.score) for n, hit in enumerate(hits, 1)]
    assert (found.report_a.visible_chunks, found.report_b.visible_chunks) == (2, 2)
    lower = engine.diff("otter", a=TRUSTED, b=["ada"], top_k=1)
    assert {row.why for row in lower.rows} <= {
        "",
        "A: visible, ranked lower",
        "B: not visible: it denies ada, which the caller has",
    }


async def test_with_an_async_engine(database_url: str) -> None:
    async with AsyncEngine(database_url, embedder=HashingEmbedder(32)) as engine:
        await engine.ingest([doc("one", "an otter", ["ada"])])
        assert (await engine.explain(key("one"), "otter", principals=["ada"])).verdict == "in the result, at rank 1"
        assert (await engine.who_can(key("one"))).policy is None
        assert (await engine.diff("otter", a=["ada"], b=[])).rows[0].b is None
        with pytest.raises(NotFound):
            await engine.explain(1, "otter", principals=[])


def test_one_snapshot_and_one_embedding(new_engine: NewEngine, database_url: str) -> None:
    asked: list[str] = []

    class Counting(HashingEmbedder):
        def embed_query(self, text: str) -> Any:
            asked.append(text)
            return super().embed_query(text)

    engine = new_engine(database_url, Counting(32), storage={"pool_size": 1})
    engine.ingest([doc("one", "an otter")])
    engine.explain(key("one"), "otter", principals=[])
    assert asked == ["otter"]
    assert engine.search("otter", principals=[]).hits, "the connection is whole again"
