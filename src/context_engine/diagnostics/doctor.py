"""Judge what is known about a database: what is wrong with it, and what to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, SecretStr

from context_engine.diagnostics.facts import AuditFacts, Counts, DatabaseFacts, RowSecurity, Server
from context_engine.settings import Settings
from context_engine.sql import migrations

OLDEST_POSTGRESQL: Final = 15
OLDEST_PGVECTOR: Final = (0, 8)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: a `problem` keeps something from working, a `warning` is to be known."""

    level: Literal["problem", "warning"]
    what: str
    advice: str


def judge(facts: DatabaseFacts, settings: Settings) -> list[Finding]:
    """List everything that is wrong or worth knowing, problems first."""
    findings = [
        *_server(facts.server, facts.embedded),
        *_extensions(facts),
        *_schema(facts.migrations),
        *_recorded(facts),
        *(_counts(facts.counts) if facts.counts else ()),
        *_vector_index(facts, settings.storage.ann_exact_threshold),
        *(_row_security(facts.row_security, facts.server.role) if facts.row_security else ()),
        *(_audit(facts.audit, settings.audit.retention_days) if facts.audit else ()),
    ]
    return sorted(findings, key=lambda finding: finding.level)


def _server(server: Server, embedded: bool) -> Iterator[Finding]:
    if server.version_number // 10_000 < OLDEST_POSTGRESQL:
        advice = f"use PostgreSQL {OLDEST_POSTGRESQL} or newer"
        yield Finding("problem", f"PostgreSQL {server.version} is too old", advice)
    if server.encoding != "UTF8":
        advice = "make a database WITH ENCODING 'UTF8' TEMPLATE template0"
        yield Finding("problem", f"the database's encoding is {server.encoding}", advice)
    # The embedded server has no other role by itself, and only its own user reaches it.
    if server.powers and not embedded:
        yield Finding(
            "warning",
            f"role {server.role} is {' and '.join(server.powers)}: row-level policies would not bind this role",
            "searches are limited all the same; if you want row-level security as a second belt, "
            "connect as a role without these attributes",
        )


def _extensions(facts: DatabaseFacts) -> Iterator[Finding]:
    for name in ("vector", "pg_trgm"):
        extension = facts.extensions.get(name)
        if extension is None:
            advice = "install it on the server (packages: postgresql-<version>-pgvector, postgresql-contrib)"
            yield Finding("problem", f"the server has no extension {name}", advice)
        elif extension.version is None:
            advice = f"run `context-engine migrate`, or CREATE EXTENSION {name} as a role that may"
            yield Finding("problem", f"the extension {name} is not created in this database", advice)
        elif name == "vector" and tuple(map(int, extension.version.split(".")[:2])) < OLDEST_PGVECTOR:
            advice = f"ALTER EXTENSION vector UPDATE (the server has {extension.available})"
            yield Finding("problem", f"pgvector {extension.version} is too old: 0.8 or newer is needed", advice)


def _schema(applied: tuple[int, ...]) -> Iterator[Finding]:
    known = tuple(version for version, _, _ in migrations())
    if not applied:
        yield Finding("problem", "there are no tables yet", "run `context-engine migrate`")
    elif applied != known:
        newer = applied[-1] > known[-1]
        what = f"the schema is at version {applied[-1]}, this package {'knows' if newer else 'needs'} {known[-1]}"
        yield Finding("problem", what, "upgrade this package" if newer else "run `context-engine migrate`")


def _recorded(facts: DatabaseFacts) -> Iterator[Finding]:
    advice = {
        "embedder": "open the database with the model that filled it, or fill a new one",
        "analyser": "set the analyser settings back, or run `context-engine reindex`",
        "bm25": "set the analyser settings back, or run `context-engine reindex`",
    }
    for name, expected in facts.expected.items():
        recorded = facts.recorded.get(name, expected)
        if recorded != expected:
            what = f"filled with {name} {describe(recorded)}, but this engine has {describe(expected)}"
            yield Finding("problem", what, advice.get(name, "open the database with what filled it"))


def describe(facts: Mapping[str, Any]) -> str:
    """Write recorded facts on one line."""
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _counts(counts: Counts) -> Iterator[Finding]:
    documents, chunks = counts.tallied_documents, counts.tallied_chunks
    if (documents, chunks) != (counts.documents, counts.chunks):
        yield Finding(
            "problem",
            f"{counts.documents} documents and {counts.chunks} chunks are stored, "
            f"but {documents} and {chunks} are on the books: scores are off",
            "something wrote to the tables past this package: fill a new database, and please report it",
        )
    if counts.embeddings < counts.chunks:
        what = f"{counts.chunks - counts.embeddings} chunks have no vector: only their words find them"
        advice = "change their text, or delete and ingest their documents, once the model embeds them"
        yield Finding("warning", what, advice)


def _vector_index(facts: DatabaseFacts, threshold: int) -> Iterator[Finding]:
    if facts.vector_index == "absent" and facts.counts and facts.counts.chunks > threshold:
        stored = f"{facts.counts.chunks} chunks are stored and there is no vector index"
        advice = "ingest anything: the index is built at the end"
        yield Finding("warning", f"{stored}: wide searches scan every vector", advice)


def _row_security(found: RowSecurity, role: str) -> Iterator[Finding]:
    again = "run `context-engine harden` again, as the tables' owner"
    if not found.guarded:
        return
    if found.unguarded:
        yield Finding("problem", f"no row-level policies on {', '.join(found.unguarded)}", again)
    if not found.current:
        yield Finding("problem", "the row-level policies hold the rule of another version", again)
    if found.bypassed:
        yield Finding(
            "warning",
            f"there are row-level policies, and role {role} passes by them: it owns the tables or is above them",
            "search as a member of the reader role; write, and upkeep, as this one",
        )


def _audit(found: AuditFacts, retention_days: float | None) -> Iterator[Finding]:
    if found.lost:
        what = f"the audit trail has holes: it says itself that {found.lost:,} records are missing"
        yield Finding("warning", what, "`context-engine audit list --action lost` tells when; see the log of then")
    if retention_days and (found.oldest_days or 0) > retention_days + 1:
        what = f"the audit trail has records of {found.oldest_days:.0f} days ago, past audit.retention_days"
        yield Finding("warning", what, "run `context-engine audit prune` as a role that may delete them")


def changed_settings(settings: Settings) -> dict[str, Any]:
    """List the settings that differ from their defaults, by dotted name; a database URL only as `set`."""
    found: dict[str, Any] = {}
    for name, info in Settings.model_fields.items():
        value, default = getattr(settings, name), info.get_default()
        if isinstance(value, BaseModel):
            changed = ((key, now) for key, now in value if now != getattr(default, key))
            found |= {f"{name}.{key}": "set" if isinstance(now, SecretStr) else now for key, now in changed}
        elif value != default:
            found[name] = "set" if name == "database_url" else str(value)
    return found
