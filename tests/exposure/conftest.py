"""Tables to measure."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from exposure_world import DIM, World, literal, make_world


@pytest.fixture
def world() -> World:
    return make_world()


Fill = Callable[..., str]


@pytest.fixture
def fill(new_database: Callable[..., str]) -> Fill:
    """Make a table `docs` of a world's rows in a new database; returns the URL."""

    def make(world: World, *, type_: str = "text[]", index: str | None = None, table: str = "docs") -> str:
        url = new_database(empty=True)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            columns = f"id serial PRIMARY KEY, body text, embedding vector({DIM}), acl {type_}"
            connection.execute(f"CREATE TABLE {table} ({columns})".encode())
            with connection.cursor().copy(f"COPY {table} (body, embedding, acl) FROM STDIN".encode()) as copy:
                for row, (vector, groups) in enumerate(zip(world.vectors, world.groups, strict=True)):
                    copy.write_row((f"SECRET {row}", literal(vector), groups))
            if index:
                connection.execute(f"CREATE INDEX vec ON {table} USING {index}".encode())
            connection.execute(f"ANALYZE {table}".encode())
        return url

    return make
