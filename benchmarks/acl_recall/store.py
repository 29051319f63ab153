"""Fill the database of a layout through the engine, and put apart what one caller sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from context_engine import TRUSTED, Engine, Settings
from context_engine.sql import load

from .corpus import INGEST, Corpus
from .layouts import Layout, Mask

Progress = Callable[[int, int], None]
Connection = psycopg.Connection[Any]

REFERENCE: Final = "recall_reference"
_SIGNED: Final = "recall_run"


def schema_of(layout: str) -> str:
    return f"recall_{layout}"


def settings(schema: str, threshold: int, **sections: Any) -> Settings:
    """Take the engine's defaults, but for chunks so large that nearly every document is one."""
    storage = {
        "schema_name": schema,
        "ann_exact_threshold": threshold,
        "pool_size": 1,
        "statement_timeout_s": 600,
    }
    return Settings(storage=storage, ingest=INGEST.model_dump(), **sections)


def sign(url: str, signature: str, *, keep: bool) -> bool:
    """Drop what an earlier run has left, unless it is to be kept and of this kind; tells whether it was."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT to_regclass(%s)", (_SIGNED,)).fetchone()
        if found != (None,):
            stored = connection.execute(sql.SQL("SELECT value FROM {}").format(sql.Identifier(_SIGNED))).fetchone()
            if keep and stored == (signature,):
                return True
        schemas = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'recall\\_%'").fetchall()
        for (name,) in schemas:
            _drop(connection, name)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(_SIGNED)))
        connection.execute(sql.SQL("CREATE TABLE {} (value text)").format(sql.Identifier(_SIGNED)))
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s)").format(sql.Identifier(_SIGNED)), (signature,))
    return False


def fill(url: str, corpus: Corpus, layout: Layout, threshold: int, progress: Progress) -> dict[str, Any]:
    """Ingest a layout, unless it is there."""
    schema = schema_of(layout.name)
    with Engine(url, embedder=corpus.embedder, settings=settings(schema, threshold)) as engine:
        stored = engine.count(principals=TRUSTED)
        if stored.documents == len(corpus):
            return {}
    with psycopg.connect(url, autocommit=True) as connection:
        _drop(connection, schema)
    with Engine(url, embedder=corpus.embedder, settings=settings(schema, threshold)) as engine:
        documents = [
            item.document(layout.rules[number])
            for item, number in zip(corpus.items, layout.classes.tolist(), strict=True)
        ]
        report = engine.ingest(documents, lambda done, _: progress(done, len(documents)))
    if report.failed:
        raise SystemExit(f"{layout.name}: {report.failed[0].external_id}: {report.failed[0].error}")
    return {name: round(ms / 1000, 1) for name, ms in report.timings_ms.items()} | {"notes": list(report.notes)}


def vector_index(url: str, schema: str) -> dict[str, Any] | None:
    """Tell which vector index a schema has, if any."""
    with psycopg.connect(url) as connection:
        text = sql.SQL("SELECT value FROM {}.setting WHERE name = 'vector_index'").format(sql.Identifier(schema))
        row = connection.execute(text).fetchone()
    return None if row is None else json.loads(json.dumps(row[0]))


def put_apart(url: str, corpus: Corpus, layout: Layout, seen: Mask, threshold: int) -> None:
    """Make the reference: a schema with tables and indexes of its own that holds the visible documents and no more.

    Which documents these are comes from `Layout.seen`. The rows are copied in another order than they came in; the
    lexicon and all counts are made of them alone. No document is in the tally of words, so that frequencies are
    counted in the chunks. Indexes are made after the rows.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        _drop(connection, REFERENCE)
    with Engine(url, embedder=corpus.embedder, settings=settings(REFERENCE, threshold)) as engine:
        engine.count(principals=TRUSTED)  # opens it, which makes the schema
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '512MB'")
        indexes = _drop_indexes(connection)
        with connection.transaction():
            _fill_readable(connection, corpus.chunks.document_ids[seen])
            origin = sql.Identifier(schema_of(layout.name))
            copied = sql.SQL(load("verify/copy")).format(schema=sql.Identifier(REFERENCE), origin=origin)
            connection.execute(copied)
        for definition in indexes:
            connection.execute(definition.encode())
        for table in ("document", "chunk", "embedding", "tally", "lexicon", "untallied"):
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(REFERENCE, table)))


def drop_reference(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        _drop(connection, REFERENCE)


def _fill_readable(connection: Connection, ids: NDArray[np.int64]) -> None:
    table = sql.Identifier(REFERENCE, "readable")
    connection.execute(sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY)").format(table))
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(table)) as copy:
        for key in ids.tolist():
            copy.write_row((key,))
    connection.execute(sql.SQL("ANALYZE {}").format(table))


def _drop_indexes(connection: Connection) -> list[str]:
    """Drop the indexes that hold no constraint; returns what makes them again."""
    found = connection.execute(
        """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = %s::regnamespace
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)""",
        (REFERENCE,),
    ).fetchall()
    for name, _ in found:
        connection.execute(f"DROP INDEX {name}".encode())
    return [definition for _, definition in found]


def _drop(connection: Connection, schema: str) -> None:
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
