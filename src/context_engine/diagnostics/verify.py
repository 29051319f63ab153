"""Hold the promise on a database as it is: whom to ask for, what to ask, and how two answers are compared. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Final, Literal

from context_engine.model import ACL, PUBLIC, AclLike, Document, Hit, Policy, SearchResult, document_id

_WORD: Final = re.compile(r"\w+")
_SHOWN: Final = 3
Answers = Mapping[tuple[str, str], Any]
"""What a caller gets, by the call and what was asked."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A call whose answer is not the one it must be.

    Attributes:
        call: `fused`, the name of a leg, `filtered`, `count`, `list`, `document`, `neighbours`, or `probe`.
        asked: the question, the filters, or the document's id.
        what: what differs, in words.
    """

    call: str
    asked: str
    what: str


@dataclass(frozen=True, slots=True)
class CallerCheck:
    """What was found for one caller.

    Attributes:
        principals: the caller.
        documents: how many documents they may read.
        chunks: how many chunks.
        against: `copy`, tables with only their documents; `views` where those would be too large.
        answers: how many answers were compared.
        probed: how many answers the probe compared; None where it did not run.
        approximate: whether the vector leg answers this caller approximately by default; it was compared exact.
        differences: what differs; empty when the promise holds.
    """

    principals: tuple[str, ...]
    documents: int
    chunks: int
    against: Literal["copy", "views"]
    answers: int
    probed: int | None
    approximate: bool
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found.

    Attributes:
        callers: one entry for each caller.
        seed: what the callers and questions were drawn by.
    """

    callers: tuple[CallerCheck, ...]
    seed: int

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not any(check.differences for check in self.callers)


