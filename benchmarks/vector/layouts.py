"""Who may see what: how the access classes lie among the vectors, and callers who see a given share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .generate import SEED, Corpus, Ints

LAYOUTS: Final = ("random", "clustered", "owned")
SHARES: Final = (0.001, 0.01, 0.05, 0.10, 0.25, 0.50, 0.90, 1.0)
CLASSES: Final = 1_000
"""Access classes of the two layouts that are drawn; the owned layout has the real ones."""
SEEDS: Final = 40
_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who sees some of the access classes.

    Attributes:
        target: the share that was wanted.
        classes: the classes that are visible, ascending, counted from 1.
        visible: how many vectors these hold.
    """

    layout: str
    target: float
    classes: Ints
    visible: int
    how: str

    @property
    def label(self) -> str:
        return f"{self.target:.1%}" if self.target < 0.01 else f"{self.target:.0%}"

    @property
    def literal(self) -> str:
        return "{" + ",".join(map(str, self.classes.tolist())) + "}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The access class of each vector, counted from 1, (n,), and the callers."""

    name: str
    acl: Ints
    callers: tuple[Caller, ...]

    def seen(self, caller: Caller) -> NDArray[np.bool_]:
        """Tell which vectors a caller sees, (n,)."""
        chosen = np.zeros(int(self.acl.max()) + 1, dtype=bool)
        chosen[caller.classes[caller.classes < len(chosen)]] = True
        return chosen[self.acl]


def make(name: str, corpus: Corpus, shares: Sequence[float] = SHARES) -> Layout:
    """Make a layout of the corpus."""
    makers = {"random": _random, "clustered": _clustered, "owned": _owned}
    return makers[name](corpus, shares)


def drawn(name: str, count: int, classes: int, shares: Sequence[float]) -> Layout:
    """Draw each vector's class from `classes`; callers see the first of them."""
    rng = np.random.default_rng([SEED, 2])
    acl = rng.integers(1, classes + 1, count).astype(np.int32)
    order = np.arange(1, classes + 1)
    return Layout(name, acl, tuple(_first(name, acl, order, shares, "classes drawn at random")))


def _random(corpus: Corpus, shares: Sequence[float]) -> Layout:
    return drawn("random", len(corpus), min(CLASSES, len(corpus)), shares)


def _clustered(corpus: Corpus, shares: Sequence[float]) -> Layout:
    """Give each vector to the nearest of some seeds, and cut each cluster into classes from its seed outwards."""
    rng = np.random.default_rng([SEED, 3])
    seeds = corpus.vectors[np.sort(rng.choice(len(corpus), SEEDS, replace=False))].astype(np.float32)
    cluster = np.empty(len(corpus), dtype=np.int32)
    score = np.empty(len(corpus), dtype=np.float32)
    for start in range(0, len(corpus), _AT_ONCE):
        scores = corpus.vectors[start : start + _AT_ONCE].astype(np.float32) @ seeds.T
        cluster[start : start + _AT_ONCE] = scores.argmax(axis=1)
        score[start : start + _AT_ONCE] = scores.max(axis=1)
    size = max(1, len(corpus) // CLASSES)
    acl = np.empty(len(corpus), dtype=np.int32)
    made = 0
    for place in rng.permutation(SEEDS):
        rows = np.flatnonzero(cluster == place)
        rows = rows[np.argsort(-score[rows], kind="stable")]
        acl[rows] = made + 1 + np.arange(len(rows)) // size
        made += -(-len(rows) // size)
    how = f"whole clusters of {SEEDS}, the last one from its seed outwards"
    return Layout("clustered", acl, tuple(_first("clustered", acl, np.arange(1, made + 1), shares, how)))


def _first(
    layout: str, acl: Ints, order: NDArray[np.integer[Any]], shares: Sequence[float], how: str
) -> Iterator[Caller]:
    """Take classes in this order until their number of vectors is nearest to each share."""
    sizes = np.bincount(acl, minlength=len(order) + 1)
    reached = np.cumsum(sizes[order])
    for share in shares:
        taken = int(np.abs(reached - share * len(acl)).argmin()) + 1
        yield Caller(layout, share, np.sort(order[:taken]).astype(np.int32), int(reached[taken - 1]), how)


def _owned(corpus: Corpus, shares: Sequence[float]) -> Layout:
    """Give each vector the ACL of the document that it was made from."""
    numbers = {owners: number for number, owners in enumerate(sorted(set(corpus.owners)), 1)}
    of_base = np.array([numbers[owners] for owners in corpus.owners], dtype=np.int32)
    acl = of_base[corpus.origins]
    sizes = np.bincount(acl, minlength=len(numbers) + 1)
    seen: dict[str, list[int]] = {}
    for owners, number in numbers.items():
        for principal in owners:
            seen.setdefault(principal, []).append(number)
    classes = {principal: np.array(found) for principal, found in seen.items()}
    return Layout("owned", acl, tuple(_together(classes, sizes, share) for share in shares))


def _together(classes: dict[str, NDArray[np.int_]], sizes: NDArray[np.int_], share: float) -> Caller:
    """Take principals, those who see most first, as long as what they see together stays within the share."""
    visible = np.zeros(len(sizes), dtype=bool)
    most = share * int(sizes.sum())
    total, taken, teams = 0, 0, 0
    for principal in sorted(classes, key=lambda name: (-int(sizes[classes[name]].sum()), name)):
        mine = classes[principal]
        more = int(sizes[mine[~visible[mine]]].sum())
        if more and total + more <= most:
            visible[mine] = True
            total, taken = total + more, taken + 1
            teams += not principal.startswith("person-")
    how = f"{teams} teams and {taken - teams} persons"
    return Caller("owned", share, np.flatnonzero(visible).astype(np.int32), total, how)
