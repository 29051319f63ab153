"""Ask every question of every method, in a drawn order, and note how long each took."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from context_engine import TRUSTED, Engine
from context_engine.names import LegName

from .baselines import LEGS, PEER, Candidate, Leg
from .data import Benchmark, Caller, Question, QuestionClass
from .wide import Answer, WideTable, recall

Method = Literal["ours", "peer", "plain"]
METHODS: Final[tuple[Method, ...]] = ("ours", "peer", "plain")
PARTS: Final = ("hybrid", *LEGS)
TOP_K: Final = 10
OUR_LEG: Final[dict[Leg, LegName]] = {"vector": "ann", "lexical": "fts", "trigram": "trgm"}
RAW_COLUMNS: Final = (
    "caller", "share", "visible", "class", "question", "method", "part", "ms", "timed_out", "rows", "note", "recall",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        warm_up: questions asked of every method before the clock counts.
        tuning: questions on which the plain statements compete.
        least_runs: how many questions even a slow method answers.
        budget_s: a plain method that has used this much for one caller and class answers no more.
        timeout_s: of a plain statement; one that hits it counts with this time.
    """

    warm_up: int = 3
    tuning: int = 5
    least_runs: int = 10
    budget_s: float = 40.0
    timeout_s: float = 20.0


@dataclass(slots=True)
class Cell:
    """One caller and one class of question, measured."""

    caller: Caller
    kind: QuestionClass
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tried: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    chosen: dict[str, str] = field(default_factory=dict[str, str])

    def note(self, question: Question, method: Method, part: str, answer: Answer, remark: str = "") -> None:
        self.rows.append(
            {
                "caller": self.caller.label,
                "share": round(self.caller.share, 6),
                "visible": self.caller.visible,
                "class": self.kind,
                "question": question.id,
                "method": method,
                "part": part,
                "ms": round(answer.ms, 4),
                "timed_out": int(answer.timed_out),
                "rows": len(answer.ids),
                "note": remark,
                "recall": "",
            }
        )


