# Generated from engine/_async/explain.py by tools/unasync.py: change that file instead.
"""Why a document is or is not in a caller's result: found out by asking as the caller asks, on one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from context_engine.access import AccessRule, make_scope, normalise_rule
from context_engine.db._sync import maintain
from context_engine.db._sync.pinned import PinnedStore
from context_engine.diagnostics import explain as words
from context_engine.diagnostics.explain import (
    Access,
    Asked,
    ChunkFacts,
    ChunkStanding,
    Diff,
    DiffRow,
    Explanation,
    LegList,
    LegStanding,
    Readers,
)
from context_engine.engine import arguments
from context_engine.engine.arguments import SearchOptions
from context_engine.errors import LegError, StoreError
from context_engine.model import (
    ACL,
    TRUSTED,
    DocumentInfo,
    LegHit,
    Policy,
    Principals,
    SearchResult,
    StoredDocument,
)
from context_engine.names import LegName
from context_engine.retrieval.compose import Visibility, compose, resolve_scope
from context_engine.retrieval.fusion import Candidate, Fused, fuse
from context_engine.retrieval.query import Question, quote_lexeme, read_question
from context_engine.text.analyse import Analyser

if TYPE_CHECKING:
    from context_engine.engine._sync.engine import Engine

_DEPTH: Final = arguments.MAX_TOP_K


def readers(store: PinnedStore, engine: Engine, document_id: int) -> Readers:
    """Tell who may read a document."""
    document = engine.get_document(document_id, principals=TRUSTED)
    policy, rule = _rule(store, document_id)
    return Readers(_info(document), policy, rule)


def _rule(store: PinnedStore, document_id: int) -> tuple[str | None, ACL]:
    acl = maintain.document_acl(store, document_id)
    if isinstance(acl, Policy):
        return acl.name, (maintain.policies(store))[acl.name]
    return None, acl


def _info(document: StoredDocument) -> DocumentInfo:
    return DocumentInfo(document.id, document.name, document.external_id, document.source, document.metadata)


class Explainer:
    """Explains one caller's search.

    Args:
        engine: works on `store`.
        store: one snapshot.
    """

    def __init__(
        self, engine: Engine, store: PinnedStore, query: str, principals: Principals, options: SearchOptions
    ) -> None:
        self._engine = engine
        self._store = store
        self._query = query
        self._principals = principals
        self._options = options
        self._settings = engine.settings
        self._weights = arguments.merge_weights(self._settings.fusion.weights, options.get("weights"))
        self._top_k = options.get("top_k", 10)

    def explain(self, document_id: int) -> Explanation:
        """Explain one document."""
        document = self._engine.get_document(document_id, principals=TRUSTED)
        access = self._access(document_id)
        filtered_out = self._filtered_out(document) if access.visible else ()
        if not access.visible or filtered_out:
            verdict = words.conclude(access, filtered_out, (), self._top_k)
            return Explanation(_info(document), access, filtered_out, (), None, verdict)
        result = self._engine.search(self._query, principals=self._principals, **self._options)
        chunks = self._chunks(document_id, result)
        verdict = words.conclude(access, (), chunks, self._top_k)
        return Explanation(_info(document), access, (), chunks, result.report, verdict)

    def _access(self, document_id: int) -> Access:
        policy, acl = _rule(self._store, document_id)
        rule: AccessRule = normalise_rule(acl)
        stated, reasons = words.judge(rule, make_scope(self._principals).principals)
        counted = self._engine.count(principals=self._principals, documents=[document_id])
        if stated != bool(counted.documents):
            raise StoreError("the database answers otherwise than the document's rule says: run `doctor`, report it")
        return Access(policy, acl, stated, reasons)

    def _filtered_out(self, document: StoredDocument) -> tuple[str, ...]:
        """Try each filter by itself."""
        found: list[str] = []
        sources, metadata = self._options.get("sources"), self._options.get("metadata")
        documents = self._options.get("documents")
        if sources is not None and not self._passes(document, sources=sources):
            found.append(f"its source is {document.source}")
        if documents is not None and document.id not in documents:
            found.append("it is not among the documents asked for")
        for key, wanted in (metadata or {}).items():
            if not self._passes(document, metadata={key: wanted}):
                stored = document.metadata[key] if key in document.metadata else "not there"
                found.append(f"its metadata {key!r} is {stored!r}")
        return tuple(found)

    def _passes(self, document: StoredDocument, **filters: Any) -> bool:
        counted = self._engine.count(principals=TRUSTED, documents=[document.id], **filters)
        return counted.documents > 0

    def _chunks(self, document_id: int, result: SearchResult) -> tuple[ChunkStanding, ...]:
        text = arguments.check_query(self._query, self._settings.search.max_query_chars)
        search = self._settings.search
        analyser = Analyser.of(self._settings.analyser)
        question = read_question(text, analyser, search.lexical_match, search.max_query_terms)
        facts = self._facts(document_id, question)
        found: dict[LegName, LegList] = {}
        for leg in self._weights:
            found[leg] = self._leg(leg, {one.chunk_id for one in facts})
        fused = {hit.chunk_id: (rank, hit) for rank, hit in enumerate(self._fuse(found, result.report.weights), 1)}
        returned = {hit.chunk_id for hit in result.hits}
        asked = Asked(bool(question.terms), question.any_word)
        chunks: list[ChunkStanding] = []
        for one in facts:
            rank, hit = fused.get(one.chunk_id, (None, None))
            shown = one.chunk_id in returned
            legs: dict[LegName, LegStanding] = {
                leg: words.stand(one, leg, listed, asked) for leg, listed in found.items()
            }
            chunks.append(
                ChunkStanding(
                    one.chunk_id,
                    one.position,
                    one.text,
                    rank,
                    hit.score if hit else None,
                    shown,
                    legs,
                    words.why_chunk(rank, shown, self._top_k),
                )
            )
        return tuple(chunks)

    def _facts(self, document_id: int, question: Question) -> list[ChunkFacts]:
        params = {
            "document_id": document_id,
            "queries": [quote_lexeme(term) for term in question.terms],
            "match": question.match,
            "unwanted": question.excluded,
        }
        scope = make_scope(self._principals)
        with self._store.read() as transaction:
            [(resolved,)] = transaction.run(resolve_scope(scope))
            statement = compose("read/chunk_facts", Visibility(scope, *resolved), params)
            [rows] = transaction.run(statement)
        facts: list[ChunkFacts] = []
        for key, position, text, vector, places, matches, excluded in rows:
            held: list[int] = places
            terms = tuple(question.terms[place] for place in held)
            facts.append(ChunkFacts(key, position, text, vector, terms, matches, excluded))
        return facts

    def _leg(self, leg: LegName, chunks: set[int]) -> LegList:
        """List what one leg gives to fusion; and further down, where a chunk of the document is not among it."""
        limit = self._settings.search.limit(leg, self._top_k)
        if self._weights[leg] <= 0:
            return LegList({}, limit, 0)
        try:
            places = self._ask_leg(leg, limit)
            if not chunks <= places.keys() and len(places) == limit:
                places = {**self._ask_leg(leg, _DEPTH), **places}
        except LegError as error:
            return LegList({}, limit, self._weights[leg], str(error))
        return LegList(places, limit, self._weights[leg])

    def _ask_leg(self, leg: LegName, depth: int) -> dict[int, LegHit]:
        weights: dict[LegName, float] = {name: float(name == leg) for name in self._weights}
        options: SearchOptions = {**self._options, "top_k": depth, "weights": weights}
        result = self._engine.search(self._query, principals=self._principals, **options)
        return {hit.chunk_id: hit.legs[leg] for hit in result.hits}

    def _fuse(self, found: Mapping[LegName, LegList], weights: Mapping[LegName, float]) -> list[Fused]:
        """Fuse as the search did, with the weights that it took, and keep what top_k cuts off."""
        lists: dict[LegName, list[Candidate]] = {}
        for leg, listed in found.items():
            placed = sorted(listed.places.items(), key=lambda pair: pair[1].rank)[: listed.limit]
            lists[leg] = [Candidate(key, 0, place.score) for key, place in placed]
        fusion = self._settings.fusion
        limit = self._settings.search.limit("fts", self._top_k)
        return fuse(lists, weights, fusion.method, fusion.k, limit)


def diff(engine: Engine, store: PinnedStore, query: str, a: Principals, b: Principals, options: SearchOptions) -> Diff:
    """Lay the results of two callers side by side."""
    first = engine.search(query, principals=a, **options)
    second = engine.search(query, principals=b, **options)
    rows: list[DiffRow] = []
    for hit, place_a, place_b in words.align(first.hits, second.hits):
        reasons: list[str] = []
        for name, principals, place in (("A", a, place_a), ("B", b, place_b)):
            if place is None:
                why = _why_missing(store, hit.document.id, principals)
                reasons.append(f"{name}: {why}")
        rows.append(DiffRow(hit.chunk_id, hit.position, hit.document, place_a, place_b, "; ".join(reasons)))
    return Diff(tuple(rows), first.report, second.report)


def _why_missing(store: PinnedStore, document_id: int, principals: Principals) -> str:
    _, acl = _rule(store, document_id)
    visible, reasons = words.judge(normalise_rule(acl), make_scope(principals).principals)
    return "visible, ranked lower" if visible else f"not visible: {'; '.join(reasons)}"
