"""The same processes over a large corpus: too much for the oracle, so hits are held against the rule in plain SQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.data import Benchmark, Caller, Question, synthetic

from context_engine.models.hashing import HashingEmbedder

from .snapshot import hidden_hits
from .worker import ROLES, Role, Worker

Asked = tuple[Sequence[Caller], Sequence[Question]]

EMBEDDER: Final = HashingEmbedder(384)
_CALLERS: Final = (1, 2, 2, 2, 2, 3)
"""Which callers ask, of those that see 0.1, 1, 10 and 50 %: mostly the one of 10 %."""


def corpus(documents: int) -> Benchmark:
    """A made-up corpus with uneven owners, and questions long and short."""
    return synthetic(documents, questions=100, dim=2)


class LoadWorker(Worker):
    """A process whose reading is over the corpus; it writes, revokes and deletes as in the other run."""

    def __init__(self, url: str, number: int, role: Role, counters: Any, asked: Asked) -> None:
        super().__init__(url, number, role, counters, EMBEDDER)
        self._callers, self._questions = asked

    def read(self) -> None:
        caller = self._callers[self.rng.choice(_CALLERS)]
        asked = self.rng.choice(self._questions)
        principals = list(caller.principals or ())
        with self.snapshots.adopted() as connection:
            kind = f"search:{asked.kind}, {caller.label}"
            result = self.timed(kind, lambda: self.engine.search(asked.text, principals=principals))
            if hidden_hits(connection, result, principals):
                self.notes.differ([f"leak: {asked.text} for {caller.label}"])


def work(url: str, number: int, seconds: float, out: str, asked: Asked | None, counters: Any, ready: Any) -> None:
    """Run one process of either run, from the moment on that all are ready."""
    role = ROLES[number]
    worker = LoadWorker(url, number, role, counters, asked) if asked else Worker(url, number, role, counters)
    worker.engine.count(principals=[])
    ready.wait()
    worker.run(time.monotonic() + seconds, Path(out))
