"""The statement of each leg, and the route it takes. Pure: what to ask, never the asking."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import numpy as np

from context_engine.retrieval.bm25 import dimension, question_vector
from context_engine.retrieval.compose import FEW, Statement, Visibility, compose
from context_engine.retrieval.fuzzy import FEW_CHUNKS
from context_engine.retrieval.ivf import sign_sum
from context_engine.retrieval.query import Question, match_any, quote_lexeme
from context_engine.retrieval.respell import MOST_COMPLETED, term_weights
from context_engine.retrieval.spelling_keys import asked_keys, max_edits
from context_engine.settings import Settings
from context_engine.sql import load

_TS_RANK: Final[dict[str, LiteralString]] = {
    "ts_rank_cd": "legs/fts_ts_rank_cd",
    "ts_rank": "legs/fts_ts_rank",
}
_RESCORED: Final = 300
_RESCORED_PER_ROW: Final = 5
_RESCORED_SHARE: Final = 0.05
"""Rows that are scored exactly: at least so many, so many for each row wanted, and that share of what signs ranked."""
_MEASURED_DIM: Final = 384
"""Signs of fewer dimensions say less: the share grows as the dimension shrinks."""
_MEASURED_UP_TO: Final = 240_000
"""The size of a table, in chunks, up to which `ann_exact_threshold` stands as it is."""
_FEW_TO_READ: Final = 1_500
"""Up to this many visible chunks, each is read once to count terms; above, the index is asked for each term."""
FEW_UNTALLIED: Final = 500
"""Up to this many documents outside the tally of words, it is used, and those are read."""
_WORTH_A_PROBE: Final = 15
_PROBED: Final = 3
"""Rows, in limits, above which a first list of rare words pays; and how many it is chosen from."""
_READ_ENTRIES: Final = 6
_SCORED_ENTRIES: Final = 5
"""What reading and scoring a chunk takes, and only scoring it, counted in entries of the index of words."""
_ROUNDING: Final = 1.0001
"""Scores are sums in single precision; the bound stands clear of their rounding."""


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """The vector index in force: its lists are numbered from `first`; it was made when there were `chunks`."""

    first: int
    lists: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Route:
    """A leg's statement and what to say of it.

    Attributes:
        follow: given the statement's rows, the statement to run in its place, or None when the rows are the answer.
        rows: how many visible rows are ranked at most, where that is less than all.
        weights: what each word counts, where a chunk that holds any of them is ranked.
    """

    name: str
    exact: bool
    statement: Statement
    follow: Callable[[Sequence[tuple[Any, ...]]], Statement | None] | None = None
    rows: int | None = None
    weights: Mapping[str, float] | None = None


def document_frequency(visibility: Visibility, terms: Sequence[str]) -> Statement:
    """Count the visible chunks that hold each term."""
    params: dict[str, Any] = {"queries": [quote_lexeme(term) for term in terms]}
    if visibility.chunks <= _FEW_TO_READ:
        return compose("legs/document_frequency_few", visibility, params)
    if visibility.scope.narrowed or visibility.untallied > FEW_UNTALLIED:
        return compose("legs/document_frequency", visibility, params)
    return compose("legs/document_frequency_tally", visibility, {**params, "words": list(terms)})


def fts(
    visibility: Visibility,
    question: Question,
    frequencies: Mapping[str, int],
    chunks: int,
    settings: Settings,
    limit: int,
) -> Route | None:
    """Rank by words; None where no visible chunk holds any."""
    present = {term: frequencies[term] for term in question.terms if frequencies[term]}
    if question.match is None or not present:
        return None
    rank = settings.search.lexical_rank
    if rank != "bm25":
        params = {"match": question.match, "limit": limit}
        return Route(rank, True, compose(_TS_RANK[rank], visibility, params))
    weights = term_weights(question, present, chunks, settings.search.repeated_words)
    if question.any_word:
        return _any_word("bm25", visibility, weights, present, question.excluded, settings, limit)
    return Route("bm25", True, _bm25(visibility, question.match, weights, limit))


def _bm25(
    visibility: Visibility,
    match: str | None,
    weights: Mapping[str, float],
    limit: int,
    name: LiteralString = "legs/fts_bm25",
) -> Statement:
    by_dimension: dict[int, float] = {}
    for term, weight in weights.items():
        by_dimension[dimension(term)] = max(weight, by_dimension.get(dimension(term), 0.0))
    vector = question_vector(by_dimension)
    params = {"match": match, "limit": limit, "term_weights": vector}
    return compose(name, visibility, params)


def _any_word(  # noqa: PLR0913 - the parts of one statement
    name: str,
    visibility: Visibility,
    weights: Mapping[str, float],
    frequencies: Mapping[str, int],
    excluded: str | None,
    settings: Settings,
    limit: int,
) -> Route:
    """Rank the chunks that hold any of the words, reading as few of them as the scores allow.

    The rarest words choose a first list. Its last score is a floor: a chunk that holds none but words whose weights
    together stay below it cannot be among the best, so the second statement need not match those words (MaxScore:
    Turtle and Flood, "Query evaluation: strategies and optimizations", 1995).
    """
    matched = sum(frequencies[word] for word in weights)
    if excluded is None and _is_read_sooner(visibility, matched):
        scan = _bm25(visibility, match_any(weights), weights, limit, "legs/fts_bm25_scan")
        return Route(name, True, scan, weights=weights)
    every = _bm25(visibility, match_any(weights, excluded), weights, limit)
    if matched <= _WORTH_A_PROBE * limit:
        return Route(name, True, every, weights=weights)
    rare = _rarest(frequencies, weights, _PROBED * limit)

    def follow(rows: Sequence[tuple[Any, ...]]) -> Statement | None:
        floor = float(rows[-1][2]) if len(rows) == limit else 0.0
        needed = essential_words(weights, floor, settings.analyser.k1)
        if needed <= set(rare):
            return None
        return _bm25(visibility, match_any((word for word in weights if word in needed), excluded), weights, limit)

    first = _bm25(visibility, match_any(rare, excluded), weights, limit)
    return Route(name, True, first, follow, weights=weights)


def _is_read_sooner(visibility: Visibility, matched: int) -> bool:
    """Whether reading all that is visible takes less than asking the index of words, which holds everyone's.

    How many entries of others it holds is taken from the caller's share: it decides how rows are found, never which.

    Args:
        visibility: who asks.
        matched: how many visible chunks hold each of the words, added up.
    """
    if visibility.scope.narrowed or not visibility.is_within(FEW):
        return False
    stored = max(visibility.stored, visibility.chunks)
    return visibility.chunks * _READ_ENTRIES < matched * (stored / visibility.chunks + _SCORED_ENTRIES)


def _rarest(frequencies: Mapping[str, int], words: Iterable[str], rows: int) -> list[str]:
    """Take the rarest words until that many rows hold one, counted with repetition."""
    taken: list[str] = []
    total = 0
    for word in sorted(words, key=lambda word: (frequencies[word], word)):
        taken.append(word)
        total += frequencies[word]
        if total >= rows:
            break
    return taken


def essential_words(weights: Mapping[str, float], floor: float, k1: float) -> set[str]:
    """Return the words that a chunk must hold one of to score at least `floor`."""
    needed = set(weights)
    most = 0.0
    for word in sorted(weights, key=lambda word: (weights[word], word)):
        most += weights[word] * (k1 + 1) * _ROUNDING
        if most >= floor:
            break
        needed.discard(word)
    return needed


def _joined(words: Iterable[str]) -> str:
    """Write many words, none of which holds a blank, as one parameter: an array takes a while to be written."""
    return " ".join(words)


def lexicon_words(words: Sequence[str]) -> Statement:
    """Tell which of some words are in the lexicon, hidden ones too: their visible chunks are still to be counted."""
    return Statement(load("legs/lexicon_words"), {"words": _joined(words)})


def completions(visibility: Visibility, start: str) -> Statement:
    """List the words that begin so and the visible chunks that hold each; none where too many chunks hold one."""
    params = {"start": start, "beginning": quote_lexeme(start) + ":*", "most": MOST_COMPLETED}
    return compose("legs/visible_completions", visibility, params)


def all_words_are_read(chunks: int) -> bool:
    """Whether so few chunks are visible that each of their words is compared; for more the lexicon is asked.

    Which way is taken follows from the number of visible chunks alone.
    """
    return chunks <= FEW_CHUNKS


def visible_words(visibility: Visibility, words: Sequence[str], guessed: Iterable[str], start: str | None) -> Statement:
    """List visible words that may be other spellings of `words`, were guessed, or begin with `start`.

    With each comes how many visible chunks hold it.
    """
    reach = [(len(word), max_edits(len(word))) for word in words] or [(0, 0)]
    params = {
        "shortest": min(length - edits for length, edits in reach),
        "longest": max(length + edits for length, edits in reach),
        "guessed": _joined(sorted(guessed)),
        "start": start,
    }
    return compose("legs/visible_words", visibility, params)


def spelling_candidates(words: Sequence[str]) -> Statement:
    """Look up words of the lexicon that may be other spellings of `words`: rows of (place in `words`, candidate)."""
    keys = [int_array(asked_keys(word)) for word in words]
    return Statement(load("legs/lexicon_near"), {"keys": keys})


def int_array(values: Sequence[int]) -> str:
    """Write an int[] literal."""
    return "{" + ",".join(map(str, values)) + "}"


def trgm(
    visibility: Visibility,
    question: Question,
    weights: Mapping[str, float],
    frequencies: Mapping[str, int],
    settings: Settings,
    limit: int,
) -> Route | None:
    """Rank by the question's words and what they may stand for; None where no visible chunk holds any."""
    if not weights:
        return None
    name = "words" if set(weights) <= set(question.terms) else "spellings"
    return _any_word(name, visibility, weights, frequencies, question.excluded, settings, limit)


