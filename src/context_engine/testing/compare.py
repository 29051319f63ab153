"""Hold a result in float32 against exact lists: what must be equal is, what may differ differs little."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from context_engine.model import Hit, SearchResult
from context_engine.names import LEGS, TEXT_LEGS, LegName
from context_engine.settings import FusionSettings

_SCORE_TOLERANCE: Final = 1e-5
_TIE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Expected:
    """The exact answer.

    Attributes:
        lists: for each leg that takes part, the exact score of every chunk it finds.
        weights: each leg's weight.
        limits: how many of each leg's chunks go into fusion.
        top_k: how many hits are wanted.
    """

    lists: Mapping[LegName, Mapping[int, float]]
    weights: Mapping[LegName, float]
    fusion: FusionSettings
    limits: Mapping[LegName, int]
    top_k: int


def find_differences(result: SearchResult, expected: Expected) -> list[str]:
    """Say in words what differs."""
    ranks: dict[LegName, _Ranks] = {
        leg: _Ranks(leg, scores, expected.limits[leg]) for leg, scores in expected.lists.items()
    }
    found: list[str] = []
    for hit in result.hits:
        found += _compare_places(hit, ranks)
    found += _compare_order(result)
    found += _compare_fused(result, expected, ranks)
    return found


class _Ranks:
    """The ranks that each chunk of a leg may have: one, but for near ties."""

    def __init__(self, leg: LegName, scores: Mapping[int, float], limit: int) -> None:
        self.scores = scores
        self.limit = limit
        self._ascending = sorted(scores.values())
        # An inner product of unit vectors errs by a share of one, not of itself.
        self._floor = 1.0 if leg == "ann" else 0.0
        taken = self._ascending[-limit:]
        self.least, self.most = (taken[0], taken[-1]) if taken else (0.0, 0.0)
        if leg in TEXT_LEGS and len(self._ascending) < limit:
            self.least = 0.0

    def span(self, key: int) -> tuple[int, int]:
        """Return the first and the last rank that a chunk may have."""
        score = self.scores[key]
        margin = _TIE * max(abs(score), self._floor)
        size = len(self._ascending)
        first = size - bisect_right(self._ascending, score + margin) + 1
        last = size - bisect_left(self._ascending, score - margin)
        return first, last

    def near(self, key: int, score: float) -> bool:
        """Tell whether a float32 score is the exact one."""
        exact = self.scores[key]
        return abs(score - exact) <= _SCORE_TOLERANCE * max(abs(exact), self._floor)

    def gains(self, key: int, weight: float, fusion: FusionSettings) -> tuple[float, float]:
        """Return the least and the most that a chunk may get from this leg."""
        if key not in self.scores:
            return 0.0, 0.0
        first, last = self.span(key)
        if first > self.limit:
            return 0.0, 0.0
        sure = last <= self.limit
        if fusion.method == "rrf":
            return weight / (fusion.k + last) if sure else 0.0, weight / (fusion.k + first)
        spread = self.most - self.least
        noise = _SCORE_TOLERANCE * max(abs(self.most), self._floor)
        if spread <= 10 * noise:
            return 0.0, weight
        share = (self.scores[key] - self.least) / spread
        error = _SCORE_TOLERANCE + 2 * noise / spread
        return (weight * max(share - error, 0) if sure else 0.0), weight * min(share + error, 1)


def _compare_places(hit: Hit, ranks: Mapping[LegName, _Ranks]) -> list[str]:
    found: list[str] = []
    for leg in LEGS:
        place = hit.legs.get(leg)
        exact = ranks[leg] if leg in ranks else None
        if exact is None or hit.chunk_id not in exact.scores:
            if place is not None:
                found.append(f"{leg}: chunk {_name(hit)} should not be there")
            continue
        first, last = exact.span(hit.chunk_id)
        if place is None:
            if last <= exact.limit:
                found.append(f"{leg}: chunk {_name(hit)} is missing at rank {first}")
            continue
        if not exact.near(hit.chunk_id, place.score):
            score = exact.scores[hit.chunk_id]
            found.append(f"{leg}: chunk {_name(hit)} has score {place.score} instead of {score}")
        if not first <= place.rank <= last:
            found.append(f"{leg}: chunk {_name(hit)} has rank {place.rank} instead of {first}")
    return found


def _compare_order(result: SearchResult) -> list[str]:
    """Scores descend and ties go to the smaller chunk id, in the whole and in each leg."""
    found: list[str] = []
    fused = [(-hit.score, hit.chunk_id) for hit in result.hits]
    if fused != sorted(fused):
        found.append("the hits are out of order")
    for leg in LEGS:
        placed = [(hit.legs[leg], hit.chunk_id) for hit in result.hits if leg in hit.legs]
        placed.sort(key=lambda pair: pair[0].rank)
        order = [(-place.score, key) for place, key in placed]
        if order != sorted(order) or len({place.rank for place, _ in placed}) < len(placed):
            found.append(f"{leg}: the ranks are out of order")
    return found


def _compare_fused(result: SearchResult, expected: Expected, ranks: Mapping[LegName, _Ranks]) -> list[str]:
    bounds: dict[int, tuple[float, float]] = {}
    for key in {key for scores in expected.lists.values() for key in scores}:
        gains = [ranks[leg].gains(key, weight, expected.fusion) for leg, weight in expected.weights.items()]
        bounds[key] = (sum(low for low, _ in gains), sum(high for _, high in gains))
    found: list[str] = []
    for hit in result.hits:
        low, high = bounds.get(hit.chunk_id, (0.0, 0.0))
        if not low * (1 - 1e-9) <= hit.score <= high * (1 + 1e-9):
            found.append(f"chunk {_name(hit)} has fused score {hit.score} instead of {low}")
    returned = {hit.chunk_id for hit in result.hits}
    missing = {key: low for key, (low, _) in bounds.items() if low > 0 and key not in returned}
    if len(returned) > expected.top_k or len(returned) < len(result.hits):
        found.append(f"{len(result.hits)} hits, where {expected.top_k} were asked for")
    elif missing and len(returned) < expected.top_k:
        found.append(f"{len(missing)} chunks are missing")
    elif missing and max(missing.values()) > result.hits[-1].score * (1 + 1e-9):
        found.append("a better chunk is missing")
    return found


def _name(hit: Hit) -> str:
    return f"{hit.document.source}/{hit.document.external_id}#{hit.position}"
