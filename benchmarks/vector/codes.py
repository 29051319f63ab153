"""How well short codes rank, in memory: `python -m benchmarks.vector.codes`.

For each way to write a vector in few bits: how much of the true best 10 and 50 is among the first 500, 1,000 and 2,000
that the codes rank, over everything. Writes `codes.md` beside the results; no database, no clock.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.latency.report import table
from rich.console import Console
from rich.progress import Progress

from context_engine.retrieval import ivf

from . import generate
from .__main__ import asked_of, base_of
from .generate import Vectors
from .truth import DEPTHS, Scores, Truth

_SCORED: Final = (500, 1_000, 2_000)


def _signs(vectors: Vectors) -> Vectors:
    return np.where(vectors > 0, 1, -1).astype(np.float32)


def _sign_sum(vectors: Vectors, count: int) -> Vectors:
    """Write vectors as sums of weighted sign vectors, as `ivf.sign_sum` does; returns the sums."""
    rest, total = vectors.copy(), np.zeros_like(vectors)
    for _ in range(count):
        part = _signs(rest) * np.abs(rest).mean(axis=1, keepdims=True)
        rest, total = rest - part, total + part
    return total


class Codes:
    """The vectors, the questions, and an inverted file over the vectors."""

    def __init__(self, vectors: Vectors, questions: Vectors) -> None:
        self.vectors = vectors
        self.questions = questions
        lists = ivf.list_count(len(vectors))
        size = min(len(vectors), ivf.SAMPLE_PER_LIST * lists)
        sample = vectors[np.sort(np.random.default_rng(0).choice(len(vectors), size, replace=False))]
        centroids = ivf.train(sample, lists)
        place = ivf.nearest(vectors, centroids)
        self.rest = vectors - centroids[place]
        self.to_centroid = (questions @ centroids.T)[:, place]
        length = np.einsum("ij,ij->i", self.rest, self.rest)
        # What makes the code's inner product with its own vector right: Gao and Long, "RaBitQ: quantizing
        # high-dimensional vectors with a theoretical error bound for approximate nearest neighbor search", 2024.
        self.scale = length / np.abs(self.rest).sum(axis=1).clip(min=1e-12)

    def plain(self, question_signs: int | None) -> Vectors:
        return self._question(question_signs) @ _signs(self.vectors).T

    def centred(self) -> Vectors:
        return self.questions @ _signs(self.vectors - self.vectors.mean(axis=0)).T

    def residual(self, question_signs: int | None) -> Vectors:
        return self.to_centroid + self._question(question_signs) @ _signs(self.rest).T * self.scale

    def two_bits(self) -> Vectors:
        return self.questions @ _sign_sum(self.vectors, 2).T

    def _question(self, signs: int | None) -> Vectors:
        return self.questions if signs is None else _sign_sum(self.questions, signs)


def _ways(codes: Codes) -> dict[str, Callable[[], Vectors]]:
    return {
        "signs; question as 2 sign vectors": lambda: codes.plain(2),
        "signs; question as 4 sign vectors": lambda: codes.plain(4),
        "signs; question as it is": lambda: codes.plain(None),
        "signs around the mean of all; question as it is": codes.centred,
        "signs around the centroid, a scale each; question as 2 sign vectors": lambda: codes.residual(2),
        "signs around the centroid, a scale each; question as 4 sign vectors": lambda: codes.residual(4),
        "signs around the centroid, a scale each; question as it is": lambda: codes.residual(None),
        "2 sign vectors, two scales each; question as it is": codes.two_bits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vector.codes", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CONTEXT_ENGINE_DATA", "../shared/data")))
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--work-dir", type=Path, default=Path(tempfile.gettempdir()) / "context-engine-vector")
    parser.add_argument("--out", type=Path, help="benchmarks/vector/results/<chunks>")
    args = parser.parse_args()
    out: Path = args.out or Path(__file__).parent / "results" / str(args.chunks)
    with Progress(console=Console()) as progress:
        corpus = generate.make(base_of(args), args.chunks, args.work_dir / "vectors", progress)
        questions = generate.questions(corpus, args.questions, asked_of(args))
        scores = Scores(corpus, questions, progress).values
        truth = Truth(scores, np.ones(len(corpus), dtype=bool))
        codes = Codes(corpus.vectors.astype(np.float32), questions.vectors)
        kinds = list(dict.fromkeys(questions.kinds))
        ways = _ways(codes)
        rows = [
            (name, *_found(ways[name](), truth, questions.kinds, kinds))
            for name in progress.track(ways, description="ways to write a vector")
        ]
    header = ("stored; asked with", *(f"{kind}, {scored:,}" for kind in kinds for scored in _SCORED))
    head = (
        "# Codes that rank\n\nRecall@10 and recall@50 when so many of the first that the codes rank are scored exactly,"
        f" {args.chunks:,} vectors, all visible, {args.questions} questions.\n\n"
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "codes.md").write_text(head + table(header, rows))


def _found(estimate: Vectors, truth: Truth, of: tuple[str, ...], kinds: list[str]) -> list[str]:
    first = np.argsort(-estimate, axis=1)[:, : max(_SCORED)]
    cells: list[str] = []
    for kind in kinds:
        chosen = [question for question, its in enumerate(of) if its == kind]
        for scored in _SCORED:
            means = [
                np.mean([truth.recall_of_set(question, first[question, :scored], depth) for question in chosen])
                for depth in DEPTHS
            ]
            cells.append(", ".join(f"{mean:.4f}" for mean in means))
    return cells


if __name__ == "__main__":
    main()
