"""The exact answer, by brute force in memory, and how much of it was found."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from .generate import Corpus, Questions, Vectors

DEPTHS: Final = (10, 50)
_SLACK: Final = 1e-6
"""Sums in single precision differ by their order: what is that near to the last true row counts as good as it."""
_AT_ONCE: Final = 50_000


class Scores:
    """Inner products of every question with every vector, float32, (q, n)."""

    def __init__(self, corpus: Corpus, questions: Questions, progress: Progress) -> None:
        self.values: Vectors = np.empty((len(questions.vectors), len(corpus)), dtype=np.float32)
        for start in progress.track(range(0, len(corpus), _AT_ONCE), description="exact scores"):
            block = corpus.vectors[start : start + _AT_ONCE].astype(np.float32)
            self.values[:, start : start + _AT_ONCE] = questions.vectors @ block.T


class Truth:
    """The exact answers to all questions for one caller, or for everything with `seen` all true."""

    def __init__(self, scores: Vectors, seen: NDArray[np.bool_]) -> None:
        self._scores = scores
        self._seen = seen
        self.visible = int(seen.sum())
        self._least: dict[int, NDArray[np.float32]] = {}
        mine = scores[:, seen]
        for depth in DEPTHS:
            size = min(depth, self.visible)
            if size:
                self._least[depth] = np.partition(mine, self.visible - size, axis=1)[:, self.visible - size]

    def recall(self, question: int, ids: NDArray[np.int64], depth: int) -> float:
        """Tell which share of the best `depth` visible rows is among the first `depth` of the answer.

        Raises:
            RuntimeError: a row in the answer is not visible.
        """
        if not self._seen[ids].all():
            raise RuntimeError("a row that the caller may not see is in an answer")
        return self.recall_of_set(question, ids[:depth], depth)

    def recall_of_set(self, question: int, ids: NDArray[np.int64], depth: int) -> float:
        """Tell which share of the best `depth` visible rows is among these, in whatever order."""
        if not self.visible:
            return 1.0
        found = self._scores[question, ids]
        hits = int((found >= self._least[depth][question] - _SLACK).sum())
        return min(1.0, hits / min(depth, self.visible))
