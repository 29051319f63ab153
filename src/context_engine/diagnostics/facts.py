"""What is known about a database, before anyone judges it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

IndexState = Literal["absent", "valid", "invalid"]


@dataclass(frozen=True, slots=True)
class Server:
    """The server, and who this connection is on it.

    Attributes:
        version_number: as PostgreSQL counts, 180006 for 18.6.
    """

    version: str
    version_number: int
    database: str
    role: str
    superuser: bool
    bypasses_row_security: bool
    encoding: str


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension that the server has files for.

    Attributes:
        available: the version on the server's disk.
        version: the version in this database; None when it was not created here.
        schema: where it lives in this database.
    """

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
class DatabaseFacts:
    """A database as it is.

    Attributes:
        embedded: whether the server is this package's own.
        extensions: by name; one that is left out has no files on the server.
        migrations: versions that were applied, oldest first; empty when there are no tables.
        recorded: what filled the database: `embedder` and `analyser`, as stored.
        expected: the same of the engine that asks.
        counts: None when the tables are not of this version.
        vector_index: None when the tables are not of this version.
    """

    embedded: bool
    server: Server
    extensions: Mapping[str, Extension]
    migrations: tuple[int, ...]
    expected: Mapping[str, Mapping[str, Any]]
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    counts: Counts | None = None
    vector_index: IndexState | None = None
