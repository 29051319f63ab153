"""The oracle: every document in memory, every number counted over what the caller may see."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from context_engine.errors import InputError
from context_engine.ingest.plan import plan_document
from context_engine.model import (
    AclLike,
    Count,
    Document,
    LegHit,
    Principals,
    SearchResult,
)
from context_engine.models.embedder import as_embedder, embed_documents, embed_query
from context_engine.names import LEGS, LegName
from context_engine.settings import Settings
from context_engine.testing import words
from context_engine.testing.compare import Expected, find_differences
from context_engine.testing.guesses import Guesser
from context_engine.testing.rules import Rule, metadata_match, nfc, read_caller, read_rule
from context_engine.text.analyse import Analyser
from context_engine.text.clean import clean_text

_ORACLE_LEGS: Final[tuple[LegName, ...]] = ("fts", "trgm", "ann")
_SHORTEST_RESPELLED: Final = 4
_LONGEST_RESPELLED: Final = 100

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OracleHit:
    """A chunk as the oracle ranks it.

    Attributes:
        score: fused, or the leg's own where one leg was asked.
        legs: rank and score in each leg that found the chunk.
    """

    chunk_id: int
    source: str
    external_id: str
    position: int
    score: float
    legs: dict[LegName, LegHit]


@dataclass(frozen=True, slots=True)
class _Chunk:
    id: int
    position: int
    positions: Mapping[str, Sequence[int]]
    named: Mapping[str, Sequence[int]]
    length: int
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class _Entry:
    document: Document
    id: int
    source: str
    external_id: str
    metadata: Mapping[str, Any]
    rule: Rule
    chunks: tuple[_Chunk, ...]


class Oracle:
    """An exact search over a list of documents.

    It shares with the engine how a document is cleaned and cut, and how text becomes lexemes; nothing of how rows
    are chosen, counted, scored or fused. Scores are float64; vectors are rounded as they are stored.

    Args:
        documents: each with its ACL; of two with one (source, external_id) the later counts.
        embedder: the engine's.
        settings: the engine's; `search.lexical_rank` must be `bm25` where the lexical leg is asked.
        policies: the ACL of each policy that a document names.

    Raises:
        InputError: when a document has no ACL, or names an unknown policy.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        embedder: object,
        settings: Settings | None = None,
        policies: Mapping[str, AclLike] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._embedder = as_embedder(embedder)
        self._analyser = Analyser.of(self.settings.analyser)
        self._policies = {nfc(name): acl for name, acl in (policies or {}).items()}
        found = {entry.id: entry for entry in map(self._read, documents)}
        self._entries = [found[key] for key in sorted(found)]
        self._chunks = {piece.id: (entry, piece) for entry in self._entries for piece in entry.chunks}

    def _read(self, document: Document) -> _Entry:
        plan = plan_document(document, self.settings.ingest)
        if plan.acl is None:
            raise InputError("the oracle needs the acl of every document")
        texts = [plan.indexed_text(piece) for piece in plan.chunks]
        vectors = embed_documents(self._embedder, texts)
        analyses = map(self._analyser.analyse, texts)
        named = self._analyser.analyse(plan.name).positions
        return _Entry(
            document=document,
            id=plan.id,
            source=plan.source,
            external_id=plan.external_id,
            metadata=json.loads(plan.metadata),
            rule=read_rule(cast(AclLike, document.acl), self._policies),
            chunks=tuple(
                _Chunk(piece.id, piece.position, found.positions, named, found.length, self._stored(vector))
                for piece, found, vector in zip(plan.chunks, analyses, vectors, strict=True)
            ),
        )

    def visible(self, principals: Principals) -> list[Document]:
        """List the documents that a caller may read, by ascending id."""
        return [entry.document for entry in self._scope(principals)]

    def count(
        self,
        principals: Principals,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Count:
        """Count the documents and chunks that a caller may read."""
        entries = self._scope(principals, sources, documents, metadata)
        return Count(len(entries), sum(len(entry.chunks) for entry in entries))

    def _scope(
        self,
        principals: Principals,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[_Entry]:
        caller = read_caller(principals)
        named = None if sources is None else set(map(nfc, sources))
        return [
            entry
            for entry in self._entries
            if entry.rule.admits(caller)
            and (named is None or entry.source in named)
            and (documents is None or entry.id in documents)
            and metadata_match(entry.metadata, metadata)
        ]

    def leg(
        self,
        name: LegName,
        query: str,
        principals: Principals,
        top_k: int | None = None,
        *,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[OracleHit]:
        """Rank with one leg: all it finds, or the first `top_k`; higher scores first, ties to the smaller chunk id.

        Raises:
            InputError: when there is no such leg here.
        """
        if name not in _ORACLE_LEGS:
            raise InputError(f"the oracle has no leg {name!r}; it has {', '.join(_ORACLE_LEGS)}")
        entries = self._scope(principals, sources, documents, metadata)
        pieces = [piece for entry in entries for piece in entry.chunks]
        scores = self._score(name, query, pieces)
        ranked = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return [
            self._hit(key, score, {name: LegHit(rank, score)}) for rank, (key, score) in enumerate(ranked[:top_k], 1)
        ]

    def search(
        self,
        query: str,
        *,
        principals: Principals,
        top_k: int = 10,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
        weights: Mapping[LegName, float] | None = None,
    ) -> list[OracleHit]:
        """Search as the engine does; the arguments are those of `Engine.search`."""
        scores: dict[int, list[float]] = {}
        places: dict[int, dict[LegName, LegHit]] = {}
        filters: dict[str, Any] = {"sources": sources, "documents": documents, "metadata": metadata}
        for name, weight in self._fitted(query, principals, weights, filters).items():
            limit = self.settings.search.limit(name, top_k)
            found = self.leg(name, query, principals, limit, **filters)
            for hit, gain in zip(found, self._gains(name, found, weight, limit), strict=True):
                scores.setdefault(hit.chunk_id, []).append(gain)
                places.setdefault(hit.chunk_id, {}).update(hit.legs)
        total = {key: sum(gains) for key, gains in scores.items()}
        order = sorted(total, key=lambda key: (-total[key], key))
        return [self._hit(key, total[key], places[key]) for key in order[:top_k]]

    def differences(
        self,
        result: SearchResult,
        query: str,
        *,
        principals: Principals,
        top_k: int = 10,
        weights: Mapping[LegName, float] | None = None,
        **filters: Any,
    ) -> list[str]:
        """Compare an engine's result with the exact one.

        The engine sums in float32: scores may differ by a hundred-thousandth, and chunks may change places where
        their exact scores differ by less than a millionth.

        Args:
            result: what the engine answered to the same query, principals, top_k, weights and filters.
            query: the question.
            principals: who asked.
            top_k: how many hits were asked for.
            weights: fusion weights of the call, over those in the settings.
            filters: `sources`, `documents` and `metadata` of the call.

        Returns:
            What differs, in words; empty when nothing does.
        """
        expected = Expected(
            lists={
                name: {hit.chunk_id: hit.score for hit in self.leg(name, query, principals, **filters)}
                for name in self._weights(weights)
            },
            weights=self._fitted(query, principals, weights, filters),
            fusion=self.settings.fusion,
            limits={name: self.settings.search.limit(name, top_k) for name in LEGS},
            top_k=top_k,
        )
        found = find_differences(result, expected)
        chunks = self.count(principals, **filters).chunks
        if result.report.visible_chunks != chunks:
            found.append(f"{result.report.visible_chunks} visible chunks instead of {chunks}")
        return found

    def _weights(self, given: Mapping[LegName, float] | None) -> dict[LegName, float]:
        merged = {**self.settings.fusion.weights, **(given or {})}
        return {name: merged[name] for name in _ORACLE_LEGS if merged.get(name, 0.0) > 0}

    def _fitted(
        self, query: str, principals: Principals, given: Mapping[LegName, float] | None, filters: Mapping[str, Any]
    ) -> dict[LegName, float]:
        """Fit the weights to the question, unless the call gave some."""
        weights = self._weights(given)
        if given or not self.settings.fusion.adaptive:
            return weights
        chunks = [piece for entry in self._scope(principals, **filters) for piece in entry.chunks]
        guesser = self._guesser(self._reading(query), chunks)
        if "trgm" in weights and guesser.looks_up() and self.leg("trgm", query, principals, 1, **filters):
            return {
                name: weight * (name == "trgm" or self.settings.fusion.lookup_factor)
                for name, weight in weights.items()
            }
        own = [guesser.rare(term) for term in guesser.words()]
        rarest = max(own) / words.idf(len(chunks), 1) if own else 1.0
        return {name: weight if name == "ann" else weight * rarest**2 for name, weight in weights.items()}

    def _gains(self, name: LegName, hits: Sequence[OracleHit], weight: float, limit: int) -> list[float]:
        fusion = self.settings.fusion
        if fusion.method == "rrf":
            return [weight / (fusion.k + rank) for rank in range(1, len(hits) + 1)]
        scores = [hit.score for hit in hits]
        least = 0.0 if not scores or (name != "ann" and len(scores) < limit) else scores[-1]
        if not scores or scores[0] == least:
            return [weight for _ in scores]
        return [weight * (score - least) / (scores[0] - least) for score in scores]

    def _hit(self, key: int, score: float, legs: dict[LegName, LegHit]) -> OracleHit:
        entry, piece = self._chunks[key]
        return OracleHit(key, entry.source, entry.external_id, piece.position, score, legs)

    def _score(self, name: LegName, query: str, chunks: Sequence[_Chunk]) -> dict[int, float]:
        search = self.settings.search
        reading = self._reading(query)
        if name == "ann":
            kept = [piece for piece in chunks if not reading.excludes(piece.positions)]
            return {} if reading.only_excludes else self._score_vectors(clean_text(query)[0], kept)
        if name == "trgm":
            return self._score_spellings(reading, chunks)
        if search.lexical_rank != "bm25":
            raise InputError("the oracle ranks words by bm25 only")
        candidates = [piece for piece in chunks if reading.matches(piece.positions, search.lexical_match == "all")]
        weights = self._guesser(reading, chunks).words()
        return self._score_words(weights, candidates) if weights else {}

    def _reading(self, query: str) -> words.Reading:
        text, _ = clean_text(query)
        return words.read(text, self._analyser, self.settings.search.max_query_terms)

    def _guesser(self, reading: words.Reading, chunks: Sequence[_Chunk]) -> Guesser:
        positions = [piece.positions for piece in chunks]
        return Guesser(reading, _frequencies(chunks), positions, self._analyser, self.settings.search)

    def _score_words(self, weights: Mapping[str, float], chunks: Iterable[_Chunk]) -> dict[int, float]:
        analyser = self.settings.analyser
        k1, b, pivot = analyser.k1, analyser.b, analyser.length_pivot

        def count(piece: _Chunk, term: str) -> float:
            in_name = len(piece.named.get(term, ()))
            return len(piece.positions[term]) - in_name + analyser.name_weight * in_name

        return {
            piece.id: sum(
                weight * words.saturated(count(piece, term), piece.length, k1, b, pivot)
                for term, weight in weights.items()
                if term in piece.positions
            )
            for piece in chunks
        }

    def _score_spellings(self, reading: words.Reading, chunks: Sequence[_Chunk]) -> dict[int, float]:
        held = _frequencies(chunks)
        respelled = self._respelled(reading.terms, held)
        weights = self._guesser(reading, chunks).all_words(respelled)
        return self._score_words(
            weights,
            (
                piece
                for piece in chunks
                if not weights.keys().isdisjoint(piece.positions) and not reading.excludes(piece.positions)
            ),
        )

    def _respelled(self, terms: Sequence[str], held: Counter[str]) -> list[str]:
        """Choose the words that are looked for in other spellings: seldom held, neither short nor numbers."""
        search = self.settings.search
        rare = [
            term
            for term in terms
            if held[term] < search.trgm_expand_below
            and _SHORTEST_RESPELLED <= len(term) <= _LONGEST_RESPELLED
            and not term.replace(".", "").isdigit()
        ]
        return sorted(rare, key=lambda term: held[term])[: search.trgm_max_query_words]

    def _score_vectors(self, text: str, chunks: Sequence[_Chunk]) -> dict[int, float]:
        question = self._stored(embed_query(self._embedder, text)) if text.strip() else None
        if question is None:
            return {}
        return {piece.id: float(piece.vector @ question) for piece in chunks if piece.vector is not None}

    def _stored(self, vector: NDArray[np.float32]) -> Vector | None:
        """Bring a vector to unit length and to the type that is stored; None for zeros, NaN and infinity."""
        exact = vector.astype(np.float64)
        length = float(np.linalg.norm(exact))
        if not np.isfinite(length) or length == 0:
            return None
        kept = np.float16 if self.settings.storage.vector_type == "halfvec" else np.float32
        return (exact / length).astype(np.float32).astype(kept).astype(np.float64)


def _frequencies(chunks: Iterable[_Chunk]) -> Counter[str]:
    return Counter(lexeme for piece in chunks for lexeme in piece.positions)
