"""BM25 over sparse vectors.

A chunk's vector holds the saturated, length-normalised frequency of each lexeme, which depends on the chunk alone;
a question's vector holds each lexeme's idf, counted over visible rows only. Their inner product is the score of
Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the idf of Lucene and
a constant in place of the average length, which would tell of hidden documents.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

DIMENSIONS: Final = 1_000_000_000
"""The most that pgvector's sparsevec has; a lexeme's dimension is a hash, so it is the same in any database."""


@lru_cache(maxsize=500_000)
def dimension(lexeme: str) -> int:
    """Hash a lexeme to its dimension, from 1 to `DIMENSIONS`."""
    digest = hashlib.blake2b(lexeme.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % DIMENSIONS + 1


@dataclass(frozen=True, slots=True)
class Saturation:
    """How often a word stands in a chunk, and how long the chunk is, against each other.

    Attributes:
        k1: how soon one more occurrence stops to count; no weight is over k1 + 1.
        b: how much length counts, from 0 to 1.
        pivot: the length, in words, at which a chunk is neither favoured nor held back.
        name_weight: how many occurrences one in the document's name counts for.
    """

    k1: float
    b: float
    pivot: float
    name_weight: float = 1.0

    def weight(self, frequency: float, length: int) -> float:
        """Weigh a word: tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / pivot))."""
        return frequency * (self.k1 + 1) / (frequency + self.k1 * (1 - self.b + self.b * length / self.pivot))


def term_frequencies(
    positions: Mapping[str, Sequence[int]],
    length: int,
    saturation: Saturation,
    name: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> dict[int, float]:
    """Weigh a chunk's lexemes, by ascending dimension.

    Args:
        positions: where each lexeme stands in what is indexed: the document's name, then the chunk's text.
        length: in words.
        saturation: how counts become weights.
        name: the same of the name by itself; BM25F's simple form (Robertson, Zaragoza and Taylor, CIKM 2004).
    """
    more = saturation.name_weight - 1
    weights: dict[int, float] = {}
    for lexeme, places in positions.items():
        frequency = len(places) + more * len(name.get(lexeme, ()))
        index = dimension(lexeme)
        # Two lexemes of one dimension do not add up: no weight is over k1 + 1, which `bound_search` relies on.
        weights[index] = max(weights.get(index, 0.0), saturation.weight(frequency, length))
    return dict(sorted(weights.items()))


def idf(chunks: int, frequency: int) -> float:
    """Weigh a lexeme that `frequency` of `chunks` visible chunks hold: ln(1 + (N - df + ½) / (df + ½))."""
    return math.log(1 + (chunks - frequency + 0.5) / (frequency + 0.5))


def rarity(chunks: int, frequencies: Iterable[int]) -> float:
    """Tell how rare the rarest of some words is, from 0 to 1: its idf over that of a word that one chunk holds.

    Words that no chunk holds do not count; 1 where there are no others.
    """
    least = min((frequency for frequency in frequencies if frequency), default=1)
    return idf(chunks, least) / idf(chunks, 1)


def question_vector(weights: Mapping[int, float]) -> str:
    """Write dimension weights as a sparsevec literal."""
    entries = ",".join(f"{index}:{weight:.9g}" for index, weight in sorted(weights.items()))
    return f"{{{entries}}}/{DIMENSIONS}"
