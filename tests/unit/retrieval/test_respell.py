"""What a question may stand for, and what kind of question it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.retrieval.bm25 import idf
from context_engine.retrieval.fuzzy import Spelling
from context_engine.retrieval.query import read_question
from context_engine.retrieval.respell import Guesses, guess, join, mend, part, respelled_weights, term_weights
from context_engine.retrieval.shape import adapt, is_lookup
from context_engine.testing.guesses import _slips
from context_engine.text.analyse import Analyser

ANALYSER = Analyser()
LEXEME, LEXEMES = ANALYSER.lexeme, ANALYSER.lexemes
NONE = Guesses()


def joined(text):
    return join(tuple(ANALYSER.words(text)), LEXEME)


class TestMend:
    @pytest.mark.parametrize(
        ("slip", "stem"),
        [("compilatino", "compil"), ("approximatd", "approxim"), ("mohammad", "moham"), ("runnign", "run")],
    )
    def test_a_slip_in_the_ending_is_mended_before_stemming(self, slip, stem):
        assert mend(slip, LEXEMES)[stem] == pytest.approx(1 - 1 / max(len(slip), 8), abs=0.02)

    def test_russian_too_and_nothing_without_stems(self):
        assert "компиляц" in mend("компиляцяи", Analyser("russian").lexemes)
        assert mend("compilatino", Analyser("simple").lexemes) == {}

    @pytest.mark.parametrize("surface", ["abcd", "ax4410", "don.t"])
    def test_short_words_and_codes_are_left_alone(self, surface):
        assert mend(surface, LEXEMES) == {}

    @given(st.text("abcdeinrst", min_size=5, max_size=14))
    def test_as_worked_out_a_second_way(self, surface):
        expected: dict[str, float] = {}
        for word in _slips(surface):
            if LEXEME(word) != word:
                near = 1 - 1 / max(len(word), len(surface))
                expected[LEXEME(word)] = max(near, expected.get(LEXEME(word), 0))
        found = mend(surface, LEXEMES)
        # A word may also be mended into itself; that it is not held is known by then.
        assert {stem: near for stem, near in found.items() if stem != LEXEME(surface)} == {
            stem: near for stem, near in expected.items() if stem != LEXEME(surface)
        }


class TestPart:
    def test_where_digits_and_letters_meet_or_three_letters_are_left(self):
        assert [way.words for way in part("iec138", LEXEME)] == [("iec", "138")]
        assert [way.words for way in part("webpage", LEXEME)] == [("web", "page"), ("webp", "age")]
        assert list(part("abc", LEXEME)) == list(part("x" * 65, LEXEME)) == []


class TestJoin:
    def test_the_whole_of_a_short_question(self):
        assert joined("liblo dev") == (["liblodev"], "liblodev")
        assert joined("a b c") == ([], None), "a is a stop word"
        assert joined("one") == ([], None)
        assert joined(" ".join("abcdefghi".upper())) == ([], None)

    def test_runs_with_a_digit(self):
        found, whole = joined("error code AX 4410 B in the pump controller manual")
        assert whole is None
        assert {"ax4410", "ax4410b", "codeax4410b", "4410b", "codeax4410"} <= set(found)
        assert not any("pump" in word for word in found)


class TestWeights:
    def weights(self, text, frequencies, spellings=(), guesses=NONE, completed=()):
        question = read_question(text, ANALYSER)
        return respelled_weights(question, frequencies, 100, "sqrt", spellings, guesses, completed)

    def test_the_commonest_spelling_sets_the_idf(self):
        near = [Spelling("dcoument", "document", 7 / 8), Spelling("dcoument", "dcument", 7 / 8)]
        found = self.weights("dcoument", {"document": 20, "dcument": 1}, near)
        assert found == {"document": 7 / 8 * idf(100, 20), "dcument": 7 / 8 * idf(100, 20)}

    def test_a_word_said_often_counts_more(self):
        question = read_question("kernel kernel kernel kernel report", ANALYSER)
        held = {"kernel": 3, "report": 3}
        for repeated, times in (("once", 1), ("sqrt", 2), ("count", 4)):
            found = term_weights(question, held, 100, repeated)
            assert found == {"kernel": times * idf(100, 3), "report": idf(100, 3)}

    def test_beginnings_of_a_known_word_stay_below_it(self):
        held = {"rest": 30, "restartd": 1}
        found = self.weights("rest", held, guesses=Guesses(start="rest"), completed=["rest", "restartd"])
        assert found == {"rest": idf(100, 30), "restartd": pytest.approx(0.8 * idf(100, 30) / 2)}
        [weight] = self.weights("rest", {"restartd": 1}, guesses=Guesses(start="rest"), completed=["restartd"]).values()
        assert weight == pytest.approx(0.8 * idf(100, 1) / 2)

    def test_a_word_is_parted_where_both_parts_are_held(self):
        question = read_question("iec13818 webpage", ANALYSER)
        guesses = guess(question, ["iec13818", "webpag"], {}, ANALYSER)
        held = {"iec": 2, "13818": 1, "web": 5, "page": 6, "webp": 1}
        assert respelled_weights(question, held, 100, "sqrt", [], guesses, []) == {
            word: idf(100, held[word]) for word in ("iec", "13818", "web", "page")
        }
        near = [Spelling("webpag", "webcag", 0.8)]
        found = respelled_weights(question, {**held, "webcag": 1}, 100, "sqrt", near, guesses, [])
        assert "page" not in found, "other spellings come first"


class TestShape:
    HELD = {"kernel": 3, "report": 4, "budget": 9, "ax": 1, "4410": 1, "b": 1, "ax4410b": 1, "team": 4, "plan": 2}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("kernel", True),
            ("AX-4410-B", True),
            ("kernel report", False),
            ("kernel reprot", True),
            ("kernel report 4410", True),
            ("the reprot", False),
            ("kernel report budget team reprot", False),
            ('"kernel"', False),
            ("kernl -report", False),
            ("kernl or report", False),
            ("東京タワーへ行く", False),
            ("", False),
        ],
    )
    def test_names_and_codes(self, text, expected):
        question = read_question(text, ANALYSER)
        assert is_lookup(question, self.HELD, joined=False) is expected

    def test_a_question_that_is_one_word_once_joined(self):
        assert is_lookup(read_question("kernel report", ANALYSER), self.HELD, joined=True)

    def test_weights(self):
        weights = {"fts": 0.5, "trgm": 0.6, "ann": 1.0}
        assert adapt(weights, True, 0.5, 0.2) == {"fts": 0.1, "trgm": 0.6, "ann": 0.2}
        assert adapt(weights, False, 0.5, 0.2) == {"fts": 0.125, "trgm": 0.15, "ann": 1.0}
