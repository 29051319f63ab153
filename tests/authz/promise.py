"""The promise, as a function that says where it is broken.

What a caller gets from everything must be what `TRUSTED` gets from a database that holds only what the caller may
read: that is `compare_databases`. And both must be right: that is `compare_with_oracle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psycopg
from corpora import Ask

from context_engine import TRUSTED, ContextEngineError, Document, Engine, SearchResult, Settings
from context_engine.db._sync import maintain
from context_engine.model import AclLike, Principals, document_id
from context_engine.models.hashing import HashingEmbedder
from context_engine.names import LegName, VectorType
from context_engine.testing import Oracle


class Embedder(HashingEmbedder):
    """Has no vector for some texts, as a model may: only words find them."""

    def embed_documents(self, texts: Sequence[str], /) -> Any:
        usable = [[0.0 if "marzipan" in text else 1.0] for text in texts]
        return super().embed_documents(texts) * np.array(usable, dtype=np.float32)


EMBEDDER = Embedder(32)
MISSING = 4242
INGEST = {"chunk_tokens": 16}
LEGS: tuple[LegName, ...] = ("fts", "trgm", "ann")
WEIGHTS: dict[str, dict[LegName, float] | None] = {
    **{f"{name} leg": {leg: float(leg == name) for leg in LEGS} for name in LEGS},
    "fused": None,
}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    "all": {"search": {"lexical_match": "all"}},
    "ts_rank_cd": {"search": {"lexical_rank": "ts_rank_cd"}},
    "ts_rank": {"search": {"lexical_rank": "ts_rank", "lexical_match": "all"}},
    "rrf": {"fusion": {"method": "rrf", "weights": {"trgm": 0.4}}},
    "fixed": {"fusion": {"adaptive": False}, "search": {"repeated_words": "count"}},
    "narrow": {
        "search": {
            "candidates": 3,
            "lexical_candidates": 4,
            "max_query_terms": 3,
            "trgm_max_query_words": 2,
            "trgm_expand_below": 2,
            "trgm_max_expansions": 1,
        }
    },
    "ivf": {"storage": {"ann_exact_threshold": 0}},
}
# Where a setting touches one leg, the others are as by default.
TOUCHED = {
    "all": ["fts leg", "fused"],
    "ts_rank_cd": ["fts leg", "fused"],
    "ts_rank": ["fts leg", "fused"],
    "rrf": ["ann leg", "fused"],
}
EXACT_VARIANTS = [name for name in VARIANTS if name != "ivf"]
BM25_VARIANTS = ["default", "all", "rrf", "fixed", "narrow"]
_CONTENT = ("document", "tally", "word_tally", "lexicon", "acl")


COUNTS: Counter[str] = Counter()
"""What has been compared so far, for the campaign's report."""


def settings_of(variant: str, vector_type: VectorType = "halfvec") -> Settings:
    """The settings of a variant; all of them fit one database of a vector type."""
    sections = VARIANTS[variant]
    storage = {"pool_size": 1, "vector_type": vector_type, **sections.get("storage", {})}
    return Settings(**{**sections, "storage": storage, "ingest": INGEST})


def key_of(document: Document) -> int:
    return document_id(document.source, document.external_id or document.name)


