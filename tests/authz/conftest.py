"""Databases that many examples share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from promise import Database
from psycopg import sql

from context_engine.db.embedded import EmbeddedServer

_numbers = itertools.count()


@pytest.fixture(scope="module")
def new_promise_database(server: EmbeddedServer, template: str) -> Iterator[Callable[[], Database]]:
    """Make databases that last as long as the module's tests."""
    made: dict[str, Database] = {}

    def make() -> Database:
        name = f"promise_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        made[name] = Database(server.url(name))
        return made[name]

    yield make
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name, database in made.items():
            database.close()
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def everything(new_promise_database: Callable[[], Database]) -> Database:
    """Holds every document, with its ACL."""
    return new_promise_database()


@pytest.fixture(scope="module")
def visible(new_promise_database: Callable[[], Database]) -> Database:
    """Holds only what one caller may read."""
    return new_promise_database()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which check saw which mutation."""
    if terminalreporter.verbosity < 1:
        return
    rows = [
        item
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call" and "test_mutations" in report.nodeid
        for item in report.user_properties
    ]
    if rows:
        width = max(len(name) for name, _ in rows)
        terminalreporter.section("mutations, and the checks that saw them")
        for name, seen in sorted(rows):
            terminalreporter.write_line(f"{name:<{width}}  {seen or 'NOT SEEN'}")
