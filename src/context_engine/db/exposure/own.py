"""A Context Engine database: its callers, and the statements that its searches really run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg import sql
from psycopg.errors import UndefinedColumn, UndefinedTable

from context_engine.access import make_scope
from context_engine.db.exposure.catalog import read_tables
from context_engine.db.exposure.session import Row, Session, Snapshot, Timed
from context_engine.errors import InputError, SchemaOutOfDate, StoreError
from context_engine.exposure.model import AclColumn, Candidate, Target
from context_engine.model import TRUSTED
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Statement, Visibility, resolve_scope
from context_engine.retrieval.query import Question
from context_engine.settings import Settings
from context_engine.sql import load

_NO_WORDS: Final = Question((), {}, {}, (), None, None, False, False, 0)


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
    key = ("document_id", "chunk_id")
    who = AclColumn(acl, (), "scalar")
    return Target("context-engine", table, embedding, embedding.dim, who, None, "<#>", None, False, key)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A caller as the database resolved it."""

    visibility: Visibility
    index: legs.VectorIndex | None
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
        [visible] = self._run(snapshot, resolve_scope(scope)).rows
        [(stored, first, lists, chunks)] = self._run(snapshot, Statement(load("admin/search_state"))).rows
        visibility = Visibility(scope, *visible, stored=stored)
        ids = visibility.acls and visibility.acls.strip("{}").split(",")
        index = None if first is None else legs.VectorIndex(first, lists, chunks)
        return Resolved(visibility, index, None if ids is None else tuple(each for each in ids if each))

    def ask(self, snapshot: Snapshot, statement: Statement) -> Timed:
        """Run a leg; its rows come as (document, chunk, distance)."""
        answer = self._run(snapshot, statement)
        return replace(answer, rows=[_as_distance(row) for row in answer.rows])

    def explain(self, snapshot: Snapshot, statement: Statement) -> dict[str, Any]:
        """Return the plan of a leg."""
        return snapshot.explain(self._render(statement), statement.params)

    def exact(self, resolved: Resolved, question: str, limit: int) -> Statement:
        """Compose the statement with the permission as its only condition, left to the planner."""
        return legs.ann_exact(resolved.visibility, _NO_WORDS, question, limit).statement

    def routes_exactly(self, resolved: Resolved) -> bool:
        """Tell whether a search scans this caller's vectors exactly."""
        visibility = resolved.visibility
        return legs.ann_is_exact(visibility, visibility.chunks, resolved.index, self._settings)

    def search(self, snapshot: Snapshot, resolved: Resolved, question: str, limit: int) -> Timed:
        """Ask the vector leg as a search does: its route, gone on with exactly where it gave too few rows."""
        chunks = resolved.visibility.chunks
        route = legs.ann(resolved.visibility, _NO_WORDS, question, chunks, resolved.index, self._settings, limit)
        answer = self.ask(snapshot, route.statement)
        if route.exact or len(answer.rows) >= min(limit, chunks):
            return answer
        rest = self.ask(snapshot, self.exact(resolved, question, limit))
        return Timed(rest.rows, answer.ms + rest.ms)

    def candidates_of(self, top_k: int) -> int:
        """Return how many rows a search asks its vector leg for."""
        return max(self._settings.search.candidates, top_k)

    def _render(self, statement: Statement) -> sql.Composed:
        return sql.SQL(statement.text).format(schema=self._schema, vector_schema=self._session.vector_schema)

    def _run(self, snapshot: Snapshot, statement: Statement) -> Timed:
        try:
            return snapshot.ask(self._render(statement), statement.params, statement.settings)
        except StoreError as error:
            if isinstance(error.__cause__, UndefinedTable | UndefinedColumn):
                raise SchemaOutOfDate("the tables are of another version: run `context-engine migrate`") from error
            raise


def _as_distance(row: Row) -> Row:
    chunk, document, score = row[:3]
    return document, chunk, -score
