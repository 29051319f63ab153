"""The vector index for callers who see much: vectors filed under centroids, and kept as signs.

An inverted file (Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", 2011) narrows a search to
the lists nearest to the question. There the signs of what a vector differs by from its centroid stand for it, at one
bit a dimension and one scale, and the best are scored exactly. The question is not reduced to one sign a dimension but
to a sum of two sign vectors, which costs little and ranks much more like the question itself.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

SAMPLE_PER_LIST: Final = 50
_ROUNDS: Final = 8
_MOST_LISTS: Final = 4_096
_AT_ONCE: Final = 8_192


def list_count(chunks: int) -> int:
    """Return how many lists suit that many chunks."""
    return max(1, min(_MOST_LISTS, round(4 * chunks**0.5), chunks))


def train(sample: Vectors, lists: int, seed: int = 0) -> Vectors:
    """Cluster unit vectors, (n, dim), into at most `lists` groups by cosine; returns unit centroids, (lists, dim).

    Spherical k-means: Dhillon and Modha, "Concept decompositions for large sparse text data using clustering", 2001.
    """
    lists = min(lists, len(sample))
    chosen = np.random.default_rng(seed).choice(len(sample), lists, replace=False)
    centroids = sample[np.sort(chosen)].copy()
    for _ in range(_ROUNDS):
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest(sample, centroids), sample)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        np.divide(sums, lengths, out=centroids, where=lengths > 0)
    return centroids


def nearest(vectors: Vectors, centroids: Vectors) -> NDArray[np.intp]:
    """Return for each vector the place of its nearest centroid, (n,)."""
    parts = [
        np.argmax(vectors[start : start + _AT_ONCE] @ centroids.T, axis=1) for start in range(0, len(vectors), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)


def signs(vectors: Vectors) -> tuple[Vectors, NDArray[np.uint8]]:
    """Reduce vectors, (n, dim), to a scale and signs: the mean absolute value, (n,), and bits, (n, ceil(dim / 8)).

    Scale times signs is the nearest that a multiple of a sign vector comes. The first dimension is the leftmost bit.
    """
    return np.abs(vectors).mean(axis=1), np.packbits(vectors > 0, axis=1)


def sign_sum(vector: Vectors, count: int = 2) -> list[tuple[float, str]]:
    """Write a vector as a sum of weighted sign vectors: (weight, signs as a bit string), greedily, largest first."""
    rest = vector.astype(np.float64)
    parts: list[tuple[float, str]] = []
    for _ in range(count):
        positive = rest > 0
        weight = float(np.abs(rest).mean())
        parts.append((weight, "".join(np.where(positive, "1", "0"))))
        rest = rest - np.where(positive, weight, -weight)
    return parts


def from_bytes(rows: list[bytes]) -> Vectors:
    """Read vectors as pgvector sends halfvec: two bytes of dimension, two unused, big-endian halves."""
    if not rows:
        return np.zeros((0, 0), dtype=np.float32)
    raw = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.ascontiguousarray(raw[:, 4:]).view(">f2").astype(np.float32)
