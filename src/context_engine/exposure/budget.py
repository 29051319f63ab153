"""Fit the measurement into the rows that it may read."""

from dataclasses import dataclass
from typing import Final

from context_engine.errors import InputError

_OWN_SCANS: Final = 3
_WHOLE_SCANS: Final = 2
"""Scans a question costs at most: exact, as planned and routed over the caller's rows; random set and neighbours over
all."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many callers and how many questions of a kind fit."""

    scopes: int
    samples: int
    notes: tuple[str, ...]


def fit(scopes: int, samples: int, rows: int, served: bool, budget: int) -> Room:
    """Lower the questions a caller, then the callers, until the scans stay within `budget` rows.

    Args:
        scopes: callers that were chosen.
        samples: questions of each kind that were asked for.
        rows: rows with a vector.
        served: whether an index finds a caller's rows; without one each scan reads the whole table.
        budget: rows that may be read.

    Raises:
        InputError: not even one question fits.
    """
    scans = _WHOLE_SCANS + (_OWN_SCANS / 2 if served else _OWN_SCANS)
    question = max(1, round(scans * rows))
    most = budget // question
    if most < 2:
        raise InputError(
            f"--row-budget {budget:,} is too small: one caller needs at least {2 * question:,} rows read on this table"
        )
    if 2 * scopes * samples <= most:
        return Room(scopes, samples, ())
    fewer = max(1, most // (2 * scopes))
    fitting = min(scopes, most // 2)
    left = f"{fewer} questions of each kind in place of {samples}" if fewer < samples else ""
    cut = f"{fitting} callers in place of {scopes}" if fitting < scopes else ""
    said = " and ".join(part for part in (left, cut) if part)
    return Room(fitting, min(samples, fewer), (f"the row budget had room for {said}: --row-budget allows more",))
