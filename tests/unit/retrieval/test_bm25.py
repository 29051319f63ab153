import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.retrieval.bm25 import (
    DIMENSIONS,
    Saturation,
    dimension,
    idf,
    question_vector,
    rarity,
    term_frequencies,
)

SATURATION = Saturation(1.2, 0.75, 100)


def test_a_word_in_the_name_counts_for_several():
    def weigh(name_weight, name):
        [weight] = term_frequencies({"kernel": [1, 5]}, 100, Saturation(1.2, 0.75, 100, name_weight), name).values()
        return weight

    # Twice in all, once of it in the name: 1 + 3 = 4 occurrences; 4 · 2.2 / (4 + 1.2).
    assert weigh(3, {"kernel": [1]}) == pytest.approx(4 * 2.2 / 5.2)
    assert weigh(3, {"other": [1]}) == weigh(1, {"kernel": [1]}) == pytest.approx(2 * 2.2 / 3.2)
    assert weigh(100, {"kernel": [1]}) < 2.2


def test_rarity_goes_by_the_rarest_word_that_is_held():
    assert rarity(10, [4, 1, 7]) == 1
    assert rarity(10, [0, 10]) == pytest.approx(idf(10, 10) / idf(10, 1))
    assert rarity(10, [0, 0]) == rarity(10, []) == rarity(0, []) == 1
    assert 0 < rarity(10, [9]) < rarity(10, [2]) < 1


def test_a_score_by_hand():
    # A word that stands 3 times in a chunk of 50 words, and in 2 of 10 chunks; k1 1.2, b 0.75, pivot 100.
    # idf = ln(1 + 8.5 / 2.5) = 1.4816; norm = 1.2 · (0.25 + 0.375) = 0.75; tf = 3 · 2.2 / 3.75 = 1.76
    [weight] = term_frequencies({"kernel": [4, 9, 30]}, 50, SATURATION).values()
    assert weight == pytest.approx(1.76)
    assert idf(10, 2) == pytest.approx(1.48160454)
    assert weight * idf(10, 2) == pytest.approx(2.60762399)


def test_a_long_chunk_is_held_back_and_b_says_how_much():
    def weigh(length, b):
        [weight] = term_frequencies({"kernel": [1]}, length, Saturation(1.2, b, 100)).values()
        return weight

    assert weigh(50, 0.75) > weigh(100, 0.75) == 1 > weigh(200, 0.75)
    assert weigh(50, 0) == weigh(200, 0) == 1


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_idf_is_never_negative_and_falls_with_frequency(frequency, more):
    chunks = frequency + more
    assert idf(chunks, frequency) > 0
    assert more == 0 or idf(chunks, frequency) > idf(chunks, frequency + 1)
    assert idf(chunks, chunks) == pytest.approx(math.log(1 + 0.5 / (chunks + 0.5)))


def test_dimensions_are_stored_and_must_never_change():
    assert [dimension(word) for word in ("kernel", "東京", "ax4410b")] == [293112104, 215949809, 625541142]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_dimensions_fit_a_sparsevec(word):
    assert 1 <= dimension(word) <= DIMENSIONS


def test_of_words_with_one_dimension_the_greater_counts(monkeypatch):
    [expected] = term_frequencies({"b": [2, 3]}, 100, SATURATION).values()
    monkeypatch.setattr("context_engine.retrieval.bm25.dimension", lambda _: 7)
    [weight] = term_frequencies({"a": [1], "b": [2, 3], "c": [4]}, 100, SATURATION).values()
    assert weight == expected < 2.2


@given(st.dictionaries(st.text("abcdef", min_size=1), st.just([1]), min_size=2))
def test_dimensions_ascend(positions):
    dimensions = list(term_frequencies(positions, 10, SATURATION))
    assert dimensions == sorted(dimensions)


def test_a_question_vector_is_a_sparsevec_literal():
    assert question_vector({9: 0.5, 3: 1 / 3}) == "{3:0.333333333,9:0.5}/1000000000"
