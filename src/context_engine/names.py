"""Names that settings and records share."""

from typing import Final, Literal

LegName = Literal["fts", "trgm", "ann", "graph"]
LEGS: Final[tuple[LegName, ...]] = ("fts", "trgm", "ann", "graph")
