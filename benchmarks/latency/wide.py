"""The wide table: built in a schema of its own, and asked."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, LiteralString, Self

import psycopg
from psycopg import sql

from . import baselines
from .baselines import LIMIT, SCHEMA, Candidate, Leg
from .data import Benchmark, Caller, Item, Question, Vectors

_NO_JIT = {"jit": "off"}
_TUNE_BUDGET_MS = 6_000
_HOPELESS = 20
LEAST_RECALL: Final = 0.9


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement or one whole search gave."""

    ids: list[str]
    ms: float
    timed_out: bool = False


@dataclass(slots=True)
class Hybrid:
    """A whole search in plain SQL: three statements, fusion in Python, and the texts of the first ten."""

    ids: list[str]
    ms: float
    legs: dict[Leg, Answer] = field(default_factory=dict[Leg, Answer])


def extension_schemas(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace"
        " WHERE extname IN ('vector', 'pg_trgm') ORDER BY nspname"
    ).fetchall()
    return [row[0] for row in rows]


def _use(connection: psycopg.Connection[Any]) -> None:
    path = sql.SQL(", ").join(map(sql.Identifier, [SCHEMA, *extension_schemas(connection)]))
    connection.execute(sql.SQL("SET search_path = {}").format(path))


def build(url: str, benchmark: Benchmark, signature: str) -> dict[str, Any]:
    """Create and fill the table, then its indexes; returns seconds by step and facts about the rows."""
    seconds: dict[str, float] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        schema = sql.Identifier(SCHEMA)
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        _use(connection)
        dim = sql.Literal(int(benchmark.vectors.shape[1]))
        connection.execute(sql.SQL(baselines.TABLE).format(dim=dim))
        started = time.perf_counter()
        _fill(connection, benchmark.documents, benchmark.vectors)
        seconds["rows"] = time.perf_counter() - started
        for name, text in baselines.INDEXES.items():
            started = time.perf_counter()
            connection.execute(text)
            seconds[name] = time.perf_counter() - started
        connection.execute("VACUUM ANALYZE item")
        connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(schema, sql.Literal(signature)))
        moved = connection.execute(
            "SELECT avg((pg_column_toast_chunk_id(embedding) IS NOT NULL)::int)::float8 FROM item"
        ).fetchone()
    return {"seconds": seconds, "vectors_out_of_line": moved[0] if moved else None}


def _fill(connection: psycopg.Connection[Any], documents: Iterable[Item], vectors: Vectors) -> None:
    with connection.cursor().copy("COPY item (id, acl, name, text, embedding) FROM STDIN") as copy:
        for item, vector in zip(documents, vectors, strict=True):
            copy.write_row((item.id, list(item.acl), item.name, item.indexed, literal(vector)))


def literal(vector: Vectors) -> str:
    """Write a vector as pgvector reads it."""
    return "[" + ",".join(f"{value:.7g}" for value in vector.tolist()) + "]"


