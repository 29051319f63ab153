"""Changes to stored documents, and the upkeep that follows writing."""

from collections.abc import Sequence

from context_engine.db._async import vector_index
from context_engine.db._async.store import AsyncStore
from context_engine.db.acl_rows import acl_from_row
from context_engine.errors import ConfigError, NotFound, StoreError
from context_engine.model import ACL, Policy
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

_ANALYZE_AFTER = 200
_TALLY_AFTER = 200
_TALLIED_AT_ONCE = 50_000


async def set_acl(store: AsyncStore, ids: Sequence[int], acl_id: int) -> None:
    """Move documents and all their rows to another access class, in one transaction."""
    params = {"ids": list(ids), "acl_id": acl_id}
    async with store.write() as transaction:
        [locked] = await transaction.run(Statement(load("write/lock_documents"), params))
        if len(locked) < len(ids):
            raise NotFound
        await transaction.run(Statement(load("write/untally_words"), params), Statement(load("write/set_acl"), params))


async def delete(store: AsyncStore, ids: Sequence[int]) -> int:
    """Delete documents; chunks and embeddings go with them."""
    params = {"ids": list(ids)}
    async with store.write() as transaction:
        [locked] = await transaction.run(Statement(load("write/lock_documents"), params))
        # What came into being since then is not locked, and not deleted.
        params = {"ids": [row[0] for row in locked]}
        await transaction.run(Statement(load("write/untally_words"), params))
        return await transaction.affected(Statement(load("write/delete_documents"), params))


async def policies(store: AsyncStore) -> dict[str, ACL]:
    """List every policy."""
    rows = await store.query(Statement(load("admin/policies")))
    return {row[0]: acl_from_row(row[1:]) for row in rows}


async def document_acl(store: AsyncStore, document_id: int) -> ACL | Policy:
    """Tell a document's ACL."""
    params = {"document_id": document_id}
    rows = await store.query(Statement(load("admin/document_acl"), params))
    if not rows:
        raise NotFound
    [row] = rows
    return Policy(row[0]) if row[0] is not None else acl_from_row(row[1:])


async def settle(store: AsyncStore, written: int) -> list[str]:
    """Tidy up after writing: fold the tally, refresh statistics, build the vector index once it is worth it.

    Returns:
        What could not be done, in words; the documents are stored all the same.
    """
    notes: list[str] = []
    name = {"schema_name": store.settings.schema_name}
    try:
        async with store.write() as transaction:
            await transaction.run(Statement(load("admin/fold_tally"), name))
    except StoreError as error:
        notes.append(f"the tally was not folded: {error}")
    try:
        await tally_words(store, always=written >= _ANALYZE_AFTER)
    except StoreError as error:
        notes.append(f"the words of new documents were not tallied, which costs time in searches: {error}")
    if written >= _ANALYZE_AFTER:
        schema = store.settings.schema_name
        names = ("chunk_lexemes", "lexicon_trigrams", "lexicon_deletions", "document_metadata")
        indexes = {"indexes": [f'"{schema}".{name}' for name in names]}
        try:
            async with store.write() as transaction:
                # Behind an index being built this would wait for its end, and the build for this transaction.
                await transaction.run(Statement("SET LOCAL lock_timeout = '300ms'"))
                await transaction.run(Statement(load("admin/settle"), indexes))
                await transaction.run(Statement(load("admin/analyze")))
        except (ConfigError, StoreError) as error:
            notes.append(f"statistics were left to autovacuum: {error}")
    try:
        await vector_index.ensure(store)
    except (ConfigError, StoreError) as error:
        notes.append(f"the vector index could not be built, searches stay exact until it is: {error}")
    return notes


async def tally_words(store: AsyncStore, always: bool = False) -> int:
    """Count the words of documents that the tally lacks, once they are many or `always`; returns how many were."""
    params = {"schema_name": store.settings.schema_name, "limit": _TALLIED_AT_ONCE}
    [(waiting,)] = await store.query(Statement(load("admin/untallied")))
    done = 0
    while always or waiting >= _TALLY_AFTER:
        async with store.write() as transaction:
            [rows] = await transaction.run(Statement(load("admin/lock_untallied"), params))
            ids = [row[0] for row in rows]
            if ids:
                await transaction.run(Statement(load("admin/tally_words"), {"ids": ids}))
                await vector_index.file(transaction, ids)
        done += len(ids)
        if len(ids) < _TALLIED_AT_ONCE:
            break
    return done
