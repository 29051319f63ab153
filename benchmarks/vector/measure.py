"""Ask every question of every method, in a drawn order, and note what came and how long it took."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .generate import SEED, Questions, Vectors
from .layouts import Caller
from .methods import LIMIT, Method
from .truth import DEPTHS, Truth

Row = dict[str, Any]
RAW_COLUMNS: Final[tuple[str, ...]] = (
    "n", "layout", "target", "share", "visible", "question", "kind", "method", "note", "ms", "rows", "wanted",
    "recall@10", "recall@50",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        warm_up: questions asked of every method before the clock counts.
        least_runs: how many questions even a slow method answers.
        budget_s: a method that has used this much for one caller answers no more; ours answers all.
    """

    questions: int = 100
    warm_up: int = 3
    least_runs: int = 15
    budget_s: float = 4.0


class Bench:
    """Measures one caller at a time."""

    def __init__(self, questions: Questions, scores: Vectors, plan: Plan) -> None:
        self._questions = questions
        self._scores = scores
        self._plan = plan
        self._everything = Truth(scores, np.ones(scores.shape[1], dtype=bool))

    def cell(
        self,
        caller: Caller,
        seen: NDArray[np.bool_],
        methods: Sequence[Method],
        always: Iterable[str],
        step: Callable[[int], None] = lambda _: None,
    ) -> list[Row]:
        """Ask all questions as one caller.

        Args:
            seen: which of the vectors the caller sees; shorter than the corpus where only its beginning is stored.
            always: the methods that answer every question, however long it takes.
            step: told how many questions are done.
        """
        truth = Truth(self._scores[:, : len(seen)], seen)
        for question in range(min(self._plan.warm_up, len(self._questions.kinds))):
            for method in methods:
                method.ask(caller, self._questions.vectors[question])
        spent = dict.fromkeys((method.name for method in methods), 0.0)
        rng = random.Random(f"{SEED} {caller.layout} {caller.target}")
        rows: list[Row] = []
        for question, vector in enumerate(self._questions.vectors):
            for method in rng.sample(methods, len(methods)):
                tired = spent[method.name] > self._plan.budget_s * 1000 and question >= self._plan.least_runs
                if tired and method.name not in always:
                    continue
                answer = method.ask(caller, vector)
                spent[method.name] += answer.ms
                against = truth if method.sees else self._everything
                rows.append(
                    {
                        "n": len(seen),
                        "layout": caller.layout,
                        "target": caller.target,
                        "share": round(caller.visible / len(seen), 6),
                        "visible": caller.visible,
                        "question": question,
                        "kind": self._questions.kinds[question],
                        "method": method.name,
                        "note": answer.note,
                        "ms": round(answer.ms, 3),
                        "rows": len(answer.ids),
                        "wanted": min(LIMIT, against.visible),
                        **{
                            f"recall@{depth}": round(against.recall(question, answer.ids, depth), 4) for depth in DEPTHS
                        },
                    }
                )
            step(question + 1)
        return rows
