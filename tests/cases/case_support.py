"""What the case tests share: short ways to ask, threads under a deadline, and a look at the rows as they are stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from context_engine import PUBLIC, Document, SearchResult, document_id
from context_engine.ingest.plan import plan_document
from context_engine.model import AclLike, chunk_id
from context_engine.names import LegName
from context_engine.settings import IngestSettings

LEGS: tuple[LegName, ...] = ("fts", "trgm", "ann")
TEXT_LEGS: tuple[LegName, ...] = ("fts", "trgm")
DEADLINE_S = 60

TABLES: tuple[LiteralString, ...] = (
    "setting",
    "acl",
    "acl_member",
    "document",
    "chunk",
    "embedding",
    "tally",
    "lexicon",
    "migration",
)

_PROBLEMS: dict[str, LiteralString] = {
    "chunks whose document is missing or has another ACL": """
        SELECT count(*) FROM context_engine.chunk LEFT JOIN context_engine.document AS d
            ON d.id = chunk.document_id AND d.acl_id = chunk.acl_id WHERE d.id IS NULL""",
    "embeddings whose chunk is missing or has another ACL": """
        SELECT count(*) FROM context_engine.embedding AS e LEFT JOIN context_engine.chunk AS c
            ON c.document_id = e.document_id AND c.id = e.chunk_id AND c.acl_id = e.acl_id WHERE c.id IS NULL""",
    "documents without an access class": """
        SELECT count(*) FROM context_engine.document LEFT JOIN context_engine.acl ON acl.id = document.acl_id
            WHERE acl.id IS NULL""",
    "documents without chunks": """
        SELECT count(*) FROM context_engine.document
            WHERE NOT EXISTS (SELECT FROM context_engine.chunk WHERE document_id = document.id)""",
    "documents whose chunks are not 0 to n - 1": """
        SELECT count(*) FROM (SELECT FROM context_engine.chunk GROUP BY document_id
            HAVING min(position) <> 0 OR max(position) <> count(*) - 1
                OR count(DISTINCT position) <> count(*)) AS broken""",
    "two documents with one source and external id": """
        SELECT count(*) FROM (SELECT FROM context_engine.document GROUP BY source, external_id
            HAVING count(*) > 1) AS twice""",
    "vectors that are not of length one": """
        SELECT count(*) FROM context_engine.embedding
            WHERE abs(-(embedding <#> embedding) - 1) > 0.01""",
    "lexemes that the lexicon lacks": """
        SELECT count(DISTINCT word.lexeme) FROM context_engine.chunk CROSS JOIN unnest(lexemes) AS word
            WHERE NOT EXISTS (SELECT FROM context_engine.lexicon WHERE lexicon.word = word.lexeme)""",
    "access classes whose tally differs from a recount": """
        SELECT count(*)
        FROM (SELECT acl_id, source, sum(documents) AS documents, sum(chunks) AS chunks
              FROM context_engine.tally GROUP BY acl_id, source
              HAVING sum(documents) <> 0 OR sum(chunks) <> 0) AS kept
        FULL JOIN (SELECT d.acl_id, d.source, count(*) AS documents,
                       sum((SELECT count(*) FROM context_engine.chunk WHERE document_id = d.id)) AS chunks
                   FROM context_engine.document AS d GROUP BY d.acl_id, d.source) AS real USING (acl_id, source)
        WHERE (kept.documents, kept.chunks) IS DISTINCT FROM (real.documents, real.chunks)""",
    "words and classes whose tally differs from a recount of the documents counted in": """
        SELECT count(*)
        FROM (SELECT word, acl_id, sum(chunks) AS chunks FROM context_engine.word_tally
              GROUP BY word, acl_id HAVING sum(chunks) <> 0) AS kept
        FULL JOIN (SELECT word.lexeme AS word, acl_id, count(*) AS chunks
                   FROM context_engine.chunk CROSS JOIN unnest(lexemes) AS word
                   WHERE document_id NOT IN (SELECT document_id FROM context_engine.untallied)
                   GROUP BY word.lexeme, acl_id) AS real USING (word, acl_id)
        WHERE kept.chunks IS DISTINCT FROM real.chunks""",
    "vectors that the index in force does not hold once, or not with their ACL": """
        SELECT count(*)
        FROM context_engine.setting AS s
        CROSS JOIN (SELECT * FROM context_engine.embedding
                    WHERE document_id NOT IN (SELECT document_id FROM context_engine.untallied)) AS e
        WHERE s.name = 'vector_index'
            AND (SELECT count(*) FROM context_engine.code AS c
                 WHERE c.document_id = e.document_id AND c.chunk_id = e.chunk_id AND c.acl_id = e.acl_id
                    AND list >= (value ->> 'first')::int
                    AND list < (value ->> 'first')::int + (value ->> 'lists')::int) <> 1""",
    "vectors in the index of documents that wait, or are gone": """
        SELECT count(*) FROM context_engine.code AS c
        WHERE document_id IN (SELECT document_id FROM context_engine.untallied)
            OR NOT EXISTS (SELECT FROM context_engine.embedding AS e
                           WHERE e.document_id = c.document_id AND e.chunk_id = c.chunk_id)""",
}


def only(leg: LegName) -> dict[LegName, float]:
    """Weights that leave one leg."""
    return {name: float(name == leg) for name in LEGS}


def found(result: SearchResult) -> list[str]:
    """The external ids of the hits, best first."""
    return [hit.document.external_id for hit in result.hits]


def ranking(result: SearchResult) -> list[tuple[int, float]]:
    return [(hit.chunk_id, hit.score) for hit in result.hits]


def doc(external_id: str, text: str, acl: AclLike = PUBLIC, **fields: Any) -> Document:
    return Document(text=text, external_id=external_id, acl=acl, **fields)


def key(external_id: str, source: str = "default") -> int:
    return document_id(source, external_id)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Call each in a thread of its own, all from one moment on; raises what the first of them raised."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def work(place: int, call: Callable[[], Any]) -> None:
        try:
            barrier.wait(DEADLINE_S)
            results[place] = call()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(place, call), daemon=True) for place, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread did not end in time"
    return results


