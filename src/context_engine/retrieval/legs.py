"""The statement of each leg, and the route it takes. Pure: what to ask, never the asking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from context_engine.retrieval.bm25 import dimension, idf, question_vector
from context_engine.retrieval.compose import Statement, Visibility, compose
from context_engine.retrieval.fuzzy import TRIGRAM_THRESHOLD, Spelling, spelling_params
from context_engine.retrieval.query import Question, quote_lexeme
from context_engine.settings import SearchSettings
from context_engine.sql import load

_FTS: Final[dict[str, LiteralString]] = {
    "bm25": "legs/fts_bm25",
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
    return compose(
        "legs/document_frequency", visibility, {"queries": [quote_lexeme(term) for term in terms]}
    )


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
    weights = {dimension(term): idf(chunks, count) for term, count in present.items()}
    params = {"match": question.match, "limit": limit, "term_weights": question_vector(weights)}
    name = _FTS[settings.lexical_rank]
    return Route(settings.lexical_rank, True, compose(name, visibility, params))


def lexicon(words: Sequence[str]) -> Statement:
    """Look up the lexicon's words near each of `words`."""
    return Statement(
        load("legs/lexicon"),
        {"words": list(words)},
        {"pg_trgm.similarity_threshold": str(TRIGRAM_THRESHOLD)},
    )


def trgm(
    visibility: Visibility,
    spellings: Sequence[Spelling],
    chunks: int,
    settings: SearchSettings,
    limit: int,
) -> Route | None:
    """Rank by the question's words and their other spellings."""
    if not spellings:
        return None
    params = {
        **spelling_params(spellings),
        "visible_chunks": chunks,
        "max_expansions": settings.trgm_max_expansions,
        "limit": limit,
    }
    return Route("lexicon", True, compose("legs/trgm", visibility, params))


def ann_exact(visibility: Visibility, embedding: str, limit: int) -> Route:
    """Scan every visible vector."""
    return Route(
        "exact",
        True,
        compose("legs/ann_exact", visibility, {"embedding": embedding, "limit": limit}),
    )


def ann_hnsw(visibility: Visibility, embedding: str, limit: int) -> Route:
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
    params = {"embedding": embedding, "limit": limit}
    return Route("hnsw", False, compose("legs/ann_hnsw", visibility, params, settings))
