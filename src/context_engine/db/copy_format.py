"""PostgreSQL's binary COPY format, for the column types that ingest writes.

Layouts: "Binary Format" of COPY, and the receive functions of tsvector (PostgreSQL), sparsevec, halfvec and vector
(pgvector). Writing them here saves the server the parsing of text, which is most of a bulk load.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
TRAILER: Final = struct.pack("!h", -1)
MAX_POSITION: Final = 16_383
MAX_POSITIONS_PER_LEXEME: Final = 255

_int4 = struct.Struct("!i").pack
_int8 = struct.Struct("!q").pack
_float4 = struct.Struct("!f").pack


def int4(value: int) -> bytes:
    """Encode an integer."""
    return _int4(value)


def int8(value: int) -> bytes:
    """Encode a bigint."""
    return _int8(value)


def float4(value: float) -> bytes:
    """Encode a real."""
    return _float4(value)


def tsvector(positions: Mapping[str, Sequence[int]]) -> bytes:
    """Encode lexemes with their positions; positions past the type's limits are clipped, as PostgreSQL does."""
    parts = [_int4(len(positions))]
    for lexeme, places in positions.items():
        kept = places[:MAX_POSITIONS_PER_LEXEME]
        if kept[-1] > MAX_POSITION:
            kept = sorted({min(place, MAX_POSITION) for place in kept})
        parts.append(lexeme.encode() + b"\0" + struct.pack(f"!H{len(kept)}H", len(kept), *kept))
    return b"".join(parts)


def sparsevec(weights: Mapping[int, float], dimensions: int) -> bytes:
    """Encode weights by ascending dimension, counted from 1."""
    size = len(weights)
    indices = [index - 1 for index in weights]
    return struct.pack(f"!iii{size}i{size}f", dimensions, size, 0, *indices, *weights.values())


def halfvec(vector: NDArray[np.float32]) -> bytes:
    """Encode a vector, float32 (dim,), in half precision."""
    return struct.pack("!hh", len(vector), 0) + vector.astype(">f2").tobytes()


def vector(values: NDArray[np.float32]) -> bytes:
    """Encode a vector, float32 (dim,), in single precision."""
    return struct.pack("!hh", len(values), 0) + values.astype(">f4").tobytes()


def row(fields: Iterable[bytes]) -> bytes:
    """Encode one row of fields, none of them null."""
    parts = [_int4(len(item)) + item for item in fields]
    return struct.pack("!h", len(parts)) + b"".join(parts)