class Database:
    """A database that examples fill in turn, with an engine for each variant that is asked."""

    def __init__(self, url: str, vector_type: VectorType = "halfvec") -> None:
        self.url = url
        self.vector_type: VectorType = vector_type
        self._engines: dict[str, Engine] = {}
        self._writer: Engine | None = None

    def settings(self, variant: str) -> Settings:
        return settings_of(variant, self.vector_type)

    def engine(self, variant: str = "default") -> Engine:
        if variant not in self._engines:
            self._engines[variant] = Engine(self.url, embedder=EMBEDDER, settings=self.settings(variant))
        return self._engines[variant]

    def fill(
        self,
        documents: Iterable[Document],
        policies: Mapping[str, AclLike] | None = None,
        variant: str = "default",
    ) -> Engine:
        """Replace everything; the engine that wrote it knows nothing of what was there before."""
        self.close_writer()
        with psycopg.connect(self.url, autocommit=True) as connection:
            for table in _CONTENT:
                connection.execute(f"DELETE FROM context_engine.{table}")  # noqa: S608
        writer = Engine(self.url, embedder=EMBEDDER, settings=self.settings(variant))
        self._writer = writer
        for name, acl in (policies or {}).items():
            writer.set_policy(name, acl)
        report = writer.ingest(documents)
        assert not report.failed, report.failed
        return writer

    def tally_words(self) -> None:
        """Count every stored document's words; a search reads those of documents that come later."""
        assert self._writer is not None
        maintain.file_waiting(self._writer._opened.store, always=True)

    def close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        self.close_writer()
        for engine in self._engines.values():
            engine.close()


@dataclass(frozen=True)
class Difference:
    """Where the promise is broken: which check found it, and what it saw."""

    check: str
    text: str


