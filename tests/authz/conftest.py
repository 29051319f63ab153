"""Databases that many examples share."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psycopg
import pytest
from promise import COUNTS, Database
from psycopg import sql

from context_engine.db.embedded import EmbeddedServer
from context_engine.engine._sync import search
from context_engine.names import VectorType

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def beside_the_text_legs() -> Iterator[None]:
    """Have the vector leg of every hybrid search run on a second connection, as for who sees many chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_WORTH_A_CONNECTION", 0)
        yield


@pytest.fixture(scope="module")
def new_promise_database(server: EmbeddedServer, template: str) -> Iterator[Callable[..., Database]]:
    """Make databases that last as long as the module's tests."""
    made: dict[str, Database] = {}

    def make(vector_type: VectorType = "halfvec") -> Database:
        name = f"promise_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        made[name] = Database(server.url(name), vector_type)
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


@pytest.fixture(scope="module")
def in_single_precision(new_promise_database: Callable[..., Database]) -> tuple[Database, Database]:
    """The same two, with vectors of four bytes a dimension."""
    return new_promise_database("vector"), new_promise_database("vector")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test has compared."""
    COUNTS.clear()
    try:
        return (yield)
    finally:
        if "test_promise" in item.nodeid:
            item.user_properties.extend(COUNTS.items())


_OUT = os.environ.get("CONTEXT_ENGINE_PROMISE_OUT")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which check saw which mutation; of a campaign, write what was compared."""
    reports = [
        report
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call"
    ]
    if _OUT:
        promise = [report for report in reports if "test_promise" in report.nodeid]
        _write(promise, Path(_OUT), str(terminalreporter.config.getoption("--hypothesis-seed")))
    rows = [item for report in reports if "mutations" in report.nodeid for item in report.user_properties]
    if rows and terminalreporter.verbosity >= 1:
        width = max(len(name) for name, _ in rows)
        terminalreporter.section("mutations, and the checks that saw them")
        for name, seen in sorted(rows):
            terminalreporter.write_line(f"{name:<{width}}  {seen or 'NOT SEEN'}")


def _write(reports: list[pytest.TestReport], out: Path, seed: str) -> None:
    tests = [
        {"test": report.nodeid.split("::")[-1], "held": report.passed, **dict(report.user_properties)}
        for report in sorted(reports, key=lambda report: report.nodeid)
    ]
    totals = Counter[str]()
    for report in reports:
        totals.update(dict(report.user_properties))
    failed = sum(not report.passed for report in reports)
    out.mkdir(parents=True, exist_ok=True)
    result = {"seed": seed, **totals, "tests": len(tests), "tests with a difference": failed, "each": tests}
    (out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    rows = "\n".join(f"| {name} | {value:,} |" for name, value in result.items() if isinstance(value, int))
    (out / "results.md").write_text(f"Seed {seed}.\n\n| what | how many |\n|---|---|\n{rows}\n")
