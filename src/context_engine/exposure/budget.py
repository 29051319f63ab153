"""Fit the measurement into the rows that it may read."""

from dataclasses import dataclass
from typing import Final

from context_engine.errors import InputError
from context_engine.exposure.methods import FETCHES

_BY_PERMISSION: Final = 3
"""Scans of a caller's rows for a question: exact, as planned, routed."""
_OF_ALL: Final = 2
"""Scans of all rows for a question: the exact answer of a random set, and the nearest rows of all."""
_WALKS: Final = 2
_LONGEST_WALK: Final = 20_000
"""An iterative scan ends here by default; one for the caller, one for the random set."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many callers and how many questions of a kind fit."""

    scopes: int
    samples: int
    notes: tuple[str, ...]


def rows_of_a_question(rows: int, served: bool, indexed: bool) -> int:
    """Estimate from above how many rows the statements for one question read.

    Args:
        rows: rows with a vector.
        served: whether an index finds a caller's rows; then half of the rows are reckoned for a caller.
        indexed: whether there is a vector index; without one, each search that filters afterwards reads all rows too.
    """
    by_permission = _BY_PERMISSION * (rows // 2 if served else rows)
    of_all = (_OF_ALL if indexed else _OF_ALL + 2 * len(FETCHES)) * rows
    walks = _WALKS * min(rows, _LONGEST_WALK) if indexed else 0
    return max(1, by_permission + of_all + walks)


def fit(scopes: int, samples: int, question: int, budget: int) -> Room:
    """Lower the questions a caller, then the callers, until the scans stay within `budget` rows.

    Args:
        scopes: callers that were chosen; one more, who sees everything, is always measured.
        samples: questions of each of two kinds that were asked for.
        question: rows that a question takes.
        budget: rows that may be read.

    Raises:
        InputError: not even one question fits.
    """
    most = budget // question
    if most < 3:
        raise InputError(
            f"--row-budget {budget:,} is too small: one caller needs at least {3 * question:,} rows read on this table"
        )
    if (2 * scopes + 1) * samples <= most:
        return Room(scopes, samples, ())
    fewer = max(1, most // (2 * scopes + 1))
    fitting = min(scopes, (most - 1) // 2)
    left = f"{fewer} questions of each kind in place of {samples}" if fewer < samples else ""
    cut = f"{fitting} callers in place of {scopes}" if fitting < scopes else ""
    said = " and ".join(part for part in (left, cut) if part)
    return Room(fitting, min(samples, fewer), (f"the row budget had room for {said}: --row-budget allows more",))