def outcome(call: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """Return what a call returns, or all that a caller can see of its error."""
    try:
        found = call(*values, **named)
        return list(found) if isinstance(found, Iterator) else found
    except ContextEngineError as error:
        return (type(error).__name__, error.code, str(error), error.args)
    except Exception as error:  # noqa: BLE001 - a leak may well show as a crash
        return ("crash", repr(error))


def seen(result: SearchResult) -> Any:
    """All of a result that a caller can see, but for timings."""
    if not isinstance(result, SearchResult):
        return result
    return {"hits": result.hits, "report": replace(result.report, timings_ms={})}


def search(engine: Engine, principals: Principals, ask: Ask, weights: Any, **more: Any) -> Any:
    named = {
        "principals": principals,
        "top_k": ask.top_k,
        "weights": weights,
        **ask.filters,
        **more,
    }
    return outcome(engine.search, ask.query, **named)


def compare_databases(
    everything: Database,
    visible: Database,
    principals: Principals,
    asked: Sequence[Ask],
    variants: Iterable[str],
) -> Iterator[Difference]:
    """Compare a caller's searches with those of `TRUSTED` where nothing is hidden."""
    for variant in variants:
        whole, alone = everything.engine(variant), visible.engine(variant)
        for ask in asked:
            for check in TOUCHED.get(variant, WEIGHTS):
                weights = WEIGHTS[check]
                got = seen(search(whole, principals, ask, weights))
                wanted = seen(search(alone, TRUSTED, ask, weights))
                yield from _same(check, f"{variant} {ask}", got, wanted)


def compare_reads(
    everything: Database,
    visible: Database,
    principals: Principals,
    asked: Iterable[Ask],
    documents: Iterable[Document],
) -> Iterator[Difference]:
    """Compare counts, listings and single documents; what is hidden answers as what is missing."""
    whole, alone = everything.engine(), visible.engine()
    keys = [key_of(document) for document in documents]
    for filters in ({}, *(ask.filters for ask in asked)):
        got = outcome(whole.count, principals=principals, **filters)
        yield from _same("count", str(filters), got, outcome(alone.count, principals=TRUSTED, **filters))
        listed = {name: value for name, value in filters.items() if name != "documents"}
        got = outcome(whole.list_documents, principals=principals, **listed)
        wanted = outcome(alone.list_documents, principals=TRUSTED, **listed)
        yield from _same("list", str(listed), got, wanted)
    rows = outcome(whole.count, principals=principals, documents=keys)
    yield from _same("tally", "rows", outcome(whole.count, principals=principals), rows)
    for key in [*keys, MISSING]:
        got = outcome(whole.get_document, key, principals=principals)
        yield from _same("get", str(key), got, outcome(alone.get_document, key, principals=TRUSTED))
        around = outcome(whole.neighbours, key, 1, principals=principals)
        wanted = outcome(alone.neighbours, key, 1, principals=TRUSTED)
        yield from _same("neighbours", str(key), around, wanted)


def compare_with_oracle(
    everything: Database,
    oracles: Mapping[str, Oracle],
    principals: Principals,
    asked: Iterable[Ask],
) -> Iterator[Difference]:
    """Compare with an exact search that shares no SQL; `oracles` by variant."""
    for variant, oracle in oracles.items():
        engine = everything.engine(variant)
        for ask in asked:
            for check in TOUCHED.get(variant, WEIGHTS):
                weights = WEIGHTS[check]
                result = search(engine, principals, ask, weights)
                for text in _wrong(oracle, result, principals, ask, weights):
                    yield Difference(f"oracle {check}", f"{variant} {ask}: {text}")
    engine, oracle = everything.engine(), next(iter(oracles.values()))
    listed = [item.id for item in engine.list_documents(principals=principals)]
    yield from _same("oracle list", "ids", listed, [key_of(item) for item in oracle.visible(principals)])
    for ask in asked:
        got = engine.count(principals=principals, **ask.filters)
        yield from _same("oracle count", str(ask.filters), got, oracle.count(principals, **ask.filters))


def _wrong(oracle: Oracle, result: Any, principals: Principals, ask: Ask, weights: Any) -> list[str]:
    """Say what an engine's answer has wrong; no answer is right where the one leg asked for has nothing to go by."""
    COUNTS["answers compared with the oracle"] += 1
    named = {"principals": principals, "top_k": ask.top_k, "weights": weights, **ask.filters}
    if isinstance(result, SearchResult):
        return oracle.differences(result, ask.query, **named)
    failed = result[:2] == ("LegError", "leg_failed")
    return [] if failed and not oracle.search(ask.query, **named) else [str(result)]


def compare_approximate(
    everything: Database, oracle: Oracle, principals: Principals, asked: Iterable[Ask]
) -> Iterator[Difference]:
    """Check the one route that is excepted: it says so, hides what is hidden, and falls short of nothing."""
    engine = everything.engine("ivf")
    weights = WEIGHTS["ann leg"]
    for ask in asked:
        exact = search(engine, principals, ask, weights, exact=True)
        walked = search(engine, principals, ask, weights)
        for text in _wrong(oracle, exact, principals, ask, weights):
            yield Difference("ivf exact", f"{ask}: {text}")
        if not isinstance(walked, SearchResult):
            if walked != exact:
                yield Difference("ivf", f"{ask}: {walked}")
            continue
        if not isinstance(exact, SearchResult) or walked.hits != exact.hits:
            yield Difference("ivf", f"{ask}: the lists hold fewer rows than are scored, yet it is not the exact answer")
        limit = max(engine.settings.search.candidates, ask.top_k)
        possible = {hit.chunk_id for hit in oracle.leg("ann", ask.query, principals, **ask.filters)}
        report = walked.report.legs["ann"]
        if {hit.chunk_id for hit in walked.hits} - possible:
            yield Difference("ivf", f"{ask}: a hidden chunk")
        if report.candidates != min(limit, len(possible)):
            yield Difference("ivf", f"{ask}: {report.candidates} candidates of {len(possible)}")
        if report.exact != (report.route != "ivf") or walked.report.exact != report.exact:
            yield Difference("ivf", f"{ask}: {report} does not say how it was answered")


def _same(check: str, place: str, got: Any, wanted: Any) -> Iterator[Difference]:
    COUNTS["answers compared with the visible-only database"] += 1
    if repr(got) == repr(wanted):
        return
    if isinstance(got, dict) and isinstance(wanted, dict):
        for part in got:
            if repr(got[part]) != repr(wanted[part]):
                yield Difference(f"{check} {part}", f"{place}: {got[part]} instead of {wanted[part]}")
    else:
        yield Difference(check, f"{place}: {got} instead of {wanted}")
