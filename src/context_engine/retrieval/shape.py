"""What kind of question it is, and what each leg counts for it. Pure: from the question and visible rows alone."""

from collections.abc import Mapping
from typing import Final

from context_engine.names import TEXT_LEGS, LegName
from context_engine.retrieval.query import Question
from context_engine.text.analyse import Word

_FEW_WORDS: Final = 4


def is_lookup(question: Question, frequencies: Mapping[str, int], joined: bool) -> bool:
    """Tell whether a question looks a name or a code up, and does not describe what is wanted.

    It is one word; or it is a word that a visible chunk holds once its blanks are left out (`joined`); or it has at
    most four words, no stop word, and a word with a digit or one that no visible chunk holds. An embedding says little
    about any of these: the model has not met them.
    """
    words = question.words
    if not words or any(word.stop or _without_blanks(word) for word in words):
        return False
    if len(words) == 1 or joined:
        return True
    return len(words) <= _FEW_WORDS and any(
        _has_digit(word) or _is_unknown(word, question, frequencies) for word in words
    )


def _without_blanks(word: Word) -> bool:
    """Tell whether it is a run of a script without blanks: it may be a sentence."""
    return word.span > 1 and not word.joined


def _has_digit(word: Word) -> bool:
    return any(letter.isdigit() for letter in word.surface)


def _is_unknown(word: Word, question: Question, frequencies: Mapping[str, int]) -> bool:
    parts = [lexeme for lexeme, _ in word.lexemes if lexeme not in word.joined] or word.joined
    return any(lexeme in question.repeats and not frequencies.get(lexeme) for lexeme in parts)


def adapt(weights: Mapping[LegName, float], lookup: bool, rarity: float, factor: float) -> dict[LegName, float]:
    """Fit the weights to a question.

    Args:
        weights: as set.
        lookup: whether the fuzzy leg leads: the others' weights are multiplied by `factor`.
        rarity: of a question's rarest word, from 0 to 1. Words that are everywhere tell little, so the text legs count
            by its square.
        factor: see `lookup`.
    """
    if lookup:
        return {leg: weight * (1.0 if leg == "trgm" else factor) for leg, weight in weights.items()}
    return {leg: weight * (rarity**2 if leg in TEXT_LEGS else 1.0) for leg, weight in weights.items()}
