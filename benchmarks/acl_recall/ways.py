"""The legs, and the ways of asking them: each answer is a whole search with the other legs off."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from context_engine import TRUSTED, Engine, SearchResult
from context_engine.settings import SearchSettings

from .corpus import Corpus
from .layouts import Caller, Mask
from .store import settings

TOP_K: Final = 10
LEGS: Final = ("ann", "fts any", "fts all", "trgm", "hybrid")
AFTER: Final = {"after-1x": 10, "after-10x": 100, "after-50x": 500}
"""Rows of everyone's answer from which what is hidden is then dropped; a leg gives as many, and 100 at least, to it."""
WORDS: Final[dict[str, dict[str, Any]]] = {
    "words none": {"search": {"trgm_max_query_words": None}},
    "words 8": {"search": {"trgm_max_query_words": 8}},
    "trgm off": {"fusion": {"weights": {"trgm": 0}}},
}
"""What `trgm_max_query_words` is set to, beside the default of 16."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first hits of one search.

    Attributes:
        scores: the leg's own, or of a hybrid search the fused ones.
        detail: rank and score of each hit in each leg, and how many chunks the caller sees.
        route: the route that each leg took.
    """

    ids: tuple[int, ...]
    documents: tuple[int, ...]
    scores: tuple[float, ...]
    detail: tuple[Any, ...]
    exact: bool
    route: str
    ms: float

    @classmethod
    def of(cls, result: SearchResult, leg: str, ms: float) -> Answer:
        name: Any = leg.split()[0]
        legs = {key: report for key, report in result.report.legs.items() if report.route != "off"}
        errors = [report.error for report in legs.values() if report.error]
        if errors:
            raise RuntimeError(f"{leg}: {errors[0]}")
        hits = result.hits
        return cls(
            tuple(hit.chunk_id for hit in hits),
            tuple(hit.document.id for hit in hits),
            tuple(hit.score if leg == "hybrid" else hit.legs[name].score for hit in hits),
            (
                result.report.visible_chunks,
                tuple(tuple((key, at.rank, at.score) for key, at in sorted(hit.legs.items())) for hit in hits),
            ),
            result.report.exact,
            " ".join(f"{key}:{report.route}" for key, report in legs.items()),
            ms,
        )


class Desk:
    """Asks the engine, one question at a time; engines are kept open, each with one connection."""

    def __init__(self, url: str, corpus: Corpus, threshold: int, stack: ExitStack) -> None:
        self.corpus = corpus
        self.threshold = threshold
        self._url = url
        self._stack = stack
        self._engines: dict[str, Engine] = {}

    def _engine(self, schema: str, threshold: int, sections: dict[str, Any]) -> Engine:
        key = f"{schema} {threshold} {sections}"
        if key not in self._engines:
            made = Engine(self._url, embedder=self.corpus.embedder, settings=settings(schema, threshold, **sections))
            self._engines[key] = self._stack.enter_context(made)
        return self._engines[key]

    def close(self, schema: str) -> None:
        """Close the engines on one schema, which will be another the next time."""
        for key in [key for key in self._engines if key.startswith(f"{schema} ")]:
            self._engines.pop(key).close()

    def ask(  # noqa: PLR0913 - one search
        self,
        schema: str,
        leg: str,
        place: int,
        caller: Caller | None,
        *,
        top_k: int = TOP_K,
        exact: bool = False,
        forced: bool = False,
        **sections: dict[str, Any],
    ) -> Answer:
        """Ask one question as a caller, or as `TRUSTED`."""
        changed = {name: dict(values) for name, values in sections.items()}
        if leg == "fts all":
            changed.setdefault("search", {})["lexical_match"] = "all"
        engine = self._engine(schema, 0 if forced else self.threshold, changed)
        name: Any = leg.split()[0]
        weights: Any = None if leg == "hybrid" else {key: float(key == name) for key in ("fts", "trgm", "ann")}
        filters: dict[str, Any] = {}
        if caller and caller.sources is not None:
            filters["sources"] = caller.sources
        if caller and caller.documents is not None:
            filters["documents"] = self.corpus.chunks.document_ids[list(caller.documents)].tolist()
        principals = TRUSTED if caller is None else list(caller.principals)
        text = self.corpus.questions[place].text
        started = time.perf_counter()
        result = engine.search(text, principals=principals, top_k=top_k, exact=exact, weights=weights, **filters)
        return Answer.of(result, leg, (time.perf_counter() - started) * 1000)

    def in_query(self, schema: str, leg: str, place: int, caller: Caller, **options: Any) -> Answer:
        """Ask as shipped: the permissions are in each leg's statement."""
        return self.ask(schema, leg, place, caller, **options)

    def reference(self, schema: str, leg: str, place: int) -> Answer:
        """Ask the visible-only database: the same settings, vectors scanned."""
        return self.ask(schema, leg, place, None, exact=True)

    def unfiltered(self, schema: str, leg: str, place: int, rows: int) -> Answer:
        """Ask for so many of everything, vectors scanned: what a filter that comes after is given."""
        search = {"candidates": max(rows, SearchSettings().candidates)}
        return self.ask(schema, leg, place, None, top_k=rows, exact=True, search=search)


def kept(rows: NDArray[np.int64], seen: Mask) -> list[int]:
    """Filter after: the places, in a list of document rows, of the first ten that a caller sees."""
    return np.flatnonzero(seen[rows])[:TOP_K].tolist()
