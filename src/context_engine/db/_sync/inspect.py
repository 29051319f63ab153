# Generated from db/_async/inspect.py by tools/unasync.py: change that file instead.
"""Look at a database as it is, changing nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from context_engine.db._sync.harden import rule_digest
from context_engine.db._sync.store import Store, Transaction
from context_engine.diagnostics.facts import AuditFacts, Counts, DatabaseFacts, Extension, RowSecurity, Server
from context_engine.retrieval.compose import Statement
from context_engine.sql import load, migrations


def inspect(store: Store, expected: Mapping[str, Mapping[str, Any]], embedded: bool) -> DatabaseFacts:
    """Gather facts from one snapshot; works whatever state the tables are in."""
    name = store.settings.schema_name
    state = {"migration_table": f'"{name}".migration', "schema_name": f'"{name}"'}
    with store.read() as transaction:
        [server], extensions, [(present, _)] = transaction.run(
            Statement(load("diagnostics/server")),
            Statement(load("diagnostics/extensions")),
            Statement(load("admin/schema_state"), state),
        )
        [applied] = transaction.run(Statement(load("admin/applied"))) if present else [[]]
        made = {extension: Extension(*row) for extension, *row in extensions}
        facts = DatabaseFacts(embedded, Server(*server), made, tuple(version for (version,) in applied), expected)
        if facts.migrations != tuple(version for version, _, _ in migrations()):
            return facts
        recorded, [counts], index = transaction.run(
            Statement(load("admin/settings")),
            Statement(load("diagnostics/counts")),
            Statement(load("admin/vector_index_state")),
        )
        state = "valid" if index else "absent"
        return replace(
            facts,
            recorded=dict(recorded),
            counts=Counts(*counts),
            vector_index=state,
            row_security=_row_security(transaction, name),
            audit=_audit(transaction, name),
        )


def _row_security(transaction: Transaction, schema: str) -> RowSecurity:
    params = {"schema_name": f'"{schema}"', "function": f'"{schema}".caller_acls(boolean)'}
    [[row]] = transaction.run(Statement(load("diagnostics/row_security"), params))
    guarded, unguarded, bypassed, digest, leakproof = row
    return RowSecurity(tuple(guarded), tuple(unguarded), bypassed, digest == rule_digest(), leakproof)


def _audit(transaction: Transaction, schema: str) -> AuditFacts | None:
    """Look at the trail, where this role may."""
    params = {"audit_table": f'"{schema}".audit'}
    [[(readable,)]] = transaction.run(Statement(load("diagnostics/may_read_audit"), params))
    if not readable:
        return None
    [[row]] = transaction.run(Statement(load("diagnostics/audit")))
    return AuditFacts(*row)
