"""Which words are looked for in other spellings, and which spellings count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.retrieval.fuzzy import (
    Spelling,
    choose_spellings,
    near_spellings,
    words_to_expand,
)
from context_engine.retrieval.spelling_keys import max_edits
from context_engine.testing.words import edits

LETTERS = "abcd"


class TestWordsToExpand:
    def test_words_that_enough_visible_chunks_hold_are_left_alone(self):
        assert words_to_expand(["kernel", "kernl"], {"kernel": 1}, 1, None) == ["kernl"]
        assert words_to_expand(["kernel", "kernl"], {"kernel": 4}, 5, None) == ["kernel", "kernl"]

    @pytest.mark.parametrize("word", ["abc", "x" * 101, "4410", "10.1.2.3", ".4410"])
    def test_short_words_numbers_and_very_long_words_are_left_alone(self, word):
        assert words_to_expand([word], {}, 1, None) == []

    @pytest.mark.parametrize("word", ["abcd", "x" * 100, "ax4410", "東京タワ"])
    def test_others_are_looked_for(self, word):
        assert words_to_expand([word], {}, 1, None) == [word]

    def test_a_limit_takes_the_rarest_in_the_order_they_stand(self):
        terms = ["often", "seldom", "never", "nowhere"]
        held = {"often": 3, "seldom": 1}
        assert words_to_expand(terms, held, 5, 3) == ["seldom", "never", "nowhere"]
        assert words_to_expand(terms, held, 5, 1) == ["never"]
        assert words_to_expand(terms, held, 5, 0) == []


class TestNearSpellings:
    @pytest.mark.parametrize(("length", "allowed"), [(4, 1), (7, 1), (8, 2), (100, 2)])
    def test_long_words_may_differ_more(self, length, allowed):
        assert max_edits(length) == allowed

    @pytest.mark.parametrize("spelling", ["kernl", "kernels", "kernal", "kenrel"])
    def test_one_edit_in_a_short_word(self, spelling):
        [found] = near_spellings(["kernel"], [(0, spelling)])
        assert found == Spelling("kernel", spelling, 1 - 1 / max(6, len(spelling)))

    def test_neither_the_word_itself_nor_one_too_far(self):
        assert near_spellings(["kernel"], [(0, "kernel"), (0, "colonel"), (0, "krenle")]) == []

    def test_a_candidate_is_for_one_word_or_for_all(self):
        found = near_spellings(["kernel", "kernels"], [(0, "kernal"), (1, "kernals"), (None, "kernelx")])
        pairs = [(item.term, item.word) for item in found]
        assert sorted(pairs) == [
            ("kernel", "kernal"),
            ("kernel", "kernelx"),
            ("kernels", "kernals"),
            ("kernels", "kernelx"),
        ]

    @given(st.text(LETTERS, min_size=4, max_size=18), st.lists(st.text(LETTERS, min_size=1, max_size=20)))
    def test_as_counted_letter_by_letter(self, word, candidates):
        found = {item.word for item in near_spellings([word], [(0, candidate) for candidate in candidates])}
        assert found == {item for item in candidates if 0 < edits(word, item) <= max_edits(len(word))}


class TestChooseSpellings:
    NEAR = [Spelling("kernl", "kernal", 0.8), Spelling("kernl", "kernel", 0.9), Spelling("kernl", "kern", 0.8)]

    def test_the_nearest_first_and_ties_by_the_alphabet(self):
        held = {"kernel": 1, "kernal": 2, "kern": 1}
        assert [item.word for item in choose_spellings(self.NEAR, held, 2)] == ["kernel", "kern"]

    def test_a_word_that_no_visible_chunk_holds_takes_no_place(self):
        held = {"kernal": 2, "kern": 1, "kernel": 0}
        assert [item.word for item in choose_spellings(self.NEAR, held, 2)] == ["kern", "kernal"]
        assert choose_spellings(self.NEAR, {}, 2) == []

    def test_the_limit_is_for_each_word(self):
        near = [*self.NEAR, Spelling("kolonel", "colonel", 0.8)]
        held = {"kernel": 1, "kernal": 1, "colonel": 1}
        assert [item.word for item in choose_spellings(near, held, 1)] == ["kernel", "colonel"]

    @given(st.permutations(NEAR))
    def test_the_order_of_what_was_found_changes_nothing(self, near):
        held = {"kernel": 1, "kernal": 1, "kern": 1}
        assert choose_spellings(near, held, 2) == choose_spellings(self.NEAR, held, 2)
