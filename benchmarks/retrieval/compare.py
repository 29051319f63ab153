"""Measures of a ranking, and the verdict between two configurations. The decision rule in code; see README.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

DEPTH: Final = 10
DRAWS: Final = 10_000
SEED: Final = 20240603
MEASURES: Final = ("ndcg", "recall", "mrr")

Verdict = Literal["ahead", "tie", "behind"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean difference a query, and its 95 % interval by bootstrap over queries."""

    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "tie"


def measure(ranked: Sequence[str], gains: Mapping[str, float]) -> dict[str, float]:
    """Compute nDCG@10 (linear gains), Recall@10 and MRR@10 of document ids, best first, each once."""
    found = [gains.get(document, 0.0) for document in ranked[:DEPTH]]
    best = sorted(gains.values(), reverse=True)[:DEPTH]
    first = next((rank for rank, gain in enumerate(found, 1) if gain > 0), None)
    return {
        "ndcg": _discounted(found) / _discounted(best),
        "recall": sum(gain > 0 for gain in found) / len(gains),
        "mrr": 1 / first if first else 0.0,
    }


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Compare two configurations' scores on the same queries, in the same order."""
    differences = np.asarray(ours) - np.asarray(theirs)
    draws = np.random.default_rng(SEED).integers(0, len(differences), (DRAWS, len(differences)))
    means = differences[draws].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Comparison(float(differences.mean()), float(low), float(high))
