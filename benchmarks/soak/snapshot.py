"""Hold an answer against the snapshot it saw: read the snapshot in plain SQL, and ask the oracle.

A connection of the checker's own exports its snapshot; the engine's next transaction is made to take it. So both see
the very same rows, whatever the other processes do meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from context_engine import ACL, PUBLIC, Document, Engine, NotFound
from context_engine.db._sync import store
from context_engine.db._sync.store import Transaction
from context_engine.model import document_id
from context_engine.testing import Oracle

from .world import EMBEDDER, Question, settings

_EVERYTHING: Final = """
    SELECT document.external_id, document.source, document.name, document.metadata, acl.public,
        (SELECT array_agg(ARRAY[kind, principal]) FROM context_engine.acl_member WHERE acl_id = acl.id),
        (SELECT string_agg(text, '' ORDER BY position) FROM context_engine.chunk WHERE document_id = document.id)
    FROM context_engine.document
    JOIN context_engine.acl ON acl.id = document.acl_id
"""


class CachingOracle(Oracle):
    """Analyses a document once, however many snapshots hold it."""

    _kept: dict[str, Any] = {}  # noqa: RUF012

    def _read(self, document: Document) -> Any:
        key = repr(document)
        if key not in self._kept:
            if len(self._kept) > 2_000:  # what the checker keeps is not to look like a leak of the engine's
                self._kept.clear()
            self._kept[key] = super()._read(document)
        return self._kept[key]


def _adopting(exported: str) -> Any:
    """Make a reading transaction take an exported snapshot, first thing."""

    def open_(self: Transaction, local: Mapping[str, str] | None = None) -> None:
        if not self._begun:
            self._begun = True
            self._connection.execute(self._begin)
            if self._begin == store.BEGIN_READ:
                self._connection.execute(f"SET TRANSACTION SNAPSHOT '{exported}'")  # type: ignore[arg-type]
            plans = store._PLANS.get(self._begin, store.CUSTOM_PLANS)
            self._connection.execute(*self._store.configuration(plans, local or {}))

    return open_


class Snapshots:
    """Snapshots for one process's engine."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    @contextmanager
    def taken(self) -> Iterator[CachingOracle]:
        """Read everything as it is now, and let the engine's transactions in the block see just that."""
        with self.adopted() as connection:
            rows = connection.execute(_EVERYTHING).fetchall()  # type: ignore[arg-type]
            yield CachingOracle(map(_document, rows), EMBEDDER, settings())

    @contextmanager
    def adopted(self) -> Iterator[psycopg.Connection]:
        """Let the engine's transactions in the block see what this connection sees."""
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        original = Transaction._open
        try:
            [(exported,)] = self._connection.execute("SELECT pg_export_snapshot()").fetchall()
            Transaction._open = _adopting(exported)  # type: ignore[method-assign]
            yield self._connection
        finally:
            Transaction._open = original  # type: ignore[method-assign]
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def _document(row: tuple[Any, ...]) -> Document:
    external_id, source, name, metadata, public, members, text = row
    kinds: dict[str, list[Any]] = {"allow": [PUBLIC] if public else [], "require": [], "deny": []}
    for kind, principal in sorted(members or []):
        kinds[kind].append(principal)
    return Document(
        text=text or "", external_id=external_id, source=source, name=name, metadata=metadata, acl=ACL(**kinds)
    )


def search_differences(engine: Engine, oracle: Oracle, asked: Question, result: Any) -> list[str]:
    """Say where a search's answer is not the oracle's."""
    named = {"principals": asked.principals, "top_k": asked.top_k, "weights": asked.weights, **asked.filters}
    found = oracle.differences(result, asked.query, **named)
    if result.report.degraded:
        found.append(f"a leg failed: {[leg.error for leg in result.report.legs.values()]}")
    if not result.report.exact:
        found.append("not exact")
    return [f"{asked}: {text}" for text in found]


def read_differences(engine: Engine, oracle: Oracle, asked: Question) -> list[str]:
    """Compare counts, listings and a document's text."""
    who = asked.principals
    visible = {document_id(item.source, str(item.external_id)): item for item in oracle.visible(who)}
    found: list[str] = []
    if engine.count(principals=who, **asked.filters) != oracle.count(who, **asked.filters):
        found.append(f"count for {who} with {asked.filters}")
    listed = [item.id for item in engine.list_documents(principals=who)]
    if listed != sorted(visible):
        found.append(f"listing for {who}")
    for key in list(visible)[:2]:
        try:
            same = engine.get_document(key, principals=who).text == visible[key].text
        except NotFound:
            same = False
        if not same:
            found.append(f"text of {key} for {who}")
    return found


_HIDDEN: Final = """
    SELECT count(*)
    FROM context_engine.document
    JOIN context_engine.acl ON acl.id = document.acl_id
    LEFT JOIN LATERAL (
        SELECT array_agg(principal) FILTER (WHERE kind = 'allow') AS allow,
            array_agg(principal) FILTER (WHERE kind = 'require') AS require,
            array_agg(principal) FILTER (WHERE kind = 'deny') AS deny
        FROM context_engine.acl_member
        WHERE acl_id = acl.id
    ) AS member ON true
    WHERE document.id = ANY (%(ids)s)
        AND NOT (
            (acl.public OR coalesce(member.allow && %(who)s, false))
            AND coalesce(member.require <@ %(who)s, true)
            AND NOT coalesce(member.deny && %(who)s, false)
        )
"""


def hidden_hits(connection: psycopg.Connection, result: Any, principals: list[str]) -> int:
    """Count the hits that the caller may not see, by the rule written once more, over the rows of this snapshot."""
    ids = [hit.document.id for hit in result.hits]
    [(count,)] = connection.execute(_HIDDEN, {"ids": ids, "who": principals}).fetchall()  # type: ignore[arg-type]
    return count
