"""Cases about models and their vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import psycopg
import pytest
from case_embedders import DIM, AsyncFaulty, Faulty, Named
from case_support import (
    LEGS,
    TEXT_LEGS,
    at_once,
    check_stored,
    doc,
    dump,
    found,
    one,
    only,
    ranking,
)

from context_engine import (
    TRUSTED,
    ConfigError,
    Engine,
    LegError,
    ModelMismatch,
    SearchResult,
)
from context_engine.models.hashing import HashingEmbedder

NewEngine = Callable[..., Engine]
NewDatabase = Callable[..., str]
SIXTEEN = {"ingest": {"chunk_tokens": 16}}

OTHER_MODELS: list[tuple[Any, Any, tuple[str, str]]] = [
    (HashingEmbedder(384), HashingEmbedder(768), ("384", "768")),
    (HashingEmbedder(768), HashingEmbedder(384), ("768", "384")),
    (HashingEmbedder(32), HashingEmbedder(33), ("32", "33")),
    (Named("ada", 32), Named("bo", 32), ("ada", "bo")),
    (Named("ada", 32), Named("Ada", 32), ("ada", "Ada")),
]


def calls(engine: Engine) -> list[Callable[[], Any]]:
    return [
        lambda: engine.ingest([doc("new", "something else")]),
        lambda: engine.search("otter", principals=TRUSTED),
        lambda: engine.search("otter", principals=TRUSTED, weights={"ann": 0}),
        lambda: engine.count(principals=TRUSTED),
        lambda: engine.delete(1),
        lambda: engine.set_policy("p", ["ada"]),
        engine.migrate,
    ]


@pytest.mark.parametrize(("first", "second", "named"), OTHER_MODELS)
def test_p06_model_changed(
    first: Any, second: Any, named: tuple[str, str], new_engine: NewEngine, database_url: str
) -> None:
    filled = new_engine(database_url, first)
    filled.ingest([doc("otter", "an otter swims"), doc("heron", "a heron wades")])
    before = dump(database_url)
    expected = ranking(filled.search("otter", principals=TRUSTED))

    other = new_engine(database_url, second)
    for call in calls(other):
        with pytest.raises(ModelMismatch) as refusal:
            call()
        assert all(name in str(refusal.value) for name in named)

    assert dump(database_url) == before
    assert ranking(filled.search("otter", principals=TRUSTED)) == expected
    assert ranking(new_engine(database_url, first).search("otter", principals=TRUSTED)) == expected


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"language": "german"}, ("english", "german")),
        ({"language": "simple"}, ("english", "simple")),
        ({"k1": 1.5}, ("1.2", "1.5")),
        ({"b": 0.5}, ("0.75", "0.5")),
        ({"length_pivot": 50.0}, ("100", "50")),
    ],
)
def test_p06_analyser_changed(
    section: dict[str, Any], named: tuple[str, str], new_engine: NewEngine, database_url: str
) -> None:
    new_engine(database_url).ingest([doc("otter", "an otter swims")])
    before = dump(database_url)
    for call in calls(new_engine(database_url, analyser=section)):
        with pytest.raises(ModelMismatch) as refusal:
            call()
        assert all(name in str(refusal.value) for name in named)
    assert dump(database_url) == before


def test_p06_two_models_meet_at_a_new_database(new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    engines = [new_engine(url, HashingEmbedder(dim)) for dim in (24, 48)]

    def first_use(engine: Engine) -> bool:
        try:
            return not engine.ingest([doc("otter", "an otter swims")]).failed
        except ModelMismatch:
            return False

    taken = at_once(*(lambda engine=engine: first_use(engine) for engine in engines))
    assert sorted(taken) == [False, True]
    assert check_stored(url).embeddings == 1
    assert found(engines[taken.index(True)].search("otter", principals=TRUSTED)) == ["otter"]


COLUMN = """
    SELECT format_type(atttypid, atttypmod), attstorage::text, pg_relation_size(reltoastrelid)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE attrelid = 'context_engine.embedding'::regclass AND attname = 'embedding'