def draw_callers(principals: Sequence[str], random: Random, count: int) -> list[tuple[str, ...]]:
    """Draw callers: an anonymous one, one with every principal given, then of one, a few and many in turn."""
    drawn = dict.fromkeys([(), tuple(sorted(principals))])
    sizes = [1, 1, 2, 3, 6, max(len(principals) // 2, 1)]
    for attempt in range(10 * count):  # of few principals there are few callers
        if len(drawn) >= count or not principals:
            break
        size = min(sizes[attempt % len(sizes)], len(principals))
        drawn[tuple(sorted(random.sample(list(principals), size)))] = None
    return list(drawn)[:count]


def draw_questions(texts: Sequence[str], random: Random, count: int) -> list[str]:
    """Make questions of stored texts: short and long, one word, a slip, a phrase, an exclusion."""
    found: list[str] = []
    for number in range(count):
        words = _WORD.findall(texts[number % len(texts)]) if texts else []
        if words:
            found.append(_question(words, random, number % 6))
    return list(dict.fromkeys(found))


def _question(words: list[str], random: Random, kind: int) -> str:
    start = random.randrange(len(words))
    some = words[start : start + random.randint(3, 6)]
    longest = max(random.sample(words, min(len(words), 8)), key=len)
    kinds = [
        " ".join(some),
        longest,
        slip(longest, random),
        f'"{" ".join(some[:2])}"',
        f"{' '.join(some)} -{random.choice(words)}",
        " ".join(words[start : start + 25]),
    ]
    return kinds[kind][:1000]


def slip(word: str, random: Random) -> str:
    """Swap two neighbouring letters inside a word."""
    if len(word) < 4:
        return word
    at = random.randrange(1, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def compare(got: Answers, wanted: Answers) -> Iterator[Difference]:
    """Say which answers differ, byte for byte; timings are not compared."""
    for (call, asked), answer in got.items():
        expected = wanted[call, asked]
        if repr(answer) != repr(expected):
            for what in _differences(answer, expected):
                yield Difference(call, asked, what)


def comparable(result: SearchResult) -> SearchResult:
    """Drop the timings."""
    return replace(result, report=replace(result.report, timings_ms={}))


def _differences(got: Any, wanted: Any) -> list[str]:
    if not isinstance(got, SearchResult) or not isinstance(wanted, SearchResult):
        return [f"{_short(got)} instead of {_short(wanted)}"]
    found: list[str] = []
    for rank in range(max(len(got.hits), len(wanted.hits))):
        pair = [hits[rank] if rank < len(hits) else None for hits in (got.hits, wanted.hits)]
        found += _hit_differences(rank + 1, *pair)
    shown = found[:_SHOWN] + ([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])
    for name in (field.name for field in fields(got.report)):
        ours, theirs = getattr(got.report, name), getattr(wanted.report, name)
        if repr(ours) != repr(theirs):
            shown.append(f"report.{name}: {_short(ours)} instead of {_short(theirs)}")
    return shown


def _hit_differences(rank: int, got: Hit | None, wanted: Hit | None) -> list[str]:
    if repr(got) == repr(wanted):
        return []
    if got is None or wanted is None or got.chunk_id != wanted.chunk_id:
        return [f"rank {rank}: {_name(got)} instead of {_name(wanted)}"]
    parts = [field.name for field in fields(got)]
    differing = [name for name in parts if repr(getattr(got, name)) != repr(getattr(wanted, name))]
    return [
        f"rank {rank}, {_name(got)}: {name} {_short(getattr(got, name))} instead of {_short(getattr(wanted, name))}"
        for name in differing
    ]


def _name(hit: Hit | None) -> str:
    return f"{hit.document.source}/{hit.document.external_id}#{hit.position}" if hit else "nothing"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


@dataclass(frozen=True, slots=True)
class Probe:
    """Documents to plant, and what to ask while they are there.

    Attributes:
        bait: a document that the caller may read: its score would tell of others with its words.
        policy: the name and the rule of a policy that some canaries point to.
        canaries: documents that the caller may not read, for every kind of reason.
        changed: the same with other texts and other rules, hidden all the same.
        questions: what the caller asks.
        armed: a question that finds the canaries when nothing is hidden.
    """

    bait: Document
    policy: tuple[str, AclLike]
    canaries: tuple[Document, ...]
    changed: tuple[Document, ...]
    questions: tuple[str, ...]
    armed: str

    @property
    def ids(self) -> list[int]:
        """The canaries' ids."""
        return [document_id(item.source, item.external_id or "") for item in self.canaries]

    @property
    def filters(self) -> list[Mapping[str, Any]]:
        """Filters that the canaries would pass."""
        metadata = dict(self.canaries[0].metadata)
        return [{"documents": self.ids}, {"sources": [self.bait.source]}, {"metadata": metadata}]


def plan_probe(caller: Sequence[str], random: Random) -> Probe:
    """Make canaries with words that nothing else holds, some of them shared with the bait, some one slip away.

    Every rule and every word in them is new: what is not stored yet can make no other writer wait.
    """
    token, shared, only = (_unique(random) for _ in range(3))
    near, name = slip(shared, random), _unique(random)
    source, other = f"context-engine-verify-{token}", f"context-engine-verify:{token}"
    own = [*caller, f"{other}:reader"]
    rules: list[AclLike] = [
        [other],
        ACL(allow=[], require=[other]),
        ACL(allow=PUBLIC, require=[other]),
        ACL(allow=own, require=[other]),
        Policy(source),
        *([ACL(allow=PUBLIC, deny=[caller[0], other]), ACL(allow=own, deny=[caller[-1], other])] if caller else []),
    ]
    texts = [f"{shared} {shared} {only}", f"{only} {near}", f"{shared} {token}", f"{near} {near} {shared} {only}"]

    def plant(texts: Sequence[str], shift: int) -> tuple[Document, ...]:
        return tuple(
            Document(
                text=text,
                name=f"{name} {shared}",
                external_id=f"canary-{number}-{at}",
                source=source,
                acl=rules[(number + shift) % len(rules)],
                metadata={"canary": only},
            )
            for number in range(len(rules))
            for at, text in enumerate(texts)
        )

    bait = Document(
        text=f"{shared} {_unique(random)} {_unique(random)}",
        external_id="bait",
        source=source,
        acl=own if caller else ACL(allow=PUBLIC, deny=[other]),
    )
    questions = (
        shared,
        only,
        near,
        slip(only, random),
        slip(near, random),
        f"{name} {shared} {token}",
        f'"{shared} {only}"',
        f"{shared} -{only}",
        f"{name} {shared} {texts[0]}",
    )
    changed = plant([f"{text} {only} {near}" for text in reversed(texts)], 1)
    return Probe(bait, (source, [other]), plant(texts, 0), changed, questions, only)


def _unique(random: Random) -> str:
    """Make a word that no text holds; without vowels no stemmer shortens it."""
    return "q" + "".join(random.choices("bcdfghjklmnpqrtvwxz", k=11))
