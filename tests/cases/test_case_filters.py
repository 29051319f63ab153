"""Cases about filters, patterns and odd arguments: taken literally, or refused before anything is asked."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from case_support import LEGS, TEXT_LEGS, doc, found, key, only

from context_engine import PUBLIC, TRUSTED, Engine, InputError, NotFound

Library = Callable[..., Engine]

LITERALS = [
    ("100%", "rose by 100% today", "rose by 1000 today"),
    ("case_1", "see case_1 today", "see caseq1 today"),
    ("b_c", "see b_c today", "see bqc today"),
    ("foo%bar", "see foo%bar today", "see fooquxbar today"),
    ("ab*", "see ab* today", "see abacus today"),
    ("?zat", "see ?zat today", "see wzat today"),
    ("[qb]at", "see [qb]at today", "see flat today"),
]


@pytest.mark.parametrize(("query", "wanted", "unwanted"), LITERALS)
def test_p18_wildcards_in_a_query_are_literal(query: str, wanted: str, unwanted: str, library: Library) -> None:
    texts = [text for _, *pair in LITERALS for text in pair]
    engine = library("literals", [doc(text, text) for text in texts])
    for leg in TEXT_LEGS:
        hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
        assert wanted in hits, leg
        assert unwanted not in hits, leg


@pytest.mark.parametrize("query", ["%", "_", "%%", "__", "*", "?", "\\%", ".*"])
def test_p18_a_wildcard_alone_matches_nothing(query: str, library: Library) -> None:
    engine = library("few notes", [doc(str(number), f"note x{number}") for number in range(3)])
    for leg in TEXT_LEGS:
        assert not engine.search(query, principals=TRUSTED, weights=only(leg)).hits


@pytest.mark.parametrize("caller", ["teamXa", "team%", "%", "_", "team__", "TEAM_A", "team_a ", "team_", "team-a", "*"])
def test_p18_no_grant_by_a_pattern(caller: str, library: Library) -> None:
    engine = library("team_a's", [doc("one", "an otter swims", acl=["team_a"])])
    for weights in (None, *map(only, LEGS)):
        assert not engine.search("otter", principals=[caller], weights=weights).hits
        assert engine.search("otter", principals=["team_a"], weights=weights).hits
    assert engine.count(principals=[caller]).documents == 0


@pytest.mark.parametrize("pattern", ["team_a", "team%", "%", "_______"])
def test_p18_filters_are_literal(pattern: str, library: Library) -> None:
    def numbered(number: int, name: str) -> Any:
        return doc(str(number), "an otter", source=name, metadata={"team": name})

    engine = library(f"by {pattern}", [numbered(1, "teamXa"), numbered(2, pattern)])
    for narrowed in ({"sources": [pattern]}, {"metadata": {"team": pattern}}):
        assert found(engine.search("otter", principals=[], **narrowed)) == ["2"]
        assert engine.count(principals=[], **narrowed).documents == 1


ODD_KEYS = [
    "author' OR '1'='1",
    'author" == "x" || "1" == "1',
    "author\\",
    '"',
    "'",
    "$",
    "$.author",
    "@",
    "*",
    "**",
    "a.b",
    "a[0]",
    "author ? (@ == 1)",
    "%(x)s %s {schema}",
    " ",
    "new\nline\ttab",
    "\x01\x1f\x7f",
    "ключ",
    "キー",
    "🦦",
    "last",
    "true",
    "null",
    "strict $",
    "author /* c */",
    "win\r\ndows",
    "cle\u0301",
    "k" * 1000,
]
ODD_VALUES = [
    "O'Brien",
    "author' OR '1'='1",
    'x" || 1 == 1 || "',
    "back\\slash",
    "\\",
    '"',
    "2024_0717",
    "%",
    "",
    " ",
    "new\nline\ttab\r",
    "win\r\ndows",
    "\x01\x1f\x7f",
    "café",
    "cafe\u0301",
    "🦦",
    "true",
    "null",
    "1",
    "$.x",
    "starts with",
    "v" * 10_000,
]


@pytest.mark.parametrize("name", ODD_KEYS)
def test_p22_keys_are_literal(name: str, library: Library) -> None:
    documents = [doc(item, "an otter", metadata={item: "yes", "author": "x"}) for item in ODD_KEYS]
    engine = library("odd keys", documents)
    for wanted in ("yes", ["yes"], {"eq": "yes"}, {"gte": "y", "lt": "z"}):
        hits = engine.search("otter", principals=[], metadata={name: wanted}, top_k=100)
        assert [hit.document.metadata[_stored(name)] for hit in hits.hits] == ["yes"]
        assert engine.count(principals=[], metadata={name: wanted}).documents == 1
    assert not engine.search("otter", principals=[], metadata={name: "no"}).hits
    both = {name: "yes", "author": "x"}
    assert engine.count(principals=[], metadata=both).documents == 1


@pytest.mark.parametrize("value", ODD_VALUES)
def test_p22_values_are_literal(value: str, library: Library) -> None:
    documents = [doc(str(number), "an otter", metadata={"value": item}) for number, item in enumerate(ODD_VALUES)]
    engine = library("odd values", documents)
    same = {str(n) for n, item in enumerate(ODD_VALUES) if _stored(item) == _stored(value)}
    for wanted in (value, [value], {"eq": value}, {"gte": value, "lte": value}):
        hits = engine.search("otter", principals=[], metadata={"value": wanted}, top_k=100)
        assert set(found(hits)) == same
        listed = engine.list_documents(principals=[], metadata={"value": wanted})
        assert {item.external_id for item in listed} == same
    others = engine.count(principals=[], metadata={"value": {"ne": value}}).documents
    assert others == len(ODD_VALUES) - len(same)


def _stored(value: str) -> str:
    """What cleaning makes of a string, on both sides."""
    return value.replace("e\u0301", "é").replace("\r\n", "\n").replace("\r", "\n")


ROWS: dict[str, Any] = {
    "9": 9,
    "50": 50,
    "51": 51,
    "100": 100,
    "50.5": 50.5,
    "-3": -3,
    "1e3": 1e3,
    "big": 10**30,
    "text 60": "60",
    "N/A": "N/A",
    "empty": "",
    "null": None,
    "true": True,
    "false": False,
    "list": [60, "N/A"],
    "empty list": [],
    "mapping": {"a": 60},
    "date": "2024-07-17",
}


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ({"gt": 50}, {"51", "100", "50.5", "1e3", "big", "list"}),
        ({"gte": 50, "lt": 100}, {"50", "51", "50.5", "list"}),
        ({"lt": 0}, {"-3"}),
        ({"lte": -3}, {"-3"}),
        ({"gt": 10**29}, {"big"}),
        ({"gt": 50.25, "lt": 50.75}, {"50.5"}),
        (50, {"50"}),
        (50.0, {"50"}),
        (1000, {"1e3"}),
        (60, {"list"}),
        ("60", {"text 60"}),
        ({"gt": "2024-01-01", "lt": "2025"}, {"date"}),
        ("N/A", {"N/A", "list"}),
        ("", {"empty"}),
        (None, {"null"}),
        (True, {"true"}),
        (False, {"false"}),
        (1, set()),
        ([50, "60", None, True], {"50", "text 60", "null", "true"}),
        ([], set()),
        ((), set()),
        (set(), set()),
        # As SQL/JSON has it, null differs from everything, and all others only from their like.
        ({"ne": 50}, {"9", "51", "100", "50.5", "-3", "1e3", "big", "list", "null"}),
    ],
)
def test_p22_an_odd_row_does_not_match(wanted: Any, rows: set[str], library: Library) -> None:
    documents = [doc(name, "an otter", metadata={"n": value}) for name, value in ROWS.items()]
    engine = library("odd rows", [*documents, doc("none", "an otter")])
    for weights in (None, *map(only, LEGS)):
        result = engine.search("otter", principals=[], metadata={"n": wanted}, top_k=100, weights=weights)
        assert set(found(result)) == rows
    assert engine.count(principals=[], metadata={"n": wanted}).documents == len(rows)


def test_p22_an_empty_in_matches_nothing(library: Library) -> None:
    engine = library("few notes", [doc(str(number), f"note x{number}") for number in range(3)])
    for narrowed in ({"sources": []}, {"documents": []}, {"metadata": {"n": []}}):
        for weights in (None, *map(only, LEGS)):
            assert not engine.search("note", principals=TRUSTED, weights=weights, **narrowed).hits
        assert engine.count(principals=TRUSTED, **narrowed).documents == 0
        assert not any(
            list(engine.list_documents(principals=TRUSTED, **narrowed)) for _ in range("documents" not in narrowed)
        )


@pytest.mark.parametrize("length", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("value", [int, str])
def test_p22_a_long_list_works_or_is_refused(value: Callable[[int], Any], length: int, library: Library) -> None:
    documents = [doc(str(n), "an otter", metadata={"n": n, "s": str(n)}) for n in (0, 999, -1)]
    engine = library("numbered", documents)
    wanted = [value(number) for number in range(length)]
    filters = {"n" if value is int else "s": wanted}
    try:
        result = engine.search("otter", principals=[], metadata=filters)
    except InputError:
        assert length > 1_000
    else:
        assert set(found(result)) == {"0", "999"}
        assert not result.report.degraded


@pytest.mark.parametrize(
    "metadata",
    [
        "author",
        ["author"],
        {1: "x"},
        {None: "x"},
        {"": "x"},
        {"a\0b": "x"},
        {"\ud800": "x"},
        {"k" * 1001: "x"},
        {"a": "x\0y"},
        {"a": "\ud800"},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": [float("nan")]},
        {"a": {"gt": float("-inf")}},
        {"a": 10**5000},
        {"a": b"x"},
        {"a": datetime.date(2024, 7, 17)},
        {"a": {"like": "%"}},
        {"a": {"eq": [1]}},
        {"a": {"eq": {"eq": 1}}},
        {"a": {}},
        {"a": {"$gt": 1}},
        {"a": [[1]]},
        {"a": {1: 2}},
        {"a": object()},
    ],
)
def test_p22_what_is_no_filter_is_refused(metadata: Any, library: Library) -> None:
    engine = library("few notes", [doc(str(number), f"note x{number}") for number in range(3)])
    with pytest.raises(InputError):
        engine.search("note", principals=TRUSTED, metadata=metadata)
    with pytest.raises(InputError):
        engine.count(principals=TRUSTED, metadata=metadata)


BAD_IDS = [
    -1,
    2**63,
    10**30,
    1.5,
    True,
    None,
    "1",
    "abc",
    "1; DROP TABLE x",
    b"12",
    bytearray(b"1"),
    float("nan"),
    object(),
    [[1]],
    {"id": 1},
]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_q10_a_malformed_document_id(bad: Any, engine: Engine) -> None:
    engine.ingest([doc("one", "an otter swims")])
    calls: list[Callable[[], Any]] = [
        lambda: engine.get_document(bad, principals=TRUSTED),
        lambda: engine.get_acl(bad),
        lambda: engine.delete(bad),
        lambda: engine.delete([key("one"), bad]),
        lambda: engine.set_acl(bad, PUBLIC),
        lambda: engine.set_acl([bad], ["ada"]),
        lambda: engine.search("otter", principals=TRUSTED, documents=[bad]),
        lambda: engine.count(principals=TRUSTED, documents=[bad]),
    ]
    for call in calls:
        with pytest.raises(InputError) as refusal:
            call()
        told = str(refusal.value).lower()
        assert not any(word in told for word in ("select", "bigint", "psycopg", "%(", "unnest"))
    assert engine.count(principals=TRUSTED).documents == 1


@pytest.mark.parametrize("missing", [0, 1, 2**63 - 1])
def test_q10_an_id_that_is_not_there(missing: int, engine: Engine) -> None:
    engine.ingest([doc("one", "an otter swims", acl=["ada"])])
    for principals in (TRUSTED, ["bo"]):
        with pytest.raises(NotFound) as absent:
            engine.get_document(missing, principals=principals)
        if principals is not TRUSTED:
            with pytest.raises(NotFound) as hidden:
                engine.get_document(key("one"), principals=principals)
            assert str(hidden.value) == str(absent.value)
    with pytest.raises(NotFound):
        engine.set_acl([key("one"), missing], PUBLIC)
    assert engine.get_acl(key("one")) != PUBLIC
    assert engine.delete(missing) == 0
    assert not engine.search("otter", principals=TRUSTED, documents=[missing]).hits


@pytest.mark.parametrize("top_k", [0, -5, -1, 10_001, 1_000_000, 2**63, 1.0, 2.5, "10", None, True, False, [1]])
def test_q11_top_k_is_refused(top_k: Any, library: Library) -> None:
    engine = library("few notes", [doc(str(number), f"note x{number}") for number in range(3)])
    with pytest.raises(InputError, match="10000"):
        engine.search("note", principals=TRUSTED, top_k=top_k)


@pytest.mark.parametrize("top_k", [1, 2, 99, 100, 101, 250, 300, 10_000])
@pytest.mark.parametrize("threshold", [0, 1000])
def test_q11_top_k_gives_what_was_asked_for(top_k: int, threshold: int, library: Library) -> None:
    documents = [doc(str(number), f"a note on otters {number}") for number in range(300)]
    engine = library(f"300 {threshold}", documents, storage={"ann_exact_threshold": threshold})
    for weights in (None, *map(only, LEGS)):
        result = engine.search("note on otters", principals=[], top_k=top_k, weights=weights)
        assert len(result.hits) == min(top_k, 300)
        assert len(set(found(result))) == len(result.hits)


@pytest.mark.parametrize(
    "weights",
    [
        {"fts": -1},
        {"fts": float("nan")},
        {"fts": float("inf")},
        {"fts": "1"},
        {"fts": None},
        {"fts": True},
        {"bm25": 1},
        {"graph": 1},
        {"fts": 0, "trgm": 0, "ann": 0},
    ],
)
def test_q11_weights_are_refused(weights: Any, library: Library) -> None:
    engine = library("few notes", [doc(str(number), f"note x{number}") for number in range(3)])
    with pytest.raises(InputError):
        engine.search("note", principals=TRUSTED, weights=weights)
