"""Fixtures: one embedded server for the whole run, a fresh database from a template for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from psycopg import sql

from context_engine import Engine, Settings
from context_engine.db._sync.migrate import migrate
from context_engine.db._sync.store import Store
from context_engine.db.embedded import EmbeddedServer
from context_engine.models.hashing import HashingEmbedder
from context_engine.settings import StorageSettings

TEMPLATE = "ce_template"
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Every worker keeps its modules' engines open beside those of the test that runs.
    "max_connections": "400",
}

settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CONTEXT_ENGINE_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server(testrun_uid: str) -> Iterator[EmbeddedServer]:
    """One server for all workers; the last to leave stops it."""
    folder = Path(tempfile.gettempdir()) / f"context-engine-tests-{testrun_uid}"
    folder.mkdir(mode=0o755, exist_ok=True)
    with EmbeddedServer.start(folder, options=FAST) as running:
        yield running
    if not any((folder / "handles").glob("*")):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server: EmbeddedServer) -> str:
    """A migrated database to copy from."""
    with FileLock(str(server.data_dir / "template.lock")):
        with psycopg.connect(server.url(), autocommit=True) as admin:
            found = admin.execute("SELECT FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone()
            if found is None:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
                store = Store(server.url(TEMPLATE), StorageSettings())
                store.open()
                migrate(store)
                store.close()
    return TEMPLATE


_numbers = itertools.count()
NewDatabase = Callable[..., str]


@pytest.fixture
def new_database(server: EmbeddedServer, request: pytest.FixtureRequest) -> Iterator[NewDatabase]:
    """Make databases that are dropped after the test: migrated ones, or `empty=True`."""
    made: list[str] = []

    def make(*, empty: bool = False) -> str:
        name = f"t_{os.getpid()}_{next(_numbers)}"
        source = "template1" if empty else request.getfixturevalue("template")
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                    sql.Identifier(name), sql.Identifier(source)
                )
            )
        made.append(name)
        return server.url(name)

    yield make
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name in made:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database_url(new_database: NewDatabase) -> str:
    """A migrated database."""
    return new_database()


NewEngine = Callable[..., Engine]


@pytest.fixture
def new_engine(new_database: NewDatabase) -> Iterator[NewEngine]:
    """Make engines that are closed after the test; each on a new database unless `database_url` is given."""
    made: list[Engine] = []

    def make(database_url: str | None = None, embedder: object | None = None, **sections: object) -> Engine:
        engine = Engine(
            database_url or new_database(),
            embedder=embedder or HashingEmbedder(32),
            settings=Settings(**sections),
        )
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(new_engine: NewEngine) -> Engine:
    """An engine on a new database, with a small deterministic embedder."""
    return new_engine()
