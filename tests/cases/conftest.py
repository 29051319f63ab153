"""Databases that many tests only read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from context_engine import Document, Engine, Settings
from context_engine.db.embedded import EmbeddedServer
from context_engine.models.hashing import HashingEmbedder


@pytest.fixture(scope="session")
def library(server: EmbeddedServer, template: str) -> Iterator[Callable[..., Engine]]:
    """Fill a database once for this worker and return its engine; a test that writes to it is wrong."""
    made: dict[str, Engine] = {}
    numbers = itertools.count()

    def borrow(name: str, documents: Sequence[Document], embedder: object | None = None, **sections: Any) -> Engine:
        if name not in made:
            database = f"library_{os.getpid()}_{next(numbers)}"
            with psycopg.connect(server.url(), autocommit=True) as admin:
                admin.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                        sql.Identifier(database), sql.Identifier(template)
                    )
                )
            engine = Engine(
                server.url(database), embedder=embedder or HashingEmbedder(32), settings=Settings(**sections)
            )
            report = engine.ingest(documents)
            assert report.created == len(documents), report.failed
            made[name] = engine
        return made[name]

    yield borrow
    for engine in made.values():
        engine.close()
