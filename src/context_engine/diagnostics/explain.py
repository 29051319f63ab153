"""Why a caller gets a document or does not. Pure: what was found goes in, reasons come out.

These answers tell of documents that the caller may not see: they are for administrators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from context_engine.access import AccessRule
from context_engine.model import ACL, DocumentInfo, Hit, LegHit, SearchReport
from context_engine.names import LegName

Standing = Literal["candidate", "too low", "none", "off", "failed"]


@dataclass(frozen=True, slots=True)
class Access:
    """Whether a caller may read a document, and by which part of its rule.

    Attributes:
        policy: the policy that the document points to, or None.
        acl: the rule itself, a policy's being looked up.
        visible: whether the caller may read it.
        reasons: in words; what admits the caller, or each thing that turns them away.
    """

    policy: str | None
    acl: ACL
    visible: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read a document: its rule, a policy's being looked up."""

    document: DocumentInfo
    policy: str | None
    acl: ACL


@dataclass(frozen=True, slots=True)
class LegStanding:
    """A chunk in one leg.

    Attributes:
        standing: `candidate`; `too low` where the leg found it below those that take part; `none` where it did not
            find it; `off` and `failed` are the leg's.
        rank: from 1; known for `too low` down to rank 10,000.
        score: the leg's own; higher is better.
        why: in words.
    """

    standing: Standing
    rank: int | None
    score: float | None
    why: str


@dataclass(frozen=True, slots=True)
class ChunkStanding:
    """A chunk of the document in a caller's search.

    Attributes:
        rank: its place after fusion, from 1; None where no leg gives it.
        score: the fused score.
        returned: whether it is among the hits.
        legs: its standing in each leg.
        why: in words.
    """

    chunk_id: int
    position: int
    text: str
    rank: int | None
    score: float | None
    returned: bool
    legs: Mapping[LegName, LegStanding]
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document is, or is not, in a caller's result.

    Attributes:
        document: which one.
        access: what the caller may do with it.
        filtered_out: the filters of the call that leave it out, in words.
        chunks: its chunks in the search; empty where the document is out of the caller's scope.
        report: how the search was answered; None where the document is out of the caller's scope.
        verdict: all of it in one sentence.
    """

    document: DocumentInfo
    access: Access
    filtered_out: tuple[str, ...]
    chunks: tuple[ChunkStanding, ...]
    report: SearchReport | None
    verdict: str


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """What a question meets in a chunk: the words it holds, and whether its conditions are met."""

    chunk_id: int
    position: int
    text: str
    has_vector: bool
    held: tuple[str, ...]
    matches: bool
    excluded: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a question the text legs look for: whether there is anything, and whether any one word will do."""

    words: bool
    any_word: bool


@dataclass(frozen=True, slots=True)
class LegList:
    """What one leg found for a caller.

    Attributes:
        places: each found chunk's place, down to a depth that is more than what takes part.
        limit: how many take part.
        weight: the leg's weight; 0 is off.
        error: why it failed, or None.
    """

    places: Mapping[int, LegHit]
    limit: int
    weight: float
    error: str | None = None


def judge(rule: AccessRule, caller: Sequence[str] | None) -> tuple[bool, tuple[str, ...]]:
    """Tell whether a rule admits a caller (None is `TRUSTED`), and why or why not."""
    if caller is None:
        return True, ("TRUSTED reads everything",)
    held = set(caller)
    allowed = [name for name in rule.allow if name in held]
    lacking = [name for name in rule.require if name not in held]
    denied = [name for name in rule.deny if name in held]
    against: list[str] = []
    if not rule.public and not allowed:
        named = f"the caller has none of the {len(rule.allow)} principals it is open to"
        against.append(named if rule.allow else "it is open to nobody but TRUSTED")
    against += [f"it requires {name}, which the caller lacks" for name in lacking]
    against += [f"it denies {name}, which the caller has" for name in denied]
    if against:
        return False, tuple(against)
    grounds = ["it is public"] if rule.public else [f"it is open to {name}" for name in allowed]
    grounds += [f"the caller has {name}, which it requires" for name in rule.require]
    return True, tuple(grounds)


