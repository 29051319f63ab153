"""Changes to stored documents, and the upkeep that follows writing."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from context_engine.db._async import vector_index
from context_engine.db._async.store import AsyncStore
from context_engine.db.acl_rows import acl_from_row
from context_engine.errors import ConfigError, NotFound, StoreError
from context_engine.model import ACL, Maintenance, Policy
from context_engine.names import Progress
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

_ANALYZE_AFTER = 200
_FILE_AFTER = 200
_FILED_AT_ONCE = 50_000


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
    """Tidy up after writing; what is not worth it yet is left for later.

    Returns:
        What could not be done, in words; the documents are stored all the same.
    """
    much = written >= _ANALYZE_AFTER
    notes: list[str] = []
    if not store.lasting:
        return notes
    with _noting(notes, "the tally was not folded"):
        await fold_tally(store)
    with _noting(notes, "new documents were not counted in, which costs time in searches"):
        await file_waiting(store, always=much)
    if much:
        with _noting(notes, "statistics were left to autovacuum"):
            await refresh_statistics(store, lock_timeout="300ms")
    with _noting(notes, "the vector index could not be built, searches stay exact until it is"):
        await vector_index.ensure(store)
    return notes


@contextmanager
def _noting(notes: list[str], what: str) -> Generator[None]:
    try:
        yield
    except (ConfigError, StoreError) as error:
        notes.append(f"{what}: {error}")


async def maintain(
    store: AsyncStore, rebuild: bool, reorder: bool, step: Callable[[str], None], progress: Progress | None
) -> Maintenance:
    """Do all upkeep now: see `Engine.maintain`."""
    step("counting documents in")
    await fold_tally(store)
    filed = await file_waiting(store, always=True)
    if reorder:
        step("putting rows in the order of access classes")
        await store.query(Statement(load("admin/reorder_embeddings")))
        await store.query(Statement(load("admin/reorder_chunks")))
    step("building the vector index")
    built = await (vector_index.build(store, progress) if rebuild else vector_index.ensure(store, progress))
    step("refreshing statistics")
    await refresh_statistics(store, lock_timeout="60s")
    await store.query(Statement(load("admin/vacuum")))
    return Maintenance(filed, built, reorder)


async def fold_tally(store: AsyncStore) -> None:
    """Add up the tally's rows, once they are many more than there are classes."""
    async with store.write() as transaction:
        await transaction.run(Statement(load("admin/fold_tally"), {"schema_name": store.settings.schema_name}))


async def refresh_statistics(store: AsyncStore, lock_timeout: str) -> None:
    """Work off what indexes have put aside, and tell the planner what is stored.

    `lock_timeout` bounds the wait for another's ANALYZE or VACUUM, the server's own among them; no reader or writer of
    rows waits meanwhile.
    """
    schema = store.settings.schema_name
    names = ("chunk_lexemes", "lexicon_keys", "document_metadata")
    indexes = {"indexes": [f'"{schema}".{name}' for name in names]}
    async with store.write() as transaction:
        await transaction.run(
            Statement("SELECT set_config('lock_timeout', %(timeout)s, true)", {"timeout": lock_timeout})
        )
        await transaction.run(Statement(load("admin/settle"), indexes))
        await transaction.run(Statement(load("admin/analyze")))


async def file_waiting(store: AsyncStore, always: bool = False) -> int:
    """Take documents that wait into the tally of words and the vector index, once they are many or `always`.

    Returns:
        How many were taken in.
    """
    params = {"schema_name": store.settings.schema_name, "limit": _FILED_AT_ONCE}
    [(waiting,)] = await store.query(Statement(load("admin/untallied")))
    done = 0
    while always or waiting >= _FILE_AFTER:
        async with store.write() as transaction:
            [rows] = await transaction.run(Statement(load("admin/lock_untallied"), params))
            ids = [row[0] for row in rows]
            if ids:
                await transaction.run(Statement(load("admin/tally_words"), {"ids": ids}))
                await vector_index.file(transaction, ids)
        done += len(ids)
        if len(ids) < _FILED_AT_ONCE:
            break
    return done
