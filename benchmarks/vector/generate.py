"""As many vectors as wanted, from real embeddings: each lies between a real one and one of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.latency import data
from numpy.typing import NDArray
from rich.progress import Progress

Vectors = NDArray[np.float32]
Halves = NDArray[np.float16]
Ints = NDArray[np.int32]

SEED: Final = 20240711
NEIGHBOURS: Final = 15
TOWARDS: Final = (0.2, 0.8)
NOISE: Final = 0.3
QUESTION_NOISE: Final = 0.03
"""Standard deviation of the noise in each dimension of a question that is near a stored vector."""
KINDS: Final = ("near", "between", "asked")
_BLOCK: Final = 20_000
_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is stored.

    Attributes:
        vectors: float16, (n, dim), unit-normalised.
        origins: the base document that each vector was made from, (n,).
        owners: the principals of each base document.
        texts: the text of each base document.
    """

    name: str
    vectors: Halves
    origins: Ints
    owners: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked: float32 values that half precision holds exactly, (q, dim); and the kind of each."""

    vectors: Vectors
    kinds: tuple[str, ...]


def make(base: data.Benchmark, count: int, folder: Path, progress: Progress) -> Corpus:
    """Make `count` vectors, or read those that an earlier run has left in `folder`.

    A block of vectors depends on the seed and on its place alone, so that a smaller set is the beginning of a larger.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unit = _unit(base.vectors)
    name = f"{base.name}-{len(unit)}"
    near = _neighbours(unit, folder / f"{name}-neighbours.npy", progress)
    paths = folder / f"{name}-vectors-{count}.npy", folder / f"{name}-origins-{count}.npy"
    if not all(path.exists() for path in paths):
        _perturb(unit, near, count, paths, progress)
    return Corpus(
        base.name,
        np.load(paths[0], mmap_mode="r"),
        np.load(paths[1]),
        tuple(item.acl for item in base.documents),
        tuple(item.indexed for item in base.documents),
    )


def _perturb(unit: Vectors, near: Ints, count: int, paths: tuple[Path, Path], progress: Progress) -> None:
    dim = unit.shape[1]
    nearest = np.einsum("ij,ij->i", unit, unit[near[:, 0]]).clip(max=1)
    noise_length = NOISE * np.sqrt(2 - 2 * nearest)
    # Under another name until it is whole: an interrupted run leaves nothing that looks finished.
    part = paths[0].with_suffix(".part")
    made = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=(count, dim))
    origins = np.empty(count, dtype=np.int32)
    for start in progress.track(range(0, count, _BLOCK), description="vectors"):
        rng = np.random.default_rng([SEED, start])
        chosen = rng.integers(0, len(unit), _BLOCK)
        towards = unit[near[chosen, rng.integers(0, near.shape[1], _BLOCK)]]
        step = rng.uniform(*TOWARDS, (_BLOCK, 1)).astype(np.float32)
        noise = _unit(rng.standard_normal((_BLOCK, dim), dtype=np.float32))
        moved = unit[chosen] + step * (towards - unit[chosen]) + noise_length[chosen, None] * noise
        size = min(_BLOCK, count - start)
        made[start : start + size] = _unit(moved)[:size]
        origins[start : start + size] = chosen[:size]
    made.flush()
    np.save(paths[1], origins)
    part.rename(paths[0])


def _neighbours(unit: Vectors, path: Path, progress: Progress) -> Ints:
    """Find each vector's nearest others, the nearest first."""
    if path.exists():
        return np.load(path)
    count = min(NEIGHBOURS, len(unit) - 1)
    near = np.empty((len(unit), count), dtype=np.int32)
    for start in progress.track(range(0, len(unit), _AT_ONCE), description="neighbours"):
        scores = unit[start : start + _AT_ONCE] @ unit.T
        places = np.arange(len(scores))
        scores[places, places + start] = -2
        found = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(scores, found, 1), axis=1, kind="stable")
        near[start : start + _AT_ONCE] = np.take_along_axis(found, order, 1)
    np.save(path, near)
    return near


def questions(corpus: Corpus, count: int, asked: Vectors | None = None, seed: int = 1) -> Questions:
    """Make questions from everything that is stored, whoever may see it.

    "near" is a stored vector with noise; "between" the sum of two, whose nearest lie in two places; "asked" are vectors
    of questions on the base corpus, where there are any. As many of each kind.
    """
    rng = np.random.default_rng([SEED, seed])
    kinds = [KINDS[place % (2 if asked is None else 3)] for place in range(count)]
    vectors = np.empty((count, corpus.dim), dtype=np.float32)
    order = rng.permutation(0 if asked is None else len(asked))
    for place, kind in enumerate(kinds):
        one, other = corpus.vectors[np.sort(rng.choice(len(corpus), 2, replace=False))].astype(np.float32)
        if kind == "near":
            vectors[place] = one + rng.normal(0, QUESTION_NOISE, corpus.dim)
        elif kind == "between" or asked is None:
            vectors[place] = one + other
        else:
            vectors[place] = asked[order[place % len(order)]]
    return Questions(_unit(vectors).astype(np.float16).astype(np.float32), tuple(kinds))


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
