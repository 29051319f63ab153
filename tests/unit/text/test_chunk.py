import sys

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InputError
from context_engine.text.chunk import approximate_tokens, chunk

PIECES = st.sampled_from(
    [
        "word",
        "Word. ",
        "end.\n",
        "\n",
        "\n\n",
        "## Heading\n",
        " ",
        "\t",
        "。",
        "東京",
        "é",
        "e\u0301",
        "👩‍👩‍👧",
    ]
    + ["ก\u0e31", "🇩🇪", "\r\n", " \u0301", "\ud83d", "\ude00", "...", "x" * 30]
)
ANY_TEXT = st.text() | st.lists(PIECES).map("".join)
PROSE = " ".join(f"This is sentence number {number}, and it says a little." for number in range(200))


class TestLimits:
    @pytest.mark.parametrize("text", ["", " ", "\n \t\n"])
    def test_whitespace_has_no_chunks(self, text):
        assert chunk(text, 10) == []

    def test_a_text_within_the_limit_is_one_chunk(self):
        text = " " + "x" * 39
        [only] = chunk(text, 10)
        assert only is text

    def test_a_limit_of_nothing_is_refused(self):
        with pytest.raises(InputError, match="at least 1, not 0"):
            chunk("text", 0)

    @given(ANY_TEXT, st.integers(1, 40))
    def test_chunks_are_the_text_and_within_the_limit(self, text, limit):
        chunks = chunk(text, limit)
        assert "".join(chunks) == ("" if text.isspace() else text)
        assert all(0 < approximate_tokens(piece) <= limit for piece in chunks)

    @given(ANY_TEXT, st.integers(1, 40))
    def test_any_counter_is_obeyed(self, text, limit):
        chunks = chunk(text, limit, count=len)
        assert "".join(chunks) == ("" if text.isspace() else text)
        assert all(0 < len(piece) <= limit for piece in chunks)

    def test_a_character_over_the_limit_stands_alone(self):
        assert chunk("abc", 1, count=lambda text: 5 * len(text)) == ["a", "b", "c"]

    @given(ANY_TEXT, st.integers(40, 60))
    def test_no_cut_within_what_is_read_as_one_character(self, text, limit):
        places = {match.end() for match in regex.finditer(r"\X", text)}
        if max(map(approximate_tokens, regex.findall(r"\X", text)), default=0) > 10:
            return
        at = 0
        for piece in chunk(text, limit):
            at += len(piece)
            assert at in places or (text[at - 1] >= "\ud800" and "\ud83d\ude00" not in text[at - 1 : at + 1])

    def test_approximate_tokens_are_bytes_over_four(self):
        assert [approximate_tokens(text) for text in ("", "a", "abcd", "abcde", "東京", "\ud800")] == [0, 1, 1, 2, 2, 1]


class TestPlaces:
    def test_before_headings_first(self):
        sections = [f"## Part {number}\n\n{PROSE[:600]}\n\n" for number in range(6)]
        chunks = chunk("".join(sections), 200)
        assert chunks == sections

    def test_then_between_paragraphs(self):
        paragraphs = [PROSE[:600] + "\n\n" for _ in range(6)]
        assert chunk("".join(paragraphs), 200) == paragraphs

    def test_then_at_ends_of_lines_that_end_a_sentence(self):
        line = "One thing. Another thing. A third, and the\nend of a line.\n"
        for piece in chunk(line * 40, 100)[:-1]:
            assert piece.endswith("end of a line.\n")

    def test_then_at_ends_of_sentences(self):
        for piece in chunk(PROSE, 100)[:-1]:
            assert piece.endswith("little. ")

    def test_also_where_no_space_follows_a_sentence(self):
        for piece in chunk("東京タワーへ行きました。" * 40, 100):
            assert piece.endswith("。")

    def test_an_abbreviation_is_no_end(self):
        text = "see e.g. the note and i.e. the rest of this long line " * 20
        assert not any(piece.endswith(("e.g. ", "i.e. ")) for piece in chunk(text, 50))

    def test_then_between_words(self):
        for piece in chunk("word " * 500, 30):
            assert piece.endswith("word ")

    def test_an_early_space_is_better_than_half_a_word(self):
        assert chunk("a " + "x" * 39 + " b", 10, approximate_tokens)[0] == "a "

    def test_sizes_are_even(self):
        sizes = [approximate_tokens(piece) for piece in chunk("word " * 420, 500)]
        assert len(sizes) == 2
        assert max(sizes) - min(sizes) < 20


class TestSize:
    @pytest.mark.parametrize(
        "unit",
        [
            "x",
            ".",
            "\n",
            " ",
            "\n \n",
            "é",
            "東",
            "a\u0301",
            "👩‍👩‍👧",
            " \u0301",
            '."',
            "! ",
            "# a\n",
            "\ud83d",
        ],
    )
    def test_calls_grow_with_the_text_and_no_faster(self, unit):
        def calls(size):
            text = unit * size + "x"
            seen = 0

            def count(frame, event, argument):
                nonlocal seen
                seen += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                chunk(text, 64)
            finally:
                sys.setprofile(None)
            return seen

        calls(100)
        assert calls(20_000) <= 2.3 * calls(10_000) + 200

    def test_no_slice_is_longer_than_a_few_chunks(self):
        longest = []

        def count(text):
            longest.append(len(text))
            return approximate_tokens(text)

        chunk("x" * 1_000_000, 64, count)
        assert sorted(longest)[-2] <= 64 * 4 * 4

    def test_p17_a_token_of_five_million_characters(self):
        text = "x" * 5_000_000
        assert "".join(chunk(text, 256)) == text
