# Generated from db/_async/maintain.py by tools/unasync.py: change that file instead.
"""Changes to stored documents, and the upkeep that follows writing."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from context_engine.db._sync import vector_index
from context_engine.db._sync.store import Store
from context_engine.db.acl_rows import acl_from_row
from context_engine.errors import ConfigError, NotFound, StoreError
from context_engine.model import ACL, Maintenance, Policy
from context_engine.names import Progress
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

_ANALYZE_AFTER = 200
_FILE_AFTER = 200
_FILED_AT_ONCE = 50_000


def set_acl(store: Store, ids: Sequence[int], acl_id: int) -> None:
    """Move documents and all their rows to another access class, in one transaction."""
    params = {"ids": list(ids), "acl_id": acl_id}
    with store.write() as transaction:
        [locked] = transaction.run(Statement(load("write/lock_documents"), params))
        if len(locked) < len(ids):
            raise NotFound
        transaction.run(Statement(load("write/untally_words"), params), Statement(load("write/set_acl"), params))


def delete(store: Store, ids: Sequence[int]) -> int:
    """Delete documents; chunks and embeddings go with them."""
    params = {"ids": list(ids)}
    with store.write() as transaction:
        [locked] = transaction.run(Statement(load("write/lock_documents"), params))
        # What came into being since then is not locked, and not deleted.
        params = {"ids": [row[0] for row in locked]}
        transaction.run(Statement(load("write/untally_words"), params))
        return transaction.affected(Statement(load("write/delete_documents"), params))


def policies(store: Store) -> dict[str, ACL]:
    """List every policy."""
    rows = store.query(Statement(load("admin/policies")))
    return {row[0]: acl_from_row(row[1:]) for row in rows}


def document_acl(store: Store, document_id: int) -> ACL | Policy:
    """Tell a document's ACL."""
    params = {"document_id": document_id}
    rows = store.query(Statement(load("admin/document_acl"), params))
    if not rows:
        raise NotFound
    [row] = rows
    return Policy(row[0]) if row[0] is not None else acl_from_row(row[1:])


def settle(store: Store, written: int) -> list[str]:
    """Tidy up after writing; what is not worth it yet is left for later.

    Returns:
        What could not be done, in words; the documents are stored all the same.
    """
    much = written >= _ANALYZE_AFTER
    notes: list[str] = []
    if not store.lasting:
        return notes
    with _noting(notes, "the tally was not folded"):
        fold_tally(store)
    with _noting(notes, "new documents were not counted in, which costs time in searches"):
        file_waiting(store, always=much)
    if much:
        with _noting(notes, "statistics were left to autovacuum"):
            refresh_statistics(store, lock_timeout="300ms")
    with _noting(notes, "the vector index could not be built, searches stay exact until it is"):
        vector_index.ensure(store)
    return notes


@contextmanager
def _noting(notes: list[str], what: str) -> Generator[None]:
    try:
        yield
    except (ConfigError, StoreError) as error:
        notes.append(f"{what}: {error}")


def maintain(
    store: Store, rebuild: bool, reorder: bool, step: Callable[[str], None], progress: Progress | None
) -> Maintenance:
    """Do all upkeep now: see `Engine.maintain`."""
    step("counting documents in")
    fold_tally(store)
    filed = file_waiting(store, always=True)
    if reorder:
        step("putting rows in the order of access classes")
        store.query(Statement(load("admin/reorder_embeddings")))
        store.query(Statement(load("admin/reorder_chunks")))
    step("building the vector index")
    built = vector_index.build(store, progress) if rebuild else vector_index.ensure(store, progress)
    step("refreshing statistics")
    refresh_statistics(store, lock_timeout="60s")
    store.query(Statement(load("admin/vacuum")))
    return Maintenance(filed, built, reorder)


def fold_tally(store: Store) -> None:
    """Add up the tally's rows, once they are many more than there are classes."""
    with store.write() as transaction:
        transaction.run(Statement(load("admin/fold_tally"), {"schema_name": store.settings.schema_name}))


def refresh_statistics(store: Store, lock_timeout: str) -> None:
    """Work off what indexes have put aside, and tell the planner what is stored.

    `lock_timeout` bounds the wait for another's ANALYZE or VACUUM, the server's own among them; no reader or writer of
    rows waits meanwhile.
    """
    schema = store.settings.schema_name
    names = ("chunk_lexemes", "lexicon_keys", "document_metadata")
    indexes = {"indexes": [f'"{schema}".{name}' for name in names]}
    with store.write() as transaction:
        transaction.run(Statement("SELECT set_config('lock_timeout', %(timeout)s, true)", {"timeout": lock_timeout}))
        transaction.run(Statement(load("admin/settle"), indexes))
        transaction.run(Statement(load("admin/analyze")))


def file_waiting(store: Store, always: bool = False) -> int:
    """Take documents that wait into the tally of words and the vector index, once they are many or `always`.

    Returns:
        How many were taken in.
    """
    params = {"schema_name": store.settings.schema_name, "limit": _FILED_AT_ONCE}
    [(waiting,)] = store.query(Statement(load("admin/untallied")))
    done = 0
    while always or waiting >= _FILE_AFTER:
        with store.write() as transaction:
            [rows] = transaction.run(Statement(load("admin/lock_untallied"), params))
            ids = [row[0] for row in rows]
            if ids:
                transaction.run(Statement(load("admin/tally_words"), {"ids": ids}))
                vector_index.file(transaction, ids)
        done += len(ids)
        if len(ids) < _FILED_AT_ONCE:
            break
    return done
