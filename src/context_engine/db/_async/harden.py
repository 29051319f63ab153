"""Row-level policies as a second belt: the database itself asks, of every row, whether the caller may see it."""

import hashlib
from typing import LiteralString

from psycopg import sql

from context_engine.db._async.store import AsyncStore, AsyncTransaction
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


async def harden(store: AsyncStore, reader: str, trusted: str | None = None, leakproof: bool = False) -> list[str]:
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
    async with store.write() as transaction:
        guarded = await guarded_tables(transaction, store)
        await _role(transaction, store, reader)
        names = {"reader": sql.Identifier(reader)}
        text = load("harden/function").replace("<rule>", rule())
        await transaction.script(text, digest=sql.Literal(rule_digest()), **names)
        await transaction.script(load("harden/reader"), **names)
        for table in guarded:
            await transaction.script(load("harden/table"), table=sql.Identifier(table), **names)
        if trusted is not None:
            await _role(transaction, store, trusted)
            marked = {"trusted": sql.Identifier(trusted)}
            await transaction.script(load("harden/reader"), reader=sql.Identifier(trusted))
            await transaction.script(load("harden/trusted"), **marked)
            for table in guarded:
                await transaction.script(load("harden/trusted_table"), table=sql.Identifier(table), **marked)
        if leakproof:
            await transaction.script(load("harden/leakproof"))
    return guarded


async def undo(store: AsyncStore) -> list[str]:
    """Take the policies away again; the roles and what they may read stay.

    Returns:
        The tables that were guarded.
    """
    async with store.write() as transaction:
        guarded = await guarded_tables(transaction, store)
        for table in guarded:
            await transaction.script(load("harden/undo_table"), table=sql.Identifier(table))
        await transaction.script(load("harden/undo"))
    return guarded


async def guarded_tables(transaction: AsyncTransaction, store: AsyncStore) -> list[str]:
    """List the tables whose rows belong to an access class."""
    params = {"schema_name": f'"{store.settings.schema_name}"'}
    [rows] = await transaction.run(Statement(load("harden/guarded_tables"), params))
    return [name for (name,) in rows]


async def _role(transaction: AsyncTransaction, store: AsyncStore, name: str) -> None:
    params = {"role": name, "schema_name": f'"{store.settings.schema_name}"'}
    [rows] = await transaction.run(Statement(load("harden/role"), params))
    if not rows:
        await transaction.script(load("harden/create_role"), role=sql.Identifier(name))
        return
    [(powerful, owner)] = rows
    if powerful or owner:
        why = "is a superuser or has BYPASSRLS" if powerful else "owns the tables, or is a member of their owner"
        raise ConfigError(f"the role {name!r} {why}: row-level policies would not bind it; name another role")
