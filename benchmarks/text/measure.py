"""Who is asked what, and how long it takes."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
from benchmarks.latency import data, wide
from benchmarks.latency.baselines import Candidate
from benchmarks.latency.data import Benchmark, Caller, Question

from context_engine import TRUSTED, Engine, Settings

Row = dict[str, Any]
Step = Callable[[str], None]

CALLERS: Final = ("10.0%", "unlimited")
KINDS: Final = ("long", "long with slips", "short")
_SLIPS: Final = 3
_DIM: Final = 8
_TIMEOUT_S: Final = 30.0
_PEER_SETTINGS: Final = {"pg_trgm.similarity_threshold": "0.15", "pg_trgm.word_similarity_threshold": "0.3"}
PLAIN: Final = {
    "ts_rank_cd, any word": (
        "lexical",
        """SELECT id, ts_rank_cd(tsv, {any_word}) AS score FROM item
        WHERE tsv @@ {any_word} AND {visible} ORDER BY score DESC, id LIMIT %(limit)s""",
    ),
    "similarity, whole text": (
        "fuzzy",
        """SELECT id, similarity(text, %(question)s) AS score FROM item
        WHERE text %% %(question)s AND {visible} ORDER BY score DESC, id LIMIT %(limit)s""",
    ),
    "word_similarity, whole text": (
        "fuzzy",
        """SELECT id, word_similarity(%(question)s, text) AS score FROM item
        WHERE %(question)s <%% text AND {visible} ORDER BY score DESC, id LIMIT %(limit)s""",
    ),
}
"""What PostgreSQL offers, on one wide table with a GIN index each on words, trigrams of texts, and principals."""
OURS: Final = {
    "Context Engine, fts leg": ("lexical", {"fts": 1.0, "trgm": 0.0, "ann": 0.0}),
    "Context Engine, trgm leg": ("fuzzy", {"fts": 0.0, "trgm": 1.0, "ann": 0.0}),
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A made-up corpus, and its questions by kind."""

    benchmark: Benchmark
    questions: dict[str, list[Question]]

    def callers(self) -> list[Caller]:
        return [caller for caller in self.benchmark.callers if caller.label in CALLERS]


def make(documents: int, questions: int) -> Corpus:
    """Make up a corpus; the slips are swaps of neighbours in three of a question's words of six letters or more."""
    benchmark = data.synthetic(documents, questions, _DIM)
    long = benchmark.of_class("long")
    slipped = [replace(question, text=_slip(question.text)) for question in long]
    return Corpus(benchmark, dict(zip(KINDS, (long, slipped, benchmark.of_class("short")), strict=True)))


def _slip(text: str) -> str:
    rng = random.Random(text)
    words = text.split()
    fit = [place for place, word in enumerate(words) if len(word) >= 6]
    for place in rng.sample(fit, min(_SLIPS, len(fit))):
        at = rng.randint(2, len(words[place]) - 3)
        word = words[place]
        words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def open_engine(url: str, corpus: Corpus) -> Engine:
    """Store the corpus in a schema of its own, unless it is there."""
    documents = corpus.benchmark.documents
    storage = {"schema_name": f"text_{len(documents)}", "ann_exact_threshold": 100_000_000, "statement_timeout_s": 120}
    engine = Engine(url, embedder=data.StoredVectors(corpus.benchmark), settings=Settings(storage=storage))
    if engine.count(principals=TRUSTED).documents != len(documents):
        report = engine.ingest(data.as_documents(documents))
        assert not report.failed
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    return engine


def ours(engine: Engine, corpus: Corpus, rounds: int, step: Step) -> Iterable[Row]:
    """Time each leg by itself, a whole search with the others off."""
    for caller in corpus.callers():
        principals = TRUSTED if caller.principals is None else list(caller.principals)
        for method, (leg, weights) in OURS.items():

            def ask(question: Question, weights: Any = weights, principals: Any = principals) -> float:
                started = time.perf_counter()
                engine.search(question.text, principals=principals, top_k=10, weights=weights)
                return (time.perf_counter() - started) * 1000

            yield from _rows(ask, corpus, caller, method, leg, rounds, step)


def plain(table: wide.WideTable, corpus: Corpus, rounds: int, step: Step) -> Iterable[Row]:
    """Time plain PostgreSQL's ways on the wide table."""
    for caller in corpus.callers():
        for method, (leg, text) in PLAIN.items():
            candidate = Candidate(method, "lexical" if leg == "lexical" else "trigram", text, _PEER_SETTINGS)

            def ask(question: Question, candidate: Candidate = candidate, caller: Caller = caller) -> float:
                return table.ask(candidate, caller, question).ms

            yield from _rows(ask, corpus, caller, method, leg, rounds, step)


def _rows(
    ask: Callable[[Question], float],
    corpus: Corpus,
    caller: Caller,
    method: str,
    leg: str,
    rounds: int,
    step: Step,
) -> Iterable[Row]:
    for kind in KINDS:
        step(f"{len(corpus.benchmark.documents):,} chunks · {method} · {caller.label} · {kind}")
        yield {
            "chunks": len(corpus.benchmark.documents),
            "caller": caller.label,
            "visible": caller.visible,
            "questions": kind,
            "leg": leg,
            "method": method,
            **_percentiles(ask, corpus.questions[kind], rounds),
        }


def _percentiles(ask: Callable[[Question], float], questions: Sequence[Question], rounds: int) -> Row:
    """Ask each question several times and keep its least; then p50 and p95 over questions."""
    if rounds > 1:
        ask(questions[0])
    least = sorted(min(ask(question) for _ in range(rounds)) for question in questions)
    p95 = least[min(len(least) - 1, round(0.95 * len(least)))]
    return {"n": len(least), "p50_ms": f"{statistics.median(least):.2f}", "p95_ms": f"{p95:.2f}"}


def open_wide(url: str, corpus: Corpus) -> wide.WideTable:
    """Build the wide table, unless it is there."""
    signature = f"text {len(corpus.benchmark.documents)}"
    if wide.stored_signature(url) != signature:
        wide.build(url, corpus.benchmark, signature)
    return wide.WideTable(url, _TIMEOUT_S)
