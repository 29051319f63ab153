"""Check what an embedder returned, and bring it to unit length."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from context_engine.errors import ProviderError

Vectors = NDArray[np.float32]


def as_rows(answer: object, count: int, dim: int, *, name: str) -> Vectors:
    """Convert an embedder's answer for `count` texts.

    A text that got nothing, or a vector of another length, becomes a row of NaN: one bad text does not
    cost the batch. Infinities and zeros stay as they are; `normalise` tells the usable rows.

    Returns:
        float32, (count, dim).

    Raises:
        ProviderError: another number of rows, or not one row of the right length.
    """
    if _is_matrix(answer, (count, dim)):
        return _float32(answer)
    rows = _listed(answer)
    if rows is None or len(rows) != count:
        raise _wrong_shape(answer, (count, dim), name)
    found = np.full((count, dim), np.nan, dtype=np.float32)
    fitting = 0
    for position, value in enumerate(rows):
        row = _row(value, dim)
        if row is not None:
            found[position] = row
            fitting += 1
    if not fitting and not all(_is_nothing(value) for value in rows):
        raise _wrong_shape(answer, (count, dim), name)
    return found


def as_vector(answer: object, dim: int, *, name: str) -> Vectors:
    """Convert an embedder's answer for one question.

    Returns:
        float32, (dim,); may hold NaN and infinities.

    Raises:
        ProviderError: not a vector of that length.
    """
    row = _row(answer, dim)
    if row is None:
        raise _wrong_shape(answer, (dim,), name)
    return row


def normalise(vectors: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
    """Scale each row to length one, computed in float64; a row depends on no other.

    Args:
        vectors: (n, dim).

    Returns:
        float32, (n, dim), unit-normalised, unusable rows all zero; and bool, (n,), true where the row is
        usable: finite, and not all zero.
    """
    wide = np.ascontiguousarray(vectors, dtype=np.float64)
    finite = np.isfinite(wide).all(axis=1)
    largest = np.max(np.abs(wide), axis=1, initial=0.0)
    usable = finite & (largest > 0)
    # Divided by the largest value first: neither 1e300 nor 1e-300 leaves float64 when squared.
    scaled = np.zeros_like(wide)
    np.divide(wide, largest[:, None], out=scaled, where=usable[:, None])
    lengths = np.sqrt(np.square(scaled).sum(axis=1))
    np.divide(scaled, lengths[:, None], out=scaled, where=usable[:, None])
    return scaled.astype(np.float32), usable


def _is_matrix(answer: object, shape: tuple[int, int]) -> TypeGuard[NDArray[Any]]:
    if not isinstance(answer, np.ndarray):
        return False
    array = cast(NDArray[Any], answer)
    return array.dtype.kind in "fiu" and array.shape == shape


def _float32(array: NDArray[Any]) -> Vectors:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def _listed(answer: object) -> list[Any] | None:
    if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
        return None
    try:
        return list(cast(Iterable[Any], answer))
    except TypeError:  # such as an array of no dimension
        return None


def _row(value: Any, dim: int) -> Vectors | None:
    try:
        row = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return _float32(row) if row.shape == (dim,) else None


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Sized) and not len(value))


def _wrong_shape(answer: Any, expected: tuple[int, ...], name: str) -> ProviderError:
    return ProviderError(f"embedder {name!r} returned {_shape(answer)}, expected shape {expected}")


def _shape(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"shape {cast(NDArray[Any], answer).shape}"
    if not isinstance(answer, (list, tuple)):
        return f"a {type(answer).__name__}"
    rows = cast(Sequence[Any], answer)
    lengths = sorted({_length(row) for row in rows})
    if not lengths or lengths == ["scalar"]:
        return f"shape ({len(rows)},)"
    return f"shape ({len(rows)}, {' or '.join(lengths)})"


def _length(row: Any) -> str:
    if isinstance(row, (str, bytes)):
        return type(row).__name__
    return str(len(row)) if isinstance(row, Sized) else "none" if row is None else "scalar"