"""
FITTING = [("halfvec", dim) for dim in (1, 2000, 2001, 3072, 4000)] + [("vector", dim) for dim in (1, 384, 2000)]


@pytest.mark.parametrize(("kept_as", "dim"), FITTING)
def test_p07_dimensions_that_fit(kept_as: str, dim: int, new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    for _ in range(2):
        engine = new_engine(url, HashingEmbedder(dim), storage={"ann_exact_threshold": 0, "vector_type": kept_as})
        engine.ingest([doc("otter", "an otter swims"), doc("heron", "a heron wades")])
        result = engine.search("an otter swims", principals=TRUSTED, weights=only("ann"))
        assert sorted(found(result)) == ["heron", "otter"]
        assert result.report.legs["ann"].route == "ivf"
        assert check_stored(url).embeddings == 2
    with psycopg.connect(url) as connection:
        column = connection.execute(COLUMN).fetchone()
    assert column == (f"{kept_as}({dim})", "p", 0), "kept in its page, and nothing apart"


def test_p07_a_database_keeps_the_vector_type_it_was_filled_with(new_engine: NewEngine, database_url: str) -> None:
    new_engine(database_url, storage={"vector_type": "vector"}).ingest([doc("otter", "an otter swims")])
    with pytest.raises(ModelMismatch, match="vector_type vector"):
        new_engine(database_url).count(principals=TRUSTED)
    again = new_engine(database_url, storage={"vector_type": "vector"})
    assert found(again.search("otter", principals=TRUSTED)) == ["otter"]


def test_p07_a_dimension_that_only_half_precision_fits(new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    with pytest.raises(ConfigError, match=r"2001 dimensions; 1 to 2000 .* storage.vector_type halfvec"):
        new_engine(url, HashingEmbedder(2001), storage={"vector_type": "vector"}).migrate()
    assert one(url, "SELECT to_regnamespace('context_engine') IS NULL"), "a schema was half made"


@pytest.mark.parametrize("dim", [4001, 4096, 8192, 16_000, 16_001, 70_000])
def test_p07_dimensions_that_do_not(dim: int, new_engine: NewEngine, new_database: NewDatabase) -> None:
    url = new_database(empty=True)
    for call in (lambda e: e.migrate(), lambda e: e.ingest([doc("a", "b")])):
        with pytest.raises(ConfigError, match=str(dim)):
            call(new_engine(url, Named("large", dim)))
        assert one(url, "SELECT to_regnamespace('context_engine') IS NULL"), "a schema was half made"
    small = new_engine(url)
    small.ingest([doc("otter", "an otter swims")])
    assert found(small.search("otter", principals=TRUSTED)) == ["otter"]


def values(*numbers: float) -> Callable[[], Any]:
    return lambda: [*numbers, *([1.0] * (DIM - len(numbers)))]


UNUSABLE: dict[str, Callable[[], Any]] = {
    "nan": values(math.nan),
    "all nan": lambda: np.full(DIM, np.nan),
    "infinity": values(math.inf),
    "minus infinity": values(1.0, -math.inf),
    "zeros": lambda: [0.0] * DIM,
    "negative zeros": lambda: np.full(DIM, -0.0, dtype=np.float32),
    "nothing": lambda: None,
    "empty": lambda: [],
    "too short": lambda: [1.0] * (DIM - 1),
    "too long": lambda: [1.0] * (DIM + 1),
    "text": lambda: "vector",
    "null inside": lambda: [None] * DIM,
    "nested": lambda: [[1.0] * DIM],
}
LARGE: dict[str, Callable[[], Any]] = {
    "beyond halfvec": values(70_000.0),
    "all beyond halfvec": lambda: [70_000.0] * DIM,
    "near the end of float32": lambda: [3e38] * DIM,
    "tiny": lambda: [1e-30] * DIM,
    "whole numbers": lambda: np.arange(DIM),
    "half precision": lambda: np.ones(DIM, dtype=np.float16),
}
OUT_OF_RANGE: dict[str, Callable[[], Any]] = {
    "1e300": values(1e300),
    "all 1e300": lambda: [1e300] * DIM,
    "-1e300": lambda: np.full(DIM, -1e300),
    "1e-300": lambda: [1e-300] * DIM,
    "a huge integer": lambda: [10**400] * DIM,
}

PARTS = [
    "The first part tells of otters that swim in rivers.",
    "The second part tells of herons that wade in ponds.",
    "The third part is faulty and speaks of plumbing now.",
    "The fourth part tells of badgers that dig all night.",
    "The fifth part tells of martens that climb up trees.",
]


def check_finite(result: SearchResult) -> None:
    json.dumps([asdict(hit) for hit in result.hits], allow_nan=False)
    json.dumps(asdict(result.report), allow_nan=False)


@pytest.mark.parametrize(
    ("name", "embedder"),
    [
        *((name, Faulty) for name in [*UNUSABLE, *OUT_OF_RANGE]),
        *((name, AsyncFaulty) for name in ["nan", "nothing", "zeros", "too long", "1e300"]),
    ],
)
def test_p08_bad_vector_for_one_chunk(
    name: str, embedder: type[Faulty], new_engine: NewEngine, database_url: str
) -> None:
    fault = {**UNUSABLE, **OUT_OF_RANGE}[name]
    engine = new_engine(database_url, embedder(fault), **SIXTEEN)
    before = doc("before", "about otters")
    after = doc("after", "about herons")
    report = engine.ingest([before, doc("five", "\n\n".join(PARTS)), after])

    assert [outcome.outcome for outcome in report.outcomes] == ["created"] * 3
    five = report.outcomes[1]
    usable = 1 if name in OUT_OF_RANGE and not five.warnings else 0
    assert five.chunks == 5
    if not usable:
        assert [warning[:8] for warning in five.warnings] == ["chunk 2:"]
    assert check_stored(database_url, 16).embeddings == 6 + usable
    for leg in TEXT_LEGS:
        result = engine.search("plumbing", principals=TRUSTED, weights=only(leg))
        assert [hit.position for hit in result.hits] == [2]
    for query in ("plumbing in the third part", "otters", PARTS[3]):
        for weights in (None, only("ann")):
            result = engine.search(query, principals=TRUSTED, weights=weights)
            check_finite(result)
            assert result.report.degraded is False
            assert any(hit.position != 2 for hit in result.hits)
    nearest = engine.search(PARTS[3], principals=TRUSTED, weights=only("ann"))
    assert len(nearest.hits) == 6 + usable
    assert nearest.hits[0].position == 3


@pytest.mark.parametrize("name", LARGE)
def test_p08_large_and_small_vectors_are_brought_to_length_one(
    name: str, new_engine: NewEngine, database_url: str
) -> None:
    engine = new_engine(database_url, Faulty(LARGE[name]), **SIXTEEN)
    report = engine.ingest([doc("five", "\n\n".join(PARTS))])
    assert not report.warnings
    assert check_stored(database_url, 16).embeddings == 5
    result = engine.search("faulty", principals=TRUSTED, weights=only("ann"))
    check_finite(result)
    assert result.hits[0].position == 2
    assert result.hits[0].legs["ann"].score == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name", UNUSABLE)
def test_p08_every_vector_bad(name: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Faulty(UNUSABLE[name]))
    report = engine.ingest([doc("one", "faulty plumbing"), doc("two", "an otter swims")])
    assert report.outcomes[1].outcome == "created"
    assert check_stored(database_url).embeddings == 1
    if report.outcomes[0].outcome == "created":
        assert found(engine.search("plumbing", principals=TRUSTED, weights=only("fts"))) == ["one"]
    else:
        assert report.outcomes[0].error


@pytest.mark.parametrize("name", [*UNUSABLE, "1e300", "a huge integer"])
def test_p08_bad_query_vector(name: str, new_engine: NewEngine) -> None:
    engine = new_engine(embedder=Faulty({**UNUSABLE, **OUT_OF_RANGE}[name]))
    engine.ingest([doc("plumbing", "notes on plumbing"), doc("otter", "an otter swims")])
    result = engine.search("faulty plumbing", principals=TRUSTED)
    check_finite(result)
    assert found(result)[0] == "plumbing"
    if result.report.degraded:
        assert result.report.legs["ann"].error
        with pytest.raises(LegError, match="ann"):
            engine.search("faulty plumbing", principals=TRUSTED, weights=only("ann"))
    else:
        assert name in OUT_OF_RANGE


@pytest.mark.parametrize("error", [ValueError("secret-key"), TimeoutError(), KeyError("x")])
def test_p08_embedder_fails_for_one_batch(error: Exception, new_engine: NewEngine, database_url: str) -> None:
    def fail() -> Any:
        raise error

    engine = new_engine(database_url, Faulty(fail), ingest={"chunk_tokens": 16, "embed_batch": 1})
    report = engine.ingest([doc("one", "about otters"), doc("five", "\n\n".join(PARTS)), doc("two", "about herons")])
    assert [item.outcome for item in report.outcomes] == ["created", "failed", "created"]
    assert "secret-key" not in str(report.failed[0].error)
    assert check_stored(database_url, 16).documents == 2
    result = engine.search("faulty otters", principals=TRUSTED)
    assert result.report.degraded and result.report.legs["ann"].error
    assert found(result) == ["one"]
    assert "secret-key" not in str(result.report)


@pytest.mark.parametrize("rows", [0, 1, 4, 6, None])
def test_p08_wrong_number_of_vectors(rows: int | None, new_engine: NewEngine) -> None:
    class Miscounting(Named):
        def embed_documents(self, texts: Any) -> Any:
            return None if rows is None else np.ones((rows, self.dim), dtype=np.float32)

    engine = new_engine(embedder=Miscounting("miscounting", 4), **SIXTEEN)
    report = engine.ingest([doc("five", "\n\n".join(PARTS))])
    assert [item.outcome for item in report.outcomes] == ["failed"]
    assert "miscounting" in str(report.failed[0].error)
    assert engine.count(principals=TRUSTED).documents == 0


@pytest.mark.parametrize("text", ["", "\n \n", " ", "\t\r\n", "\u3000", "\u00a0\n\u2003"])
def test_p08_blank_body(text: str, engine: Engine, database_url: str, new_engine: NewEngine) -> None:
    engine = new_engine(database_url)
    documents = [
        doc("one", "about otters"),
        doc("blank", text),
        doc("titled", text, name="Plumbing handbook"),
        doc("two", "about herons"),
    ]
    report = engine.ingest(documents)
    assert [item.outcome for item in report.outcomes] == ["created", "failed", "created", "created"]
    assert "empty" in str(report.failed[0].error)
    assert check_stored(database_url).chunks == 3
    for leg in LEGS:
        result = engine.search("plumbing handbook", principals=TRUSTED, weights=only(leg))
        check_finite(result)
        assert found(result)[0] == "titled"


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_q10_vector_out_of_range_never_shows_the_driver(name: str, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Faulty(OUT_OF_RANGE[name]))
    report = engine.ingest([doc("one", "faulty plumbing"), doc("two", "an otter swims")])
    assert report.outcomes[1].outcome == "created"
    told = [str(report), ""]
    try:
        told[1] = str(engine.search("faulty", principals=TRUSTED, weights=only("ann")).report)
    except LegError as error:
        told[1] = str(error)
    for text in told:
        assert not any(word in text.lower() for word in ("select", "halfvec", "psycopg", "copy"))
    check_stored(database_url)
