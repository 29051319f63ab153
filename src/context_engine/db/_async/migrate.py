"""Bring the schema up to date, and record what filled it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import sql

from context_engine.db._async.store import AsyncStore
from context_engine.db.facts import check_dimension, check_facts
from context_engine.errors import SchemaOutOfDate, StoreError
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations

_EXTENSIONS = ("vector", "pg_trgm")


_LOCK = Statement(load("admin/lock_schema"))
_MAX_ATTEMPTS = 5


async def migrate(store: AsyncStore) -> list[str]:
    """Create what is missing and apply every pending migration; safe to run from many processes at once.

    Returns:
        The names of the migrations applied.

    Raises:
        ConfigError: when an extension is missing and this role may not create it.
    """
    for attempt in range(_MAX_ATTEMPTS):
        try:
            await _create_extensions(store)
            await store.locate_extensions()
            return await _apply_pending(store)
        except StoreError as error:
            # Someone who does not take our lock made the same schema or extension.
            if not error.retryable or error.connection_lost or attempt == _MAX_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


async def _apply_pending(store: AsyncStore) -> list[str]:
    applied: list[str] = []
    async with store.write() as transaction:
        await transaction.run(_LOCK)
        await transaction.script(load("admin/migration_table"))
        [rows] = await transaction.run(Statement(load("admin/applied")))
        done = {version for (version,) in rows}
        check_not_newer(done)
        for version, name, text in migrations():
            if version not in done:
                await transaction.script(text)
                params = {"version": version, "name": name}
                await transaction.run(Statement(load("admin/record_migration"), params))
                applied.append(name)
    return applied


def check_not_newer(stored: Iterable[int]) -> None:
    """Refuse a schema that a newer version of this package has made."""
    newest = migrations()[-1][0]
    if any(version > newest for version in stored):
        raise SchemaOutOfDate(
            f"the schema is at version {max(stored)}, this package knows up to {newest}: upgrade this package"
        )


async def _create_extensions(store: AsyncStore) -> None:
    async with store.write() as transaction:
        _, rows = await transaction.run(_LOCK, Statement(load("admin/extensions")))
        present = {name for name, _, _ in rows}
        for extension in _EXTENSIONS:
            if extension in present:
                continue
            await transaction.create_extension(extension)


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
    check_not_newer(stored)
    if stored and stored != known:
        raise SchemaOutOfDate(
            f"the schema is at version {stored[-1]}, this package needs {known[-1]}: run `context-engine migrate`"
        )
    return not stored


async def register(store: AsyncStore, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Record what fills this database: the embedding model and the analyser; refuse what does not fit.

    Raises:
        ModelMismatch: when the database was filled by others.
        ConfigError: when the model's dimension cannot be stored.
    """
    dimension = facts["embedder"]["dim"]
    check_dimension(dimension, store.settings.vector_type)
    rows = await store.query(Statement(load("admin/settings")))
    if not check_facts(dict(rows), facts):
        return
    async with store.write() as transaction:
        _, rows = await transaction.run(_LOCK, Statement(load("admin/settings")))
        for name in check_facts(dict(rows), facts):
            if name == "embedder":
                await transaction.script(load("admin/set_dimension"), dimension=sql.Literal(dimension))
            params = {"name": name, "value": json.dumps(facts[name])}
            await transaction.run(Statement(load("admin/record_setting"), params))
