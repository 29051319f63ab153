"""Fill the database: one engine's schema for each layout, and a shared table for plain pgvector."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import numpy as np
import psycopg
from benchmarks.latency.load import Memory
from numpy.typing import NDArray
from psycopg import sql
from rich.progress import Progress

from context_engine import Engine, Settings
from context_engine.db import copy_format
from context_engine.db._sync import vector_index
from context_engine.db._sync.store import Store
from context_engine.models.hashing import HashingEmbedder
from context_engine.retrieval.compose import Statement
from context_engine.retrieval.legs import VectorIndex
from context_engine.settings import StorageSettings
from context_engine.sql import load

from .generate import Corpus, Halves
from .layouts import Layout

SHARED: Final = "vec_shared"
HNSW_M: Final = 16
HNSW_EF_CONSTRUCTION: Final = 64
_AT_ONCE: Final = 10_000
_PATIENCE_S: Final = 7_200.0
_FILL: Final[tuple[LiteralString, ...]] = (
    "INSERT INTO {schema}.acl (id, digest, public)"
    " SELECT number, decode(md5(number::text), 'hex'), false FROM generate_series(1, {classes}) AS number",
    "INSERT INTO {schema}.acl_member (principal, kind, acl_id)"
    " SELECT 'class:' || number, 'allow', number FROM generate_series(1, {classes}) AS number",
    "INSERT INTO {schema}.document (id, acl_id, source, external_id, name, metadata, content_hash)"
    " SELECT document_id, acl_id, 'default', document_id::text, '', '{{}}', '' FROM {schema}.embedding",
    "INSERT INTO {schema}.tally (acl_id, source, documents, chunks)"
    " SELECT acl_id, 'default', count(*), count(*) FROM {schema}.embedding GROUP BY acl_id",
    "VACUUM ANALYZE {schema}.embedding, {schema}.document, {schema}.tally",
)


def schema_of(layout: str) -> str:
    return f"vec_{layout}"


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


@contextmanager
def open_store(url: str, schema: str, timeout_s: float = _PATIENCE_S) -> Generator[Store]:
    """Open the engine's own access to one of the schemas."""
    store = Store(url, StorageSettings(schema_name=schema, pool_size=1, statement_timeout_s=timeout_s))
    store.open()
    try:
        store.locate_extensions()
        yield store
    finally:
        store.close()


def fill(url: str, schema: str, vectors: Halves, layout: Layout, progress: Progress) -> float:
    """Make a schema and store the vectors in the order of their access classes, without an index.

    Returns:
        Seconds.
    """
    name = sql.Identifier(schema)
    with connect(url) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))
    started = time.perf_counter()
    dim = int(vectors.shape[1])
    with Engine(url, embedder=HashingEmbedder(dim), settings=Settings(storage={"schema_name": schema})):
        pass  # makes the schema
    order = np.argsort(layout.acl, kind="stable")
    with connect(url) as connection:
        # The rows below fit together by construction; checking each reference would double the time.
        connection.execute("SET session_replication_role = replica")
        text = sql.SQL("COPY {}.embedding (chunk_id, document_id, acl_id, embedding) FROM STDIN (FORMAT binary)")
        _copy(connection, text.format(name), _embedding_rows(vectors, layout, order), len(order), schema, progress)
        parts = {"schema": name, "classes": sql.Literal(int(layout.acl.max()))}
        for statement in _FILL:
            connection.execute(sql.SQL(statement).format(**parts))
    return time.perf_counter() - started


def _embedding_rows(vectors: Halves, layout: Layout, order: NDArray[np.intp]) -> Iterator[bytes]:
    for start in range(0, len(order), _AT_ONCE):
        ids = order[start : start + _AT_ONCE]
        yield _binary([ids.astype(">i8"), ids.astype(">i8"), layout.acl[ids].astype(">i4")], vectors[ids])


