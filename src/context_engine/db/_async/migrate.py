"""Bring the schema up to date, and record what filled it."""

import json
from collections.abc import Mapping
from typing import Any

from psycopg import sql

from context_engine.db._async.store import AsyncStore
from context_engine.db.errors import translated
from context_engine.db.facts import check_dimension, check_facts
from context_engine.errors import ConfigError, SchemaOutOfDate
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations

_EXTENSIONS = ("vector", "pg_trgm")


def _lock(store: AsyncStore) -> Statement:
    return Statement(load("admin/lock_schema"), {"schema_name": store.settings.schema_name})


async def migrate(store: AsyncStore) -> list[str]:
    """Create what is missing and apply every pending migration; safe to run from many processes at once.

    Returns:
        The names of the migrations applied.

    Raises:
        ConfigError: when an extension is missing and this role may not create it.
    """
    await _create_extensions(store)
    await store.locate_extensions()
    applied: list[str] = []
    async with store.write() as transaction:
        await transaction.run(_lock(store))
        await transaction.script(load("admin/migration_table"))
        [rows] = await transaction.run(Statement(load("admin/applied")))
        done = {version for (version,) in rows}
        for version, name, text in migrations():
            if version not in done:
                await transaction.script(text)
                params = {"version": version, "name": name}
                await transaction.run(Statement(load("admin/record_migration"), params))
                applied.append(name)
    return applied


async def _create_extensions(store: AsyncStore) -> None:
    async with store.write() as transaction:
        _, rows = await transaction.run(_lock(store), Statement(load("admin/extensions")))
        present = {name for name, _, _ in rows}
        for extension in _EXTENSIONS:
            if extension in present:
                continue
            with translated():
                try:
                    await transaction.create_extension(extension)
                except Exception as error:
                    raise ConfigError(
                        f"the extension {extension} is missing and cannot be created here: install it on the server, "
                        f"and run CREATE EXTENSION {extension} as a role that may"
                    ) from error


async def is_fresh(store: AsyncStore) -> bool:
    """Tell whether this database has never been migrated.

    Raises:
        SchemaOutOfDate: when it was, by an older or a newer version of this package.
    """
    name = store.settings.schema_name
    params = {"migration_table": f'"{name}".migration', "schema_name": f'"{name}"'}
    [(present, _)] = await store.query(Statement(load("admin/schema_state"), params))
    if not present:
        return True
    rows = await store.query(Statement(load("admin/applied")))
    stored = [version for (version,) in rows]
    known = [version for version, _, _ in migrations()]
    if not stored:
        return True
    if stored != known:
        advice = "upgrade this package" if stored[-1] > known[-1] else "run `context-engine migrate`"
        raise SchemaOutOfDate(f"the schema is at version {stored[-1]}, this package needs {known[-1]}: {advice}")
    return False


async def register(store: AsyncStore, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Record what fills this database: the embedding model and the analyser; refuse what does not fit.

    Raises:
        ModelMismatch: when the database was filled by others.
        ConfigError: when the model's dimension cannot be stored.
    """
    dimension = facts["embedder"]["dim"]
    check_dimension(dimension)
    rows = await store.query(Statement(load("admin/settings")))
    if not check_facts(dict(rows), facts):
        return
    async with store.write() as transaction:
        _, rows = await transaction.run(_lock(store), Statement(load("admin/settings")))
        for name in check_facts(dict(rows), facts):
            if name == "embedder":
                await transaction.script(load("admin/set_dimension"), dimension=sql.Literal(dimension))
            params = {"name": name, "value": json.dumps(facts[name])}
            await transaction.run(Statement(load("admin/record_setting"), params))
