"""Worlds to test in: documents, ACLs, callers, questions and filters that get in each other's way.

Hypothesis draws a size and a seed, and the seed decides the rest: drawn value by value, most examples were small
variations of a few, and few questions found anything. A failure shrinks to fewer documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from context_engine import ACL, PUBLIC, Document, Policy
from context_engine.model import AclLike, document_id

COMMON = ["report", "server", "budget", "team"]
RARE = ["zephyr", "quokka", "obsidian", "marzipan", "parliament"]
NEAR = [
    "kernel",
    "kernal",
    "kernels",
    "colonel",
    "authentication",
    "authentification",
    "autentication",
    "severs",
]
COMPOUND = [
    "AX-4410-B",
    "AX-4410-C",
    "ax4410b",
    "parseHTTPResponse",
    "10.1.2.3",
    "state-of-mind",
    "case_1",
    "a/b",
]
FOREIGN = [
    "Céüse",
    "ceuse",
    "Ce\u0301u\u0308se",
    "naïve",
    "東京タワー",
    "東京",
    "京都タワーへ行く",
    "서울",
]
STOP = ["the", "of", "and", "to"]
VOCABULARY = COMMON * 4 + RARE + NEAR + COMPOUND + FOREIGN + STOP
TYPOS = [
    "kernl",
    "kenrel",
    "quoka",
    "qoukka",
    "authenticaton",
    "obsidain",
    "parlament",
    "AX-4401-B",
    "repotr",
    "reporst",
    "authenticaiton",
]
PARTED = ["AX 4410 B", "ax4410", "kern", "zeph", "http response", "serverbudget", "10.1.2", "obsi", "4410 b"]
ODD_QUESTIONS = [
    "",
    "the of",
    "-report",
    "🙂",
    "%",
    '"',
    "東京",
    "or",
    "What's the team's R&D?",
    "report or -team",
]
NAMES = ["Budget zephyr", "Kernel notes"]

GROUPS = ["a", "b", "c", "caf\u00e9"]
POLICIES = ["p", "q"]
CALLERS = [
    [],
    ["nobody"],
    ["b", "nobody"],
    ["cafe\u0301"],
    ["a"],
    ["c"],
    ["a", "b"],
    ["b", "c"],
    ["a", "c"],
    GROUPS,
]
SOURCES = ["default", "wiki", "mail"]
KEYS = ["year", "kind", 'it\'s "odd"']
SCALARS = [0, 1, 2, 1.0, 2.5, 2024, "1", "x", "y", "O'Brien", 'a"b', True, False, None]

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """A question with its filters."""

    query: str
    top_k: int = 10
    filters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """Everything that an example is about."""

    documents: list[Document]
    policies: dict[str, AclLike]
    caller: list[str]
    asks: list[Ask]
    changes: list[tuple[Any, ...]]
    seed: int


@st.composite
def worlds(draw: st.DrawFn, most: int = 25) -> World:
    return make_world(draw(st.integers(3, most)), draw(st.integers(0, 2**32)))


def make_world(size: int, seed: int) -> World:
    """Make the world of a seed; a larger size adds documents and leaves the others as they are."""
    documents = [_document(Random(f"{seed} {number}"), number) for number in range(size)]
    random = Random(f"{seed} rest")
    return World(
        documents=documents,
        policies={name: _rule(random) for name in POLICIES},
        caller=random.choice(CALLERS),
        asks=[_ask(random, documents) for _ in range(3)],
        changes=[_change(random) for _ in range(random.randint(1, 6))],
        seed=seed,
    )


def _some(random: Random, pool: list[T], least: int, most: int) -> list[T]:
    return [random.choice(pool) for _ in range(random.randint(least, most))]


def _document(random: Random, number: int) -> Document:
    text = "" if random.random() < 0.05 else _text(random)
    named = not text or random.random() < 0.2
    return Document(
        text=text,
        name=random.choice(NAMES) if named else "",
        external_id=f"d{number}",
        source=random.choice(SOURCES),
        acl=_acl(random),
        metadata={key: _value(random) for key in KEYS if random.random() < 0.5},
    )


def _text(random: Random) -> str:
    """Write a text of one to three chunks; one of a few so short that others say the same."""
    if random.random() < 0.15:
        return " ".join(_some(random, COMMON[:2], 1, 2))
    words = _some(random, VOCABULARY, 3, 24)
    return "".join(word + random.choice([" ", " ", " ", ", ", ". ", "\n"]) for word in words)


def _rule(random: Random) -> ACL:
    everyone = [PUBLIC] if random.random() < 0.3 else []
    return ACL(
        allow=[*everyone, *_some(random, GROUPS, 0, 2)],
        require=_some(random, GROUPS, 0, 1),
        deny=_some(random, GROUPS, 0, 1),
    )


def _acl(random: Random) -> AclLike:
    kinds: list[Callable[[], AclLike]] = [
        lambda: _some(random, GROUPS, 0, 2),
        lambda: _some(random, GROUPS, 1, 3),
        lambda: _rule(random),
        lambda: PUBLIC,
        lambda: Policy(random.choice(POLICIES)),
    ]
    return random.choice(kinds)()


def _value(random: Random) -> Any:
    mixed = _some(random, [*SCALARS, [1], {"k": 1}], 0, 3)
    return random.choice([random.choice(SCALARS), random.choice(SCALARS), mixed, {"k": 1}])


def _ask(random: Random, documents: list[Document]) -> Ask:
    filters: dict[str, Any] = {}
    if random.random() < 0.12:
        filters["sources"] = _some(random, [*SOURCES, "none"], 0, 2)
    if random.random() < 0.12:
        ids = [document_id(item.source, item.external_id or "") for item in documents]
        filters["documents"] = random.sample([*ids, 7], random.randint(0, len(ids)))
    if random.random() < 0.15:
        filters["metadata"] = {key: _wanted(random) for key in KEYS if random.random() < 0.4}
    return Ask(_question(random, documents), random.choice([1, 3, 10, 10, 300]), filters)


def _wanted(random: Random) -> Any:
    operators = ["eq", "ne", "gt", "gte", "lt", "lte"]
    comparisons = {name: random.choice(SCALARS) for name in _some(random, operators, 1, 2)}
    return random.choice([random.choice(SCALARS), _some(random, SCALARS, 0, 3), comparisons, comparisons])


def _question(random: Random, documents: list[Document]) -> str:
    if random.random() < 0.2:
        return random.choice([*ODD_QUESTIONS, *PARTED])
    return " ".join(_piece(random, documents) for _ in range(random.choice([1, 1, 2, 3, 4])))


def _piece(random: Random, documents: list[Document]) -> str:
    kind = random.random()
    if kind < 0.5:
        return random.choice(VOCABULARY)
    if kind < 0.8:
        return random.choice(TYPOS)
    if kind < 0.88:
        words = random.choice(documents).text.replace('"', "").split() or ["the"]
        start = random.randrange(len(words))
        return "-" * (random.random() < 0.2) + f'"{" ".join(words[start : start + random.randint(1, 3)])}"'
    return "or" if kind < 0.94 else f"-{random.choice(COMMON + COMPOUND)}"


def _change(random: Random) -> tuple[Any, ...]:
    number = random.randrange(100)
    kinds: list[tuple[Any, ...]] = [
        ("acl", number, _acl(random)),
        ("policy", random.choice(POLICIES), _rule(random)),
        ("update", number, _text(random), random.choice([None, _acl(random)])),
        ("delete", number),
        ("again",),
        ("tally",),
        ("add", _text(random), _acl(random)),
    ]
    return random.choice(kinds)
