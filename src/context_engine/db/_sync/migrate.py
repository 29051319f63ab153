# Generated from db/_async/migrate.py by tools/unasync.py: change that file instead.
"""Bring the schema up to date, and record what filled it."""

import json
from collections.abc import Mapping
from typing import Any

from context_engine.db.errors import translated
from context_engine.db.facts import check_dimension, check_facts
from context_engine.errors import ConfigError, SchemaOutOfDate
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations
from psycopg import sql

from context_engine.db._sync.store import Store

_EXTENSIONS = ("vector", "pg_trgm")


def _lock(store: Store) -> Statement:
    return Statement(load("admin/lock_schema"), {"schema_name": store.settings.schema_name})


def migrate(store: Store) -> list[str]:
    """Create what is missing and apply every pending migration; safe to run from many processes at once.

    Returns:
        The names of the migrations applied.

    Raises:
        ConfigError: when an extension is missing and this role may not create it.
    """
    _create_extensions(store)
    store.locate_extensions()
    applied: list[str] = []
    with store.write() as transaction:
        transaction.run(_lock(store))
        transaction.script(load("admin/migration_table"))
        [rows] = transaction.run(Statement(load("admin/applied")))
        done = {version for (version,) in rows}
        for version, name, text in migrations():
            if version not in done:
                transaction.script(text)
                params = {"version": version, "name": name}
                transaction.run(Statement(load("admin/record_migration"), params))
                applied.append(name)
    return applied


def _create_extensions(store: Store) -> None:
    with store.write() as transaction:
        _, rows = transaction.run(_lock(store), Statement(load("admin/extensions")))
        present = {name for name, _, _ in rows}
        for extension in _EXTENSIONS:
            if extension in present:
                continue
            with translated():
                try:
                    transaction.create_extension(extension)
                except Exception as error:
                    raise ConfigError(
                        f"the extension {extension} is missing and cannot be created here: install it on the server, "
                        f"and run CREATE EXTENSION {extension} as a role that may"
                    ) from error


def is_fresh(store: Store) -> bool:
    """Tell whether this database has never been migrated.

    Raises:
        SchemaOutOfDate: when it was, by an older or a newer version of this package.
    """
    name = store.settings.schema_name
    params = {"migration_table": f'"{name}".migration', "schema_name": f'"{name}"'}
    [(present, _)] = store.query(Statement(load("admin/schema_state"), params))
    if not present:
        return True
    rows = store.query(Statement(load("admin/applied")))
    stored = [version for (version,) in rows]
    known = [version for version, _, _ in migrations()]
    if not stored:
        return True
    if stored != known:
        advice = "upgrade this package" if stored[-1] > known[-1] else "run `context-engine migrate`"
        raise SchemaOutOfDate(f"the schema is at version {stored[-1]}, this package needs {known[-1]}: {advice}")
    return False


def register(store: Store, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Record what fills this database: the embedding model and the analyser; refuse what does not fit.

    Raises:
        ModelMismatch: when the database was filled by others.
        ConfigError: when the model's dimension cannot be stored.
    """
    dimension = facts["embedder"]["dim"]
    check_dimension(dimension)
    rows = store.query(Statement(load("admin/settings")))
    if not check_facts(dict(rows), facts):
        return
    with store.write() as transaction:
        _, rows = transaction.run(_lock(store), Statement(load("admin/settings")))
        for name in check_facts(dict(rows), facts):
            if name == "embedder":
                transaction.script(load("admin/set_dimension"), dimension=sql.Literal(dimension))
            params = {"name": name, "value": json.dumps(facts[name])}
            transaction.run(Statement(load("admin/record_setting"), params))
