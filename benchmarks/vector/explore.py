"""Try other settings of the vector index on a database that was kept: `python -m benchmarks.vector.explore`.

First rows ranked (`search.ann_rows`) and rows scored exactly, on the index as it is; then other numbers of lists, each
built anew in the first layout. Writes `explore.csv` and `explore.md` beside the results.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.latency.report import table
from benchmarks.latency.summary import write_csv
from rich.console import Console
from rich.progress import Progress

from context_engine.db.embedded import EmbeddedServer
from context_engine.retrieval import ivf, legs
from context_engine.retrieval.compose import Visibility

from . import generate, layouts, load
from .__main__ import SERVER, asked_of, base_of
from .layouts import Layout
from .measure import Row
from .methods import LIMIT, QUESTION, Ours
from .truth import DEPTHS, Scores, Truth

_SEED: Final = 7
"""Other questions than those that the benchmark asks: settings are chosen here, and measured there."""
_ROWS: Final = (5_000, 10_000, 20_000, 40_000)
_SCORED: Final = (500, 1_000, 2_000, 4_000)
_LISTS: Final = (1, 2, 4, 8)
"""Times the square root of the number of chunks."""
_SHARES: Final = (0.10, 0.50, 1.0)
_COLUMNS: Final = (
    *("lists", "layout", "share", "rows", "scored", "p50_ms", "p95_ms"),
    *(f"recall@{depth} {kind}" for kind in generate.KINDS for depth in DEPTHS),
)


@dataclass(slots=True)
class Tried(Ours):
    """Ours, by the index whatever the share, with another number of rows scored exactly."""

    scored: int = 500

    def _route(self, visibility: Visibility, embedding: str) -> legs.Route:
        assert self.index is not None
        route = legs.ann_ivf(visibility, QUESTION, embedding, self.index, self.ann_rows, LIMIT)
        params = {**route.statement.params, "rescored": self.scored}
        return replace(route, statement=replace(route.statement, params=params))


class Exploration:
    """Asks the questions with one setting after the other."""

    def __init__(self, args: argparse.Namespace, url: str, progress: Progress) -> None:
        self.url = url
        self.progress = progress
        self.corpus = generate.make(base_of(args), args.chunks, args.work_dir / "vectors", progress)
        self.questions = generate.questions(self.corpus, args.questions, asked_of(args), _SEED)
        self.scores = Scores(self.corpus, self.questions, progress).values
        self.layouts = [layouts.make(name, self.corpus, args.shares) for name in args.layouts]

    def try_all(self, layout: Layout, lists: str, rows: list[int], scored: list[int]) -> Iterator[Row]:
        """Ask with each pair of settings, question by question in turn."""
        with ExitStack() as stack:
            store = stack.enter_context(load.open_store(self.url, load.schema_of(layout.name), 60))
            index = load.index_in_force(store)
            pairs = [(row, count) for row in rows for count in scored]
            tried = {pair: Tried("ours", store, index, 0, pair[0], len(self.corpus), scored=pair[1]) for pair in pairs}
            for caller in layout.callers:
                truth = Truth(self.scores, layout.seen(caller))
                found: dict[tuple[int, int], list[tuple[float, ...]]] = {pair: [] for pair in pairs}
                for question, vector in enumerate(self.questions.vectors):
                    for pair, method in tried.items():
                        answer = method.ask(caller, vector)
                        recalls = (truth.recall(question, answer.ids, depth) for depth in DEPTHS)
                        found[pair].append((answer.ms, *recalls))
                for pair, values in found.items():
                    yield _line(lists, caller, pair, np.array(values), self.questions.kinds)

    def build(self, layout: Layout, times: int) -> float:
        """Build the first layout's index anew with another number of lists; returns seconds."""
        usual = ivf.list_count
        ivf.list_count = lambda chunks: max(1, min(16_384, round(times * chunks**0.5)))
        try:
            built = load.build_index(self.url, load.schema_of(layout.name), len(self.corpus), self.progress)
        finally:
            ivf.list_count = usual
        return float(built["seconds"])


def _line(lists: str, caller: layouts.Caller, pair: tuple[int, int], values: Any, kinds: tuple[str, ...]) -> Row:
    p50, p95 = np.percentile(values[:, 0], [50, 95])
    row: Row = {
        "lists": lists,
        "layout": caller.layout,
        "share": caller.label,
        "rows": pair[0],
        "scored": pair[1],
        "p50_ms": round(float(p50), 2),
        "p95_ms": round(float(p95), 2),
    }
    for kind in dict.fromkeys(kinds):
        chosen = values[np.array(kinds) == kind]
        for column, depth in enumerate(DEPTHS, 1):
            row[f"recall@{depth} {kind}"] = round(float(chosen[:, column].mean()), 4)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vector.explore", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CONTEXT_ENGINE_DATA", "../shared/data")))
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--layouts", nargs="+", choices=layouts.LAYOUTS, default=list(layouts.LAYOUTS))
    parser.add_argument("--shares", nargs="+", type=float, default=list(_SHARES))
    parser.add_argument("--rows", nargs="+", type=int, default=list(_ROWS), help="rows ranked")
    parser.add_argument("--scored", nargs="+", type=int, default=list(_SCORED), help="rows scored exactly")
    parser.add_argument("--skip-lists", action="store_true", help="leave the index as it is")
    parser.add_argument("--work-dir", type=Path, default=Path(tempfile.gettempdir()) / "context-engine-vector")
    parser.add_argument("--out", type=Path, help="benchmarks/vector/results/<chunks>")
    args = parser.parse_args()
    out: Path = args.out or Path(__file__).parent / "results" / str(args.chunks)
    lines: list[Row] = []
    seconds: dict[str, float] = {}
    folder: Path = args.work_dir / f"server-{args.chunks}"
    with Progress(console=Console()) as progress, EmbeddedServer.start(folder, options=SERVER) as server:
        exploration = Exploration(args, server.url(), progress)
        for layout in exploration.layouts:
            lines += exploration.try_all(layout, "as built", args.rows, args.scored)
            _write(out, lines, seconds)
        for times in () if args.skip_lists else _LISTS:
            layout = exploration.layouts[0]
            name = f"{times} x root"
            seconds[name] = exploration.build(layout, times)
            lines += exploration.try_all(layout, name, args.rows, args.scored[1:2])
            _write(out, lines, seconds)
        if not args.skip_lists:
            started = time.perf_counter()
            load.build_index(server.url(), load.schema_of(exploration.layouts[0].name), args.chunks, progress)
            progress.console.print(f"the usual index is back: {time.perf_counter() - started:.0f} s")


def _cell(name: str, value: Any) -> object:
    return f"{value:.4f}" if name.startswith("recall") and value != "" else value


def _write(out: Path, lines: list[Row], seconds: dict[str, float]) -> None:
    write_csv(out / "explore.csv", _COLUMNS, lines)
    text = table(_COLUMNS, ([_cell(name, line.get(name, "")) for name in _COLUMNS] for line in lines))
    built = "".join(f"\nBuilding with {name}: {spent:.0f} s." for name, spent in seconds.items())
    head = (
        "# Other settings of the vector index\n\nEvery caller by the index, also below the threshold. The defaults are"
        " `search.ann_rows` rows ranked or `search.ann_share` of the root of visible times all, and a twentieth of"
        " them scored exactly; the questions are others than the benchmark's.\n\n"
    )
    (out / "explore.md").write_text(head + text + built + "\n")


if __name__ == "__main__":
    main()