def _binary(columns: Sequence[NDArray[Any]], vectors: Halves) -> bytes:
    """Write rows in COPY's binary format: some integers, then a halfvec."""
    dim = vectors.shape[1]
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = [("fields", ">i2")]
    for place, column in enumerate(columns):
        fields += [(f"size_{place}", ">i4"), (f"value_{place}", column.dtype.str)]
    fields += [("size", ">i4"), ("dim", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dim,))]
    rows = np.zeros(len(vectors), dtype=fields)
    rows["fields"] = len(columns) + 1
    for place, column in enumerate(columns):
        rows[f"size_{place}"] = column.dtype.itemsize
        rows[f"value_{place}"] = column
    rows["size"], rows["dim"], rows["vector"] = 4 + 2 * dim, dim, vectors
    return rows.tobytes()


def _copy(
    connection: psycopg.Connection[Any],
    text: sql.Composed,
    blocks: Iterator[bytes],
    rows: int,
    name: str,
    progress: Progress,
) -> None:
    task = progress.add_task(f"{name}: rows", total=rows)
    with connection.cursor().copy(text) as copy:
        copy.write(copy_format.HEADER)
        for block in blocks:
            copy.write(block)
            progress.advance(task, _AT_ONCE)
        copy.write(copy_format.TRAILER)
    progress.remove_task(task)


def build_index(url: str, schema: str, rows: int, progress: Progress) -> dict[str, Any]:
    """Build the engine's vector index as the engine does; returns seconds and memory."""
    task = progress.add_task(f"{schema}: vector index", total=rows)
    with open_store(url, schema) as store, Memory(url) as memory:
        started = time.perf_counter()
        if not vector_index.build(store, lambda done, _: progress.update(task, completed=done)):
            raise RuntimeError(f"the vector index of {schema} was not built")
        seconds = time.perf_counter() - started
    progress.remove_task(task)
    _vacuum(url, schema)
    return {"seconds": seconds, **memory.facts}


def take_index(url: str, schema: str, source: str) -> float:
    """Take over another layout's index: centroids and signs depend on the vectors alone, not on who may see them.

    Returns:
        Seconds.
    """
    parts = {"schema": sql.Identifier(schema), "source": sql.Identifier(source)}
    started = time.perf_counter()
    with connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        cursor = connection.execute(sql.SQL("SELECT * FROM {source}.code LIMIT 0").format(**parts))
        names = [column.name for column in cursor.description or ()]
        chosen = [sql.Identifier("document" if name == "acl_id" else "code", name) for name in names]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        copied = sql.SQL(
            "INSERT INTO {schema}.code ({columns}) SELECT {chosen} FROM {source}.code AS code"
            " JOIN {schema}.document AS document ON document.id = code.document_id ORDER BY code.document_id"
        )
        connection.execute(copied.format(**parts, columns=columns, chosen=sql.SQL(", ").join(chosen)))
        for text in (
            sql.SQL("INSERT INTO {schema}.centroid SELECT * FROM {source}.centroid"),
            sql.SQL(
                "INSERT INTO {schema}.setting (name, value)"
                " SELECT name, value FROM {source}.setting WHERE name = 'vector_index'"
            ),
        ):
            connection.execute(text.format(**parts))
    _vacuum(url, schema)
    return time.perf_counter() - started


def _vacuum(url: str, schema: str) -> None:
    with connect(url) as connection:
        connection.execute(sql.SQL("VACUUM ANALYZE {0}.code, {0}.centroid").format(sql.Identifier(schema)))


def index_in_force(store: Store) -> VectorIndex | None:
    state = store.query(Statement(load("admin/vector_index_state")))
    return VectorIndex(*state[0]) if state else None