def stored_signature(url: str) -> str | None:
    """Tell what the schema was filled with; None where there is none, or it was not finished."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT obj_description(to_regnamespace(%s)::oid, 'pg_namespace')", (SCHEMA,)
        ).fetchone()
    return row[0] if row else None


class WideTable:
    """Asks the wide table: one open connection for each set of settings, so that none is set while the clock runs."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connections: dict[frozenset[tuple[str, str]], psycopg.Connection[Any]] = {}
        self._texts: dict[tuple[str, bool], sql.Composed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def connection(self, candidate: Candidate | None = None) -> psycopg.Connection[Any]:
        settings = {**_NO_JIT, **(candidate.settings if candidate else {})}
        key = frozenset(settings.items())
        if key not in self._connections:
            connection = psycopg.connect(self._url, autocommit=True)
            # A cached generic plan would not know how many rows a caller sees.
            settings["plan_cache_mode"] = "force_custom_plan"
            settings["statement_timeout"] = str(round(self._timeout_s * 1000))
            _use(connection)
            # pgvector's and pg_trgm's settings exist once their libraries are loaded.
            connection.execute("SELECT '[1]'::vector, similarity('a', 'b')")
            for name, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            self._connections[key] = connection
        return self._connections[key]

    def statement(self, candidate: Candidate, caller: Caller) -> sql.Composed:
        limited = caller.principals is not None
        key = (candidate.name + candidate.leg, limited)
        if key not in self._texts:
            condition: LiteralString = baselines.EVERYTHING
            if limited:
                condition = baselines.PEER_VISIBLE if candidate.peer else baselines.PLAIN_VISIBLE
            self._texts[key] = sql.SQL(candidate.text).format(
                visible=sql.SQL(condition), any_word=sql.SQL(baselines.ANY_WORD)
            )
        return self._texts[key]

    def ask(self, candidate: Candidate, caller: Caller, question: Question) -> Answer:
        """Run one leg."""
        connection = self.connection(candidate)
        text = self.statement(candidate, caller)
        params = {
            "principals": None if caller.principals is None else list(caller.principals),
            "question": question.text,
            "embedding": literal(question.vector) if candidate.leg == "vector" else None,
            "limit": LIMIT,
        }
        started = time.perf_counter()
        try:
            rows = connection.execute(text, params).fetchall()
        except psycopg.errors.QueryCanceled:
            return Answer([], _since(started), timed_out=True)
        return Answer([row[0] for row in rows], _since(started))

    def search(self, legs: Sequence[Candidate], caller: Caller, question: Question, top_k: int) -> Hybrid:
        """Run a whole search: the legs one after the other, reciprocal rank fusion, the texts of the first hits."""
        started = time.perf_counter()
        answers: dict[Leg, Answer] = {candidate.leg: self.ask(candidate, caller, question) for candidate in legs}
        scores: dict[str, float] = {}
        for answer in answers.values():
            for rank, key in enumerate(answer.ids, 1):
                scores[key] = scores.get(key, 0.0) + 1 / (baselines.RRF_K + rank)
        ids = sorted(scores, key=lambda key: (-scores[key], key))[:top_k]
        self.connection().execute(baselines.HYDRATE, {"ids": ids}).fetchall()
        return Hybrid(ids, _since(started), answers)

    def fastest(
        self,
        leg: Leg,
        caller: Caller,
        questions: Sequence[Question],
        nearest: Mapping[str, Sequence[str]],
    ) -> tuple[Candidate, list[dict[str, Any]]]:
        """Try every statement for a leg; returns the fit one with the least median, and how each did.

        A vector statement is fit when it finds `LEAST_RECALL` of the nearest visible documents.

        Args:
            nearest: by question, the ids of the documents that are truly nearest.
        """
        tried: list[tuple[float, Candidate]] = []
        log: list[dict[str, Any]] = []
        for candidate in baselines.plain(leg, questions[0].kind):
            least = min((ms for ms, _ in tried), default=None)
            answers = self._try(candidate, caller, questions, least)
            median = statistics.median(answer.ms for answer in answers)
            found = _mean_recall(answers, questions, nearest) if leg == "vector" else 1.0
            if found >= LEAST_RECALL:
                tried.append((median, candidate))
            log.append(
                {
                    "leg": leg,
                    "statement": candidate.name,
                    "p50_ms": round(median, 3),
                    "runs": len(answers),
                    "rows": statistics.median(len(answer.ids) for answer in answers),
                    "timed_out": sum(answer.timed_out for answer in answers),
                    "recall": round(found, 3) if leg == "vector" else "",
                }
            )
        return min(tried, key=lambda pair: pair[0])[1], log

    def _try(
        self,
        candidate: Candidate,
        caller: Caller,
        questions: Sequence[Question],
        least_ms: float | None,
    ) -> list[Answer]:
        """Run one statement on every question, after one to warm up; only that one where it has no chance."""
        first = self.ask(candidate, caller, questions[0])
        hopeless = least_ms is not None and first.ms > _HOPELESS * least_ms
        if hopeless or first.ms > _TUNE_BUDGET_MS or len(questions) == 1:
            return [first]
        answers: list[Answer] = []
        spent = 0.0
        for question in questions:
            answers.append(self.ask(candidate, caller, question))
            spent += answers[-1].ms
            if spent > _TUNE_BUDGET_MS:
                break
        return answers


def recall(found: Sequence[str], nearest: Sequence[str]) -> float:
    """Tell which share of the nearest is among the first of what was found."""
    return len(set(nearest) & set(found[: len(nearest)])) / len(nearest) if nearest else 1.0


def _mean_recall(
    answers: Sequence[Answer], questions: Sequence[Question], nearest: Mapping[str, Sequence[str]]
) -> float:
    pairs = zip(answers, questions, strict=False)
    return statistics.mean(recall(answer.ids, nearest[question.id]) for answer, question in pairs)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
