"""Rebuild the vector index under searches and writes: `python -m benchmarks.vector.rebuild`.

100 searches a second come whether or not the last has been answered, 10 writes a second beside them; another process
rebuilds the index over and over. Afterwards each answer is held against the rows as they were, whichever writes it saw
of those under way: no hit that the caller may not see, exact answers equal to brute force, full lists. Writes
`rebuild.json` and `rebuild.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.latency.report import table
from numpy.typing import NDArray

from context_engine import AsyncEngine, ContextEngineError, Document, Engine, Settings, document_id
from context_engine.db.embedded import EmbeddedServer

DIM: Final = 128
GROUPS: Final = 20
TOP_K: Final = 10
_ONLY_VECTORS: Final = {"ann": 1.0, "fts": 0.0, "trgm": 0.0}
_CENTRES: Final = 60
_ROUNDING: Final = 1e-5
"""Two scores that differ by less are the same: they are summed in another order."""
_REBUILD: Final = """
import sys
from benchmarks.vector.rebuild import Made, settings
from context_engine import Engine
with Engine(sys.argv[1], embedder=Made(), settings=settings(int(sys.argv[2]))) as engine:
    print(engine.maintain(rebuild=True).index_built)
"""


class Made:
    """Makes up a vector for each text, the same each time, in clusters."""

    name = "made-up"
    dim = DIM

    def embed_query(self, text: str) -> NDArray[np.float32]:
        rng = np.random.default_rng(list(text.encode()))
        centre = np.random.default_rng(int(rng.integers(_CENTRES))).normal(size=DIM)
        vector = centre + rng.normal(size=DIM)
        # As it is stored, so that brute force has the same scores.
        return (vector / np.linalg.norm(vector)).astype(np.float16).astype(np.float32)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts])


def settings(threshold: int) -> Settings:
    return Settings(storage={"ann_exact_threshold": threshold, "pool_size": 8, "statement_timeout_s": 600})


@dataclass(frozen=True, slots=True)
class Write:
    """A row's new group, -1 where it was deleted, and between which moments that came to be."""

    number: int
    group: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search gave, row by row, and between which moments."""

    text: str
    seen: frozenset[int]
    route: str
    found: tuple[int, ...]
    started: float
    ended: float


@dataclass(slots=True)
class Model:
    """What is stored: a row for each number, its vector and its group, -1 where it is deleted."""

    vectors: NDArray[np.float32]
    groups: NDArray[np.int64]
    ids: NDArray[np.int64]
    scores: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    """Of all rows, by question."""

    def judge(self, answers: Sequence[Answer], writes: Sequence[Write], notes: Notes) -> None:
        """Hold each answer against every state of the rows that it may have seen: writes come one after another."""
        ends, starts = [write.ended for write in writes], [write.started for write in writes]
        groups, done = self.groups.copy(), 0
        for answer in sorted(answers, key=lambda item: item.started):
            first, last = bisect_right(ends, answer.started), bisect_left(starts, answer.ended)
            for write in writes[done:first]:
                groups[write.number] = write.group
            done = first
            possible = groups.copy()
            recalls = [self._recall(answer, possible)]
            for write in writes[first:last]:
                possible[write.number] = write.group
                recalls.append(self._recall(answer, possible))
            best = max(recalls)
            if best < 0 or (answer.route == "exact" and best < 1):
                notes.wrong.append(f"{answer.route} of {sorted(answer.seen)}: {answer.found}, {best}")
            notes.recall[answer.route].append(best)

    def _recall(self, answer: Answer, groups: NDArray[np.int64]) -> float:
        """Share of the best rows that were found; -1 for a row that the caller may not see, or a list that is short."""
        visible = np.isin(np.arange(GROUPS + 1), list(answer.seen))[groups]  # -1 is the last place, which no one sees
        found, scores = list(answer.found), self._scores(answer.text)
        if len(set(found)) < min(TOP_K, int(visible.sum())) or not visible[found].all():
            return -1.0
        least = np.partition(scores[visible], -TOP_K)[-TOP_K]
        return float(np.mean(scores[found] >= least - _ROUNDING))

    def _scores(self, text: str) -> NDArray[np.float32]:
        if text not in self.scores:
            self.scores[text] = self.vectors @ Made().embed_query(text)
        return self.scores[text]


@dataclass(slots=True)
class Notes:
    """What happened."""

    counts: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    ms: dict[str, list[float]] = field(default_factory=lambda: {"exact": [], "ivf": []})
    recall: dict[str, list[float]] = field(default_factory=lambda: {"exact": [], "ivf": []})
    rebuilds_s: list[float] = field(default_factory=list[float])


class Run:
    """One run: a paced searcher, a paced writer, and a process that rebuilds; answers are judged afterwards."""

    def __init__(self, url: str, args: argparse.Namespace, model: Model) -> None:
        self.args = args
        self.url = url
        self.model = model
        self.notes = Notes()
        self.answers: list[Answer] = []
        self.writes: list[Write] = []
        self.rng = random.Random(4)
        self._number = {int(key): number for number, key in enumerate(model.ids)}
        self._done = asyncio.Event()

    async def run(self) -> None:
        async with AsyncEngine(self.url, embedder=Made(), settings=settings(self.args.threshold)) as engine:
            await engine.count(principals=["g0"])
            writer = asyncio.create_task(self._write())
            rebuilder = asyncio.create_task(self._rebuild())
            started, asked = time.perf_counter(), 0
            tasks: set[asyncio.Task[None]] = set()
            while not self._done.is_set():
                task = asyncio.create_task(self._search(engine, asked))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                asked += 1
                await asyncio.sleep(max(0.0, started + asked / self.args.rate - time.perf_counter()))
            self.notes.counts["seconds"] = round(time.perf_counter() - started)
            self.notes.counts["searches in time"] = len(self.answers)
            await asyncio.gather(*tasks, writer, rebuilder)
        self.model.judge(self.answers, self.writes, self.notes)

    async def _rebuild(self) -> None:
        for _ in range(self.args.rebuilds):
            started = time.perf_counter()
            command = (sys.executable, "-c", _REBUILD, self.url, str(self.args.threshold))
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*command, **pipes)
            out, errors = await process.communicate()
            if process.returncode or b"True" not in out:
                said = (out + errors).decode()[-1000:]
                self.notes.wrong.append(f"a rebuild ended with {process.returncode}: {said}")
            self.notes.rebuilds_s.append(round(time.perf_counter() - started, 1))
        self._done.set()

    async def _write(self) -> None:
        groups = self.model.groups.copy()
        async with AsyncEngine(self.url, embedder=Made(), settings=settings(self.args.threshold)) as engine:
            while not self._done.is_set():
                number, group = self.rng.randrange(len(groups)), self.rng.randrange(-1, GROUPS)
                before, started = int(groups[number]), time.perf_counter()
                try:
                    if group < 0 and before >= 0:
                        await engine.delete(int(self.model.ids[number]))
                    elif group >= 0 and before >= 0:
                        await engine.set_acl(int(self.model.ids[number]), [f"g{group}"])
                    elif group >= 0:
                        await engine.ingest([document(number, group)])
                except ContextEngineError as error:
                    self.notes.wrong.append(f"write: {error}")
                groups[number] = group
                self.writes.append(Write(number, group, started, time.perf_counter()))
                await asyncio.sleep(max(0.0, started + 1 / self.args.writes - time.perf_counter()))

    async def _search(self, engine: AsyncEngine, asked: int) -> None:
        # One in four sees a group; the others half of them, by the index.
        seen = {asked % GROUPS} if asked % 4 == 0 else {(asked + step) % GROUPS for step in range(GROUPS // 2)}
        text, started = f"question {asked % 500}", time.perf_counter()
        try:
            result = await engine.search(
                text, principals=[f"g{group}" for group in seen], top_k=TOP_K, weights=_ONLY_VECTORS
            )
        except ContextEngineError as error:
            self.notes.wrong.append(f"search: {error}")
            return
        ended, route = time.perf_counter(), result.report.legs["ann"].route
        self.notes.ms[route].append((ended - started) * 1000)
        found = tuple(self._number[hit.document.id] for hit in result.hits)
        self.answers.append(Answer(text, frozenset(seen), route, found, started, ended))


def document(number: int, group: int) -> Document:
    return Document(text=f"row {number}", external_id=str(number), acl=[f"g{group}"])


def fill(url: str, count: int, threshold: int) -> Model:
    """Store the rows and model them."""
    rng = random.Random(3)
    groups = [rng.randrange(GROUPS) for _ in range(count)]
    with Engine(url, embedder=Made(), settings=settings(threshold)) as engine:
        report = engine.ingest(document(number, group) for number, group in enumerate(groups))
        assert report.created == count, report.failed[:3]
    vectors = Made().embed_documents([f"row {number}" for number in range(count)])
    ids = np.array([document_id("default", str(number)) for number in range(count)])
    return Model(vectors, np.array(groups), ids)


def page(facts: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    rows = [(name, value) for name, value in facts.items() if not isinstance(value, list)]
    return (
        "# The vector index rebuilt under searches and writes\n\n"
        "Searches come at their rate whether or not the last has been answered. One in four is of a caller who sees a"
        " twentieth, exactly; the others see half, by the index. Every answer is compared with brute force over the"
        " rows as they were, whichever of the writes under way it saw.\n\n"
        + table(("", ""), rows)
        + "".join(f"\nWrong: {text}\n" for text in facts["wrong"][:20])
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vector.rebuild", description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--threshold", type=int, default=10_000, help="storage.ann_exact_threshold")
    parser.add_argument("--rate", type=float, default=100, help="searches a second")
    parser.add_argument("--writes", type=float, default=10, help="writes a second")
    parser.add_argument("--rebuilds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "rebuild")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server's user has to enter it
        with EmbeddedServer.start(Path(folder)) as server:
            run = Run(server.url(), args, fill(server.url(), args.documents, args.threshold))
            asyncio.run(run.run())
    notes = run.notes
    facts: dict[str, Any] = {
        "documents": args.documents,
        "searches a second, asked": args.rate,
        "seconds": notes.counts["seconds"],
        "searches": len(run.answers),
        "searches a second, answered": round(notes.counts["searches in time"] / notes.counts["seconds"], 1),
        "writes": len(run.writes),
        "rebuilds": len(notes.rebuilds_s),
        "seconds a rebuild": ", ".join(map(str, notes.rebuilds_s)),
        **{
            f"ms, {route}, p50 and p95": ", ".join(f"{value:.1f}" for value in np.percentile(values, [50, 95]))
            for route, values in notes.ms.items()
            if values
        },
        **{
            f"mean recall@10, {route}, of {len(values)} compared": round(float(np.mean(values)), 4)
            for route, values in notes.recall.items()
            if values
        },
        "wrong or failed": len(notes.wrong),
        "wrong": notes.wrong[:50],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "rebuild.json").write_text(json.dumps(facts, indent=1) + "\n")
    (args.out / "rebuild.md").write_text(page(facts))
    sys.stdout.write(page(facts) + "\n")
    sys.exit(bool(notes.wrong))


if __name__ == "__main__":
    main()
