"""One wide table, as it is usually made: text and vector in a row, the vector out of line, rows as they came."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, LiteralString

from psycopg import sql

from context_engine.db import copy_format
from context_engine.settings import IngestSettings

from . import layouts
from .generate import Corpus
from .layouts import CLASSES, Layout
from .load import connect, run
from .methods import Plain

ROWS: Final = 100_000
SHARES: Final = (0.10, 0.48)
CHARACTERS: Final = 4 * IngestSettings().chunk_tokens
"""Of the text beside each vector: the size of the engine's chunks."""
_ASK: Final[LiteralString] = """
    SELECT id FROM {schema}.wide WHERE {acl} = ANY (%(acls)s::int[])
    ORDER BY -(embedding <#> %(embedding)s::vector) DESC, id LIMIT %(limit)s"""


def layout(corpus: Corpus) -> Layout:
    """Make the random layout again, with the callers of this comparison."""
    return layouts.drawn("wide", len(corpus), min(CLASSES, len(corpus)), SHARES)


def build(url: str, corpus: Corpus, seen: Layout) -> dict[str, Any]:
    """Make and fill the table; tells how much of it is out of line."""
    with connect(url) as connection:
        run(connection, "CREATE SCHEMA IF NOT EXISTS {schema}")
        run(connection, "DROP TABLE IF EXISTS {schema}.wide")
        dim = sql.Literal(corpus.dim)
        text = (
            "CREATE TABLE {schema}.wide (id bigint PRIMARY KEY, acl_wide integer NOT NULL, text text NOT NULL,"
            " embedding vector({dim}) NOT NULL)"
        )
        run(connection, text, dim=dim)
        # The text stays in the row, so that it is the vector that PostgreSQL moves out of rows over 2 KB.
        run(connection, "ALTER TABLE {schema}.wide ALTER text SET STORAGE MAIN")
        copied = sql.SQL("COPY {}.wide (id, acl_wide, text, embedding) FROM STDIN (FORMAT binary)")
        with connection.cursor().copy(copied.format(sql.Identifier("vec_shared"))) as copy:
            copy.write(copy_format.HEADER)
            for row in _rows(corpus, seen):
                copy.write(row)
            copy.write(copy_format.TRAILER)
        run(connection, "CREATE INDEX ON {schema}.wide (acl_wide)")
        run(connection, "VACUUM ANALYZE {schema}.wide")
        found = connection.execute(
            "SELECT avg((pg_column_toast_chunk_id(embedding) IS NOT NULL)::int)::float8, avg(length(text))::float8"
            " FROM vec_shared.wide"
        ).fetchone()
    assert found is not None
    return {"vectors_out_of_line": found[0], "mean_characters": found[1]}


def _rows(corpus: Corpus, seen: Layout) -> Iterator[bytes]:
    head = struct.pack("!hh", corpus.dim, 0)
    for number, (origin, acl) in enumerate(zip(corpus.origins.tolist(), seen.acl.tolist(), strict=True)):
        fields = [
            copy_format.int8(number),
            copy_format.int4(acl),
            _text(corpus, origin).encode(),
            head + corpus.vectors[number].astype(">f4").tobytes(),
        ]
        yield copy_format.row(fields)


def _text(corpus: Corpus, origin: int) -> str:
    """Join texts of the corpus, this document's first, to the length of a chunk."""
    parts = [corpus.texts[origin]]
    while sum(map(len, parts)) < CHARACTERS:
        origin = (origin + 1) % len(corpus.texts)
        parts.append(corpus.texts[origin])
    return "\n".join(parts).replace("\0", " ")[:CHARACTERS]


def method(url: str) -> Plain:
    """Make the statement that scans the visible rows of the wide table."""
    return Plain("wide", _ASK, {}, url=url)
