"""Every plain-SQL statement that ours is compared with, all on one wide table.

The table holds what a document needs in one row: owners, name, text, lexemes, embedding. The peer's three statements
stand first. After them come the forms an expert would try; for each leg, caller and class of question the fastest of
all of them, the peer's own included, is the "best plain SQL".

`{visible}` is the condition on the caller. The peer's form is `acl IS NULL OR acl && principals`, NULL for public. The
others say `acl && principals` alone, which lets the GIN index on `acl` serve them: no document here is public, and an
expert would store the public as one more owner. For the caller without limits both are `true`.
`{any_word}` is the question's words joined by "or".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, LiteralString

from .data import CLASSES, QuestionClass

Leg = Literal["vector", "lexical", "trigram"]
LEGS: Final[tuple[Leg, ...]] = ("vector", "lexical", "trigram")

SCHEMA: Final = "latency_wide"
LIMIT: Final = 100
RRF_K: Final = 60
PEER_VISIBLE: Final[LiteralString] = "(acl IS NULL OR acl && %(principals)s::text[])"
PLAIN_VISIBLE: Final[LiteralString] = "acl && %(principals)s::text[]"
EVERYTHING: Final[LiteralString] = "true"

# The vector keeps its default storage: next to a text and its lexemes it is moved out of line (TOAST).
TABLE: Final[LiteralString] = """
CREATE TABLE item (
    id text PRIMARY KEY,
    acl text[],
    name text NOT NULL,
    text text NOT NULL,
    tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED,
    embedding vector({dim}) NOT NULL
)
"""

INDEXES: Final[Mapping[str, LiteralString]] = {
    "item_acl": "CREATE INDEX item_acl ON item USING gin (acl)",
    "item_tsv": "CREATE INDEX item_tsv ON item USING gin (tsv)",
    "item_text_trigrams": "CREATE INDEX item_text_trigrams ON item USING gin (text gin_trgm_ops)",
    "item_embedding": "CREATE INDEX item_embedding ON item USING hnsw (embedding vector_cosine_ops)",
    # The peer has the four above; the best plain SQL may use these two as well.
    "item_name_trigrams": "CREATE INDEX item_name_trigrams ON item USING gin (name gin_trgm_ops)",
    "item_name_knn": "CREATE INDEX item_name_knn ON item USING gist (name gist_trgm_ops (siglen = 128))",
}

HYDRATE: Final[LiteralString] = "SELECT id, name, text FROM item WHERE id = ANY (%(ids)s::text[])"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement for one leg; it returns (id, score), best first.

    Attributes:
        settings: what its connection is set to.
        classes: the questions for which its answer is a fair one.
        peer: whether it is the peer's own, with the peer's condition.
    """

    name: str
    leg: Leg
    text: LiteralString
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    classes: tuple[QuestionClass, ...] = CLASSES
    peer: bool = False


