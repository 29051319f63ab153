"""The ways to ask: Context Engine's routes, plain pgvector, and HNSW in process as the physical reference."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, LiteralString, Protocol, Self

import numpy as np
import psycopg
from benchmarks.latency.load import Memory
from numpy.typing import NDArray
from psycopg import sql

from context_engine.access import make_scope
from context_engine.db._sync.store import Store
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Visibility
from context_engine.retrieval.legs import Route, VectorIndex
from context_engine.retrieval.query import read_question
from context_engine.settings import Settings
from context_engine.text.analyse import Analyser

from .generate import Corpus, Vectors
from .layouts import Caller
from .load import HNSW_EF_CONSTRUCTION, HNSW_M, SHARED, connect

LIMIT: Final = 100
UNFILTERED_EFS: Final = (40, 100, 200, 400, 800)
UNFILTERED_DEEP: Final = (2_000, 4_000, 8_000)
"""Rows that an unfiltered walk goes on to, since ef ends at 1,000."""
REFERENCE_EFS: Final = (100, 400)
QUESTION: Final = read_question("", Analyser())


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, best first, and milliseconds; `note` tells the route or the plan."""

    ids: NDArray[np.int64]
    ms: float
    note: str = ""


class Method(Protocol):
    """Something that can be asked.

    Attributes:
        sees: whether it is asked as a caller; otherwise it searches everything.
    """

    name: str
    sees: bool

    def ask(self, caller: Caller, vector: Vectors) -> Answer: ...


def literal(vector: Vectors) -> str:
    """Write a vector as pgvector reads it."""
    return "[" + ",".join(f"{value:.7g}" for value in vector.tolist()) + "]"


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _ids(rows: Sequence[tuple[Any, ...]]) -> NDArray[np.int64]:
    return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))


@dataclass(slots=True)
class Ours:
    """The vector leg: its statement, in the engine's own kind of transaction, by the route that the engine takes."""

    name: str
    store: Store
    index: VectorIndex | None
    threshold: int
    ann_rows: int
    stored: int
    sees: bool = True

    def ask(self, caller: Caller, vector: Vectors) -> Answer:
        started = time.perf_counter()
        embedding = literal(vector)
        scope = make_scope(["benchmark"])
        visibility = Visibility(scope, caller.literal, caller.visible, caller.visible, 0, stored=self.stored)
        with self.store.read() as transaction:
            route = self._route(visibility, embedding)
            [rows] = transaction.run(route.statement)
            if len(rows) < min(LIMIT, caller.visible):  # as the engine does
                route = legs.ann_exact(visibility, QUESTION, embedding, LIMIT)
                [rows] = transaction.run(route.statement)
        return Answer(_ids(rows), _since(started), route.name)

    def _route(self, visibility: Visibility, embedding: str) -> Route:
        settings = Settings(storage={"ann_exact_threshold": self.threshold}, search={"ann_rows": self.ann_rows})
        return legs.ann(visibility, QUESTION, embedding, visibility.chunks, self.index, settings, LIMIT)


_NEAREST: Final[LiteralString] = """
    SELECT id FROM {schema}.item WHERE {acl} = ANY (%(acls)s::int[])
    ORDER BY embedding <#> %(embedding)s::halfvec LIMIT %(limit)s"""
_ITERATIVE: Final[LiteralString] = """
    WITH nearest AS MATERIALIZED (
        SELECT id, embedding <#> %(embedding)s::halfvec AS distance
        FROM {schema}.item WHERE {acl} = ANY (%(acls)s::int[])
        ORDER BY distance LIMIT %(limit)s
    )
    SELECT id FROM nearest ORDER BY distance + 0, id"""
_AFTER: Final[LiteralString] = """
    WITH nearest AS MATERIALIZED (
        SELECT id, {acl} AS acl_id, embedding <#> %(embedding)s::halfvec AS distance
        FROM {schema}.item ORDER BY distance LIMIT %(fetched)s
    )
    SELECT id FROM nearest WHERE acl_id = ANY (%(acls)s::int[]) ORDER BY distance + 0, id LIMIT %(limit)s"""
_UNFILTERED: Final[LiteralString] = """
    SELECT id FROM {schema}.item ORDER BY embedding <#> %(embedding)s::halfvec LIMIT %(limit)s"""
_DEEP: Final[LiteralString] = """
    WITH nearest AS MATERIALIZED (
        SELECT id, embedding <#> %(embedding)s::halfvec AS distance
        FROM {schema}.item ORDER BY distance LIMIT %(fetched)s
    )
    SELECT id FROM nearest ORDER BY distance + 0, id LIMIT %(limit)s"""
_ON_THE_INDEX: Final = {"enable_seqscan": "off"}


