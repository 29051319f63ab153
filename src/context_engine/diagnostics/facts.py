"""What is known about a database, before anyone judges it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

IndexState = Literal["absent", "valid"]


@dataclass(frozen=True, slots=True)
class Server:
    """The server, and who this connection is on it; the version number is PostgreSQL's, 180006 for 18.6."""

    version: str
    version_number: int
    database: str
    role: str
    superuser: bool
    bypasses_row_security: bool
    encoding: str

    @property
    def powers(self) -> list[str]:
        """What lets the role pass by row-level policies."""
        return ["superuser"] * self.superuser + ["BYPASSRLS"] * self.bypasses_row_security


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension on the server's disk; version and schema are None when it was not created in this database."""

    available: str
    version: str | None
    schema: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is stored; the tallied numbers are those that searches use."""

    documents: int
    chunks: int
    embeddings: int
    access_classes: int
    policies: int
    tallied_documents: int
    tallied_chunks: int


@dataclass(frozen=True, slots=True)
class RowSecurity:
    """Row-level policies, as `harden` makes them.

    Attributes:
        guarded: the tables that have them.
        unguarded: the tables that should.
        bypassed: whether the role that asks is not bound by them.
        current: whether they hold this version's rule.
        leakproof: whether `@@` may use its index below them.
    """

    guarded: tuple[str, ...]
    unguarded: tuple[str, ...]
    bypassed: bool
    current: bool
    leakproof: bool


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """The audit trail: records that it says are missing, and the age of its oldest one in days, None when empty."""

    lost: int
    oldest_days: float | None


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """A database as it is; what has a default is known when the tables are of this package's version."""

    embedded: bool
    server: Server
    extensions: Mapping[str, Extension]
    migrations: tuple[int, ...]
    expected: Mapping[str, Mapping[str, Any]]
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    counts: Counts | None = None
    vector_index: IndexState | None = None
    row_security: RowSecurity | None = None
    audit: AuditFacts | None = None
