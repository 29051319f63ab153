# Generated from db/_async/harden.py by tools/unasync.py: change that file instead.
"""Row-level policies as a second belt: the database itself asks, of every row, whether the caller may see it."""

import hashlib
from typing import LiteralString

from psycopg import sql

from context_engine.db._sync.store import Store, Transaction
from context_engine.errors import ConfigError
from context_engine.retrieval.compose import Statement
from context_engine.sql import load


def rule() -> LiteralString:
    """Write the statement that resolves a caller as it stands in the policies' function."""
    text = load("read/scope")
    return text.replace("%(principals)s", "given_principals").replace("%(sources)s", "NULL").replace("%%", "%")


def rule_digest() -> str:
    """Tell one version of the rule from another."""
    return hashlib.sha256((load("harden/function") + rule()).encode()).hexdigest()


def harden(store: Store, reader: str, trusted: str | None = None, leakproof: bool = False) -> list[str]:
    """Create roles that are missing, and bind them to row-level policies; safe to repeat.

    Args:
        store: connected as the owner of the tables, who may create roles.
        reader: the role whose members search; every row they read is checked.
        trusted: a role whose members may also read as `TRUSTED`; none where left out.
        leakproof: let the index on lexemes be used below the policies; needs a superuser.

    Returns:
        The tables that are guarded.

    Raises:
        ConfigError: when a role would pass by the policies, or a right is missing.
    """
    with store.write() as transaction:
        guarded = guarded_tables(transaction, store)
        _role(transaction, store, reader)
        names = {"reader": sql.Identifier(reader)}
        text = load("harden/function").replace("<rule>", rule())
        transaction.script(text, digest=sql.Literal(rule_digest()), **names)
        transaction.script(load("harden/reader"), **names)
        for table in guarded:
            transaction.script(load("harden/table"), table=sql.Identifier(table), **names)
        if trusted is not None:
            _role(transaction, store, trusted)
            marked = {"trusted": sql.Identifier(trusted)}
            transaction.script(load("harden/reader"), reader=sql.Identifier(trusted))
            transaction.script(load("harden/trusted"), **marked)
            for table in guarded:
                transaction.script(load("harden/trusted_table"), table=sql.Identifier(table), **marked)
        if leakproof:
            transaction.script(load("harden/leakproof"))
    return guarded


def undo(store: Store) -> list[str]:
    """Take the policies away again; the roles and what they may read stay.

    Returns:
        The tables that were guarded.
    """
    with store.write() as transaction:
        guarded = guarded_tables(transaction, store)
        for table in guarded:
            transaction.script(load("harden/undo_table"), table=sql.Identifier(table))
        transaction.script(load("harden/undo"))
    return guarded


def guarded_tables(transaction: Transaction, store: Store) -> list[str]:
    """List the tables whose rows belong to an access class."""
    params = {"schema_name": f'"{store.settings.schema_name}"'}
    [rows] = transaction.run(Statement(load("harden/guarded_tables"), params))
    return [name for (name,) in rows]


def _role(transaction: Transaction, store: Store, name: str) -> None:
    params = {"role": name, "schema_name": f'"{store.settings.schema_name}"'}
    [rows] = transaction.run(Statement(load("harden/role"), params))
    if not rows:
        transaction.script(load("harden/create_role"), role=sql.Identifier(name))
        return
    [(powerful, owner)] = rows
    if powerful or owner:
        why = "is a superuser or has BYPASSRLS" if powerful else "owns the tables, or is a member of their owner"
        raise ConfigError(f"the role {name!r} {why}: row-level policies would not bind it; name another role")