@dataclass(slots=True)
class Plain:
    """A statement on the shared table, on a connection of its own whose settings are in place."""

    name: str
    text: LiteralString
    settings: Mapping[str, str]
    fetched: int = LIMIT
    sees: bool = True
    url: str = ""
    _connection: psycopg.Connection[Any] | None = None
    _plans: dict[tuple[str, float], str] = field(default_factory=dict[tuple[str, float], str])

    def ask(self, caller: Caller, vector: Vectors) -> Answer:
        connection = self._open()
        parts = {"schema": sql.Identifier(SHARED), "acl": sql.Identifier(f"acl_{caller.layout}")}
        text = sql.SQL(self.text).format(**parts)
        params: dict[str, Any] = {"limit": LIMIT, "fetched": self.fetched}
        key = (caller.layout, caller.target)
        if self.sees and key not in self._plans:
            known = {**params, "embedding": literal(vector), "acls": caller.literal}
            plan = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) ") + text, known).fetchone()
            self._plans[key] = _means(json.dumps(plan))
        started = time.perf_counter()
        params["embedding"] = literal(vector)
        if self.sees:
            params["acls"] = caller.literal
        rows = connection.execute(text, params).fetchall()
        return Answer(_ids(rows), _since(started), self._plans.get(key, ""))

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection = connect(self.url)
            # pgvector's settings exist once its library is loaded.
            connection.execute("SELECT '[1]'::halfvec")
            for name, value in {"jit": "off", "plan_cache_mode": "force_custom_plan", **self.settings}.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            self._connection = connection
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _means(plan: str) -> str:
    """Tell how a plan finds its rows."""
    if "item_hnsw" in plan:
        return "hnsw"
    return "visible rows" if "_idx" in plan else "every row"


def plain(url: str) -> list[Plain]:
    """List the statements on the shared table, filtered and not."""
    iterative = {"hnsw.iterative_scan": "relaxed_order"}
    found = [
        Plain("planner", _NEAREST, {}, url=url),
        Plain("iterative", _ITERATIVE, iterative, url=url),
        Plain("after-1x", _AFTER, {"hnsw.ef_search": "100", **_ON_THE_INDEX}, LIMIT, url=url),
        Plain("after-10x", _AFTER, {"hnsw.ef_search": "1000", **_ON_THE_INDEX}, 10 * LIMIT, url=url),
        # An index scan gives no more rows than its ef, which ends at 1,000, unless it is iterative.
        Plain("after-50x", _AFTER, {"hnsw.ef_search": "1000", **iterative, **_ON_THE_INDEX}, 50 * LIMIT, url=url),
    ]
    for ef in UNFILTERED_EFS:
        settings = {"hnsw.ef_search": str(ef), **_ON_THE_INDEX}
        found.append(Plain(f"unfiltered-ef{ef}", _UNFILTERED, settings, sees=False, url=url))
    deep = {**iterative, "hnsw.ef_search": "1000", "hnsw.max_scan_tuples": "200000", "hnsw.scan_mem_multiplier": "8"}
    for rows in UNFILTERED_DEEP:
        found.append(Plain(f"unfiltered-ef{rows}", _DEEP, {**deep, **_ON_THE_INDEX}, rows, sees=False, url=url))
    return found


class Reference:
    """HNSW in this process (faiss), with a filter by bitmap: what the walk costs without a database around it."""

    def __init__(self, corpus: Corpus, url: str) -> None:
        faiss: Any = importlib.import_module("faiss")  # an extra, and slow to load
        self._faiss = faiss
        self.facts: dict[str, Any] = {"version": faiss.__version__}
        with Memory(url) as memory:
            started = time.perf_counter()
            self._index = faiss.IndexHNSWFlat(corpus.dim, HNSW_M, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = HNSW_EF_CONSTRUCTION
            for start in range(0, len(corpus), 50_000):
                self._index.add(corpus.vectors[start : start + 50_000].astype(np.float32))
            self.facts["seconds"] = time.perf_counter() - started
        self.facts |= memory.facts
        faiss.omp_set_num_threads(1)

    @staticmethod
    def installed() -> bool:
        return importlib.util.find_spec("faiss") is not None

    def methods(self, seen: NDArray[np.bool_]) -> list[Method]:
        """Make the methods for a caller who sees these rows."""
        bits = np.packbits(seen, bitorder="little")
        chosen = self._faiss.IDSelectorBitmap(bits)
        made: list[Method] = []
        for ef in REFERENCE_EFS:
            unfiltered = self._faiss.SearchParametersHNSW(efSearch=ef)
            filtered = self._faiss.SearchParametersHNSW(efSearch=ef, sel=chosen)
            made.append(_InProcess(f"faiss-filtered-ef{ef}", self._index, filtered, bits, True))
            made.append(_InProcess(f"faiss-unfiltered-ef{ef}", self._index, unfiltered, bits, False))
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._index.reset()


@dataclass(slots=True)
class _InProcess:
    name: str
    index: Any
    parameters: Any
    bits: NDArray[np.uint8]
    """Held, since the selector only points to it."""
    sees: bool

    def ask(self, caller: Caller, vector: Vectors) -> Answer:
        started = time.perf_counter()
        _, found = self.index.search(vector[None, :], LIMIT, params=self.parameters)
        ids = found[0][found[0] >= 0].astype(np.int64)
        return Answer(ids, _since(started))
