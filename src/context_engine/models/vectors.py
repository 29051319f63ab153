"""Check what an embedder returned, and bring it to unit length."""

from collections.abc import Sized
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from context_engine.errors import ProviderError

Vectors = NDArray[np.float32]


def as_rows(answer: Any, count: int, dim: int, *, name: str) -> Vectors:
    """Convert an embedder's answer for `count` texts: float32, (count, dim).

    A text that got nothing, or a vector of another length, becomes a row of NaN: one bad text does not
    cost the batch. Infinities and zeros stay as they are; `normalise` tells the usable rows.

    Raises:
        ProviderError: another number of rows, or not one row of the right length.
    """
    if getattr(answer, "dtype", None) == np.float32 and answer.shape == (count, dim):
        return np.ascontiguousarray(answer)
    try:
        values: list[Any] = list(answer)
    except TypeError:
        raise _wrong_shape(answer, (count, dim), name) from None
    rows = [_row(value, dim) for value in values]
    nothing = all(value is None or (isinstance(value, Sized) and not len(value)) for value in values)
    if len(rows) != count or not (nothing or any(row is not None for row in rows)):
        raise _wrong_shape(answer, (count, dim), name)
    missing = np.full(dim, np.nan, dtype=np.float32)
    return np.array([missing if row is None else row for row in rows], dtype=np.float32).reshape(count, dim)


def as_vector(answer: object, dim: int, *, name: str) -> Vectors:
    """Convert an embedder's answer for one question: float32, (dim,), else ProviderError."""
    row = _row(answer, dim)
    if row is None:
        raise _wrong_shape(answer, (dim,), name)
    return row


def normalise(vectors: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
    """Scale each row to length one, computed in float64; a row depends on no other.

    Returns:
        float32, (n, dim), unit-normalised, unusable rows all zero; and bool, (n,), true where the row is
        usable: finite, and not all zero.
    """
    wide = np.ascontiguousarray(vectors, dtype=np.float64)
    largest = np.max(np.abs(wide), axis=1, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0)
    # Divided by the largest value first: neither 1e300 nor 1e-300 leaves float64 when squared.
    scaled = np.zeros_like(wide)
    np.divide(wide, largest[:, None], out=scaled, where=usable[:, None])
    lengths = np.sqrt(np.square(scaled).sum(axis=1))
    np.divide(scaled, lengths[:, None], out=scaled, where=usable[:, None])
    return scaled.astype(np.float32), usable


def _row(value: Any, dim: int) -> Vectors | None:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            row = np.asarray(value, dtype=np.float64).astype(np.float32)
    except (TypeError, ValueError, OverflowError):
        return None
    return row if row.shape == (dim,) else None


def _wrong_shape(answer: Any, expected: tuple[int, ...], name: str) -> ProviderError:
    if isinstance(answer, np.ndarray):
        got = f"shape {cast(NDArray[Any], answer).shape}"
    elif isinstance(answer, (list, tuple)):
        rows = cast(list[Any], answer)
        lengths = sorted({_length(row) for row in rows})
        inner = "" if lengths in ([], ["scalar"]) else " " + " or ".join(lengths)
        got = f"shape ({len(rows)},{inner})"
    else:
        got = f"a {type(answer).__name__}"
    return ProviderError(f"embedder {name!r} returned {got}, expected shape {expected}")


def _length(row: Any) -> str:
    if isinstance(row, (str, bytes)):
        return type(row).__name__
    return str(len(row)) if isinstance(row, Sized) else "none" if row is None else "scalar"
