"""What the words of a question may stand for, besides themselves and words spelled alike.

A slip in an ending changes the stem, so that stems are no longer alike: `compilatino` is not near `compil`. Such a word
is mended first and stemmed then. Words are joined (`AX 4410` for AX4410), parted (`iec13818` for IEC 13818), and a word
by itself is also the beginning of others. All of it follows from the question alone; what no visible chunk holds is
dropped.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from context_engine.retrieval.bm25 import idf
from context_engine.retrieval.fuzzy import Spelling
from context_engine.retrieval.query import Question
from context_engine.text.analyse import Analyser, Word

MOST_COMPLETED: Final = 1_000
"""Where more visible chunks than this hold a word that begins like the question, it is no beginning of a name."""
COMPLETED_SHARE: Final = 0.8
"""What a word counts of which the question is the beginning, before the share of its letters that is missing."""
_SHORTEST_BEGINNING: Final = 4
_SHORTEST_MENDED: Final = 5
_SHORTEST_PARTED: Final = 4
_LONGEST_PARTED: Final = 64
_LEAST_PART: Final = 3
_ENDING: Final = 6
_JOINED: Final = 4
_JOINED_WHOLE: Final = 8
_ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
)

Lexeme = Callable[[str], str]
Lexemes = Callable[[Sequence[str]], Sequence[str]]
Repeated = Literal["once", "sqrt", "count"]


@dataclass(frozen=True, slots=True)
class Parting:
    """Two words that may have been written as one; of several that are held the best is taken.

    Attributes:
        at_digit: whether digits and letters part there.
        least: the length of the shorter one.
    """

    words: tuple[str, str]
    at_digit: bool
    least: int


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a question may mean, before it is known what is held.

    Attributes:
        mended: for each word, what it may be with a slip in its ending, and how similar that is.
        partings: by unknown word, the ways to part it.
        joined: runs of words, joined.
        whole: the whole question, joined; one of `joined`, or None.
        start: what other words may begin with, or None.
    """

    mended: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    partings: Mapping[str, Sequence[Parting]] = field(default_factory=dict[str, Sequence[Parting]])
    joined: tuple[str, ...] = ()
    whole: str | None = None
    start: str | None = None

    def words(self) -> set[str]:
        """Return every word that is guessed."""
        parted = {word for ways in self.partings.values() for way in ways for word in way.words}
        return parted.union(self.joined, *self.mended.values())

    def mended_among(self, held: Container[str]) -> list[Spelling]:
        """Return the other spellings of words with a slip in their ending that are held."""
        return [
            Spelling(word, other, near)
            for word, slips in self.mended.items()
            for other, near in slips.items()
            if other != word and other in held
        ]


def guess(question: Question, words: Sequence[str], frequencies: Mapping[str, int], analyser: Analyser) -> Guesses:
    """Guess what a question may mean; `words` are those of its terms that are looked for in other spellings."""
    mended: dict[str, Mapping[str, float]] = {}
    partings: dict[str, list[Parting]] = {}
    for word in words:
        surface = question.surfaces.get(word)
        if surface is not None:
            mended[word] = mend(surface, analyser.lexemes)
        if not frequencies.get(word):
            partings[word] = list(part(word if surface is None else surface, analyser.lexeme))
    joined, whole = join(question.words, analyser.lexeme)
    start = question.words[0].surface if len(question.words) == 1 else ""
    return Guesses(
        mended=mended,
        partings=partings,
        joined=tuple(joined),
        whole=whole,
        start=start if len(start) >= _SHORTEST_BEGINNING else None,
    )


def mend(surface: str, lexemes: Lexemes) -> dict[str, float]:
    """Return the stems of words one edit away in the last letters, with the similarity of the words.

    Words that are their own stem are left out: they are found by their likeness.
    """
    if len(surface) < _SHORTEST_MENDED or not surface.isalpha():
        return {}
    head, ending = surface[:-_ENDING], surface[-_ENDING:]
    letters = next((alphabet for alphabet in _ALPHABETS if surface[-1] in alphabet), "".join(sorted(set(surface))))
    kept, longer = _edited(head, ending, letters)
    stems = lexemes([*kept, *longer])
    # A word that is longer is the more similar: of two ways to one stem it counts.
    found = {stem: 1 - 1 / len(surface) for word, stem in zip(kept, stems, strict=False) if stem != word}
    near = 1 - 1 / (len(surface) + 1)
    return found | {stem: near for word, stem in zip(longer, stems[len(kept) :], strict=True) if stem != word}


