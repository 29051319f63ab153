"""BM25 over sparse vectors.

A chunk's vector holds the saturated, length-normalised frequency of each lexeme, which depends on the chunk alone;
a question's vector holds each lexeme's idf, counted over visible rows only. Their inner product is the score of
Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the idf of Lucene and
a constant in place of the average length, which would tell of hidden documents.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

DIMENSIONS: Final = 1_000_000_000
"""The most that pgvector's sparsevec has; a lexeme's dimension is a hash, so it is the same in any database."""


@lru_cache(maxsize=500_000)
def dimension(lexeme: str) -> int:
    """Hash a lexeme to its dimension, from 1 to `DIMENSIONS`."""
    digest = hashlib.blake2b(lexeme.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % DIMENSIONS + 1


def term_frequencies(
    positions: Mapping[str, Sequence[int]], length: int, k1: float, b: float, pivot: float
) -> dict[int, float]:
    """Weigh a chunk's lexemes: tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / pivot)), by ascending dimension."""
    norm = k1 * (1 - b + b * length / pivot)
    weights: dict[int, float] = {}
    for lexeme, places in positions.items():
        frequency = len(places)
        index = dimension(lexeme)
        # Two lexemes of one dimension do not add up: no weight is over k1 + 1, which `bound_search` relies on.
        weights[index] = max(weights.get(index, 0.0), frequency * (k1 + 1) / (frequency + norm))
    return dict(sorted(weights.items()))


def idf(chunks: int, frequency: int) -> float:
    """Weigh a lexeme that `frequency` of `chunks` visible chunks hold: ln(1 + (N - df + ½) / (df + ½))."""
    return math.log(1 + (chunks - frequency + 0.5) / (frequency + 0.5))


def question_vector(weights: Mapping[int, float]) -> str:
    """Write dimension weights as a sparsevec literal."""
    entries = ",".join(f"{index}:{weight:.9g}" for index, weight in sorted(weights.items()))
    return f"{{{entries}}}/{DIMENSIONS}"