def changed_words(lexical: Route, fuzzy: Route, frequencies: Mapping[str, int], limit: int) -> list[str] | None:
    """List the words that count more in the fuzzy leg than in the lexical.

    None where lists cannot be compared, or where so many chunks hold one that the fuzzy leg's own way is the shorter.

    A chunk that holds none of them has the same score in both legs, and whatever is ranked before it in the lexical leg
    is so in the fuzzy leg. So the best of the fuzzy leg are among the lexical leg's best and the chunks that hold one.
    """
    if lexical.weights is None or fuzzy.weights is None:
        return None
    alone = len({dimension(word) for word in fuzzy.weights}) == len(fuzzy.weights)
    if not alone or any(fuzzy.weights.get(word, 0.0) < weight for word, weight in lexical.weights.items()):
        return None
    changed = [word for word, weight in fuzzy.weights.items() if weight != lexical.weights.get(word)]
    return changed if sum(frequencies[word] for word in changed) <= _WORTH_A_PROBE * limit else None


def holding(visibility: Visibility, question: Question, fuzzy: Route, words: Sequence[str], limit: int) -> Route:
    """Narrow the fuzzy leg to the chunks that hold one of these words."""
    statement = _bm25(visibility, match_any(words, question.excluded), fuzzy.weights or {}, limit)
    return replace(fuzzy, statement=statement, follow=None)