def _edited(head: str, ending: str, letters: str) -> tuple[list[str], list[str]]:
    """Return the words with one edit in the ending: those as long as it or shorter, and those one letter longer."""
    kept: list[str] = []
    longer: list[str] = []
    for at in range(len(ending) + 1):
        before, after = head + ending[:at], ending[at:]
        longer += [before + letter + after for letter in letters]
        if after:
            rest = after[1:]
            kept.append(before + rest)
            kept += [before + letter + rest for letter in letters]
        if len(after) > 1:
            kept.append(before + after[1] + after[0] + after[2:])
    return kept, longer


def part(surface: str, lexeme: Lexeme) -> Iterator[Parting]:
    """Part a word in two: where digits and letters meet, or anywhere that leaves three letters on either side."""
    if not _SHORTEST_PARTED <= len(surface) <= _LONGEST_PARTED:
        return
    for at in range(1, len(surface)):
        at_digit = surface[at - 1].isdigit() != surface[at].isdigit()
        least = min(at, len(surface) - at)
        if at_digit or least >= _LEAST_PART:
            yield Parting((lexeme(surface[:at]), lexeme(surface[at:])), at_digit, least)


def join(words: Sequence[Word], lexeme: Lexeme) -> tuple[list[str], str | None]:
    """Join runs of up to four words with a digit among them; and the whole question, of up to eight words."""
    runs = [
        words[first : first + length]
        for first in range(len(words))
        for length in range(2, min(_JOINED, len(words) - first) + 1)
    ]
    joined = [_joined(run, lexeme) for run in runs if any(_has_digit(word) for word in run)]
    whole = _joined(words, lexeme) if 2 <= len(words) <= _JOINED_WHOLE else None
    return [word for word in (*joined, whole) if word], whole


def _joined(run: Sequence[Word], lexeme: Lexeme) -> str | None:
    return None if any(word.stop for word in run) else lexeme("".join(word.surface for word in run))


def _has_digit(word: Word) -> bool:
    return any(letter.isdigit() for letter in word.surface)


def repeat_weight(count: int, repeated: Repeated) -> float:
    """Weigh how often a question says a word."""
    return 1.0 if repeated == "once" else math.sqrt(count) if repeated == "sqrt" else float(count)


def term_weights(
    question: Question, frequencies: Mapping[str, int], chunks: int, repeated: Repeated
) -> dict[str, float]:
    """Weigh the question's terms that a visible chunk holds: idf, and how often they are said."""
    return {
        term: repeat_weight(question.repeats[term], repeated) * idf(chunks, frequencies[term])
        for term in question.terms
        if frequencies.get(term)
    }


def respelled_weights(
    question: Question,
    frequencies: Mapping[str, int],
    chunks: int,
    repeated: Repeated,
    spellings: Sequence[Spelling],
    guesses: Guesses,
    completed: Iterable[str],
) -> dict[str, float]:
    """Weigh the question's words and what they may stand for; of several weights for a word the greatest counts.

    A spelling weighs its similarity times the idf of the commonest spelling of its word: what is meant is rarely a slip
    that some text shares.
    """
    weights = term_weights(question, frequencies, chunks, repeated)

    def add(word: str, weight: float) -> None:
        weights[word] = max(weight, weights.get(word, 0.0))

    commonest: dict[str, int] = {}
    for spelling in spellings:
        commonest[spelling.term] = max(commonest.get(spelling.term, 0), frequencies[spelling.word])
    for spelling in spellings:
        said = repeat_weight(question.repeats[spelling.term], repeated)
        add(spelling.word, said * spelling.similarity * idf(chunks, commonest[spelling.term]))
    for word, ways in guesses.partings.items():
        for other in _best_parts(ways, frequencies, alike=word in commonest):
            add(other, idf(chunks, frequencies[other]))
    for word in guesses.joined:
        if frequencies.get(word):
            add(word, idf(chunks, frequencies[word]))
    if guesses.start is not None:
        said = max(weights.get(lexeme, 0.0) for lexeme, _ in question.words[0].lexemes)
        for word in completed:
            share = COMPLETED_SHARE * len(guesses.start) / len(word)
            rare = idf(chunks, frequencies[word])
            add(word, share * (min(rare, said) if said else rare))
    return weights


def _best_parts(ways: Iterable[Parting], frequencies: Mapping[str, int], alike: bool) -> tuple[str, ...]:
    """Take the parting of which both words are held: at a digit, then the most even, then the first.

    Where other spellings of the word are held, it is parted at a digit only.
    """
    held = [way for way in ways if all(map(frequencies.get, way.words)) and (way.at_digit or not alike)]
    best = max(held, key=lambda way: (way.at_digit, way.least), default=None)
    return best.words if best else ()
