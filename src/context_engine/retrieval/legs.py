"""The statement of each leg, and the route it takes. Pure: what to ask, never the asking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from context_engine.retrieval.bm25 import dimension, idf, question_vector
from context_engine.retrieval.compose import Statement, Visibility, compose
from context_engine.retrieval.fuzzy import (
    FEW_CHUNKS,
    TRIGRAM_THRESHOLDS,
    Spelling,
    deletions,
    is_short,
    max_edits,
)
from context_engine.retrieval.query import Question, match_any, quote_lexeme
from context_engine.settings import SearchSettings
from context_engine.sql import load

_TS_RANK: Final[dict[str, LiteralString]] = {
    "ts_rank_cd": "legs/fts_ts_rank_cd",
    "ts_rank": "legs/fts_ts_rank",
}
_MAX_EF_SEARCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Route:
    """A leg's statement and what to say of it."""

    name: str
    exact: bool
    statement: Statement


def document_frequency(visibility: Visibility, terms: Sequence[str]) -> Statement:
    """Count the visible chunks that hold each term."""
    return compose("legs/document_frequency", visibility, {"queries": [quote_lexeme(term) for term in terms]})


def fts(
    visibility: Visibility,
    question: Question,
    frequencies: Mapping[str, int],
    chunks: int,
    settings: SearchSettings,
    limit: int,
) -> Route | None:
    """Rank by words; None where no visible chunk holds any."""
    present = {term: count for term, count in frequencies.items() if count}
    if question.match is None or not present:
        return None
    if settings.lexical_rank == "bm25":
        weights = {term: idf(chunks, count) for term, count in present.items()}
        return Route("bm25", True, _bm25(visibility, question.match, weights, limit))
    params = {"match": question.match, "limit": limit}
    return Route(settings.lexical_rank, True, compose(_TS_RANK[settings.lexical_rank], visibility, params))


def _bm25(visibility: Visibility, match: str | None, weights: Mapping[str, float], limit: int) -> Statement:
    vector = question_vector({dimension(term): weight for term, weight in weights.items()})
    params = {"match": match, "limit": limit, "term_weights": vector}
    return compose("legs/fts_bm25", visibility, params)


def spelling_candidates(visibility: Visibility, words: Sequence[str], chunks: int) -> list[Statement]:
    """Look up words that may be other spellings of `words`: rows of (place in `words`, or null for any; candidate).

    Where few chunks are visible all of their words are candidates; where many are, the lexicon's near ones. Which
    way is taken follows from the number of visible chunks alone.
    """
    if chunks <= FEW_CHUNKS:
        reach = [(len(word), max_edits(len(word))) for word in words]
        params = {
            "shortest": min(length - edits for length, edits in reach),
            "longest": max(length + edits for length, edits in reach),
        }
        return [compose("legs/visible_words", visibility, params)]
    statements: list[Statement] = []
    short = [place for place, word in enumerate(words) if is_short(word)]
    if short:
        rests = [int_array(deletions(words[place])) for place in short]
        params = {"places": short, "deletions": rests}
        statements.append(Statement(load("legs/lexicon_deletions"), params))
    rest = [place for place, word in enumerate(words) if not is_short(word)]
    for least_length, threshold in TRIGRAM_THRESHOLDS:
        places = [place for place in rest if len(words[place]) >= least_length]
        rest = [place for place in rest if len(words[place]) < least_length]
        if places:
            params = {
                "places": places,
                "words": [words[place] for place in places],
                "edits": [max_edits(len(words[place])) for place in places],
            }
            settings = {"pg_trgm.similarity_threshold": str(threshold)}
            statements.append(Statement(load("legs/lexicon_trigrams"), params, settings))
    return statements


def int_array(values: Sequence[int]) -> str:
    """Write an int[] literal."""
    return "{" + ",".join(map(str, values)) + "}"


def trgm(
    visibility: Visibility,
    question: Question,
    frequencies: Mapping[str, int],
    spellings: Sequence[Spelling],
    chunks: int,
    limit: int,
) -> Route | None:
    """Rank by the question's words and their other spellings; None where no visible chunk holds any.

    A spelling weighs its own idf times its similarity to the word that was typed.
    """
    weights = {term: idf(chunks, frequencies[term]) for term in question.terms if frequencies[term]}
    for spelling in spellings:
        weight = spelling.similarity * idf(chunks, frequencies[spelling.word])
        weights[spelling.word] = max(weight, weights.get(spelling.word, 0.0))
    if not weights:
        return None
    match = match_any(weights if spellings else question.terms, question.excluded)
    name = "spellings" if spellings else "words"
    return Route(name, True, _bm25(visibility, match, weights, limit))


def ann_exact(visibility: Visibility, question: Question, embedding: str, limit: int) -> Route:
    """Scan every visible vector."""
    params = {"embedding": embedding, "limit": limit, "excluded": question.excluded}
    return Route("exact", True, compose("legs/ann_exact", visibility, params))


def ann_hnsw(visibility: Visibility, question: Question, embedding: str, limit: int) -> Route:
    """Walk the graph index until the limit is full; approximate."""
    settings = {
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_sort": "off",
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.ef_search": str(min(_MAX_EF_SEARCH, max(100, 2 * limit))),
        "hnsw.max_scan_tuples": str(max(20_000, visibility.chunks)),
        "hnsw.scan_mem_multiplier": "4",
    }
    params = {"embedding": embedding, "limit": limit, "excluded": question.excluded}
    return Route("hnsw", False, compose("legs/ann_hnsw", visibility, params, settings))
