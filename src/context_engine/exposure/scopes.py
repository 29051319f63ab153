"""Choose callers over the whole range of selectivity."""

import hashlib
import hmac
import math
from collections.abc import Sequence

from context_engine.exposure.model import Candidate


def choose_scopes(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Take at most `most` candidates, spread evenly over the logarithm of their rows; widest first.

    Of those equally near to a step the one with more alike is taken, as it stands for more callers. Candidates with as
    many rows are taken in the order they come.
    """
    left = sorted((each for each in candidates if each.rows > 0), key=lambda each: each.rows)
    if len(left) <= most:
        return left[::-1]
    low, high = math.log(left[0].rows), math.log(left[-1].rows)
    chosen: list[Candidate] = []
    for step in range(most):
        wanted = high - (high - low) * step / max(1, most - 1)
        best = min(left, key=lambda each: (abs(math.log(each.rows) - wanted), -each.alike))
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda each: -each.rows)


def label(values: Sequence[str], key: bytes) -> str:
    """Name a caller by a keyed hash of its ACL values: without the key, a guess cannot be checked."""
    text = "\0".join(sorted(values)).encode()
    return "acl-" + hmac.new(key, text, hashlib.sha256).hexdigest()[:6]


def random_bound(share: float) -> int:
    """Return the bound below which a uniform 64-bit signed integer falls with probability `share`."""
    return min((1 << 63) - 1, -(1 << 63) + round(share * (1 << 64)))
