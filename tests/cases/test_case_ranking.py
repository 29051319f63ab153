"""Cases about order: the best is found wherever it is, fusion adds up, and a misspelled name is a name."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from case_embedders import Same
from case_support import LEGS, TEXT_LEGS, check_stored, doc, found, only, ranking

from context_engine import TRUSTED, Document, Engine
from context_engine.names import LegName
from context_engine.retrieval.fusion import Candidate, fuse
from context_engine.settings import FusionSettings

NewEngine = Callable[..., Engine]
Library = Callable[..., Engine]

MANY = 5_000


def test_p19_a_word_in_every_chunk(new_engine: NewEngine, database_url: str) -> None:
    engine = new_engine(database_url, Same(), search={"candidates": 50})
    filler = [doc(str(number), f"the common word stands with filler {number}") for number in range(MANY)]
    strong = doc("strong", "common common common")
    assert engine.ingest([*filler, strong]).created == MANY + 1
    for leg in TEXT_LEGS:
        result = engine.search("common", principals=[], weights=only(leg))
        assert found(result)[0] == "strong"
        assert result.report.legs[leg].candidates == 50
        assert len(result.hits) == 10
    words = {"ann": 0.0}
    assert found(engine.search("common", principals=[], weights=words))[0] == "strong"
    everything = engine.search("common", principals=[], top_k=10_000, weights=words)
    assert len(everything.hits) == MANY + 1
    assert found(everything)[0] == "strong"
    # The same with a rarer word beside the common one, and where the strong one is not new.
    assert found(engine.search("common 4321", principals=[], weights=only("fts")))[0] == "4321"
    engine.ingest([doc("0", "common common common common")])
    assert found(engine.search("common", principals=[], weights=only("fts")))[:2] == ["0", "strong"]
    assert check_stored(database_url).documents == MANY + 1


def candidates(*ids: int, best: float = 1.0) -> list[Candidate]:
    return [Candidate(chunk, chunk * 10, best / rank) for rank, chunk in enumerate(ids, 1)]


def test_p20_rrf_by_hand() -> None:
    lists: dict[LegName, Sequence[Candidate]] = {
        "fts": candidates(1, 2, 3),
        "trgm": candidates(3, 4),
        "ann": candidates(2, 5, 1),
    }
    weights: dict[LegName, float] = {"fts": 1.0, "trgm": 0.4, "ann": 1.0}
    fused = fuse(lists, weights, "rrf", 20)
    by_hand = {
        1: 1 / 21 + 1 / 23,
        2: 1 / 22 + 1 / 21,
        3: 1 / 23 + 0.4 / 21,
        4: 0.4 / 22,
        5: 1 / 22,
    }
    assert [item.chunk_id for item in fused] == [2, 1, 3, 5, 4]
    for item in fused:
        assert item.score == pytest.approx(by_hand[item.chunk_id], rel=1e-12)
        assert item.document_id == item.chunk_id * 10
        assert set(item.legs) == {leg for leg in lists if item.chunk_id in _ids(lists[leg])}


def _ids(ranked: Sequence[Candidate]) -> list[int]:
    return [candidate.chunk_id for candidate in ranked]


def test_p20_minmax_by_hand() -> None:
    lists: dict[LegName, Sequence[Candidate]] = {
        "fts": [Candidate(1, 1, 9.0), Candidate(2, 1, 6.0), Candidate(3, 1, 5.0)],
        "ann": [Candidate(2, 1, -0.5), Candidate(4, 1, -1.0)],
    }
    fused = fuse(lists, {"fts": 1.0, "ann": 2.0}, "minmax")
    assert [(item.chunk_id, item.score) for item in fused] == [(2, 2.25), (1, 1.0), (3, 0), (4, 0)]


@pytest.mark.parametrize("method", ["rrf", "minmax"])
def test_p20_an_absent_leg_gives_nothing(method: str) -> None:
    alone = {"fts": candidates(1, 2, 3)}
    weights: dict[LegName, float] = {"fts": 1.0, "trgm": 1.0, "ann": 1.0}
    expected = [(item.chunk_id, item.score) for item in fuse(alone, weights, method)]  # type: ignore[arg-type]
    for more, given in (
        ({"ann": []}, weights),
        ({"ann": candidates(3, 4)}, {**weights, "ann": 0.0}),
        ({"ann": candidates(3, 4)}, {"fts": 1.0}),
    ):
        fused = fuse({**alone, **more}, given, method)  # type: ignore[arg-type]
        assert [(item.chunk_id, item.score) for item in fused] == expected


@pytest.mark.parametrize("method", ["rrf", "minmax"])
def test_p20_scores_are_never_cut_to_whole_numbers(method: str) -> None:
    lists: dict[LegName, Sequence[Candidate]] = {"fts": [Candidate(number, 1, 30 - number) for number in range(30)]}
    scores = [item.score for item in fuse(lists, {"fts": 1}, method, 60)]  # type: ignore[arg-type]
    assert len(set(scores)) == 30
    assert scores == sorted(scores, reverse=True)


TIED = [doc(str(number), "an otter swims") for number in range(40)]


@pytest.mark.parametrize("method", ["rrf", "minmax"])
def test_p20_ties_repeat(method: str, library: Library) -> None:
    engine = library(f"tied {method}", TIED, fusion={"method": method})
    shuffled = library(f"tied, other way {method}", TIED[::-1], fusion={"method": method})
    for weights in (None, *map(only, LEGS)):
        first = ranking(engine.search("otter", principals=[], top_k=40, weights=weights))
        assert len(first) == 40
        for _ in range(20):
            again = engine.search("otter", principals=[], top_k=40, weights=weights)
            assert ranking(again) == first
        other = shuffled.search("otter", principals=[], top_k=40, weights=weights)
        assert ranking(other) == first
    tied = ranking(engine.search("otter", principals=[], top_k=40, weights=only("fts")))
    assert [chunk for chunk, _ in tied] == sorted(chunk for chunk, _ in tied)


def test_p20_pages_do_not_overlap(library: Library) -> None:
    engine = library("tied rrf", TIED, fusion={"method": "rrf"})
    whole = ranking(engine.search("otter swims", principals=[], top_k=40))
    for size in (1, 7, 10, 25):
        assert ranking(engine.search("otter swims", principals=[], top_k=size)) == whole[:size]
    assert len(dict(whole)) == 40


def test_p20_the_engine_fuses_as_by_hand(library: Library) -> None:
    documents = [
        doc("both", "an otter swims in the river"),
        doc("words", "the otter, the report, the otter"),
        doc("none", "a heron wades"),
    ]
    ranks = library("ranks", documents, fusion={"method": "rrf", "adaptive": False})
    result = ranks.search("otter swims", principals=[])
    defaults = FusionSettings()
    assert result.report.weights == {leg: defaults.weights[leg] for leg in ("fts", "trgm", "ann")}
    for hit in result.hits:
        by_hand = sum(defaults.weights[leg] / (defaults.k + place.rank) for leg, place in hit.legs.items())
        assert hit.score == pytest.approx(by_hand, rel=1e-12)
    assert found(result)[0] == "both"
    assert set(result.hits[-1].legs) == {"ann"}


def test_p20_the_engine_fuses_by_scores_as_by_hand(library: Library) -> None:
    documents = [
        doc("both", "an otter swims in the river"),
        doc("words", "the otter, the report, the otter"),
        doc("none", "a heron wades"),
    ]
    result = library("scores", documents).search("otter swims", principals=[])
    weights = result.report.weights
    # The rarest word is in one of three chunks: as rare as can be, so the text legs count in full.
    assert weights == {leg: FusionSettings().weights[leg] for leg in ("fts", "trgm", "ann")}
    scores = {leg: [hit.legs[leg].score for hit in result.hits if leg in hit.legs] for leg in weights}
    least = {"fts": 0.0, "trgm": 0.0, "ann": min(scores["ann"])}
    for hit in result.hits:
        by_hand = sum(
            weights[leg] * (place.score - least[leg]) / (max(scores[leg]) - least[leg])
            for leg, place in hit.legs.items()
        )
        assert hit.score == pytest.approx(by_hand, rel=1e-9)
    assert found(result)[0] == "both"


NAMES = [
    "Sigríður Jónsdóttir",
    "Wojciech Kowalczyk",
    "Mohammed Al-Rashid",
    "Siobhán Gallagher",
    "Krzysztof Nowakowski",
    "Dmitri Shostakovich",
    "Nguyễn Phương",
    "Guillermo Etxeberria",
    "Aleksandra Petrenko",
    "Bartholomew Featherstone",
    "Hjalmar Søderberg",
    "Catherine Williams",
    "Joaquín Villanueva",
    "Oluwaseun Adebayo",
    "Priyanka Chaudhary",
    "Thandiwe Mkhize",
    "Yevgenia Rosenberg",
    "Maximilian Oberhauser",
    "Leilani Kahananui",
    "Ebenezer Scroggins",
]


PEOPLE = [
    doc(person, f"In the spring {person} wrote about the harbour, the weather and the price of fish.")
    for person in NAMES
]


def misspellings(word: str, rng: random.Random) -> list[str]:
    """One slip of each kind, after the first letter: a letter lost, doubled, exchanged, swapped with the next."""
    place = rng.randrange(1, len(word) - 2)
    other = "x" if word[place] != "x" else "y"
    return [
        word[:place] + word[place + 1 :],
        word[:place] + word[place] + word[place:],
        word[:place] + other + word[place + 1 :],
        word[:place] + word[place + 1] + word[place] + word[place + 2 :],
    ]


def others(count: int) -> list[Document]:
    text = "Somebody else wrote report number {} on ships and on barley."
    return [doc(str(number), text.format(number)) for number in range(count)]


@pytest.mark.parametrize("fillers", [0, 400])
@pytest.mark.parametrize("name", NAMES)
def test_q13_a_misspelled_name_is_found(name: str, fillers: int, library: Library) -> None:
    engine = library(f"people {fillers}", [*PEOPLE, *others(fillers)])
    rng = random.Random(name)  # noqa: S311
    first, last = name.split()
    for slips in zip(misspellings(first, rng), misspellings(last, rng), strict=True):
        asked = " ".join(slips)
        for weights in (only("trgm"), {"ann": 0.0}):
            hits = found(engine.search(asked, principals=TRUSTED, weights=weights))
            assert hits[:1] == [name], asked
        assert name in found(engine.search(asked, principals=TRUSTED, top_k=50)), asked


@pytest.mark.parametrize("fillers", [0, 400])
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Catherine Williams", "Wiliams"),
        ("Guillermo Etxeberria", "Etxebarria"),
    ],
)
def test_q13_a_slip_that_changes_the_stem(name: str, asked: str, fillers: int, library: Library) -> None:
    engine = library(f"people {fillers}", [*PEOPLE, *others(fillers)])
    assert found(engine.search(asked, principals=TRUSTED, weights=only("trgm")))[:1] == [name]


@pytest.mark.parametrize("fillers", [0, 400])
@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("AX-4410-B", "AX-4401-B"),
        ("Kubernetes", "kubernets"),
        ("PostgreSQL", "postgressql"),
        ("receive", "recieve"),
        ("accommodation", "accomodation"),
        ("Tschaikowski", "Tchaikovski"),
        ("libfreetype6", "libfreetpye6"),
        ("mediawiki", "mediawikki"),
    ],
)
def test_q13_codes_and_words_too(written: str, asked: str, fillers: int, library: Library) -> None:
    words = ["AX-4410-B", "Kubernetes", "PostgreSQL", "receive", "accommodation", "Tschaikowski"]
    texts = [*words, "libfreetype6", "mediawiki"]
    noted = [doc(text, f"Here is a long remark that speaks of {text} and more") for text in texts]
    engine = library(f"codes {fillers}", [*noted, *others(fillers)])
    assert found(engine.search(asked, principals=TRUSTED, weights=only("trgm")))[0] == written


def test_q13_a_hidden_spelling_does_not_help(library: Library) -> None:
    documents = [doc("hidden", "about Featherstone", acl=["ada"]), doc("seen", "about Fetherstone")]
    engine = library("hidden spellings", documents, Same())
    asked = "Feathrstone"
    assert found(engine.search(asked, principals=["ada"], weights=only("trgm"))) == ["hidden", "seen"]
    assert found(engine.search(asked, principals=[], weights=only("trgm"))) == ["seen"]
