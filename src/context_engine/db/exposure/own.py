"""A Context Engine database: its callers, and the statements that its searches really run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg import sql

from context_engine.access import make_scope
from context_engine.db.exposure.catalog import read_tables
from context_engine.db.exposure.session import Row, Session, Snapshot, Timed
from context_engine.errors import InputError
from context_engine.exposure.model import AclColumn, Candidate, Environment, Target, VectorIndex
from context_engine.model import TRUSTED
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Statement, Visibility, resolve_scope
from context_engine.retrieval.legs import Route
from context_engine.retrieval.query import Question
from context_engine.settings import Settings

VECTOR_INDEX: Final = "embedding_hnsw"
_NO_WORDS: Final = Question((), None, None, False, False, 0)


def find_own(snapshot: Snapshot, settings: Settings) -> Target | None:
    """Recognise a Context Engine database by its tables; None where it is none, or has no vectors yet."""
    schema = settings.storage.schema_name
    tables = [table for table in read_tables(snapshot) if (table.schema, table.name) == (schema, "embedding")]
    if not tables or tables[0].kind != "r":
        return None
    [table] = tables
    embedding, acl = table.column("embedding"), table.column("acl_id")
    if embedding is None or acl is None:
        return None
    if embedding.dim is None:
        raise InputError("this Context Engine database is empty: ingest documents first")
    indexes = snapshot.load("vector_indexes", {"table": table.oid, "column": "embedding"})
    found = any(name == VECTOR_INDEX and valid for name, *_, valid, _ in indexes)
    index = VectorIndex(VECTOR_INDEX, "hnsw", "<#>", "halfvec", embedding.dim, False, False) if found else None
    key = ("document_id", "chunk_id")
    who = AclColumn(acl, (), "scalar")
    return Target("context-engine", table, embedding, embedding.dim, who, None, "<#>", index, False, key)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A caller as the database resolved it."""

    visibility: Visibility
    acl_ids: tuple[str, ...] | None


class OwnDatabase:
    """Asks a Context Engine database as the engine does."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self._settings = settings
        self._session = session
        self._schema = sql.Identifier(settings.storage.schema_name)

    def candidates(self, snapshot: Snapshot) -> list[Candidate]:
        """Count the chunks that each principal opens by itself."""
        rows = snapshot.load("principals", schema=self._schema)
        return [Candidate((principal,), chunks, alike) for principal, chunks, alike in rows]

    def resolve(self, snapshot: Snapshot, principals: tuple[str, ...] | None) -> Resolved:
        """Find the access classes of a caller, as a search does; None for everything."""
        scope = make_scope(TRUSTED if principals is None else principals)
        [(acls, documents, chunks)] = self._run(snapshot, resolve_scope(scope)).rows
        ids = None if acls is None else tuple(each for each in acls.strip("{}").split(",") if each)
        return Resolved(Visibility(scope, acls, documents, chunks), ids)

    def ask(self, snapshot: Snapshot, statement: Statement, settings: bool = True) -> Timed:
        """Run a leg; its rows come as (document, chunk, distance)."""
        answer = self._run(snapshot, statement, settings)
        return replace(answer, rows=[_as_distance(row) for row in answer.rows])

    def explain(self, snapshot: Snapshot, statement: Statement) -> dict[str, Any]:
        """Return the plan of a leg without its settings."""
        return snapshot.explain(self._render(statement), statement.params)

    def planned(self, resolved: Resolved, question: str, limit: int) -> Statement:
        """Compose the statement in which the planner may walk the index or not."""
        return legs.ann_hnsw(resolved.visibility, _NO_WORDS, question, limit).statement

    def routed(self, resolved: Resolved, question: str, limit: int, indexed: bool) -> Route:
        """Choose the route that a search takes."""
        return route(resolved.visibility, question, limit, indexed, self._settings.storage.ann_exact_threshold)

    def exact(self, resolved: Resolved, question: str, limit: int) -> Statement:
        """Compose the exact statement, which a search goes on with where the walk ended short."""
        return legs.ann_exact(resolved.visibility, _NO_WORDS, question, limit).statement

    def candidates_of(self, top_k: int) -> int:
        """Return how many rows a search asks its vector leg for."""
        return max(self._settings.search.candidates, top_k)

    def _render(self, statement: Statement) -> sql.Composed:
        return sql.SQL(statement.text).format(schema=self._schema, vector_schema=self._session.vector_schema)

    def _run(self, snapshot: Snapshot, statement: Statement, settings: bool = True) -> Timed:
        return snapshot.ask(self._render(statement), statement.params, statement.settings if settings else {})


def route(visibility: Visibility, question: str, limit: int, indexed: bool, threshold: int) -> Route:
    """Choose as a search does: exact up to the threshold, and where there is no index to walk."""
    if visibility.chunks <= threshold or not indexed:
        return legs.ann_exact(visibility, _NO_WORDS, question, limit)
    return legs.ann_hnsw(visibility, _NO_WORDS, question, limit)


def walk_settings(visible: int, limit: int, environment: Environment, method: str) -> dict[str, str]:
    """Return the settings that Context Engine walks an index with, as far as this pgvector has them."""
    visibility = Visibility(make_scope(TRUSTED), None, visible, visible)
    settings = legs.ann_hnsw(visibility, _NO_WORDS, "", limit).statement.settings
    if method == "ivfflat":
        walk = {name: value for name, value in settings.items() if not name.startswith("hnsw.")}
        return walk | ({"ivfflat.iterative_scan": "relaxed_order"} if environment.iterative else {})
    newer = ("hnsw.iterative_scan", "hnsw.max_scan_tuples", "hnsw.scan_mem_multiplier")
    return {name: value for name, value in settings.items() if environment.iterative or name not in newer}


def _as_distance(row: Row) -> Row:
    chunk, document, score = row
    return document, chunk, -score


__all__ = ["OwnDatabase", "Resolved", "find_own", "route", "walk_settings"]
