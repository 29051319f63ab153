"""Run the benchmark: `python -m benchmarks.vector`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
from benchmarks.latency import data
from benchmarks.latency.load import conditions
from benchmarks.latency.summary import write_csv
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from context_engine.db.embedded import EmbeddedServer
from context_engine.settings import SearchSettings, StorageSettings

from . import generate, growth, layouts, load, methods, plots, report, summary, wide
from .layouts import LAYOUTS, Layout
from .measure import Bench, Plan, Row
from .methods import Method, Ours, Reference
from .truth import Scores

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_SMALL: Final = 4_000
SERVER: Final = {"shared_buffers": "2GB", "maintenance_work_mem": "2GB", "max_wal_size": "8GB"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vector", description=__doc__)
    known = os.environ.get("CONTEXT_ENGINE_DATA", str(_CHECKOUT.parent / "shared" / "data"))
    whole = argparse.BooleanOptionalAction
    parser.add_argument("--data", type=Path, default=Path(known), help="folder with debian-packages and debian-fuzzy")
    parser.add_argument("--synthetic", action="store_true", help="start from made-up vectors: no data folder needed")
    parser.add_argument("--chunks", type=int, help="vectors stored; 100,000, or 4,000 with --small")
    parser.add_argument("--small", action="store_true", help="does it run, not how fast: seconds")
    parser.add_argument("--questions", type=int, help="100, or 6 with --small")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--shares", nargs="+", type=float, default=list(layouts.SHARES), help="that callers see")
    parser.add_argument("--threshold", type=int, help="visible chunks up to which the route is exact; the engine's")
    parser.add_argument("--ann-rows", type=int, help="visible rows ranked above it; the engine's")
    parser.add_argument("--skip-hnsw", action="store_true", help="leave plain pgvector out")
    parser.add_argument("--skip-faiss", action="store_true", help="leave HNSW in process out")
    parser.add_argument("--growth", action=whole, default=True, help="measure smaller tables too")
    parser.add_argument("--database-url", help="a PostgreSQL URL; schemas named vec_… are dropped and made there")
    parser.add_argument("--work-dir", type=Path, help="where vectors and the embedded server's data are kept")
    parser.add_argument("--keep", action="store_true", help="keep the embedded server's data at the end")
    parser.add_argument("--resume", action="store_true", help="use what is loaded and measured already")
    parser.add_argument("--page", action="store_true", help="only write the page and the plots of an earlier run again")
    parser.add_argument("--out", type=Path, help="where the results go; benchmarks/vector/results/<chunks>")
    args = parser.parse_args()
    args.chunks = args.chunks or (_SMALL if args.small else 100_000)
    args.questions = args.questions or (6 if args.small else 100)
    args.work_dir = args.work_dir or Path(tempfile.gettempdir()) / "context-engine-vector"
    args.out = args.out or _CHECKOUT / "benchmarks" / "vector" / "results" / str(args.chunks)
    small = args.chunks // 20
    if args.threshold is None:
        args.threshold = small if args.small else StorageSettings().ann_exact_threshold
    args.ann_rows = args.ann_rows or (max(100, small) if args.small else SearchSettings().ann_rows)
    return args


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    folder: Path = args.work_dir / f"server-{args.chunks}"
    with EmbeddedServer.start(folder, options=SERVER) as server:
        yield server.url()
    # Left in place after an error, for --resume.
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def base_of(args: argparse.Namespace) -> data.Benchmark:
    """Read the embeddings that everything is made from."""
    if args.synthetic:
        return data.synthetic(2_000, 1)
    if not (args.data / "debian-packages").is_dir():
        raise SystemExit(f"no debian-packages in {args.data}: name the folder with --data, or use --synthetic")
    return data.load(args.data, _SMALL if args.small else None, 1)


def asked_of(args: argparse.Namespace) -> generate.Vectors | None:
    """Read the vectors of short questions on the base corpus."""
    return None if args.synthetic else np.load(args.data / "debian-fuzzy" / "queries.minilm.f16.npy").astype(np.float32)


class Run:
    """One run's files: facts.json, raw.csv.gz, and what is made of them."""

    def __init__(self, args: argparse.Namespace, progress: Progress) -> None:
        self.args = args
        self.progress = progress
        self.out: Path = args.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.plan = replace(Plan(), questions=args.questions)
        if args.small:
            self.plan = replace(self.plan, warm_up=1, least_runs=2, budget_s=0.2)
        base = base_of(args)
        self.corpus = generate.make(base, args.chunks, args.work_dir / "vectors", progress)
        self.questions = generate.questions(self.corpus, args.questions, asked_of(args))
        self.layouts: list[Layout] = [layouts.make(name, self.corpus, args.shares) for name in args.layouts]
        self.wide = not args.skip_hnsw and "random" in args.layouts and args.chunks <= wide.ROWS
        self.signature = (
            f"{base.name} {args.chunks} {args.questions} {' '.join(args.layouts)} threshold {args.threshold} "
            f"rows {args.ann_rows} shares {args.shares} hnsw {not args.skip_hnsw}"
        )
        self.facts: dict[str, Any] = {"cells": [], "filled": {}}
        self.raw: list[Row] = []
        if args.resume:
            self._read()
        self.facts |= {
            "signature": self.signature,
            "data": base.name,
            "base": len(base.documents),
            "chunks": args.chunks,
            "threshold": args.threshold,
            "ann_rows": args.ann_rows,
            "plan": asdict(self.plan),
            "classes": {layout.name: int(layout.acl.max()) for layout in self.layouts},
            "callers": [
                {"layout": c.layout, "target": c.target, "visible": c.visible, "classes": len(c.classes), "how": c.how}
                for layout in self.layouts
                for c in layout.callers
            ],
        }

    def _read(self) -> None:
        if not (self.out / "facts.json").exists():
            return
        found = json.loads((self.out / "facts.json").read_text())
        if found["signature"] != self.signature:
            raise SystemExit(f"--resume: {self.out} is of another run ({found['signature']})")
        self.facts = found
        if (self.out / "raw.csv.gz").exists():
            self.raw = summary.read_raw(self.out / "raw.csv.gz")

    def save(self) -> None:
        (self.out / "facts.json").write_text(json.dumps(self.facts, indent=1) + "\n")
        summary.write_raw(self.out / "raw.csv.gz", self.raw)

    def fill(self, url: str) -> None:
        """Load what is not there yet; each schema is noted as soon as it is whole."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if load.stored_signature(url) != self.signature:
            self.facts |= {"cells": [], "filled": {}}
            self.raw = []
            _drop_everything(url)
            load.sign(url, self.signature)
        done: dict[str, Any] = self.facts["filled"]
        first = load.schema_of(self.layouts[0].name)
        for layout in self.layouts:
            schema = load.schema_of(layout.name)
            if schema not in done:
                rows_s = load.fill(url, schema, self.corpus.vectors, layout, self.progress)
                if schema == first:
                    index = load.build_index(url, schema, len(self.corpus), self.progress)
                else:
                    index = {"taken_over_s": load.take_index(url, schema, first)}
                self._done(schema, {"rows_s": rows_s, "index": index})
        if not self.args.skip_hnsw and load.SHARED not in done:
            self._done(load.SHARED, load.shared_table(url, self.corpus, self.layouts, self.progress))
        if self.wide and "wide" not in done:
            self._done("wide", wide.build(url, self.corpus, wide.layout(self.corpus)))
        self.facts["sizes"] = load.sizes(url)
        self.facts["conditions"] = conditions(url)
        self.save()

    def _done(self, name: str, facts: dict[str, Any]) -> None:
        self.facts["filled"][name] = facts
        self.progress.console.print(f"{name}: {json.dumps(facts)}")
        self.save()

    def measure(self, url: str) -> None:
        """Measure the cells that are not done yet; each is saved as soon as it is."""
        bench = Bench(self.questions, Scores(self.corpus, self.questions, self.progress).values, self.plan)
        with ExitStack() as stack:
            plain = [] if self.args.skip_hnsw else methods.plain(url)
            for method in plain:
                stack.callback(method.close)
            reference: Reference | None = None
            if not self.args.skip_faiss and Reference.installed() and self._pending():
                reference = stack.enter_context(Reference(self.corpus, url))
                self.facts["faiss"] = reference.facts
            for layout in self.layouts:
                ours = self._routes(url, layout.name, stack)
                for caller in layout.callers:
                    seen = layout.seen(caller)
                    exact = ours[1:] if caller.visible > self.args.threshold else []
                    more = reference.methods(seen) if reference else []
                    self._cell(bench, caller, seen, [ours[0], *exact, *plain, *more])
            if self.wide:
                compared = wide.method(url)
                stack.callback(compared.close)
                seen_by = wide.layout(self.corpus)
                ours = self._routes(url, "random", stack)
                for caller in seen_by.callers:
                    self._cell(bench, caller, seen_by.seen(caller), [ours[0], compared])
        if self.args.growth:
            growth.measure(self, url, bench)

    def _pending(self) -> bool:
        return any(self.cell_name(c, layout.acl) not in self.facts["cells"] for layout in self.layouts
                   for c in layout.callers)  # fmt: skip

    def _routes(self, url: str, layout: str, stack: ExitStack) -> list[Method]:
        store = stack.enter_context(load.open_store(url, load.schema_of(layout), 60))
        index = load.index_in_force(store)
        asked = (self.args.threshold, self.args.ann_rows, len(self.corpus))
        return [Ours("ours", store, index, *asked), Ours("exact", store, None, *asked)]

    def cell_name(self, caller: layouts.Caller, acl: generate.Ints) -> str:
        return f"{caller.layout} {caller.label} of {len(acl):,}"

    def _cell(self, bench: Bench, caller: layouts.Caller, seen: Any, asked: list[Method]) -> None:
        self.cell(bench, caller, seen, asked, self.cell_name(caller, seen))

    def cell(self, bench: Bench, caller: layouts.Caller, seen: Any, asked: list[Method], name: str) -> None:
        """Measure one caller, unless it is done."""
        if name in self.facts["cells"]:
            return
        started = time.perf_counter()
        task = self.progress.add_task(name, total=len(self.questions.kinds))
        self.raw += bench.cell(caller, seen, asked, ["ours"], lambda done: self.progress.update(task, completed=done))
        self.progress.remove_task(task)
        self.facts["cells"].append(name)
        self.save()
        self.progress.console.print(f"{name}: {time.perf_counter() - started:.0f} s")


def write(out: Path, console: Console) -> None:
    """Write the page, the plots and the summary from a run's facts and rows."""
    facts = json.loads((out / "facts.json").read_text())
    raw = summary.read_raw(out / "raw.csv.gz")
    lines = summary.summarise(raw)
    write_csv(out / "summary.csv", summary.SUMMARY_COLUMNS, lines)
    plots.draw(out, lines, facts["chunks"])
    (out / "results.md").write_text(report.page(facts, lines, summary.by_kind(raw)))
    console.print(f"written: {out / 'results.md'}")


def _drop_everything(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'vec\\_%'").fetchall()
        for (name,) in found:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def main() -> None:
    args = _arguments()
    if args.page:
        write(args.out, Console())
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console()) as progress:
        run = Run(args, progress)
        before = _load_average()
        with _database(args) as url:
            run.fill(url)
            run.measure(url)
        run.facts["load_average"] = f"{before}, {_load_average()}"
        run.save()
        write(run.out, progress.console)


def _load_average() -> str:
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "?"


if __name__ == "__main__":
    main()
