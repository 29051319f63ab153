"""Numbers from answers: recall that ties cannot spoil, shares, and how sure they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from context_engine.exposure.model import Figures

Key = tuple[object, ...]
Answer = Sequence[tuple[Key, float]]
"""Rows as (key, distance)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, one way: rows found among the best, rows returned, rows to find, latency."""

    found: int
    returned: int
    wanted: int
    ms: float


def best(answer: Answer, own_row: Key | None, top_k: int) -> list[float]:
    """Sort an answer's distances, leaving out the row the question came from and rows without a distance."""
    distances = sorted(distance for key, distance in answer if key != own_row and not math.isnan(distance))
    return distances[:top_k]


def compare(returned: Sequence[float], exact: Sequence[float], ms: float) -> Outcome:
    """Compare sorted distances: a row counts as found when it is no farther than the last of the exact answer.

    So of several rows at the same distance any will do.
    """
    last = exact[-1]
    return Outcome(sum(distance <= last for distance in returned), len(returned), len(exact), ms)


def summarise(outcomes: Sequence[Outcome], timeouts: int = 0) -> Figures:
    """Sum up the questions of one caller and one way."""
    if not outcomes:
        return Figures(0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, timeouts)
    ms = np.array([outcome.ms for outcome in outcomes])
    count = len(outcomes)
    return Figures(
        questions=count,
        recall=math.fsum(outcome.found / outcome.wanted for outcome in outcomes) / count,
        lossy=sum(outcome.found < outcome.wanted for outcome in outcomes),
        short=sum(outcome.returned < outcome.wanted for outcome in outcomes) / count,
        empty=sum(outcome.returned == 0 for outcome in outcomes) / count,
        p50_ms=float(np.percentile(ms, 50)),
        p95_ms=float(np.percentile(ms, 95)),
        timeouts=timeouts,
    )


def pool(figures: Sequence[Figures]) -> Figures:
    """Join figures of several sets of questions; percentiles become weighted means of percentiles."""
    count = sum(each.questions for each in figures)
    timeouts = sum(each.timeouts for each in figures)
    if not count:
        return Figures(0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, timeouts)

    def mean(values: Sequence[float]) -> float:
        weighted = (value * each.questions for value, each in zip(values, figures, strict=True))
        return math.fsum(weighted) / count

    return Figures(
        questions=count,
        recall=mean([each.recall for each in figures]),
        lossy=sum(each.lossy for each in figures),
        short=mean([each.short for each in figures]),
        empty=mean([each.empty for each in figures]),
        p50_ms=mean([each.p50_ms for each in figures]),
        p95_ms=mean([each.p95_ms for each in figures]),
        timeouts=timeouts,
    )


def at_most(count: int) -> float:
    """Bound from above, with 95 % confidence, the share of an event that `count` trials never showed.

    The rule of three: 3 / count (Hanley and Lippman-Hand, 1983).
    """
    return min(1.0, 3 / count) if count else 1.0


def interval(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share."""
    if not count:
        return 0.0, 1.0
    z = 1.96
    share, square = hits / count, z * z / count
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    # Rounding must not put the share itself outside.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