class Background:
    """A call in a thread of its own, under way while the test does something else."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(call,), daemon=True)
        self._thread.start()

    def _work(self, call: Callable[[], Any]) -> None:
        try:
            self._result = call()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self._error = error

    def result(self) -> Any:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a thread did not end in time"
        if self._error:
            raise self._error
        return self._result


def wait_for(event: threading.Event) -> None:
    assert event.wait(DEADLINE_S), "nothing happened in time"


def waits_for_a_lock(database_url: str, stop: threading.Event) -> bool:
    """Watch until some statement in this database waits for another transaction."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        while not stop.is_set():
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if row and row[0]:
                return True
    return False


@dataclass(frozen=True)
class Recount:
    """How many rows there really are."""

    documents: int
    chunks: int
    embeddings: int


def check_stored(database_url: str, chunk_tokens: int | None = None) -> Recount:
    """Check all that must hold of the stored rows, past the engine, and count them.

    With `chunk_tokens`, as they were cut, each document is also one whole version: its hash, and every chunk's.
    """
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for problem, query in _PROBLEMS.items():
            row = connection.execute(query).fetchone()
            assert row == (0,), f"{problem}: {row}"
        documents = connection.execute(
            "SELECT id, source, external_id, name, metadata, content_hash FROM context_engine.document"
        ).fetchall()
        chunks = connection.execute(
            "SELECT document_id, position, id, content_hash, text FROM context_engine.chunk"
            " ORDER BY document_id, position"
        ).fetchall()
        row = connection.execute("SELECT count(*) FROM context_engine.embedding").fetchone()
    assert row
    _check_ids(documents, chunks)
    if chunk_tokens is not None:
        _check_versions(documents, chunks, chunk_tokens)
    return Recount(len(documents), len(chunks), row[0])


def _check_ids(documents: Iterable[tuple[Any, ...]], chunks: Iterable[tuple[Any, ...]]) -> None:
    for document, source, external_id, *_ in documents:
        assert document == document_id(source, external_id)
    for document, position, chunk, *_ in chunks:
        assert chunk == chunk_id(document, position)


def _check_versions(documents: Iterable[tuple[Any, ...]], chunks: Iterable[tuple[Any, ...]], chunk_tokens: int) -> None:
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for document, *rest in chunks:
        parts.setdefault(document, []).append(tuple(rest))
    for document, source, external_id, name, metadata, content_hash in documents:
        text = "".join(part[-1] for part in parts[document])
        if not text:
            continue  # by its name alone; what the body was is not kept
        again = plan_document(
            Document(text=text, name=name, external_id=external_id, source=source, metadata=metadata),
            IngestSettings(chunk_tokens=chunk_tokens),
        )
        assert again.content_hash == content_hash, f"{external_id} is of two versions"
        assert [(c.position, c.id, c.content_hash, c.text) for c in again.chunks] == parts[document]


def dump(database_url: str) -> dict[str, list[str]]:
    """Every stored row as text, to compare before and after."""
    rows: dict[str, list[str]] = {}
    with psycopg.connect(database_url) as connection:
        for table in TABLES:
            found = connection.execute(
                f"SELECT t::text FROM context_engine.{table} AS t ORDER BY 1"  # noqa: S608
            )
            rows[table] = [row[0] for row in found]
    return rows


def one(database_url: str, query: LiteralString, *params: Any) -> Any:
    """The single value of a query."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(query, params or None).fetchone()
    assert row and len(row) == 1
    return row[0]


def as_role(database_url: str, role: str) -> str:
    return make_conninfo(database_url, user=role, password=role)