def stand(facts: ChunkFacts, leg: LegName, found: LegList, asked: Asked) -> LegStanding:
    """Tell how a chunk stands in a leg."""
    if found.error is not None:
        return LegStanding("failed", None, None, f"the leg failed: {found.error}")
    if found.weight <= 0:
        return LegStanding("off", None, None, "the leg has weight 0")
    place = found.places.get(facts.chunk_id)
    if place and place.rank <= found.limit:
        return LegStanding("candidate", place.rank, place.score, f"ranked {place.rank}")
    if place:
        why = f"ranked {place.rank}, and the first {found.limit} take part (search.candidates)"
        return LegStanding("too low", place.rank, place.score, why)
    return LegStanding("none", None, None, _why_not_found(facts, leg, asked, bool(found.places)))


def _why_not_found(facts: ChunkFacts, leg: LegName, asked: Asked, finds_others: bool) -> str:
    if facts.excluded:
        return "it holds what the question excludes"
    if leg == "ann":
        if not facts.has_vector:
            return "it has no vector"
        return "it is further down than was looked" if finds_others else "the question has nothing to embed"
    if not asked.words:
        return "the question has no words to look for"
    if not facts.held:
        near = ", and no near spelling of one" if leg == "trgm" else ""
        return f"it holds none of the question's words{near}"
    if leg == "fts" and not facts.matches:
        wanted = "any of them" if asked.any_word else "each phrase, or every word"
        return f"it holds {_listed(facts.held)}, but the question wants {wanted}"
    return "it is further down than was looked"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def conclude(access: Access, filtered_out: Sequence[str], chunks: Sequence[ChunkStanding], top_k: int) -> str:
    """Say all of it in one sentence."""
    if not access.visible:
        return f"not visible to this caller: {'; '.join(access.reasons)}"
    if filtered_out:
        return f"visible, but left out by the filters of the call: {'; '.join(filtered_out)}"
    ranks = [chunk.rank for chunk in chunks if chunk.rank is not None]
    if any(chunk.returned for chunk in chunks):
        return f"in the result, at rank {min(ranks)}"
    if ranks:
        return f"found, at rank {min(ranks)}, and cut by top_k {top_k}"
    return "visible, but no leg gives a candidate of it"


def why_chunk(rank: int | None, returned: bool, top_k: int) -> str:
    """Say of a chunk whether it is returned, and why not."""
    if rank is None:
        return "no candidate of any leg"
    return f"returned at rank {rank}" if returned else f"rank {rank}, cut by top_k {top_k}"


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A chunk that one of two callers gets, or both.

    Attributes:
        a: its place and fused score for the first caller, or None.
        b: the same for the second.
        why: where one does not get it, why not.
    """

    chunk_id: int
    position: int
    document: DocumentInfo
    a: LegHit | None
    b: LegHit | None
    why: str


@dataclass(frozen=True, slots=True)
class Diff:
    """What two callers get for one question: rows in the order of the better place, and both reports."""

    rows: tuple[DiffRow, ...]
    report_a: SearchReport
    report_b: SearchReport


def align(a: Sequence[Hit], b: Sequence[Hit]) -> list[tuple[Hit, LegHit | None, LegHit | None]]:
    """Lay two lists of hits side by side, by the better of a chunk's two places."""
    first = {hit.chunk_id: LegHit(rank, hit.score) for rank, hit in enumerate(a, 1)}
    second = {hit.chunk_id: LegHit(rank, hit.score) for rank, hit in enumerate(b, 1)}
    hits = {hit.chunk_id: hit for hit in [*b, *a]}

    def better(key: int) -> tuple[int, bool, int]:
        ranks = [places[key].rank for places in (first, second) if key in places]
        return min(ranks), key not in first, key

    return [(hits[key], first.get(key), second.get(key)) for key in sorted(hits, key=better)]
