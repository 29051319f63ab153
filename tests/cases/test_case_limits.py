"""Cases about size: it works, or it is refused cleanly, and nothing else is harmed."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from case_embedders import Same
from case_support import LEGS, TEXT_LEGS, check_stored, doc, found, key, only

from context_engine import PUBLIC, TRUSTED, Document, Engine, InputError, Policy

NewEngine = Callable[..., Engine]
Library = Callable[..., Engine]

IDS = [f"q{number:08d}" for number in range(90_000)]


def test_p17_ninety_thousand_distinct_tokens(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Same())
    report = engine.ingest([doc("before", "an otter swims"), doc("big", " ".join(IDS)), doc("after", "a heron wades")])
    assert report.created == 3
    asked = {IDS[0]: "big", IDS[-1]: "big", IDS[45_000]: "big", "otter": "before", "heron": "after"}
    for query, wanted in asked.items():
        for leg in TEXT_LEGS:
            hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
            assert hits[:1] == [wanted]


LENGTHS = [128, 129, 500, 2_046, 2_047, 2_048, 7_990, 100_000]


@pytest.mark.parametrize("letter", ["x", "é", "東", "😀", "1", "a."])
def test_p17_huge_tokens_among_words(letter: str, new_engine: NewEngine, database_url: str) -> None:
    tokens = {length: (letter * length)[:length] for length in LENGTHS}
    engine = new_engine(database_url, Same())
    report = engine.ingest(
        doc(str(length), f"otter{length} before {token} heron{length} after") for length, token in tokens.items()
    )
    assert report.created == len(LENGTHS), report.failed
    check_stored(database_url, 256)
    for length, token in tokens.items():
        for leg in TEXT_LEGS:
            for query in (f"otter{length}", f"heron{length}"):
                hits = found(engine.search(query, principals=TRUSTED, weights=only(leg)))
                assert hits[0] == str(length)
        if length <= 500 and letter in "xé1":  # in one chunk, and not another's part
            assert found(engine.search(token, principals=TRUSTED, weights=only("fts")))[0] == str(length)


DENSE = {
    "han": ("".join(map(chr, range(0x4E00, 0x4E00 + 11_000))), 3),
    "spaced han": (" ".join(map(chr, range(0x4E00, 0x4E00 + 9_000))), 1),
    "hangul": ("".join(map(chr, range(0xAC00, 0xAC00 + 11_000))), 3),
    "path": ("/".join(f"{number:x}" for number in range(1_000, 8_500)), 3),
    "humps": (".".join(f"x{number:x}Q{number}" for number in range(100, 3_500)), 7),
    "words": (" ".join(f"{number:x}" for number in range(1_000, 9_000)), 3),
    "marks": ("x" + "\u0316\u0317\u0318\u0319" * 4_000, 1),
    "one word": (" ".join(["one"] * 9_000), 3),
}


@pytest.mark.parametrize("tokens", [16, 256, 4096])
@pytest.mark.parametrize("name", DENSE)
def test_p17_every_chunk_size_holds_every_text(
    name: str, tokens: int, new_engine: NewEngine, database_url: str
) -> None:
    text, size = DENSE[name]
    text = text[: tokens * 100]
    engine = new_engine(database_url, Same(), ingest={"chunk_tokens": tokens})
    report = engine.ingest([doc("dense", text), doc("other", "a badger digs")])
    assert report.created == 2, [item.error for item in report.failed]
    check_stored(database_url, tokens)
    assert found(engine.search(text[:size], principals=TRUSTED, weights=only("fts")))[0] == "dense"
    assert found(engine.search("badger", principals=TRUSTED, weights=only("fts"))) == ["other"]


def test_p17_a_text_beyond_a_limit_harms_no_other(new_engine: NewEngine, database_url: str) -> None:
    """However the database says no to one document, the others of its batch are stored."""
    engine = new_engine(database_url, Same(), ingest={"chunk_tokens": 4096})
    han = DENSE["han"][0]
    documents = [doc(str(number), f"note {number}") for number in range(5)]
    report = engine.ingest([*documents[:2], doc("dense", han), *documents[2:]])
    assert report.created >= 5
    assert "reached" not in str([item.error for item in report.failed])
    check_stored(database_url, 4096)


def test_p49_ten_thousand_chunks(new_engine: NewEngine, database_url: str) -> None:
    embedder = Same()
    engine = new_engine(database_url, embedder, ingest={"chunk_tokens": 16})
    parts = [f"Part number{number:05d} of a long handbook on otters ends.\n\n" for number in range(10_000)]
    first = engine.ingest([doc("long", "".join(parts)), doc("short", "a heron wades")])
    assert first.created == 2
    assert first.outcomes[0].chunks == 10_000
    assert check_stored(database_url).chunks == 10_001
    assert engine.count(principals=[]).chunks == 10_001
    for number in (0, 5_000, 9_999):
        hit = engine.search(f"number{number:05d}", principals=[], weights=only("fts")).hits[0]
        assert hit.position == number
    assert len(engine.get_document(key("long"), principals=[]).chunks) == 10_000

    embedder.embedded = 0
    parts[5_000] = "Part number05000 of a long handbook on beavers end.\n\n"
    changed = engine.ingest([Document(text="".join(parts), external_id="long")])
    assert (changed.updated, embedder.embedded) == (1, 1)
    engine.set_acl(key("long"), ["ada"])
    assert check_stored(database_url).chunks == 10_001
    assert engine.count(principals=[]).chunks == 1
    assert engine.count(principals=["ada"]).chunks == 10_001
    assert found(engine.search("beavers", principals=["ada"], weights=only("fts"))) == ["long"]

    engine.ingest([Document(text="a heron wades", external_id="long")])
    assert engine.count(principals=["ada"]).chunks == 2
    assert engine.delete(key("long")) == 1
    assert check_stored(database_url).chunks == 1


def noise(length: int, seed: int = 1) -> str:
    """Random letters: nothing shortens them on the way into an index."""
    letters = string.ascii_letters + string.digits + "-_/.%é東"
    return "".join(random.Random(seed).choices(letters, k=length))  # noqa: S311


@pytest.mark.parametrize("length", [1_000, 2_704, 3_000, 4_000])
def test_p49_a_long_external_id(length: int, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    names = [noise(length, seed) for seed in range(3)] + [noise(length - 1) + end for end in "ab"]
    for _ in range(2):
        report = engine.ingest([doc(name, f"otter {at}") for at, name in enumerate(names)])
        assert not report.failed
    assert report.unchanged == 5
    assert check_stored(database_url).documents == 5
    hit = engine.search("otter 2", principals=[]).hits[0]
    assert hit.document.external_id == names[2]
    assert engine.delete([key(name) for name in names]) == 5


@pytest.mark.parametrize("length", [4_001, 100_000, 2_000_000])
def test_p49_too_long_an_external_id(length: int, engine: Engine) -> None:
    report = engine.ingest([doc("one", "an otter"), doc(noise(length), "a heron")])
    assert [item.outcome for item in report.outcomes] == ["created", "failed"]
    assert "4000" in str(report.failed[0].error)
    assert len(str(report.failed[0].external_id)) < 5_000


@pytest.mark.parametrize("length", [1_001, 3_000, 100_000])
def test_p49_long_names_are_refused(length: int, engine: Engine) -> None:
    long = noise(length)
    report = engine.ingest(
        [
            doc("one", "an otter", acl=["ada"]),
            doc("source", "an otter", source=long),
            doc("allowed", "an otter", acl=["ada", long]),
            doc("policy", "an otter", acl=Policy(long)),
        ]
    )
    assert [item.outcome for item in report.outcomes] == ["created", "failed", "failed", "failed"]
    for failure in report.failed:
        assert "1000" in str(failure.error) and len(str(failure.error)) < 500
    calls: list[Callable[[], Any]] = [
        lambda: engine.search("otter", principals=[long]),
        lambda: engine.search("otter", principals=TRUSTED, sources=[long]),
        lambda: engine.count(principals=["ada", long]),
        lambda: engine.set_acl(key("one"), [long]),
        lambda: engine.set_policy(long, PUBLIC),
        lambda: engine.set_policy("p", [long]),
    ]
    for call in calls:
        with pytest.raises(InputError, match="1000"):
            call()
    assert found(engine.search("otter", principals=["ada"])) == ["one"]


@pytest.mark.parametrize("length", [1_000, 990])
def test_p49_names_just_short_enough(length: int, engine: Engine) -> None:
    name = "n" * length
    engine.set_policy(name, [name])
    engine.ingest(
        [
            doc("one", "an otter", source=name, acl=[name]),
            doc("two", "an otter", source=name, acl=Policy(name)),
        ]
    )
    assert len(engine.search("otter", principals=[name], sources=[name]).hits) == 2
    assert not engine.search("otter", principals=[name[1:]]).hits


@pytest.mark.parametrize("length", [1_000, 1_001, 3_000, 100_000])
def test_p49_a_long_metadata_key(length: int, new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    name = noise(length)
    documents = [doc("long", "an otter", metadata={name: name}), doc("short", "an otter")]
    report = engine.ingest(documents)
    assert report.outcomes[1].outcome == "created"
    if report.outcomes[0].outcome == "failed":
        assert "metadata" in str(report.failed[0].error)
        return
    stored = engine.get_document(key("long"), principals=[])
    assert stored.metadata == {name: name}
    try:
        narrowed = engine.search("otter", principals=[], metadata={name: name})
    except InputError as refusal:
        assert len(name.encode()) > 1_000 and len(str(refusal)) < 500
    else:
        assert found(narrowed) == ["long"]
    assert check_stored(database_url).documents == 2


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [
        ({"a": "x" * 900_000}, True),
        ({"a": "x" * 1_100_000}, False),
        ({str(number): number for number in range(50_000)}, True),
        ({"a": list(range(100_000))}, True),
        ({"a": list(range(1_000_000))}, False),
        ({"a": 10**1_000}, True),
        ({"a": 10**2_000}, None),
        ({"a": 1e22}, True),
    ],
    ids=["0.9 MB", "1.1 MB", "keys", "list", "long list", "1,000 digits", "2,000 digits", "float"],
)
def test_p49_much_metadata(metadata: Any, fits: bool | None, engine: Engine) -> None:
    report = engine.ingest([doc("much", "an otter", metadata=metadata), doc("none", "an otter")])
    assert report.outcomes[1].outcome == "created"
    stored = report.outcomes[0].outcome == "created"
    assert fits is None or stored is fits
    if stored:
        assert engine.get_document(key("much"), principals=[]).metadata == metadata
    else:
        assert "metadata" in str(report.failed[0].error) or "$" in str(report.failed[0].error)


def test_p49_many_principals_and_ids(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url)
    crowd = [f"user:{number}" for number in range(20_000)]
    documents = [doc(str(number), "an otter", acl=[f"user:{number}"]) for number in range(600)]
    engine.ingest([*documents, doc("all", "an otter", acl=crowd)])
    assert engine.count(principals=crowd).documents == 601
    assert len(engine.search("otter", principals=crowd, top_k=1000).hits) == 601
    assert found(engine.search("otter", principals=crowd[-1:])) == ["all"]
    with pytest.raises(InputError, match="20000"):
        engine.count(principals=[*crowd, "one more"])
    many = [key(str(number)) for number in range(100_000)]
    engine.set_acl([key(str(number)) for number in range(600)], ["bo"])
    assert engine.count(principals=["bo"]).documents == 600
    assert engine.delete(many) == 600
    with pytest.raises(InputError, match="100000"):
        engine.delete([*many, 1])
    assert check_stored(database_url).documents == 1


LONG_QUERIES = {
    "distinct words": " ".join(f"w{number}" for number in range(1_500)),
    "one word": "otter " * 1_300,
    "phrase": '"' + "x " * 3_990 + '"',
    "phrase of numbers": '"' + " ".join(map(str, range(1_600))) + '"',
    "two-word phrases": '"x y" ' * 1_300,
    "exclusions": "otter " + " ".join(f"-q{number}" for number in range(1_150)),
    "alternatives": " or ".join(f"q{number}" for number in range(900)),
    "hyphens": "a-b-" * 1_990,
    "dots": "1." * 3_990,
    "slashes": "q/" * 3_990,
    "camel": "aB" * 3_990,
    "one token": "z" * 7_990,
    "quotes": '"' * 7_990,
    "unclosed": '"z ' * 2_600,
    "han": "".join(map(chr, range(0x4E00, 0x4E00 + 7_990))),
    "spaces": "otter" + " " * 7_980,
    "marks": "e" + "\u0316" * 7_980,
    "misspelled": " ".join(f"ottter{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}" for n in range(850)),
}


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("name", LONG_QUERIES)
def test_q09_a_long_query_below_the_limit(name: str, match: str, library: Library) -> None:
    """Bounded time: no statement comes near a limit of its own."""
    documents = [doc(str(number), f"an otter swims {number} w{number}") for number in range(300)]
    engine = library(
        f"long queries {match}",
        documents,
        search={"lexical_match": match},
        storage={"statement_timeout_s": 5.0},
    )
    query = LONG_QUERIES[name]
    assert len(query) <= 8_000
    for weights in (None, *map(only, LEGS)):
        result = engine.search(query, principals=TRUSTED, weights=weights)
        assert not result.report.degraded, result.report.legs


@pytest.mark.parametrize("length", [8_001, 100_000, 1_000_000])
@pytest.mark.parametrize("piece", ["otter ", "x", '"', "-a ", "東"])
def test_q09_a_query_over_the_limit(length: int, piece: str, library: Library) -> None:
    documents = [doc(str(number), f"an otter swims {number}") for number in range(3)]
    engine = library("short queries", documents)
    query = (piece * length)[:length]
    for principals in (TRUSTED, []):
        with pytest.raises(InputError, match="8000") as refusal:
            engine.search(query, principals=principals)
        assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("name", LONG_QUERIES)
def test_q09_the_limit_can_be_raised(name: str, library: Library) -> None:
    documents = [doc(str(number), f"an otter swims {number} w{number}") for number in range(300)]
    engine = library(
        "very long queries",
        documents,
        search={"max_query_chars": 100_000},
        storage={"statement_timeout_s": 10.0},
    )
    query = (LONG_QUERIES[name] + " ") * 12
    result = engine.search(query[:99_999], principals=TRUSTED)
    assert not result.report.degraded, result.report.legs


def test_words_over_the_limit_are_reported(new_engine: NewEngine) -> None:
    engine = new_engine(search={"max_query_terms": 2})
    assert engine.search("otter heron", principals=[]).report.notes == ()
    [note] = engine.search("otter heron badger", principals=[]).report.notes
    assert "3 different words; the first 2" in note
