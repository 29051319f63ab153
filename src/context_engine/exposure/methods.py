"""The ways of searching that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from context_engine.exposure.model import VectorIndex

Shape = Literal["after", "planned", "forced", "iterative", "routed"]
FETCHES: Final = (1, 10, 50)
MAX_EF_SEARCH: Final = 1_000
_LEAST_BUDGET: Final = 20_000
LAYOUT_SHAPES: Final = ("after", "forced", "iterative")
"""Ways that no index on the permission takes part in: what a random layout would have shown can be measured."""
WALK: Final[Mapping[str, str]] = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"}
"""Leaves the planner nothing but to walk the vector index."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way of searching.

    Attributes:
        limit: rows that the statement asks of the vector search.
        ef_search: what `hnsw.ef_search` is set to; None to leave it as it is.
        walk: settings that leave the planner only the vector index, or none.
    """

    name: str
    title: str
    shape: Shape
    limit: int
    ef_search: int | None = None
    walk: Mapping[str, str] = field(default_factory=dict[str, str])

    def settings(self, extra: int) -> dict[str, str]:
        """Return what is set for the statement; ef_search grows with the limit, by `extra` rows."""
        wide = {} if self.ef_search is None else {"hnsw.ef_search": str(min(MAX_EF_SEARCH, self.ef_search + extra))}
        return {**self.walk, **wide}


def plan_methods(index: VectorIndex | None, top_k: int, ef_search: int | None, iterative: bool) -> list[Method]:
    """List the ways that this database can take.

    Args:
        index: the vector index, or None.
        top_k: rows that a caller asks for.
        ef_search: `hnsw.ef_search` as it is set today; None when unknown.
        iterative: whether pgvector has iterative scans.
    """
    today = ef_search if index is not None and index.method == "hnsw" else None
    made: list[Method] = []
    for fetch in FETCHES:
        limit = fetch * top_k
        made.append(Method(f"after-{fetch}x", f"filter after, {fetch}×", "after", limit, today))
        if today is not None and limit > today:
            wide = min(MAX_EF_SEARCH, limit)
            title = f"filter after, {fetch}×, ef_search {wide}"
            made.append(Method(f"after-{fetch}x-ef", title, "after", limit, wide))
    made.append(Method("planned", "in the query, as planned", "planned", top_k, today))
    if index is not None:
        made.append(Method("forced", "in the query, index forced", "forced", top_k, today, WALK))
        if today is not None and top_k > today:
            wide = min(MAX_EF_SEARCH, 2 * top_k)
            made.append(Method("forced-ef", f"index forced, ef_search {wide}", "forced", top_k, wide, WALK))
        if iterative:
            on = {f"{index.method}.iterative_scan": "relaxed_order"}
            made.append(Method("iterative", "iterative scan", "iterative", top_k, today, {**WALK, **on}))
    made.append(Method("routed", "routed by what the caller sees", "routed", top_k))
    return made


def long_walk(index: VectorIndex, visible: int, limit: int, iterative: bool) -> dict[str, str]:
    """Return settings for a walk that goes on until it has `limit` rows of a caller who sees `visible`."""
    if index.method == "ivfflat":
        return {**WALK, **({"ivfflat.iterative_scan": "relaxed_order"} if iterative else {})}
    budget = {
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": str(max(_LEAST_BUDGET, visible)),
        "hnsw.scan_mem_multiplier": "4",
    }
    return {**WALK, "hnsw.ef_search": str(min(MAX_EF_SEARCH, 2 * limit)), **(budget if iterative else {})}