class Bench:
    """Measures cells on one filled database."""

    def __init__(self, engine: Engine, wide: WideTable, benchmark: Benchmark, plan: Plan) -> None:
        self._engine = engine
        self._wide = wide
        self._benchmark = benchmark
        self._plan = plan
        self._ids = np.array([item.id for item in benchmark.documents])

    def cell(self, caller: Caller, kind: QuestionClass, step: Callable[[str], None] = lambda _: None) -> Cell:
        """Choose the best plain statements, warm up, then ask every question of every method.

        The order of the methods is drawn anew for each question, so that a drift of the machine, and what one method
        leaves in the caches, hits all alike.
        """
        cell = Cell(caller, kind)
        questions = self._benchmark.of_class(kind)
        step("choosing plain statements")
        visible = self._visible(caller)
        best = self._choose(cell, questions, visible)
        runs = self._runs(cell, best)
        step("warming up")
        for question in questions[: self._plan.warm_up]:
            for _, run in runs:
                run(question, False)
        spent: dict[str, float] = {}
        order = random.Random(f"{caller.label} {kind}")
        for number, question in enumerate(questions):
            step(f"question {number + 1} of {len(questions)}")
            ids: dict[Method, list[str]] = {}
            for name, run in order.sample(runs, len(runs)):
                used = spent.get(name, 0.0)
                if number >= self._plan.least_runs and used > self._plan.budget_s * 1000:
                    continue
                ms, method, vector_ids = run(question, True)
                spent[name] = used + (ms if method != "ours" else 0.0)
                if vector_ids is not None:
                    ids[method] = vector_ids
            self._recall(cell, question, visible, ids)
        return cell

    def _choose(self, cell: Cell, questions: Sequence[Question], visible: NDArray[np.bool_]) -> list[Candidate]:
        size = min(self._plan.tuning, len(questions))
        sample = [questions[number * len(questions) // size] for number in range(size)]
        nearest = {question.id: self._nearest(question, visible) for question in sample}
        best: list[Candidate] = []
        for leg in LEGS:
            chosen, tried = self._wide.fastest(leg, cell.caller, sample, nearest)
            best.append(chosen)
            cell.chosen[leg] = chosen.name
            place = {"caller": cell.caller.label, "class": cell.kind}
            cell.tried += [place | row | {"chosen": row["statement"] == chosen.name} for row in tried]
        return best

    def _runs(self, cell: Cell, best: Sequence[Candidate]) -> list[tuple[str, _Run]]:
        runs: list[tuple[str, _Run]] = [("ours hybrid", _Ours(self._engine, cell, "hybrid"))]
        runs += [(f"ours {leg}", _Ours(self._engine, cell, leg)) for leg in LEGS]
        runs.append(("peer", _Plain(self._wide, cell, "peer", PEER)))
        runs.append(("plain", _Plain(self._wide, cell, "plain", best)))
        return runs

    def _visible(self, caller: Caller) -> NDArray[np.bool_]:
        if caller.principals is None:
            return np.ones(len(self._ids), dtype=np.bool_)
        allowed = set(caller.principals)
        return np.array([not allowed.isdisjoint(item.acl) for item in self._benchmark.documents])

    def _recall(
        self,
        cell: Cell,
        question: Question,
        visible: NDArray[np.bool_],
        found: dict[Method, list[str]],
    ) -> None:
        """Compare each method's ten nearest visible documents with an exact scan in memory."""
        truth = self._nearest(question, visible)
        for row in reversed(cell.rows):
            if row["question"] != question.id:
                break
            if row["part"] == "vector" and row["method"] in found:
                row["recall"] = round(recall(found[row["method"]], truth), 3)

    def _nearest(self, question: Question, visible: NDArray[np.bool_]) -> list[str]:
        scores = np.where(visible, self._benchmark.vectors @ question.vector, -2.0)
        count = min(TOP_K, int(visible.sum()))
        return [str(key) for key in self._ids[np.argsort(-scores, kind="stable")[:count]]]


_Outcome = tuple[float, Method, list[str] | None]
_Run = Callable[[Question, bool], _Outcome]


@dataclass(frozen=True, slots=True)
class _Ours:
    engine: Engine
    cell: Cell
    part: str

    def __call__(self, question: Question, counts: bool) -> _Outcome:
        principals = self.cell.caller.principals
        weights: dict[LegName, float] = {name: float(leg == self.part) for leg, name in OUR_LEG.items()}
        started = time.perf_counter()
        result = self.engine.search(
            question.text,
            principals=TRUSTED if principals is None else principals,
            top_k=TOP_K,
            weights=None if self.part == "hybrid" else weights,
        )
        ms = (time.perf_counter() - started) * 1000
        if result.report.degraded:
            raise RuntimeError(f"a leg failed: {result.report.legs}")
        ids = [hit.document.external_id for hit in result.hits]
        if counts:
            routes = "+".join(f"{name}:{leg.route}" for name, leg in result.report.legs.items() if leg.route != "off")
            self.cell.note(question, "ours", self.part, Answer(ids, ms), routes)
            if self.part == "hybrid":
                for stage, spent in result.report.timings_ms.items():
                    self.cell.note(question, "ours", f"stage {stage}", Answer([], spent))
        return ms, "ours", ids if self.part == "vector" else None


@dataclass(frozen=True, slots=True)
class _Plain:
    wide: WideTable
    cell: Cell
    method: Method
    legs: Sequence[Candidate]

    def __call__(self, question: Question, counts: bool) -> _Outcome:
        hybrid = self.wide.search(self.legs, self.cell.caller, question, TOP_K)
        if counts:
            late = any(answer.timed_out for answer in hybrid.legs.values())
            whole = Answer(hybrid.ids, hybrid.ms, late)
            self.cell.note(question, self.method, "hybrid", whole)
            names = {candidate.leg: candidate.name for candidate in self.legs}
            for leg, answer in hybrid.legs.items():
                self.cell.note(question, self.method, leg, answer, names[leg])
        return hybrid.ms, self.method, hybrid.legs["vector"].ids
