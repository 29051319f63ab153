"""Other spellings of a question's words.

Which words are looked up, and which spellings count, follows from the question and from visible rows alone: the
lexicon also knows hidden words, so what it returns is never cut short before the visible ones are picked out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import OSA

TRIGRAM_THRESHOLD: Final = 0.25
"""Least trigram similarity of a spelling; edit distance decides, so this only has to let one edit through."""
_SHORTEST_EXPANDED: Final = 4
_LONGEST_EXPANDED: Final = 100


def max_edits(length: int) -> int:
    """Return how many edits away a spelling may be: one, from 8 letters two, from 16 three; a swap is one edit."""
    return 1 if length < 8 else 2 if length < 16 else 3


def words_to_expand(
    terms: Sequence[str], frequencies: Mapping[str, int], below: int, at_most: int | None
) -> list[str]:
    """Pick the words that fewer than `below` visible chunks hold, the rarest first where a limit is set."""
    rare = [
        term
        for term in terms
        if frequencies.get(term, 0) < below
        and _SHORTEST_EXPANDED <= len(term) <= _LONGEST_EXPANDED
        and not term.replace(".", "").isdigit()
    ]
    if at_most is None or len(rare) <= at_most:
        return rare
    chosen = set(
        sorted(rare, key=lambda term: (frequencies.get(term, 0), terms.index(term)))[:at_most]
    )
    return [term for term in rare if term in chosen]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word that may be scored in place of `term`; similarity is 1 for the term itself."""

    term: str
    word: str
    similarity: float


def near_spellings(words: Sequence[str], found: Iterable[tuple[int, str]]) -> list[Spelling]:
    """Keep the lexicon's words within `max_edits`; similarity is 1 - edits / length of the longer word."""
    kept: list[Spelling] = []
    for place, candidate in found:
        word = words[place]
        limit = max_edits(len(word))
        distance = OSA.distance(word, candidate, score_cutoff=limit)
        if candidate != word and distance <= limit:
            similarity = 1 - distance / max(len(word), len(candidate))
            kept.append(Spelling(word, candidate, similarity))
    return kept


def choose_spellings(
    near: Iterable[Spelling], frequencies: Mapping[str, int], at_most: int
) -> list[Spelling]:
    """Keep, for each term, the nearest spellings that a visible chunk holds; ties go by the alphabet."""
    visible = [spelling for spelling in near if frequencies.get(spelling.word)]
    visible.sort(key=lambda spelling: (spelling.term, -spelling.similarity, spelling.word))
    taken: Counter[str] = Counter()
    kept: list[Spelling] = []
    for spelling in visible:
        taken[spelling.term] += 1
        if taken[spelling.term] <= at_most:
            kept.append(spelling)
    return kept
