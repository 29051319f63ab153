"""What the processes write and ask: documents, access rules, callers and questions, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from context_engine import ACL, PUBLIC, Document, Policy, Settings
from context_engine.model import AclLike
from context_engine.models.hashing import HashingEmbedder
from context_engine.names import LegName

EMBEDDER: Final = HashingEmbedder(64)
GROUPS: Final = [f"group:{number}" for number in range(10)]
POLICIES: Final = [f"policy-{number}" for number in range(6)]
OWNED: Final = 40
"""Documents that one process alone changes."""
SHARED: Final = 30
"""Documents that all of them change."""
_WORDS: Final = (
    "otter heron kernel budget server travel laser notice period contract supplier invoice payroll zephyr quartz "
    "marzipan obsidian quokka report meeting review launch recall safety firmware calibration export retention bonus "
    "AX-4410-B CR-12 Nordlys dock lease severance parental leave commuting badge vpn audit"
).split()


def settings(**storage: Any) -> Settings:
    """The settings of every process."""
    return Settings(storage={"pool_size": 2, **storage}, ingest={"chunk_tokens": 32})


def words(rng: random.Random, count: int) -> str:
    weights = [1 / (rank + 3) for rank in range(len(_WORDS))]
    return " ".join(rng.choices(_WORDS, weights, k=count))


def body(rng: random.Random, version: str) -> str:
    """A text of one to six chunks that names its version in each paragraph."""
    parts = range(rng.randint(1, 6))
    return "\n\n".join(f"{words(rng, rng.randint(8, 20))} as {version} wrote part {part}." for part in parts)


def acl(rng: random.Random) -> AclLike:
    """An access rule of every kind: groups, required, denied, public, nobody, a policy."""
    some = rng.sample(GROUPS, 3)
    return rng.choice(
        [
            some[:1], some[:1], some[:2],
            ACL(allow=some[:2], deny=some[2:]),
            ACL(allow=some[:1], require=some[1:2]),
            ACL(allow=[PUBLIC], deny=some[:1]),
            PUBLIC, [], Policy(rng.choice(POLICIES)), Policy(rng.choice(POLICIES)),
        ]
    )  # fmt: skip


def policy_rule(rng: random.Random) -> ACL:
    some = rng.sample(GROUPS, 3)
    return rng.choice([ACL(allow=some[:1]), ACL(allow=some), ACL(allow=some[:2], deny=some[2:]), ACL()])


def document(rng: random.Random, name: str, version: str, rule: AclLike) -> Document:
    return Document(text=body(rng, version), external_id=name, acl=rule, metadata={"year": 2020 + rng.randrange(6)})


@dataclass(frozen=True, slots=True)
class Question:
    """A search: who asks, what, in which legs, narrowed how."""

    kind: str
    query: str
    principals: list[str]
    top_k: int
    weights: dict[LegName, float] | None
    filters: dict[str, Any] = field(default_factory=dict[str, Any])


_LEGS: Final[tuple[LegName, ...]] = ("fts", "trgm", "ann")


def question(rng: random.Random) -> Question:
    kind = rng.choice(["long", "short", "short", "misspelt", "phrase", "excluding"])
    word = rng.choice(_WORDS)
    at = rng.randrange(len(word))
    query = {
        "long": words(rng, 16),
        "short": word,
        "misspelt": word[:at] + rng.choice("aeiourst") + word[at + 1 :],
        "phrase": f'"{words(rng, 2)}" {word}',
        "excluding": f"{words(rng, 3)} -{word}",
    }[kind]
    alone = rng.choice([None, None, None, *_LEGS])
    weights: dict[LegName, float] | None = None if alone is None else {leg: float(leg == alone) for leg in _LEGS}
    filters = {"metadata": {"year": {"gte": 2020 + rng.randrange(6)}}} if rng.random() < 0.2 else {}
    callers = rng.sample(GROUPS, rng.choice([0, 1, 1, 2, 3]))
    return Question(kind, query, callers, rng.choice([3, 10, 50]), weights, filters)
