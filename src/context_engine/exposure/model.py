"""What is looked at, what is measured, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

AclKind = Literal["array", "scalar", "json_array", "json_scalar"]
"""How a row says who may read it: `&&` on an array, `=` on one value, `?|` or `->>` inside a JSON document."""
Preset = Literal["context-engine", "langchain", "langchain-v2", "llamaindex", "haystack", "plain"]
Metric = Literal["cosine", "l2", "inner", "l1"]
QuestionKind = Literal["own", "others", "given", "random"]
"""Where a question comes from: the caller's own rows, other rows, the user; or: asked for a random set of the same
size in place of the caller's rows."""
Plan = Literal["vector index", "filter index", "sequential scan", "other"]
Level = Literal["no gap", "slight", "gap", "severe", "not measured"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the catalogue has it; `array_type` and `type` are (schema, name), `dim` a vector's dimension."""

    name: str
    quoted: str
    type: tuple[str, str]
    array_type: tuple[str, str] | None
    is_array: bool
    readable: bool
    dim: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A relation with a vector column; `rows` is the planner's estimate, `kind` is pg_class.relkind."""

    oid: int
    schema: str
    name: str
    quoted: str
    kind: str
    rows: int
    row_security: bool
    columns: tuple[Column, ...]

    @property
    def title(self) -> str:
        """The name with its schema, for people."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> Column | None:
        """Find a column by its name, quoted or not."""
        return next((column for column in self.columns if name in (column.name, column.quoted)), None)


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An HNSW or IVFFlat index.

    Attributes:
        operator: the distance operator it serves, from its operator class.
        type: the vector type that is indexed, with `dim`; another than the column's where the index is on a cast.
        cast: whether the index is on a cast of the column.
    """

    name: str
    method: Literal["hnsw", "ivfflat"]
    operator: str
    type: str
    dim: int | None
    cast: bool
    partial: bool


@dataclass(frozen=True, slots=True)
class AclColumn:
    """The column that says who may read, and the path inside it where it is JSON."""

    column: Column
    path: tuple[str, ...]
    kind: AclKind

    @property
    def title(self) -> str:
        """How it is written on the command line."""
        return ".".join((self.column.name, *self.path))


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured.

    Attributes:
        base: a column and the value that every search asks for besides the permission (a LangChain collection).
        operator: the distance operator of the searches.
        index: the vector index, or None.
        library_query: whether a library orders by the column itself, even where the index is on a cast of it.
        key: the two columns that tell a row from any other, within a snapshot.
    """

    preset: Preset
    table: Table
    embedding: Column
    dim: int | None
    acl: AclColumn
    base: tuple[Column, str] | None
    operator: str
    index: VectorIndex | None
    library_query: bool
    key: tuple[str, str] = ("tableoid", "ctid")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A set of ACL values that a caller could hold; `rows` as counted; `alike` values have as many rows."""

    values: tuple[str, ...]
    rows: int
    alike: int = 1


@dataclass(frozen=True, slots=True)
class Figures:
    """What one way of searching did with a set of questions.

    Attributes:
        recall: mean share of the exact best `top_k` that came back, 0 to 1.
        lossy: questions that lost at least one row.
        short: share of questions with fewer rows than there were to find; `empty`: with none.
        p50_ms: latency as the client sees it; `p95_ms` likewise.
        timeouts: questions that ran into the statement timeout; they are in no other number.
    """

    questions: int
    recall: float
    lossy: int
    short: float
    empty: float
    p50_ms: float
    p95_ms: float
    timeouts: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """How a caller's rows lie among the others.

    Attributes:
        near_own: mean share of visible rows among the nearest rows of one of the caller's own.
        near_others: the same around a row that the caller may not see.
        neighbours: how many nearest rows were looked at.
        expected: the share that a random set of the same size has, in both places.
    """

    near_own: float | None
    near_others: float | None
    neighbours: int
    expected: float

    @property
    def lift(self) -> float | None:
        """How many times denser the caller's rows are around themselves than a random set's."""
        return None if self.near_own is None or not self.expected else self.near_own / self.expected


FiguresByMethod = Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller, measured. `values` is None unless ACL values may be shown; `share` is of the rows with a vector."""

    label: str
    values: tuple[str, ...] | None
    visible: int
    share: float
    alike: int
    plan: Plan
    plan_index: str | None
    routed_exact: bool
    layout: Layout
    figures: Mapping[QuestionKind, FiguresByMethod]
    dropped: int = 0
    """Questions without an exact answer: it timed out, or there was nothing to find."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is said of one caller, or of all: how bad, in words, what to do, and what was measured of that."""

    level: Level
    what: str
    fix: str | None = None
    backing: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """What the measurement ran on and with; `ef_search` and `probes` as they are set for this role and database."""

    server: str
    pgvector: str
    role: str
    iterative: bool
    ef_search: int | None
    probes: int | None
    max_scan_tuples: int | None
    exact_threshold: int


@dataclass(frozen=True, slots=True)
class Report:
    """All of it."""

    environment: Environment
    target: Target
    rows: int
    vectors: int
    acl_values: int
    top_k: int
    samples: int
    seed: int
    method: str
    methods: Mapping[str, str]
    filter_index: str | None
    everything: Caller | None
    callers: tuple[Caller, ...]
    findings: Mapping[str, Finding]
    verdict: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
