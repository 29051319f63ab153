"""Build the vector index and keep it: centroids, and every chunk's vector under the nearest of them.

A new index is built beside the one in force and takes its place at once. What changes meanwhile is in `untallied`, as
is every document that is not filed yet: a search scores those exactly.
"""

from collections.abc import Sequence

import numpy as np

from context_engine.access import make_scope
from context_engine.db import copy_format
from context_engine.db._async.store import AsyncStore, AsyncTransaction, Row
from context_engine.model import TRUSTED
from context_engine.names import Progress
from context_engine.retrieval import ivf
from context_engine.retrieval.compose import Statement, resolve_scope
from context_engine.retrieval.legs import VectorIndex
from context_engine.sql import load

_FILED_AT_ONCE = 10_000
_REBUILD_AT = 4
"""An index is made anew when so many times the chunks are stored that it was made for."""


async def ensure(store: AsyncStore, progress: Progress | None = None) -> bool:
    """Build the index when some caller may see more chunks than are scanned exactly, or it has become too coarse.

    Returns:
        Whether an index was built by this call.
    """
    [(_, _, chunks, *_)] = await store.query(resolve_scope(make_scope(TRUSTED)))
    if chunks <= store.settings.ann_exact_threshold:
        return False
    index = await _in_force(store)
    return False if index and chunks < _REBUILD_AT * index.chunks else await build(store, progress)


async def build(store: AsyncStore, progress: Progress | None = None) -> bool:
    """Build an index and put it in force; whoever comes while one is built leaves it to the first.

    `progress` is called with documents filed and, after the last, how many there were.

    Returns:
        Whether this call built it.
    """
    if not await store.query(Statement(load("admin/claim_vector_index"))):
        return False
    try:
        await _drop_all_but(store, await _in_force(store))
        [(_, _, chunks, *_)] = await store.query(resolve_scope(make_scope(TRUSTED)))
        centroids = await _train(store, chunks)
        if not len(centroids):
            return False
        index = await _store_centroids(store, centroids, chunks)
        await _file_everything(store, index, centroids, progress)
        await store.query(Statement(load("admin/set_vector_index"), {"state": _state(index)}))
        await _drop_all_but(store, index)
    finally:
        await store.query(Statement(load("admin/release_vector_index")))
    await store.query(Statement(load("admin/vacuum_codes")))
    return True


async def file(transaction: AsyncTransaction, ids: Sequence[int]) -> None:
    """File the vectors of documents that the caller has locked, where there is an index."""
    [state] = await transaction.run(Statement(load("admin/vector_index_state")))
    if state:
        index = VectorIndex(*state[0])
        params = {"first": index.first, "lists": index.lists}
        rows = await transaction.binary(Statement(load("admin/centroids"), params))
        await _file(transaction, ids, index, ivf.from_bytes([row[0] for row in rows]))


async def _in_force(store: AsyncStore) -> VectorIndex | None:
    state = await store.query(Statement(load("admin/vector_index_state")))
    return VectorIndex(*state[0]) if state else None


async def _drop_all_but(store: AsyncStore, index: VectorIndex | None) -> None:
    first, lists = (index.first, index.lists) if index else (0, 0)
    await store.query(Statement(load("admin/drop_lists"), {"first": first, "lists": lists}))


async def _train(store: AsyncStore, chunks: int) -> ivf.Vectors:
    lists = ivf.list_count(chunks)
    percent = min(100.0, 100.0 * ivf.SAMPLE_PER_LIST * lists / max(1, chunks))
    async with store.read() as transaction:
        rows = await transaction.binary(Statement(load("admin/sample_embeddings"), {"percent": percent}))
    sample = ivf.from_bytes([row[0] for row in rows])
    # As they will be stored: signs are taken around what a search reads.
    return ivf.train(sample, lists).astype(np.float16).astype(np.float32) if len(sample) else sample


async def _store_centroids(store: AsyncStore, centroids: ivf.Vectors, chunks: int) -> VectorIndex:
    [(first,)] = await store.query(Statement(load("admin/next_list")))
    async with store.write() as transaction:
        rows = (
            copy_format.row([copy_format.int4(first + place), copy_format.halfvec(centroid)])
            for place, centroid in enumerate(centroids)
        )
        await transaction.copy("write/copy_centroids", rows)
    return VectorIndex(first, len(centroids), chunks)


async def _file_everything(
    store: AsyncStore, index: VectorIndex, centroids: ivf.Vectors, progress: Progress | None
) -> None:
    after, done = -(2**63), 0
    while True:
        params = {"after": after, "limit": _FILED_AT_ONCE}
        async with store.write() as transaction:
            [rows] = await transaction.run(Statement(load("admin/lock_range"), params))
            ids = [row[0] for row in rows]
            await _file(transaction, ids, index, centroids)
            await transaction.run(Statement(load("admin/renew_vector_index")))
        done += len(ids)
        last = len(ids) < _FILED_AT_ONCE
        if progress:
            progress(done, done if last else None)
        if last:
            return
        after = ids[-1]


async def _file(transaction: AsyncTransaction, ids: Sequence[int], index: VectorIndex, centroids: ivf.Vectors) -> None:
    found = await transaction.binary(Statement(load("admin/embeddings_to_file"), {"ids": list(ids)}))
    await transaction.copy("write/copy_codes", _code_rows(found, index, centroids))


def _code_rows(found: Sequence[Row], index: VectorIndex, centroids: ivf.Vectors) -> list[bytes]:
    if not found:
        return []
    vectors = ivf.from_bytes([row[3] for row in found])
    places = ivf.nearest(vectors, centroids)
    scales, codes = ivf.signs(vectors - centroids[places])
    int4, int8, float4 = copy_format.int4, copy_format.int8, copy_format.float4
    size = int4(vectors.shape[1])
    return [
        copy_format.row(
            [int8(document), int8(chunk), int4(acl), int4(index.first + place), float4(scale), size + code.tobytes()]
        )
        for (document, chunk, acl, _), place, scale, code in zip(
            found, places.tolist(), scales.tolist(), codes, strict=True
        )
    ]


def _state(index: VectorIndex) -> str:
    return f'{{"first": {index.first}, "lists": {index.lists}, "chunks": {index.chunks}}}'
