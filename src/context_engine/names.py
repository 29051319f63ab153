"""Names that settings and records share."""

from collections.abc import Callable
from typing import Final, Literal

LegName = Literal["fts", "trgm", "ann", "graph"]
LEGS: Final[tuple[LegName, ...]] = ("fts", "trgm", "ann", "graph")
TEXT_LEGS: Final[tuple[LegName, ...]] = ("fts", "trgm")
"""The legs that score by words."""

VectorType = Literal["halfvec", "vector"]
"""pgvector's types that a vector may be kept in."""

Progress = Callable[[int, int | None], None]
"""Told how much is done, and how much there is where that is known."""