def shared_table(url: str, corpus: Corpus, layouts: Sequence[Layout], progress: Progress) -> dict[str, Any]:
    """Make the table that plain pgvector is asked on: every layout's class in a column, one HNSW index."""
    facts: dict[str, Any] = {}
    columns = [sql.Identifier(f"acl_{layout.name}") for layout in layouts]
    dim = sql.Literal(corpus.dim)
    with connect(url) as connection, Memory(url) as memory:
        started = time.perf_counter()
        run(connection, "DROP SCHEMA IF EXISTS {schema} CASCADE")
        run(connection, "CREATE SCHEMA {schema}")
        typed = sql.SQL(", ").join(sql.SQL("{} integer NOT NULL").format(column) for column in columns)
        text = "CREATE TABLE {schema}.item (id bigint PRIMARY KEY, {columns}, embedding halfvec({dim}) NOT NULL)"
        run(connection, text, columns=typed, dim=dim)
        listed = sql.SQL("COPY {}.item (id, {}, embedding) FROM STDIN (FORMAT binary)").format(
            sql.Identifier(SHARED), sql.SQL(", ").join(columns)
        )
        _copy(connection, listed, _item_rows(corpus, layouts), len(corpus), SHARED, progress)
        for column in columns:
            run(connection, "CREATE INDEX ON {schema}.item ({column})", column=column)
        run(connection, "VACUUM ANALYZE {schema}.item")
        facts["fill_s"] = time.perf_counter() - started
        facts["hnsw_s"] = _build_hnsw(connection, progress)
    return facts | memory.facts


def _build_hnsw(connection: psycopg.Connection[Any], progress: Progress) -> float:
    task = progress.add_task("HNSW index", total=None)
    started = time.perf_counter()
    connection.execute("SET maintenance_work_mem = '2GB'")
    connection.execute("SET max_parallel_maintenance_workers = 2")
    options = {"m": sql.Literal(HNSW_M), "ef": sql.Literal(HNSW_EF_CONSTRUCTION)}
    text = (
        "CREATE INDEX item_hnsw ON {schema}.item USING hnsw (embedding halfvec_ip_ops)"
        " WITH (m = {m}, ef_construction = {ef})"
    )
    run(connection, text, **options)
    progress.remove_task(task)
    return time.perf_counter() - started


def _item_rows(corpus: Corpus, layouts: Sequence[Layout]) -> Iterator[bytes]:
    for start in range(0, len(corpus), _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        vectors = corpus.vectors[here]
        ids = np.arange(start, start + len(vectors)).astype(">i8")
        yield _binary([ids, *(layout.acl[here].astype(">i4") for layout in layouts)], vectors)


def run(connection: psycopg.Connection[Any], text: LiteralString, **parts: sql.Composable) -> None:
    """Run a statement on the shared table's schema."""
    connection.execute(sql.SQL(text).format(schema=sql.Identifier(SHARED), **parts))


def sizes(url: str) -> list[dict[str, Any]]:
    """List rows, bytes of the table with its TOAST, and bytes of each index, of all schemas of this benchmark."""
    with connect(url) as connection:
        cursor = connection.execute(
            """
            SELECT nspname, relname, reltuples::bigint, pg_table_size(pg_class.oid),
                (
                    SELECT jsonb_object_agg(index.relname, pg_relation_size(indexrelid))
                    FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid WHERE indrelid = pg_class.oid
                )
            FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relkind = 'r' AND nspname LIKE 'vec\\_%%' AND reltuples > 0
            ORDER BY nspname, pg_total_relation_size(pg_class.oid) DESC
            """,
            (),
        )
        names = ("schema", "table", "rows", "table_bytes", "indexes")
        return [dict(zip(names, row, strict=True)) for row in cursor]


def stored_signature(url: str) -> str | None:
    """Tell what the database was filled with; None where it is not, or not whole."""
    with connect(url) as connection:
        row = connection.execute(
            "SELECT obj_description(to_regnamespace(%s)::oid, 'pg_namespace')", (schema_of("signature"),)
        ).fetchone()
    return row[0] if row else None


def sign(url: str, signature: str) -> None:
    """Note in the database what it was filled with."""
    name = sql.Identifier(schema_of("signature"))
    with connect(url) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, sql.Literal(signature)))