def ann_exact(visibility: Visibility, question: Question, embedding: str, limit: int) -> Route:
    """Scan every visible vector."""
    params = {"embedding": embedding, "limit": limit, "excluded": question.excluded}
    return Route("exact", True, compose("legs/ann_exact", visibility, params))


def ann_is_exact(visibility: Visibility, chunks: int, index: VectorIndex | None, settings: Settings) -> bool:
    """Whether every visible vector is scanned, of `chunks` that remain after filters.

    The index reads entries that the caller does not see, the more of them the larger the table: where a scan of what is
    visible costs less, it is taken. Both cost the same at a number that grows with the root of the table's size.
    """
    most = settings.storage.ann_exact_threshold * max(1.0, visibility.stored / _MEASURED_UP_TO) ** 0.5
    return chunks <= most or index is None or visibility.untallied > FEW_UNTALLIED


def ann(  # noqa: PLR0913 - what the two routes need
    visibility: Visibility,
    question: Question,
    embedding: str,
    chunks: int,
    index: VectorIndex | None,
    settings: Settings,
    limit: int,
    exact: bool = False,
) -> Route:
    """Rank by vectors, by the route that suits what is visible."""
    if exact or index is None or ann_is_exact(visibility, chunks, index, settings):
        return ann_exact(visibility, question, embedding, limit)
    # Who sees a part of the table has their nearest spread over more lists: the part ranked grows as the share falls.
    whole = (chunks * max(chunks, visibility.stored)) ** 0.5
    rows = max(settings.search.ann_rows, round(settings.search.ann_share * whole))
    return ann_ivf(visibility, question, embedding, index, rows, limit)


def ann_ivf(
    visibility: Visibility, question: Question, embedding: str, index: VectorIndex, rows: int, limit: int
) -> Route:
    """Rank visible rows of the lists nearest to the question by signs, and the best of them exactly; approximate."""
    vector = np.array(embedding.strip("[]").split(","), dtype=np.float32)
    share = _RESCORED_SHARE * max(1.0, _MEASURED_DIM / len(vector))
    params: dict[str, Any] = {
        "embedding": embedding,
        "halved": embedding,  # a parameter has one type, and centroids are always kept in half precision
        "first": index.first,
        "lists": index.lists,
        "rows": max(rows, limit),
        "rescored": max(_RESCORED, _RESCORED_PER_ROW * limit, round(share * rows)),
        "limit": limit,
        "excluded": question.excluded,
    }
    (weight, signs), (other_weight, other_signs) = sign_sum(vector)
    # The product of two sign vectors is the number of dimensions less twice the number of signs that differ.
    params |= {
        "signs": signs,
        "other_signs": other_signs,
        "weight": 2 * weight,
        "other_weight": 2 * other_weight,
        "most": (weight + other_weight) * len(vector),
    }
    # Only the order of the lists decides what is read: no other way to join them is to be had.
    settings = {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off"}
    return Route("ivf", False, compose("legs/ann_ivf", visibility, params, settings), rows=params["rows"])
