"""Look at a database as it is, changing nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from context_engine.db._async.store import AsyncStore, AsyncTransaction
from context_engine.diagnostics.facts import (
    Counts,
    DatabaseFacts,
    Extension,
    IndexState,
    Server,
)
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations


async def inspect(store: AsyncStore, expected: Mapping[str, Mapping[str, Any]], embedded: bool) -> DatabaseFacts:
    """Gather facts from one snapshot; works whatever state the tables are in.

    Args:
        store: an open store.
        expected: the model and analyser of the engine that asks.
        embedded: whether the server is this package's own.
    """
    name = store.settings.schema_name
    state = {"migration_table": f'"{name}".migration', "schema_name": f'"{name}"'}
    async with store.read() as transaction:
        [server], extensions, [(present, _)] = await transaction.run(
            Statement(load("diagnostics/server")),
            Statement(load("diagnostics/extensions")),
            Statement(load("admin/schema_state"), state),
        )
        facts = DatabaseFacts(
            embedded=embedded,
            server=Server(*server),
            extensions={row[0]: Extension(*row[1:]) for row in extensions},
            migrations=await _applied(transaction) if present else (),
            expected=expected,
        )
        if facts.migrations != tuple(version for version, _, _ in migrations()):
            return facts
        return await _contents(transaction, name, facts)


async def _applied(transaction: AsyncTransaction) -> tuple[int, ...]:
    [rows] = await transaction.run(Statement(load("admin/applied")))
    return tuple(version for (version,) in rows)


async def _contents(transaction: AsyncTransaction, schema_name: str, facts: DatabaseFacts) -> DatabaseFacts:
    index = {"vector_index": f'"{schema_name}".embedding_hnsw'}
    recorded, [counts], [(valid, exists)] = await transaction.run(
        Statement(load("admin/settings")),
        Statement(load("diagnostics/counts")),
        Statement(load("admin/vector_index_state"), index),
    )
    vector_index: IndexState = "valid" if valid else "invalid" if exists else "absent"
    return replace(facts, recorded=dict(recorded), counts=Counts(*counts), vector_index=vector_index)
