"""The records that go in and come out. Plain data; nothing here talks to a database."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from context_engine.names import LEGS as LEGS
from context_engine.names import LegName as LegName

DEFAULT_SOURCE: Final = "default"

_POSITIVE_63_BITS: Final = (1 << 63) - 1


def _hash63(*parts: bytes) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big") & _POSITIVE_63_BITS


def document_id(source: str, external_id: str) -> int:
    """Derive the id of a document: 63 bits of a hash of (source, external_id), the same in any database."""
    return _hash63(b"document", source.encode(), external_id.encode())


def chunk_id(document: int, position: int) -> int:
    """Derive the id of a chunk: 63 bits of a hash of (document id, position)."""
    return _hash63(b"chunk", document.to_bytes(8, "big"), position.to_bytes(8, "big"))


class _Public:
    """Everyone may read: anonymous callers too. Use the instance `PUBLIC`."""

    _instance: "_Public | None" = None

    def __new__(cls) -> "_Public":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "PUBLIC"


class _Trusted:
    """A caller without limits. Use the instance `TRUSTED`; no wire format can express it."""

    _instance: "_Trusted | None" = None

    def __new__(cls) -> "_Trusted":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "TRUSTED"


PUBLIC: Final = _Public()
TRUSTED: Final = _Trusted()
Public = _Public
Trusted = _Trusted

Principals = Sequence[str] | frozenset[str] | set[str] | _Trusted


@dataclass(frozen=True, slots=True)
class ACL:
    """Who may read a document: any of `allow`, all of `require`, none of `deny`.

    An empty `allow` admits nobody but `TRUSTED`, whatever `require` says; `allow=[PUBLIC]` admits everyone
    whom `require` and `deny` do not turn away.
    """

    allow: Sequence[str | _Public] | frozenset[str | _Public] | _Public = ()
    require: Sequence[str] | frozenset[str] = ()
    deny: Sequence[str] | frozenset[str] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """A named ACL that many documents point to; changing it changes them all at once."""

    name: str


class _Stored:
    """Keep the ACL that the database holds. The default of `Document.acl`: an error for a new document."""

    def __repr__(self) -> str:
        return "STORED"


STORED: Final = _Stored()
AclLike = ACL | Policy | _Public | Sequence[str | _Public] | frozenset[str | _Public]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document to ingest, identified by (source, external_id).

    Attributes:
        text: the body; may be empty when `name` is not.
        name: shown to people, and indexed with every chunk.
        external_id: the document's id where it comes from; `name` when left out.
        source: the namespace that the id belongs to.
        acl: who may read it; required for a new document, kept as stored when left out of an update.
        metadata: JSON values to filter by.
    """

    text: str
    name: str = ""
    external_id: str | None = None
    source: str = DEFAULT_SOURCE
    acl: AclLike | _Stored = STORED
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A stored document without its text."""

    id: int
    name: str
    external_id: str
    source: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredDocument(DocumentInfo):
    """A stored document with its text, whole and as chunks in reading order."""

    text: str
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a stored document; `position` counts from 0."""

    chunk_id: int
    position: int
    text: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many documents and chunks a caller may see."""

    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class LegHit:
    """A hit's place in one leg: `rank` from 1, and the leg's own `score` (higher is better)."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A returned chunk.

    Attributes:
        chunk_id: content-derived id of the chunk.
        position: the chunk's place in its document, from 0.
        text: the chunk's text.
        score: the fused score; comparable only within one result.
        document: where the chunk comes from.
        legs: rank and score in each leg that found the chunk.
    """

    chunk_id: int
    position: int
    text: str
    score: float
    document: DocumentInfo
    legs: dict[LegName, LegHit]


@dataclass(frozen=True, slots=True)
class LegReport:
    """How one leg answered.

    Attributes:
        route: the way taken, such as `bm25`, `exact`, `ivf`, or `off` and `empty` where nothing ran.
        exact: whether the leg's ranking is exact.
        candidates: how many rows the leg gave to fusion.
        error: why the leg failed, or None.
        examined: how many visible rows the vector index ranked, up to `search.ann_rows`; None on other routes.
    """

    route: str
    exact: bool
    candidates: int
    error: str | None = None
    examined: int | None = None


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How a search was answered.

    Attributes:
        exact: whether every leg that ran is exact.
        degraded: whether a leg failed, so that the result lacks its part.
        legs: one report a leg.
        visible_chunks: how many chunks the caller's scope holds.
        timings_ms: milliseconds by stage.
        notes: what of the question was left out, in words.
        weights: what each leg counted in fusion, fitted to the question where `fusion.adaptive` is on.
    """

    exact: bool
    degraded: bool
    legs: dict[LegName, LegReport]
    visible_chunks: int
    timings_ms: dict[str, float]
    notes: tuple[str, ...] = ()
    weights: dict[LegName, float] = field(default_factory=dict[LegName, float])


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first, and how they came about."""

    hits: tuple[Hit, ...]
    report: SearchReport


Outcome = Literal["created", "updated", "acl_updated", "unchanged", "failed"]


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """What happened to one document.

    Attributes:
        source: the document's source.
        external_id: its id there.
        document_id: its id here; None when it was refused before it had one.
        outcome: what was done.
        chunks: how many chunks it has now.
        embedded: how many of them were embedded anew.
        error: why it failed, or None.
        warnings: what was changed or left out on the way in.
    """

    source: str
    external_id: str
    document_id: int | None
    outcome: Outcome
    chunks: int = 0
    embedded: int = 0
    error: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What upkeep did.

    Attributes:
        filed: documents taken into the tally of words and the vector index.
        index_built: whether a vector index was built.
        reordered: whether rows were put in the order of access classes.
    """

    filed: int
    index_built: bool
    reordered: bool


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Every document's outcome, in the order given.

    Attributes:
        timings_ms: milliseconds by stage; `settle` is the upkeep afterwards, the building of an index with it.
        notes: upkeep that could not be done, in words; it changes no outcome.
    """

    outcomes: tuple[IngestOutcome, ...]
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """Count the documents with this outcome."""
        return sum(item.outcome == outcome for item in self.outcomes)

    @property
    def created(self) -> int:
        """Documents that are new."""
        return self.count("created")

    @property
    def updated(self) -> int:
        """Documents whose content changed."""
        return self.count("updated")

    @property
    def unchanged(self) -> int:
        """Documents that were stored already, just so."""
        return self.count("unchanged")

    @property
    def failed(self) -> tuple[IngestOutcome, ...]:
        """The documents that were refused, each with the reason."""
        return tuple(item for item in self.outcomes if item.outcome == "failed")

    @property
    def warnings(self) -> tuple[IngestOutcome, ...]:
        """The documents that were stored with a remark."""
        return tuple(item for item in self.outcomes if item.warnings)


AuditAction = Literal["search", "get", "list", "count", "lost"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One call as the audit trail keeps it.

    Attributes:
        id: a UUID.
        at: when the call began, by this machine's clock.
        action: what was called; `lost` is the trail's own mark for records that could not be kept.
        principals: who asked; None for `TRUSTED`.
        query: the question, where `audit.query` is `text`.
        query_hash: its HMAC-SHA256 in hex, where `audit.query` is `hash`.
        filters: what narrowed the call, and `top_k`, `exact` and `weights` of a search.
        document_ids: the documents returned, best first; for `search`, of each chunk returned.
        chunk_ids: the chunks returned, best first.
        legs: route, exactness, candidates and error of each leg.
        duration_ms: from the call's beginning to its end, waiting for a connection counted.
        error: the code of the error that ended the call, or None.
    """

    id: str
    at: datetime
    action: AuditAction
    principals: tuple[str, ...] | None
    query: str | None
    query_hash: str | None
    filters: dict[str, Any]
    document_ids: tuple[int, ...]
    chunk_ids: tuple[int, ...]
    legs: dict[str, dict[str, Any]]
    duration_ms: float
    error: str | None


@dataclass(frozen=True, slots=True)
class AuditState:
    """How an engine's audit trail is doing.

    Attributes:
        written: records stored so far.
        waiting: records not stored yet.
        lost: records that could not be kept, so far; the table tells of them too once it can be written.
        hook_failures: how often the hook raised.
        error: why the last write failed; None when it went well.
    """

    written: int = 0
    waiting: int = 0
    lost: int = 0
    hook_failures: int = 0
    error: str | None = None
