# Generated from engine/_async/search.py by tools/unasync.py: change that file instead.
"""One search: scope, statistics, legs, fusion, hydrate, in one read-only snapshot."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from context_engine.access import Scope
from context_engine.db._sync.beside import Answer, Beside
from context_engine.db._sync.store import Row, Store, Transaction
from context_engine.engine._sync.spelling import Speller
from context_engine.errors import LegError, StoreError
from context_engine.model import (
    DocumentInfo,
    Hit,
    LegReport,
    SearchReport,
    SearchResult,
)
from context_engine.names import LEGS, TEXT_LEGS, LegName
from context_engine.retrieval import legs
from context_engine.retrieval.bm25 import rarity
from context_engine.retrieval.compose import Statement, Visibility, compose, resolve_scope
from context_engine.retrieval.fusion import Candidate, Fused, fuse, merge
from context_engine.retrieval.legs import Route, VectorIndex
from context_engine.retrieval.query import Question
from context_engine.retrieval.shape import adapt, is_lookup
from context_engine.settings import Settings
from context_engine.sql import load
from context_engine.text.analyse import Analyser

_WORTH_A_CONNECTION = 1_500
"""Visible chunks; the vectors of fewer are scanned sooner than a snapshot is shared."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A checked search.

    Attributes:
        embedding: the question's unit vector as a literal, or None when the vector leg does not run.
        weights: each leg's fusion weight; a leg without one, or with 0, does not run.
        adaptive: whether the weights are fitted to the question.
        failed: legs that failed before the database was asked, with the reason.
    """

    question: Question
    scope: Scope
    embedding: str | None
    weights: Mapping[LegName, float]
    adaptive: bool
    failed: Mapping[LegName, str]
    top_k: int
    exact: bool

    def wants(self, leg: LegName) -> bool:
        """Whether a leg takes part."""
        return self.weights.get(leg, 0.0) > 0 and leg not in self.failed


@dataclass(slots=True)
class _Run:
    """What a search has found so far; `aside` is the vector leg where it is under way on a second connection."""

    reports: dict[LegName, LegReport] = field(default_factory=dict[LegName, LegReport])
    lists: dict[LegName, list[Candidate]] = field(default_factory=dict[LegName, list[Candidate]])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    chunks: int = 0
    weights: dict[LegName, float] = field(default_factory=dict[LegName, float])
    rarity: float = 1.0
    lookup: bool = False
    aside: tuple[Route, Answer] | None = None

    def take(self, leg: LegName, route: Route, rows: Sequence[Row]) -> None:
        """Keep a leg's rows."""
        self.lists[leg] = [Candidate(*row) for row in rows]
        examined = None if route.rows is None else min(route.rows, self.chunks)
        self.reports[leg] = LegReport(route.name, route.exact, len(rows), examined=examined)

    def note(self, leg: LegName, route: str, error: str | None = None) -> None:
        """Report a leg that has no rows."""
        self.reports[leg] = LegReport(route, True, 0, error)


