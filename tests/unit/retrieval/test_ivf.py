"""Filing vectors and reducing them to signs."""

from __future__ import annotations

import numpy as np
import pytest

from context_engine.db import copy_format
from context_engine.retrieval import ivf


def unit(rows: int, dim: int = 24, seed: int = 0) -> ivf.Vectors:
    vectors = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("chunks", "lists"), [(0, 1), (1, 1), (2, 2), (10, 10), (50_000, 894), (10**8, 4_096)])
def test_lists_grow_with_the_root(chunks: int, lists: int) -> None:
    assert ivf.list_count(chunks) == lists


def test_training_finds_the_groups() -> None:
    centres = unit(5)
    sample = np.repeat(centres, 40, axis=0) + 0.05 * unit(200, seed=1)
    sample /= np.linalg.norm(sample, axis=1, keepdims=True)
    centroids = ivf.train(sample, 10)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-5)
    assert (np.max(sample @ centroids.T, axis=1) > 0.95).all()
    assert np.array_equal(ivf.train(sample, 10), centroids)


def test_there_are_no_more_lists_than_vectors() -> None:
    assert ivf.train(unit(3), 10).shape == (3, 24)
    assert ivf.train(np.repeat(unit(1), 4, axis=0), 4).shape == (4, 24)


def test_nearest_is_the_largest_product() -> None:
    vectors, centroids = unit(100), unit(7, seed=2)
    assert ivf.nearest(vectors, centroids).tolist() == np.argmax(vectors @ centroids.T, axis=1).tolist()
    assert ivf.nearest(vectors[:0], centroids).tolist() == []


def test_signs_are_bits_from_the_left() -> None:
    vectors = np.array([[1, -1, 0, 2, -3, 1, 1, -1, 5]], dtype=np.float32)
    scales, codes = ivf.signs(vectors)
    assert codes.tolist() == [[0b10010110, 0b10000000]]
    assert scales.tolist() == pytest.approx([15 / 9])


@pytest.mark.parametrize("seed", range(5))
def test_more_sign_vectors_come_closer(seed: int) -> None:
    [vector] = unit(1, 384, seed)
    errors: list[float] = []
    for count in range(1, 5):
        parts = ivf.sign_sum(vector, count)
        total = sum(weight * (2.0 * np.array([*bits], dtype=float) - 1) for weight, bits in parts)
        errors.append(float(np.linalg.norm(vector - total)))
        assert [weight for weight, _ in parts] == sorted((weight for weight, _ in parts), reverse=True)
    assert errors == sorted(errors, reverse=True) and errors[2] < 0.3


def test_vectors_are_read_as_they_are_sent() -> None:
    vectors = unit(4)
    sent = [copy_format.halfvec(vector) for vector in vectors]
    assert np.array_equal(ivf.from_bytes(sent), vectors.astype(np.float16).astype(np.float32))
    assert ivf.from_bytes([]).shape == (0, 0)
