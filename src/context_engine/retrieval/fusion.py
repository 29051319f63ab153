"""Fuse the legs' ranked lists into one. Pure: the same lists give the same result, whatever the order of legs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from context_engine.model import LegHit
from context_engine.names import LEGS, TEXT_LEGS, LegName


@dataclass(frozen=True, slots=True)
class Candidate:
    """A leg's row before fusion; higher scores are better."""

    chunk_id: int
    document_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk after fusion, with its place in each leg that found it."""

    chunk_id: int
    document_id: int
    score: float
    legs: dict[LegName, LegHit]


def merge(known: Iterable[Candidate], better: Iterable[Candidate], limit: int) -> list[Candidate]:
    """Rank two lists of one leg together, best first; a chunk in both has its score in `better`."""
    scored = {candidate.chunk_id: candidate for candidates in (known, better) for candidate in candidates}
    return sorted(scored.values(), key=lambda candidate: (-candidate.score, candidate.chunk_id))[:limit]


def fuse(
    lists: Mapping[LegName, Sequence[Candidate]],
    weights: Mapping[LegName, float],
    method: Literal["rrf", "minmax"] = "rrf",
    k: int = 20,
    limit: int | None = None,
) -> list[Fused]:
    """Fuse ranked lists, best first; ties go to the smaller chunk id.

    Args:
        lists: each leg's candidates, best first.
        weights: a leg's weight; a leg without one, or with 0, gives nothing.
        method: `rrf` sums weight / (k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009);
            `minmax` sums weight · (score - least) / (most - least) over the leg's candidates.
        k: the constant of `rrf`.
        limit: how many candidates a leg gives at most. A text leg that gives fewer has given all that it finds: a
            chunk that is not among them would score 0, and that is the least.
    """
    scores: dict[int, float] = {}
    documents: dict[int, int] = {}
    places: dict[int, dict[LegName, LegHit]] = {}
    for leg in LEGS:
        candidates = lists.get(leg, ())
        weight = weights.get(leg, 0.0)
        if not candidates or weight <= 0:
            continue
        least = min(candidate.score for candidate in candidates)
        if leg in TEXT_LEGS and limit is not None and len(candidates) < limit:
            least = 0.0
        spread = max(candidate.score for candidate in candidates) - least
        for rank, candidate in enumerate(candidates, 1):
            key = candidate.chunk_id
            if method == "rrf":
                gain = weight / (k + rank)
            else:
                gain = weight * ((candidate.score - least) / spread if spread > 0 else 1.0)
            scores[key] = scores.get(key, 0.0) + gain
            documents[key] = candidate.document_id
            places.setdefault(key, {})[leg] = LegHit(rank, candidate.score)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return [Fused(key, documents[key], scores[key], places[key]) for key in order]
