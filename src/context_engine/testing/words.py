"""A second reading of questions, and scores of words, written without the engine's SQL."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from context_engine.text.analyse import Analyser, Word

Positions = Mapping[str, Sequence[int]]

_LAST_POSITION: Final = 16_383
_POSITIONS_KEPT: Final = 255


@dataclass(frozen=True, slots=True)
class Asked:
    """A word or a phrase that is asked for, or ruled out."""

    words: tuple[Word, ...]
    phrase: bool

    @property
    def lexemes(self) -> list[str]:
        """What it is scored by, in the order it stands."""
        return [lexeme for word in self.words for lexeme, _ in word.lexemes]

    def follows_in(self, positions: Positions) -> bool:
        """Tell whether its words stand one after the other, a compound joined or as its parts in a row."""
        ends: set[int] | None = None
        gap = 1
        for word in self.words:
            if not word.lexemes:
                gap += word.span
                continue
            spans, lead, tail = _places(word, positions)
            if ends is not None:
                spans = {(first, last) for first, last in spans if first - gap - lead in ends}
            ends = {last for _, last in spans}
            gap = 1 + tail
            if not ends:
                return False
        return bool(ends)

    def held_by(self, positions: Positions) -> bool:
        """Tell whether a phrase stands there; or a word, joined or as all of its parts."""
        if self.phrase:
            return self.follows_in(positions)
        [word] = self.words
        parts = [lexeme for lexeme, _ in word.lexemes if lexeme not in word.joined]
        if any(whole in positions for whole in word.joined[:1]):
            return True
        return bool(parts) and all(part in positions for part in parts)


def _places(word: Word, positions: Positions) -> tuple[set[tuple[int, int]], int, int]:
    """Return where a word stands, first and last position; and how much of its span lies before and after."""
    parts: dict[int, set[int]] = {}
    for lexeme, offset in word.lexemes:
        if lexeme not in word.joined:
            parts.setdefault(offset, set()).update(_stored(positions, lexeme))
    first, last = (min(parts), max(parts)) if parts else (0, word.span - 1)
    found = {(place, place) for whole in word.joined[:1] for place in _stored(positions, whole)}
    found |= {
        (start, start - first + last)
        for start in parts.get(first, ())
        if all(start - first + offset in places for offset, places in parts.items())
    }
    return found, first, word.span - 1 - last


def _stored(positions: Positions, lexeme: str) -> set[int]:
    """Return the positions that a tsvector has room for."""
    kept = positions.get(lexeme, ())[:_POSITIONS_KEPT]
    return {min(place, _LAST_POSITION) for place in kept}


@dataclass(frozen=True, slots=True)
class Reading:
    """A question: groups of alternatives that are asked for, and what is ruled out.

    `whole` has its words where it has nothing but words; `said` is how often each of them is said.
    """

    wanted: tuple[tuple[Asked, ...], ...]
    unwanted: tuple[Asked, ...]
    terms: tuple[str, ...]
    said: Mapping[str, int]
    whole: tuple[Word, ...] = ()
    minus: bool = False

    @property
    def surfaces(self) -> dict[str, str]:
        """Return how simple words are spelled, by what they are found by; of several spellings the first."""
        found: dict[str, str] = {}
        for group in self.wanted:
            for word in (word for asked in group for word in asked.words):
                if word.span == 1 and len(word.lexemes) == 1:
                    found.setdefault(word.lexemes[0][0], word.surface)
        return found

    @property
    def only_excludes(self) -> bool:
        """Whether nothing is asked for and something ruled out, be it a stop word."""
        return self.minus and not self.wanted

    def excludes(self, positions: Positions) -> bool:
        """Tell whether a chunk holds what is ruled out."""
        return any(asked.follows_in(positions) for asked in self.unwanted)

    def matches(self, positions: Positions, every: bool) -> bool:
        """Tell whether a chunk is a candidate: it holds `every` word, or any and each phrase."""
        if not self.wanted or self.excludes(positions):
            return False
        if every:
            return all(any(asked.held_by(positions) for asked in group) for group in self.wanted)
        phrases = [group for group in self.wanted if any(asked.phrase for asked in group)]
        if phrases:
            return all(any(asked.follows_in(positions) for asked in group) for group in phrases)
        return any(term in positions for term in self.terms)


def read(query: str, analyser: Analyser, max_terms: int) -> Reading:
    """Read a question: words, "phrases", -exclusions, and `or` between alternatives."""
    wanted: list[list[Asked]] = []
    unwanted: list[Asked] = []
    either = ruled_out = False
    only_words = True
    for minus, quoted, text in _pieces(query):
        if not quoted and text.casefold() == "or":
            either, only_words = bool(wanted), False
            continue
        words = [word for word in analyser.words(text)]
        ruled_out = ruled_out or minus
        only_words = only_words and not minus
        if not any(word.lexemes for word in words):
            continue
        only_words = only_words and not quoted
        found = [Asked(tuple(words), True)] if quoted else [Asked((word,), False) for word in words if word.lexemes]
        if minus:
            unwanted += found
        elif either:
            wanted[-1] += found
        else:
            wanted += [[asked] for asked in found]
        either = False
    lexemes = [lexeme for group in wanted for asked in group for lexeme in asked.lexemes]
    terms = tuple(dict.fromkeys(lexemes))[:max_terms]
    said = {term: lexemes.count(term) for term in terms}
    whole = tuple(analyser.words(query)) if only_words else ()
    return Reading(tuple(map(tuple, wanted)), tuple(unwanted), terms, said, whole, ruled_out)


def _pieces(query: str) -> Iterator[tuple[bool, bool, str]]:
    """Yield (minus, quoted, text); a quotation mark within a word, or without a partner, is part of the word."""
    at = 0
    while at < len(query):
        if query[at].isspace():
            at += 1
            continue
        opening = at + (query[at] == "-")
        starts = at == 0 or query[at - 1].isspace()
        closing = query.find('"', opening + 1) if query[opening : opening + 1] == '"' else -1
        if starts and closing >= 0:
            yield opening > at, True, query[opening + 1 : closing]
            at = closing + 1
            continue
        end = at
        while end < len(query) and not query[end].isspace():
            end += 1
        word = query[at:end]
        minus = word[0] == "-" and len(word) > 1 and (word[1].isalnum() or word[1] == "_")
        yield minus, False, word[1:] if minus else word
        at = end


def idf(chunks: int, frequency: int) -> float:
    """Weigh a lexeme that `frequency` of `chunks` chunks hold."""
    return math.log1p((chunks - frequency + 0.5) / (frequency + 0.5))


def saturated(count: float, length: int, k1: float, b: float, pivot: float) -> float:
    """Weigh a lexeme that stands `count` times in a chunk of `length` words."""
    return count * (k1 + 1) / (count + k1 * (1 - b + b * length / pivot))


def edits(one: str, other: str) -> int:
    """Count the letters to insert, drop, replace or swap with a neighbour, none touched twice (OSA)."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, wanted in enumerate(other, 1):
            best = min(above[column] + 1, current[-1] + 1, above[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                best = min(best, before[column - 2] + 1)
            current.append(best)
        before, above = above, current
    return above[-1]


def allowed_edits(word: str) -> int:
    """How many edits away a spelling may be: one, from 8 letters two."""
    return 1 + (len(word) >= 8)


def other_spellings(word: str, vocabulary: Iterable[str]) -> list[tuple[float, str]]:
    """Return (similarity, spelling) of the words near `word`, the nearest first, ties by the alphabet."""
    found: list[tuple[float, str]] = []
    most = allowed_edits(word)
    for candidate in vocabulary:
        if candidate == word or abs(len(candidate) - len(word)) > most:
            continue
        distance = edits(word, candidate)
        if distance <= most:
            found.append((1 - distance / max(len(word), len(candidate)), candidate))
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))
