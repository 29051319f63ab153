"""Rows to measure, and an oracle in numpy that shares nothing with what measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from context_engine import Settings
from context_engine.db.exposure.measure import Request, measure
from context_engine.exposure.model import Report

DIM = 8


@dataclass(frozen=True)
class World:
    """Rows in a few clusters of the space; row i belongs to `groups[i]`."""

    vectors: NDArray[np.float32]
    groups: list[list[str]]

    def visible(self, *values: str) -> NDArray[np.bool_]:
        return np.array([bool(set(values) & set(groups)) for groups in self.groups])


@dataclass(frozen=True)
class Expected:
    recall: float
    lossy: int
    short: float
    empty: float


def make_world(rows: int = 120, seed: int = 7) -> World:
    """Groups: `half` in one half of the clusters, `tight` in one of them, `some` anywhere, `one` is one row."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 6, rows)
    centres = rng.standard_normal((6, DIM)) * 3
    vectors = (centres[cluster] + rng.standard_normal((rows, DIM))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    groups: list[list[str]] = []
    for row in range(rows):
        mine = ["half"] if cluster[row] < 3 else []
        mine += ["tight"] if cluster[row] == 5 else []
        mine += ["some"] if rng.random() < 0.2 else []
        mine += ["one"] if row == 11 else []
        groups.append(mine)
    return World(vectors, groups)


def literal(vector: Sequence[float] | NDArray[np.float32]) -> str:
    return "[" + ",".join(str(float(value)) for value in vector) + "]"


def cosine_distances(world: World, question: NDArray[np.float32]) -> NDArray[np.float64]:
    vectors = world.vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(question.astype(np.float64))
    return 1 - vectors @ question.astype(np.float64) / norms


def expect_after(
    world: World,
    values: tuple[str, ...],
    questions: Sequence[tuple[NDArray[np.float32], int | None]],
    k: int,
    fetch: int,
) -> Expected:
    """Search all rows exactly for `fetch`, keep the visible ones, and compare with the best `k` of the visible rows.

    A question is a vector and the row it came from, which does not count, or None.
    """
    visible = world.visible(*values)
    recalls: list[float] = []
    short = empty = 0
    for question, own_row in questions:
        order = [int(row) for row in np.argsort(cosine_distances(world, question), kind="stable")]
        best = [row for row in order if visible[row] and row != own_row][:k]
        if not best:
            continue
        fetched = order[: fetch + (own_row is not None)]
        kept = [row for row in fetched if visible[row] and row != own_row][:k]
        recalls.append(len(set(kept) & set(best)) / len(best))
        short += len(kept) < len(best)
        empty += not kept
    lossy = sum(recall < 1 for recall in recalls)
    return Expected(float(np.mean(recalls)), lossy, short / len(recalls), empty / len(recalls))


def same(figures: Any, expected: Expected) -> bool:
    return (
        abs(figures.recall - expected.recall) < 1e-9
        and figures.lossy == expected.lossy
        and abs(figures.short - expected.short) < 1e-9
        and abs(figures.empty - expected.empty) < 1e-9
    )


def run(url: str, **request: Any) -> Report:
    return measure(url, Request(**{"show_acl": True, "samples": 10, **request}), Settings())


def caller(report: Report, *values: str) -> Any:
    [found] = [each for each in report.callers if each.values == values]
    return found