# The vectors have unit length, so the inner product orders as the cosine does, and costs less.
_EXACT: LiteralString = """
SELECT id, -(embedding <#> %(embedding)s::vector) AS score
FROM item
WHERE {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_PEER_VECTOR: LiteralString = """
SELECT id, 1 - (embedding <=> %(embedding)s::vector) AS score
FROM item
WHERE {visible}
ORDER BY embedding <=> %(embedding)s::vector
LIMIT %(limit)s
"""
_VISIBLE_THEN_EXACT: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id, embedding FROM item WHERE {visible})
SELECT id, -(embedding <#> %(embedding)s::vector) AS score
FROM visible
ORDER BY score DESC
LIMIT %(limit)s
"""
_VISIBLE_IDS_THEN_EXACT: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id FROM item WHERE {visible})
SELECT id, -(embedding <#> %(embedding)s::vector) AS score
FROM item JOIN visible USING (id)
ORDER BY score DESC
LIMIT %(limit)s
"""

ANY_WORD: Final[LiteralString] = "replace(plainto_tsquery('english', %(question)s)::text, '&', '|')::tsquery"
_PEER_LEXICAL: LiteralString = """
SELECT id, ts_rank_cd(tsv, {any_word}) AS score
FROM item
WHERE tsv @@ {any_word} AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_TS_RANK: LiteralString = """
SELECT id, ts_rank(tsv, {any_word}) AS score
FROM item
WHERE tsv @@ {any_word} AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_VISIBLE_THEN_TS_RANK: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id, tsv FROM item WHERE {visible})
SELECT id, ts_rank(tsv, {any_word}) AS score
FROM visible
WHERE tsv @@ {any_word}
ORDER BY score DESC
LIMIT %(limit)s
"""
_MATCHES_THEN_VISIBLE: LiteralString = """
WITH matched AS MATERIALIZED (SELECT id, acl, tsv FROM item WHERE tsv @@ {any_word})
SELECT id, ts_rank(tsv, {any_word}) AS score
FROM matched
WHERE {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""

_PEER_TRIGRAM: LiteralString = """
WITH similar_text AS MATERIALIZED (
    SELECT id, acl, similarity(text, %(question)s) AS score FROM item WHERE text %% %(question)s
)
SELECT id, score
FROM similar_text
WHERE {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_SIMILAR_TEXT: LiteralString = """
SELECT id, similarity(text, %(question)s) AS score
FROM item
WHERE text %% %(question)s AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_VISIBLE_THEN_SIMILAR_TEXT: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id, text FROM item WHERE {visible})
SELECT id, similarity(text, %(question)s) AS score
FROM visible
WHERE text %% %(question)s
ORDER BY score DESC
LIMIT %(limit)s
"""
_SIMILAR_NAME: LiteralString = """
SELECT id, similarity(name, %(question)s) AS score
FROM item
WHERE name %% %(question)s AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_VISIBLE_THEN_SIMILAR_NAME: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id, name FROM item WHERE {visible})
SELECT id, similarity(name, %(question)s) AS score
FROM visible
WHERE name %% %(question)s
ORDER BY score DESC
LIMIT %(limit)s
"""
_NEAREST_NAMES: LiteralString = """
SELECT id, 1 - (name <-> %(question)s) AS score
FROM item
WHERE {visible}
ORDER BY name <-> %(question)s
LIMIT %(limit)s
"""
# The question as a part of the name: of use where the question is short, empty where it is long.
_WORDS_OF_NAME: LiteralString = """
SELECT id, word_similarity(%(question)s, name) AS score
FROM item
WHERE %(question)s <%% name AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_STRICT_WORDS_OF_NAME: LiteralString = """
SELECT id, strict_word_similarity(%(question)s, name) AS score
FROM item
WHERE %(question)s <<%% name AND {visible}
ORDER BY score DESC
LIMIT %(limit)s
"""
_VISIBLE_THEN_WORDS_OF_NAME: LiteralString = """
WITH visible AS MATERIALIZED (SELECT id, name FROM item WHERE {visible})
SELECT id, word_similarity(%(question)s, name) AS score
FROM visible
WHERE %(question)s <%% name
ORDER BY score DESC
LIMIT %(limit)s
"""

_PEER_SETTINGS = {"hnsw.ef_search": "100", "pg_trgm.similarity_threshold": "0.15"}
_PARALLEL = {
    "max_parallel_workers_per_gather": "2",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "min_parallel_index_scan_size": "0",
}
_INDEX_ONLY_ORDER = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"}
_ITERATIVE = {
    **_INDEX_ONLY_ORDER,
    "hnsw.ef_search": "100",
    "hnsw.max_scan_tuples": "1000000",
    "hnsw.scan_mem_multiplier": "4",
}
_TRIGRAM = {"pg_trgm.similarity_threshold": "0.15"}
_SHORT: tuple[QuestionClass, ...] = ("short",)

PEER: Final[tuple[Candidate, ...]] = (
    Candidate("peer: planner's choice", "vector", _PEER_VECTOR, _PEER_SETTINGS, peer=True),
    Candidate("peer: ts_rank_cd", "lexical", _PEER_LEXICAL, _PEER_SETTINGS, peer=True),
    Candidate("peer: text % q, then the condition", "trigram", _PEER_TRIGRAM, _PEER_SETTINGS, peer=True),
)

PLAIN: Final[tuple[Candidate, ...]] = (
    *PEER,
    Candidate("exact", "vector", _EXACT),
    Candidate("exact, visible rows first", "vector", _VISIBLE_THEN_EXACT),
    Candidate("exact, visible ids first", "vector", _VISIBLE_IDS_THEN_EXACT),
    Candidate("exact, in parallel", "vector", _EXACT, _PARALLEL),
    Candidate(
        "HNSW, iterative, relaxed",
        "vector",
        _PEER_VECTOR,
        {**_ITERATIVE, "hnsw.iterative_scan": "relaxed_order"},
    ),
    Candidate(
        "HNSW, iterative, relaxed, ef 300",
        "vector",
        _PEER_VECTOR,
        {**_ITERATIVE, "hnsw.iterative_scan": "relaxed_order", "hnsw.ef_search": "300"},
    ),
    Candidate(
        "HNSW, iterative, strict",
        "vector",
        _PEER_VECTOR,
        {**_ITERATIVE, "hnsw.iterative_scan": "strict_order"},
    ),
    Candidate("ts_rank", "lexical", _TS_RANK),
    Candidate("ts_rank, visible rows first", "lexical", _VISIBLE_THEN_TS_RANK),
    Candidate("ts_rank, matches first", "lexical", _MATCHES_THEN_VISIBLE),
    Candidate("ts_rank, in parallel", "lexical", _TS_RANK, _PARALLEL),
    Candidate("text % q", "trigram", _SIMILAR_TEXT, _TRIGRAM),
    Candidate("text % q, visible rows first", "trigram", _VISIBLE_THEN_SIMILAR_TEXT, _TRIGRAM),
    Candidate("name % q", "trigram", _SIMILAR_NAME, _TRIGRAM),
    Candidate("name % q, in parallel", "trigram", _SIMILAR_NAME, {**_TRIGRAM, **_PARALLEL}),
    Candidate("name % q at 0.3", "trigram", _SIMILAR_NAME, {}, _SHORT),
    Candidate("name % q, visible rows first", "trigram", _VISIBLE_THEN_SIMILAR_NAME, _TRIGRAM),
    Candidate("nearest names (GiST)", "trigram", _NEAREST_NAMES, _INDEX_ONLY_ORDER),
    Candidate("q <% name", "trigram", _WORDS_OF_NAME, {}, _SHORT),
    Candidate("q <<% name", "trigram", _STRICT_WORDS_OF_NAME, {}, _SHORT),
    Candidate("q <% name, visible rows first", "trigram", _VISIBLE_THEN_WORDS_OF_NAME, {}, _SHORT),
)


def plain(leg: Leg, kind: QuestionClass) -> list[Candidate]:
    """List the statements that compete for one leg and class of question."""
    return [candidate for candidate in PLAIN if candidate.leg == leg and kind in candidate.classes]
