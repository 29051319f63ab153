"""Whatever is as near as a spelling may be has a key in common with the word that is asked; few others have."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.retrieval.spelling_keys import asked_keys, max_edits, stored_keys
from context_engine.testing.words import edits

LETTERS = "abcd"
WORDS = st.text(LETTERS, min_size=4, max_size=18)


@st.composite
def slips(draw: st.DrawFn, word: str) -> str:
    """Draw a letter more, less, other, or two swapped."""
    at = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(LETTERS))
    return draw(
        st.sampled_from(
            [
                word[:at] + letter + word[at:],
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            ]
        )
    )


@settings(max_examples=2_000)
@given(data=st.data())
def test_a_word_as_near_as_may_be_has_a_key_in_common(data: st.DataObject) -> None:
    word = other = data.draw(WORDS)
    for _ in range(max_edits(len(word))):
        other = data.draw(slips(other)) if other else other
    if len(other) >= 3 and edits(word, other) <= max_edits(len(word)):
        assert set(asked_keys(word)) & set(stored_keys(other)), (word, other)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("abcdefgh", "acbdegfh"),  # both cuts at either side of a piece spoiled by swaps
        ("abcdefgh", "acbdefxh"),
        ("abcdefgh", "acbedfgh"),
        ("abcdefgh", "abcdfegx"),
        ("abcdefgh", "xacbdefgh"),
        ("abcdefgh", "abcdfeg"),
        ("abcdefgh", "bcdefg"),
        ("abcdefgh", "xxabcdefgh"),
        ("abcdefg", "abcdegf"),
        ("x" * 100, "x" * 102),
    ],
)
def test_near_words(word: str, other: str) -> None:
    assert edits(word, other) <= max_edits(len(word))
    assert set(asked_keys(word)) & set(stored_keys(other))


def test_few_others_have_one() -> None:
    draw = random.Random(7)
    words = ["lib" + "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(5_000)]
    asked = set(asked_keys(words[0]))
    found = [word for word in words if asked & set(stored_keys(word))]
    assert words[0] in found
    assert len(found) < 1_000  # those that begin with the same four letters


@given(st.text(max_size=110))
def test_they_fit_an_integer_column_and_are_few(word: str) -> None:
    for keys, most in ((stored_keys(word), 15), (asked_keys(word), 200)):
        assert keys == sorted(set(keys))
        assert all(-(1 << 31) <= key < 1 << 31 for key in keys)
        assert len(keys) <= most
