"""Judge what is known about a database: what is wrong with it, and what to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel

from context_engine.diagnostics.facts import DatabaseFacts, Server
from context_engine.settings import Settings
from context_engine.sql import migrations

OLDEST_POSTGRESQL: Final = 15
OLDEST_PGVECTOR: Final = (0, 8)

Level = Literal["problem", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        level: a `problem` keeps something from working; a `warning` is to be known.
        what: what was found.
        advice: what to do.
    """

    level: Level
    what: str
    advice: str


def judge(facts: DatabaseFacts, settings: Settings) -> list[Finding]:
    """List everything that is wrong or worth knowing, problems first."""
    findings = [
        *_server(facts.server, facts.embedded),
        *_extensions(facts),
        *_schema(facts),
        *_recorded(facts),
        *_counts(facts),
        *_vector_index(facts, settings.storage.ann_exact_threshold),
    ]
    return sorted(findings, key=lambda finding: finding.level)


def _server(server: Server, embedded: bool) -> Iterator[Finding]:
    if server.version_number // 10_000 < OLDEST_POSTGRESQL:
        yield Finding(
            "problem",
            f"PostgreSQL {server.version} is too old",
            f"use PostgreSQL {OLDEST_POSTGRESQL} or newer",
        )
    if server.encoding != "UTF8":
        yield Finding(
            "problem",
            f"the database's encoding is {server.encoding}",
            "make a database WITH ENCODING 'UTF8' TEMPLATE template0",
        )
    # The embedded server has no other role, and only its own user reaches it.
    if embedded:
        return
    powers = [
        name
        for name, held in (
            ("superuser", server.superuser),
            ("BYPASSRLS", server.bypasses_row_security),
        )
        if held
    ]
    if powers:
        yield Finding(
            "warning",
            f"role {server.role} is {' and '.join(powers)}: row-level policies would not bind this role",
            "searches are limited all the same; if you want row-level security as a second belt, "
            "connect as a role without these attributes",
        )


def _extensions(facts: DatabaseFacts) -> Iterator[Finding]:
    for name in ("vector", "pg_trgm"):
        extension = facts.extensions.get(name)
        if extension is None:
            yield Finding(
                "problem",
                f"the server has no extension {name}",
                "install it on the server (packages: postgresql-<version>-pgvector, postgresql-contrib)",
            )
        elif extension.version is None:
            yield Finding(
                "problem",
                f"the extension {name} is not created in this database",
                f"run `context-engine migrate`, or CREATE EXTENSION {name} as a role that may",
            )
        elif name == "vector" and _version(extension.version) < OLDEST_PGVECTOR:
            yield Finding(
                "problem",
                f"pgvector {extension.version} is too old: 0.8 or newer is needed",
                f"ALTER EXTENSION vector UPDATE (the server has {extension.available})",
            )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _schema(facts: DatabaseFacts) -> Iterator[Finding]:
    known = tuple(version for version, _, _ in migrations())
    if facts.migrations == known:
        return
    if not facts.migrations:
        yield Finding("problem", "there are no tables yet", "run `context-engine migrate`")
    elif facts.migrations[-1] > known[-1]:
        yield Finding(
            "problem",
            f"the schema is at version {facts.migrations[-1]}, this package knows {known[-1]}",
            "upgrade this package",
        )
    else:
        yield Finding(
            "problem",
            f"the schema is at version {facts.migrations[-1]}, this package needs {known[-1]}",
            "run `context-engine migrate`",
        )


def _recorded(facts: DatabaseFacts) -> Iterator[Finding]:
    advice = {
        "embedder": "open the database with the model that filled it, or fill a new one",
        "analyser": "set the analyser settings back, or fill a new database",
    }
    for name, expected in facts.expected.items():
        recorded = facts.recorded.get(name)
        if recorded is not None and dict(recorded) != dict(expected):
            yield Finding(
                "problem",
                f"filled with {name} {describe(recorded)}, but this engine has {describe(expected)}",
                advice.get(name, "open the database with what filled it"),
            )


def describe(facts: Mapping[str, Any]) -> str:
    """Write recorded facts on one line."""
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _counts(facts: DatabaseFacts) -> Iterator[Finding]:
    counts = facts.counts
    if counts is None:
        return
    tallied = (counts.tallied_documents, counts.tallied_chunks)
    if tallied != (counts.documents, counts.chunks):
        yield Finding(
            "problem",
            f"{counts.documents} documents and {counts.chunks} chunks are stored, "
            f"but {tallied[0]} and {tallied[1]} are on the books: scores are off",
            "something wrote to the tables past this package: fill a new database, and please report it",
        )
    if counts.embeddings < counts.chunks:
        yield Finding(
            "warning",
            f"{counts.chunks - counts.embeddings} chunks have no vector: only their words find them",
            "change their text, or delete and ingest their documents, once the model embeds them",
        )


def _vector_index(facts: DatabaseFacts, threshold: int) -> Iterator[Finding]:
    if facts.vector_index == "invalid":
        yield Finding(
            "problem",
            "the vector index is not valid: its build was interrupted, and searches scan instead",
            "ingest anything: the index is built again at the end",
        )
    elif facts.vector_index == "absent" and facts.counts and facts.counts.chunks > threshold:
        yield Finding(
            "warning",
            f"{facts.counts.chunks} chunks are stored and there is no vector index: wide searches scan every vector",
            "ingest anything: the index is built at the end",
        )


def changed_settings(settings: Settings) -> dict[str, Any]:
    """List the settings that differ from their defaults, by dotted name; a database URL only as `set`."""
    found: dict[str, Any] = {}
    for name, info in Settings.model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            default = type(value)()
            for key in type(value).model_fields:
                if getattr(value, key) != getattr(default, key):
                    found[f"{name}.{key}"] = getattr(value, key)
        elif value != info.get_default():
            found[name] = "set" if name == "database_url" else str(value)
    return found
