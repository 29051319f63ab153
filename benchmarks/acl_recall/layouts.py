"""Who may read which document in each layout, and the callers that ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from benchmarks.vector import generate
from benchmarks.vector import layouts as vector_layouts
from numpy.typing import NDArray

from context_engine import ACL, PUBLIC
from context_engine.testing.rules import read_caller, read_rule

from .corpus import SEED, Corpus

Mask = NDArray[np.bool_]

LAYOUTS: Final = ("random", "clustered", "owned", "rules")
SHARES: Final = (0.001, 0.01, 0.1, 0.5, 0.9, 1.0)
TEAMS: Final = 20
PUBLIC_SHARE: Final = 0.02
LIMITED_SHARE: Final = 0.10
CLEARED: Final = "clearance:secret"
CONTRACTOR: Final = "status:contractor"
_NAMED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what the call is narrowed to.

    Attributes:
        target: the share that was wanted; 0 where none was.
        documents: rows of the only documents to search, or None.
    """

    label: str
    target: float
    principals: tuple[str, ...]
    how: str
    sources: tuple[str, ...] | None = None
    documents: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Each document's ACL, as its place in `rules`, (documents,); and the callers."""

    name: str
    classes: NDArray[np.int64]
    rules: tuple[Any, ...]
    callers: tuple[Caller, ...]

    def seen(self, caller: Caller, corpus: Corpus) -> Mask:
        """Tell which documents a caller sees, (documents,), by set logic: no SQL, nothing of the engine's."""
        held = read_caller(caller.principals)
        admits = np.array([read_rule(rule, {}).admits(held) for rule in self.rules])
        found: Mask = admits[self.classes]
        if caller.sources is not None:
            found = found & np.array([item.source in caller.sources for item in corpus.items])
        if caller.documents is not None:
            named = np.zeros(len(corpus), dtype=bool)
            named[list(caller.documents)] = True
            found = found & named
        return found


def make(name: str, corpus: Corpus, shares: Sequence[float]) -> Layout:
    """Make a layout of the corpus."""
    if name == "owned":
        return _owned(corpus, shares)
    return _rules(corpus) if name == "rules" else _drawn(name, corpus, shares)


def label(share: float) -> str:
    return f"{share * 100:g}%"


def _drawn(name: str, corpus: Corpus, shares: Sequence[float]) -> Layout:
    """Take the layout of the vector benchmark: a thousand groups, drawn at random or by nearness to 40 seeds."""
    origins = np.arange(len(corpus), dtype=np.int32)
    owners = tuple(item.owners for item in corpus.items)
    vectors = generate.Corpus(corpus.name, corpus.vectors.astype(np.float16), origins, owners, ())
    found = vector_layouts.make(name, vectors, shares)
    callers = tuple(
        Caller(
            label(caller.target),
            caller.target,
            tuple(f"group:{number}" for number in caller.classes.tolist()),
            f"groups: {len(caller.classes):,}; {caller.how}",
        )
        for caller in found.callers
    )
    rules = tuple([f"group:{number}"] for number in range(int(found.acl.max()) + 1))
    return Layout(name, found.acl.astype(np.int64), rules, callers)


def _owned(corpus: Corpus, shares: Sequence[float]) -> Layout:
    """Keep the real owners. Up to a tenth a person asks, with their teams; above, those who own most together."""
    rules = sorted({item.owners for item in corpus.items})
    places = {owners: place for place, owners in enumerate(rules)}
    owned: dict[str, set[int]] = {}
    for row, item in enumerate(corpus.items):
        for principal in item.owners:
            owned.setdefault(principal, set()).add(row)
    counts = {
        user: len(set[int]().union(*(owned.get(name, set()) for name in held))) for user, held in corpus.persons.items()
    }
    callers = tuple(_owner(corpus, owned, counts, share) for share in shares)
    classes = np.array([places[item.owners] for item in corpus.items])
    return Layout("owned", classes, tuple(list(owners) for owners in rules), callers)


def _owner(corpus: Corpus, owned: Mapping[str, set[int]], counts: Mapping[str, int], share: float) -> Caller:
    wanted = share * len(corpus)
    if share >= 1:
        return Caller(label(share), share, tuple(sorted(owned)), f"all {len(owned):,} principals")
    if share <= 0.1 and counts:
        user = min(counts, key=lambda name: (abs(counts[name] - wanted), name))
        held = corpus.persons[user]
        return Caller(label(share), share, tuple(held), f"a person, and teams: {len(held) - 1}")
    taken: list[str] = []
    covered: set[int] = set()
    for principal in sorted(owned, key=lambda name: (-len(owned[name]), name)):
        if len(covered | owned[principal]) <= wanted:
            covered |= owned[principal]
            taken.append(principal)
    return Caller(label(share), share, tuple(taken), f"{len(taken):,} principals, those who own most first")


def _rules(corpus: Corpus) -> Layout:
    """Draw one or two of 20 teams for each document; some are everyone's, some require or deny a principal more."""
    rng = np.random.default_rng([SEED, 1])
    count = len(corpus)
    teams = rng.integers(0, TEAMS, (count, 2))
    second = rng.random(count) < LIMITED_SHARE
    kind = rng.random(count)
    keys: dict[tuple[Any, ...], int] = {}
    rules: list[Any] = []
    classes: list[int] = []
    for row in range(count):
        allow = sorted({f"team:{number}" for number in teams[row, : 1 + second[row]].tolist()})
        public = kind[row] < PUBLIC_SHARE
        required = not public and kind[row] < PUBLIC_SHARE + LIMITED_SHARE
        denied = not public and not required and kind[row] < PUBLIC_SHARE + 2 * LIMITED_SHARE
        key = ("everyone",) if public else (*allow, required, denied)
        if key not in keys:
            keys[key] = len(rules)
            limits = {"require": [CLEARED] if required else [], "deny": [CONTRACTOR] if denied else []}
            rules.append(PUBLIC if public else ACL(allow, **limits))
        classes.append(keys[key])
    return Layout("rules", np.array(classes), tuple(rules), tuple(_ruled(corpus, rng)))


def _ruled(corpus: Corpus, rng: np.random.Generator) -> list[Caller]:
    def teams(count: int) -> tuple[str, ...]:
        return tuple(f"team:{number}" for number in range(count))

    sources = sorted({item.source for item in corpus.items})
    some = tuple(sources[1::2])
    named = min(_NAMED, len(corpus) // 4)
    rows = tuple(np.sort(rng.choice(len(corpus), named, replace=False)).tolist())
    return [
        Caller("anonymous", 0, (), "no principals: what everyone sees"),
        Caller("1 team", 0, teams(1), "one team"),
        Caller("3 teams", 0, teams(3), "three teams; not what requires a clearance"),
        Caller("3 teams, cleared", 0, (*teams(3), CLEARED), "three teams and the clearance"),
        Caller("3 teams, denied", 0, (*teams(3), CLEARED, CONTRACTOR), "the same, and what some documents deny"),
        Caller("10 teams, by source", 0, teams(10), f"ten teams, in {len(some)} of {len(sources)} sources", some),
        Caller("10 teams, by document", 0, teams(10), f"ten teams, in {named:,} named documents", None, rows),
    ]
