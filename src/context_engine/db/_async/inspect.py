"""Look at a database as it is, changing nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from context_engine.db._async.store import AsyncStore
from context_engine.diagnostics.facts import Counts, DatabaseFacts, Extension, Server
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations


async def inspect(store: AsyncStore, expected: Mapping[str, Mapping[str, Any]], embedded: bool) -> DatabaseFacts:
    """Gather facts from one snapshot; works whatever state the tables are in."""
    name = store.settings.schema_name
    state = {"migration_table": f'"{name}".migration', "schema_name": f'"{name}"'}
    async with store.read() as transaction:
        [server], extensions, [(present, _)] = await transaction.run(
            Statement(load("diagnostics/server")),
            Statement(load("diagnostics/extensions")),
            Statement(load("admin/schema_state"), state),
        )
        [applied] = await transaction.run(Statement(load("admin/applied"))) if present else [[]]
        made = {extension: Extension(*row) for extension, *row in extensions}
        facts = DatabaseFacts(embedded, Server(*server), made, tuple(version for (version,) in applied), expected)
        if facts.migrations != tuple(version for version, _, _ in migrations()):
            return facts
        recorded, [counts], index = await transaction.run(
            Statement(load("admin/settings")),
            Statement(load("diagnostics/counts")),
            Statement(load("admin/vector_index_state")),
        )
        state = "valid" if index else "absent"
        return replace(facts, recorded=dict(recorded), counts=Counts(*counts), vector_index=state)
