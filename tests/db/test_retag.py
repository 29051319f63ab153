"""Moving many documents into one access class: each foreign key's check finds its one row, whatever is expected."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
import pytest

from context_engine import Document, Engine, document_id

CHECKS: dict[str, LiteralString] = {
    "document": "SELECT 1 FROM ONLY context_engine.document AS x WHERE id = %s AND acl_id = 99 FOR KEY SHARE OF x",
    "chunk": "SELECT 1 FROM ONLY context_engine.chunk AS x WHERE document_id = %s AND acl_id = 99 FOR KEY SHARE OF x",
    "embedding": (
        "SELECT 1 FROM ONLY context_engine.embedding AS x WHERE document_id = %s AND acl_id = 99 FOR KEY SHARE OF x"
    ),
}


@pytest.fixture
def connection(engine: Engine) -> psycopg.Connection[Any]:
    """A database of which it is known that all documents are in one class, and 99 is another."""
    assert engine.ingest(Document(text=f"otter {n}", external_id=str(n), acl=["a"]) for n in range(300)).created == 300
    connection = psycopg.connect(str(engine._url), autocommit=True)
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_bitmapscan = off")
    return connection


def _found_by(connection: psycopg.Connection[Any], check: LiteralString) -> str:
    key = document_id("default", "7")
    row = connection.execute("EXPLAIN (FORMAT JSON) " + check, (key,)).fetchone()
    assert row
    [scan] = row[0][0]["Plan"]["Plans"]
    return str(scan.get("Index Cond", "nothing"))


@pytest.mark.parametrize("table", CHECKS)
def test_a_check_of_a_new_class_goes_by_the_document_too(table: str, connection: psycopg.Connection[Any]) -> None:
    with connection:
        condition = _found_by(connection, CHECKS[table])
        assert "id = " in condition.replace("acl_id = ", ""), condition


def test_by_the_class_alone_it_would_read_all_of_it(connection: psycopg.Connection[Any]) -> None:
    with connection:
        connection.execute("DROP INDEX context_engine.document_by_acl")
        connection.execute("CREATE INDEX document_by_acl ON context_engine.document (acl_id)")
        assert _found_by(connection, CHECKS["document"]) == "(acl_id = 99)"
