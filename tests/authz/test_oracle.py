"""The oracle's own parts: held against PostgreSQL, against another library, and against results made wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promise import Database
from psycopg.types.json import Jsonb
from rapidfuzz.distance import OSA

from context_engine import ACL, PUBLIC, TRUSTED, Document, InputError, Policy
from context_engine.access import Filters, make_scope
from context_engine.model import Hit, LegHit, SearchResult
from context_engine.models.hashing import HashingEmbedder
from context_engine.testing import Oracle
from context_engine.testing.rules import metadata_match, read_caller, read_rule
from context_engine.testing.words import edits

EMBEDDER = HashingEmbedder(16)


@pytest.fixture(scope="module")
def connection(new_promise_database: Callable[[], Database]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(new_promise_database().url, autocommit=True) as opened:
        yield opened


class TestRules:
    CALLERS = ([], ["a"], ["b"], ["a", "b"], ["x"])

    @pytest.mark.parametrize(
        ("acl", "readers"),
        [
            (PUBLIC, "[] a b ab x"),
            ([], ""),
            (["a"], "a ab"),
            (["a", "b"], "a b ab"),
            (frozenset({"b"}), "b ab"),
            (["a", PUBLIC], "[] a b ab x"),
            (ACL(allow=PUBLIC, require=["a"]), "a ab"),
            (ACL(allow=[PUBLIC], deny=["a"]), "[] b x"),
            (ACL(allow=["a"], require=["a", "b"]), "ab"),
            (ACL(allow=["a", "b"], deny=["b"]), "a"),
            (ACL(allow=["a"], deny=["a"]), ""),
            (ACL(require=["a"]), ""),
            (Policy("p"), "b ab"),
        ],
    )
    def test_who_may_read(self, acl: Any, readers: str) -> None:
        rule = read_rule(acl, {"p": ["b"]})
        admitted = ["".join(caller) or "[]" for caller in self.CALLERS if rule.admits(read_caller(caller))]
        assert admitted == readers.split()
        assert rule.admits(read_caller(TRUSTED))

    def test_names_are_compared_in_nfc(self) -> None:
        assert read_rule(["caf\u00e9"], {}).admits(read_caller(["cafe\u0301"]))
        assert not read_rule(["Caf\u00e9"], {}).admits(read_caller(["caf\u00e9"]))

    def test_a_document_without_an_acl_and_an_unknown_policy_are_errors(self) -> None:
        with pytest.raises(InputError, match="acl"):
            Oracle([Document(text="x", name="x")], EMBEDDER)
        with pytest.raises(InputError, match="no policy"):
            Oracle([Document(text="x", name="x", acl=Policy("p"))], EMBEDDER)


SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 1.0, 2.5, 10**20, 1e20, 0.1, "", "1", "a", "b", "é", "🙂"])
STORED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=4,
)
WANTED = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), SCALARS, min_size=1, max_size=2),
)


@settings(max_examples=500)
@given(
    stored=st.dictionaries(st.sampled_from("kl"), STORED, max_size=2),
    wanted=st.dictionaries(st.sampled_from("kl"), WANTED, min_size=1, max_size=2),
)
def test_metadata_match_as_postgresql_matches_them(
    stored: dict[str, Any], wanted: dict[str, Any], connection: psycopg.Connection
) -> None:
    predicate = make_scope([], Filters(metadata=wanted)).metadata
    [(matched,)] = connection.execute(
        "SELECT coalesce(%s @@ %s::jsonpath, false)", [Jsonb(stored), predicate]
    ).fetchall()
    assert metadata_match(json.loads(json.dumps(stored)), wanted) == matched


@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_edits_are_counted_as_optimal_string_alignment(one: str, other: str) -> None:
    assert edits(one, other) == OSA.distance(one, other)


class TestDifferences:
    """The comparison has teeth too: a right result passes, and each way of making it wrong does not."""

    DOCUMENTS = [
        Document(text=text, external_id=f"d{number}", acl=acl)
        for number, (text, acl) in enumerate(
            [
                ("kernel report kernel", ["a"]),
                ("kernel notes", ["a"]),
                ("server budget report of the year", ["a"]),
                ("kernel kernel kernel kernel", ["b"]),
                ("zephyr", ["a"]),
            ]
        )
    ]
    ASKED: dict[str, Any] = {"principals": ["a"], "top_k": 3}

    @pytest.fixture
    def right(self, new_engine: Any) -> SearchResult:
        engine = new_engine()
        engine.ingest(self.DOCUMENTS)
        return engine.search("kernel report", **self.ASKED)

    def differences(self, result: SearchResult) -> list[str]:
        return Oracle(self.DOCUMENTS, HashingEmbedder(32)).differences(result, "kernel report", **self.ASKED)

    def test_the_right_result_passes(self, right: SearchResult) -> None:
        assert len(right.hits) == 3
        assert self.differences(right) == []

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda hits: hits[:2],
            lambda hits: (hits[1], hits[0], hits[2]),
            lambda hits: (*hits[:2], hits[0]),
            lambda hits: (replace(hits[0], score=hits[0].score * 1.001), *hits[1:]),
            lambda hits: (replace(hits[0], chunk_id=7), *hits[1:]),
            lambda hits: (_placed(hits[0], "fts", rank=2), *hits[1:]),
            lambda hits: (_placed(hits[0], "fts", by=1.001), *hits[1:]),
            lambda hits: (_placed(hits[0], "ann", by=1.001), *hits[1:]),
            lambda hits: (replace(hits[0], legs={}), *hits[1:]),
            lambda hits: (),
        ],
    )
    def test_a_wrong_result_does_not(self, right: SearchResult, spoil: Any) -> None:
        assert self.differences(replace(right, hits=spoil(right.hits)))

    def test_a_wrong_count_does_not(self, right: SearchResult) -> None:
        report = replace(right.report, visible_chunks=right.report.visible_chunks + 1)
        assert self.differences(replace(right, report=report)) == ["5 visible chunks instead of 4"]


def _placed(hit: Hit, leg: Any, rank: int | None = None, by: float = 1.0) -> Hit:
    place = hit.legs[leg]
    return replace(hit, legs={**hit.legs, leg: LegHit(rank or place.rank, place.score * by)})


def test_a_small_search_by_hand() -> None:
    documents = [
        Document(text="kernel report", external_id="1", acl=["a"]),
        Document(text="kernel kernel", external_id="2", acl=["a"]),
        Document(text="server report", external_id="3", acl=["b"]),
    ]
    oracle = Oracle(documents, EMBEDDER)
    found = oracle.leg("fts", "kernel", ["a"])
    # Both of two chunks hold it: idf = ln(1 + 0.5 / 2.5) = 0.182322; norm = 1.2 · (0.25 + 0.75 · 2 / 100) = 0.318
    assert [(hit.external_id, hit.score) for hit in found] == [
        ("2", pytest.approx(0.18232156 * 2 * 2.2 / 2.318)),
        ("1", pytest.approx(0.18232156 * 1 * 2.2 / 1.318)),
    ]
    assert [hit.external_id for hit in oracle.leg("trgm", "kernl", ["a"])] == ["2", "1"]
    assert oracle.leg("fts", "server", ["a"]) == oracle.leg("trgm", "servr", ["a"]) == []
    assert [hit.external_id for hit in oracle.leg("fts", "server", ["b"])] == ["3"]
    one, two = oracle.search("kernel", principals=["a"], weights={"ann": 0, "trgm": 0})
    # All that the leg finds: the least score is 0, that of a chunk without the word.
    assert (one.score, two.score) == (pytest.approx(0.75), pytest.approx(0.75 * 2.318 / (2 * 1.318)))
    assert [item.external_id for item in oracle.visible(["a", "b"])] == sorted(
        "123", key=[item.external_id for item in oracle.visible(TRUSTED)].index
    )


def test_there_is_no_other_leg() -> None:
    with pytest.raises(InputError, match="no leg"):
        Oracle([], EMBEDDER).leg("graph", "x", [])