class Searcher:
    """Answers searches for one engine."""

    def __init__(self, store: Store, settings: Settings, analyser: Analyser) -> None:
        self._store = store
        self._settings = settings
        self._speller = Speller(analyser, settings.search)
        self._beside = Beside(store)

    def search(self, request: SearchRequest) -> SearchResult:
        """Run a search; where a leg fails, run it again with each leg by itself, and report the one.

        Raises:
            LegError: when every leg that was asked for failed.
        """
        try:
            return self._attempt(request, apart=False)
        except StoreError as error:
            if error.connection_lost:
                raise
            return self._attempt(request, apart=True)

    def _attempt(self, request: SearchRequest, apart: bool) -> SearchResult:
        run = _Run()
        started = time.perf_counter()
        for leg, reason in request.failed.items():
            run.note(leg, "failed", reason)
        with self._store.read() as transaction:
            visibility, index = self._resolve(transaction, request.scope)
            run.chunks = visibility.chunks
            _lap(run, "scope", started)
            vector = None if apart else self._vector_aside(request, visibility, index)
            with self._beside.ask(transaction, vector and vector.statement) as answer:
                if vector and answer:
                    run.aside = vector, answer
                frequencies = self._statistics(transaction, request, visibility, run)
                run.rarity = rarity(run.chunks, frequencies.values())
                self._legs(transaction, request, visibility, run, frequencies, index, apart)
            fused = self._fuse(request, run)
            mark = time.perf_counter()
            rows = self._hydrate(transaction, visibility, fused)
        _lap(run, "hydrate", mark)
        _lap(run, "total", started)
        return _result(fused, rows, run, request.question)

    def _resolve(self, transaction: Transaction, scope: Scope) -> tuple[Visibility, VectorIndex | None]:
        state = Statement(load("admin/search_state"))
        [visible], [(stored, first, lists, chunks)] = transaction.run(resolve_scope(scope), state)
        index = None if first is None else VectorIndex(first, lists, chunks)
        return Visibility(scope, *visible, stored=stored), index

    def _statistics(
        self,
        transaction: Transaction,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
    ) -> dict[str, int]:
        """Count, over visible rows, what the scores need."""
        mark = time.perf_counter()
        terms = request.question.terms
        wanted = bool(terms) and (request.wants("fts") or request.wants("trgm"))
        statements: list[Statement] = []
        if wanted and visibility.chunks:
            statements.append(legs.document_frequency(visibility, terms))
        if visibility.scope.narrowed_by_document and visibility.chunks:
            statements.append(compose("read/count", visibility))
        answers = transaction.run(*statements) if statements else []
        if visibility.scope.narrowed_by_document and visibility.chunks:
            [(_, run.chunks)] = answers.pop()
        _lap(run, "statistics", mark)
        counted: dict[str, int] = {terms[place]: count for place, count in answers[0]} if answers else {}
        return {term: counted.get(term, 0) for term in terms}

    def _legs(
        self,
        transaction: Transaction,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
        frequencies: dict[str, int],
        index: VectorIndex | None,
        apart: bool,
    ) -> None:
        mark = time.perf_counter()
        routes = self._routes(request, visibility, run, frequencies, index)
        fuzzy: Route | None = None
        if request.wants("trgm") and request.question.terms:
            try:
                fuzzy = self._trgm(transaction, request, visibility, run, frequencies)
            except StoreError as error:  # a failed look-up of spellings is the fuzzy leg's own
                run.note("trgm", "failed", str(error))
        self._ask_all(transaction, request, visibility, run, routes, fuzzy, frequencies, apart)
        if run.aside:
            vector, answer = run.aside
            rows = answer.rows()
            if rows is None:
                self._ask(transaction, {"ann": vector}, run, apart)
            else:
                run.take("ann", vector, rows)
        self._complete_ann(transaction, request, visibility, run)
        for leg, weight in request.weights.items():
            if leg not in run.reports:
                run.note(leg, "empty" if weight > 0 else "off")
        _lap(run, "legs", mark)

    def _routes(
        self,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
        frequencies: Mapping[str, int],
        index: VectorIndex | None,
    ) -> dict[LegName, Route]:
        """Choose how the lexical leg, and the vector leg unless it is under way, are to be run."""
        routes: dict[LegName, Route] = {}
        if request.wants("fts"):
            limit = self._settings.search.limit("fts", request.top_k)
            asked = visibility, request.question, frequencies, run.chunks, self._settings, limit
            lexical = legs.fts(*asked)
            if lexical:
                routes["fts"] = lexical
        vector = None if run.aside else self._vector(request, visibility, run.chunks, index)
        if vector:
            routes["ann"] = vector
        return routes

    def _vector(
        self, request: SearchRequest, visibility: Visibility, chunks: int, index: VectorIndex | None
    ) -> Route | None:
        if not (request.wants("ann") and request.embedding and chunks):
            return None
        limit = self._settings.search.limit("ann", request.top_k)
        asked = visibility, request.question, request.embedding, chunks, index
        return legs.ann(*asked, self._settings, limit, request.exact)

    def _vector_aside(self, request: SearchRequest, visibility: Visibility, index: VectorIndex | None) -> Route | None:
        """Return the vector leg where it is worth a second connection, which has to be told who asks."""
        beside_text = request.question.terms and any(request.wants(leg) for leg in TEXT_LEGS)
        worth = visibility.chunks >= _WORTH_A_CONNECTION and not request.scope.narrowed_by_document
        if not (self._settings.search.legs_at_once and beside_text and worth):
            return None
        vector = self._vector(request, visibility, visibility.chunks, index)
        local = resolve_scope(request.scope).local
        return vector and replace(vector, statement=replace(vector.statement, local=local))

    def _complete_ann(
        self,
        transaction: Transaction,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
    ) -> None:
        """Go on exactly where the index gave fewer rows than there are."""
        report = run.reports.get("ann")
        limit = self._settings.search.limit("ann", request.top_k)
        short = len(run.lists.get("ann", ())) < min(limit, run.chunks)
        if report and report.route == "ivf" and short and request.embedding:
            route = legs.ann_exact(visibility, request.question, request.embedding, limit)
            [rows] = transaction.run(route.statement)
            run.take("ann", route, rows)

    def _trgm(
        self,
        transaction: Transaction,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
        frequencies: dict[str, int],
    ) -> Route | None:
        question = request.question
        limit = self._settings.search.limit("trgm", request.top_k)
        found = self._speller.respell(transaction, visibility, question, run.chunks, frequencies)
        run.lookup = bool(found.weights) and is_lookup(question, frequencies, found.joined)
        return legs.trgm(visibility, question, found.weights, frequencies, self._settings, limit)

    def _ask_all(
        self,
        transaction: Transaction,
        request: SearchRequest,
        visibility: Visibility,
        run: _Run,
        routes: Mapping[LegName, Route],
        fuzzy: Route | None,
        frequencies: Mapping[str, int],
        apart: bool,
    ) -> None:
        """Run the legs; of the fuzzy one, where that is enough, only what it does not share with the lexical."""
        lexical = routes.get("fts")
        limit = self._settings.search.limit("trgm", request.top_k)
        changed = legs.changed_words(lexical, fuzzy, frequencies, limit) if lexical and fuzzy else None
        if fuzzy is None or changed is None:
            self._ask(transaction, {**routes, **({"trgm": fuzzy} if fuzzy else {})}, run, apart)
            return
        more: dict[LegName, Route] = {}
        if changed:
            more["trgm"] = legs.holding(visibility, request.question, fuzzy, changed, limit)
        self._ask(transaction, {**routes, **more}, run, apart)
        if "fts" not in run.lists:
            self._ask(transaction, {"trgm": fuzzy}, run, apart)
        elif not changed or "trgm" in run.lists:
            run.lists["trgm"] = merge(run.lists["fts"], run.lists.get("trgm", ()), limit)
            run.reports["trgm"] = LegReport(fuzzy.name, True, len(run.lists["trgm"]))

    def _ask(
        self,
        transaction: Transaction,
        routes: Mapping[LegName, Route],
        run: _Run,
        apart: bool,
    ) -> None:
        """Run legs in one round trip; or `apart`, where one may fail without the others."""
        if not routes:
            return
        if not apart:
            answers = transaction.run(*(route.statement for route in routes.values()))
            for (leg, route), rows in zip(routes.items(), answers, strict=True):
                instead = route.follow(rows) if route.follow else None
                run.take(leg, route, (transaction.run(instead))[0] if instead else rows)
            return
        for leg, route in routes.items():
            try:
                [rows] = transaction.attempt(route.statement)
                instead = route.follow(rows) if route.follow else None
                run.take(leg, route, (transaction.attempt(instead))[0] if instead else rows)
            except StoreError as error:
                run.lists.pop(leg, None)
                run.note(leg, "failed", str(error))

    def _fuse(self, request: SearchRequest, run: _Run) -> list[Fused]:
        asked: list[LegName] = [leg for leg, weight in request.weights.items() if weight > 0]
        errors = [f"{leg}: {run.reports[leg].error}" for leg in asked if run.reports[leg].error]
        if errors and len(errors) == len(asked):
            raise LegError("every leg of the search failed: " + "; ".join(errors))
        fusion = self._settings.fusion
        run.weights = dict(request.weights)
        if request.adaptive:
            lookup = run.lookup and bool(run.lists.get("trgm"))
            run.weights = adapt(request.weights, lookup, run.rarity, fusion.lookup_factor)
        limit = self._settings.search.limit("fts", request.top_k)
        return fuse(run.lists, run.weights, fusion.method, fusion.k, limit)[: request.top_k]

    def _hydrate(self, transaction: Transaction, visibility: Visibility, fused: Sequence[Fused]) -> list[Row]:
        if not fused:
            return []
        params = {
            "document_ids": [hit.document_id for hit in fused],
            "chunk_ids": [hit.chunk_id for hit in fused],
        }
        [rows] = transaction.run(compose("read/hydrate", visibility, params))
        return rows


def _lap(run: _Run, stage: str, started: float) -> None:
    run.timings_ms[stage] = (time.perf_counter() - started) * 1000


def _result(fused: Sequence[Fused], rows: Sequence[Row], run: _Run, question: Question) -> SearchResult:
    texts = {row[0]: row[1:] for row in rows}
    hits: list[Hit] = []
    for hit in fused:
        position, text, *document = texts[hit.chunk_id]
        info = DocumentInfo(*document)
        hits.append(Hit(hit.chunk_id, position, text.strip(), hit.score, info, hit.legs))
    reports: dict[LegName, LegReport] = {leg: run.reports[leg] for leg in LEGS if leg in run.reports}
    return SearchResult(
        tuple(hits),
        SearchReport(
            exact=all(report.exact for report in reports.values()),
            degraded=any(report.error for report in reports.values()),
            legs=reports,
            visible_chunks=run.chunks,
            timings_ms=run.timings_ms,
            notes=_notes(question),
            weights=run.weights,
        ),
    )


def _notes(question: Question) -> tuple[str, ...]:
    if not question.dropped_terms:
        return ()
    used, dropped = len(question.terms), question.dropped_terms
    return (f"the question has {used + dropped} different words; the first {used} were scored",)
