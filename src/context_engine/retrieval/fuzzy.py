"""Other spellings of a question's words.

Which words are looked up, and which spellings count, follows from the question and from visible rows alone: the
lexicon also knows hidden words, so what it returns is never cut short before the visible ones are picked out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import OSA

from context_engine.retrieval.spelling_keys import LONGEST_ASKED, max_edits

FEW_CHUNKS: Final = 200
"""A caller who sees at most this many chunks has all of their words compared; for others the lexicon is asked."""
_SHORTEST_EXPANDED: Final = 4


def words_to_expand(terms: Sequence[str], frequencies: Mapping[str, int], below: int, at_most: int | None) -> list[str]:
    """Pick the words that fewer than `below` visible chunks hold, the rarest first where a limit is set."""
    rare = [
        term
        for term in terms
        if frequencies.get(term, 0) < below
        and _SHORTEST_EXPANDED <= len(term) <= LONGEST_ASKED
        and not term.replace(".", "").isdigit()
    ]
    if at_most is None or len(rare) <= at_most:
        return rare
    chosen = set(sorted(rare, key=lambda term: (frequencies.get(term, 0), terms.index(term)))[:at_most])
    return [term for term in rare if term in chosen]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word that may be scored in place of `term`; similarity is 1 for the term itself."""

    term: str
    word: str
    similarity: float


def near_spellings(words: Sequence[str], candidates: Iterable[tuple[int | None, str]]) -> list[Spelling]:
    """Keep the candidates within `max_edits`; similarity is 1 - edits / length of the longer word.

    Args:
        words: the words looked up.
        candidates: pairs of a place in `words`, or None for all of them, and a word that may be near.
    """
    by_length: dict[tuple[int | None, int], list[str]] = {}
    for place, candidate in candidates:
        by_length.setdefault((place, len(candidate)), []).append(candidate)
    kept: list[Spelling] = []
    for place, word in enumerate(words):
        limit = max_edits(len(word))
        lengths = range(len(word) - limit, len(word) + limit + 1)
        choices = [
            choice for owner in (place, None) for length in lengths for choice in by_length.get((owner, length), ())
        ]
        found = process.extract(word, choices, scorer=OSA.distance, score_cutoff=limit, limit=None, processor=None)
        for candidate, distance, _ in found:
            if distance:
                similarity = 1 - distance / max(len(word), len(candidate))
                kept.append(Spelling(word, candidate, similarity))
    return kept


def choose_spellings(near: Iterable[Spelling], frequencies: Mapping[str, int], at_most: int) -> list[Spelling]:
    """Keep, for each term, the nearest spellings that a visible chunk holds; ties go by the alphabet."""
    nearest: dict[tuple[str, str], Spelling] = {}
    for spelling in near:
        pair = spelling.term, spelling.word
        if frequencies.get(spelling.word) and spelling.similarity > getattr(nearest.get(pair), "similarity", 0.0):
            nearest[pair] = spelling
    taken: Counter[str] = Counter()
    kept: list[Spelling] = []
    for spelling in sorted(nearest.values(), key=lambda item: (item.term, -item.similarity, item.word)):
        taken[spelling.term] += 1
        if taken[spelling.term] <= at_most:
            kept.append(spelling)
    return kept
