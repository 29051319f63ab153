"""Run the benchmark: `python -m benchmarks.latency`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.console import Console

from context_engine.db.embedded import EmbeddedServer

from . import data, load, plots, report, summary, wide
from .data import Benchmark
from .measure import RAW_COLUMNS, Bench, Plan

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_TRIED_COLUMNS: Final = (
    "caller", "class", "leg", "statement", "p50_ms", "runs", "rows", "timed_out", "recall", "chosen",
)  # fmt: skip
_SMALL_DOCUMENTS: Final = 2_000
# Two systems share the server; in its default 256 MB each would push the other's pages out.
_SERVER: Final = {"shared_buffers": "1GB"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    default = os.environ.get("CONTEXT_ENGINE_DATA", str(_CHECKOUT.parent / "shared" / "data"))
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(default),
        help="folder with debian-packages and debian-fuzzy",
    )
    parser.add_argument("--synthetic", action="store_true", help="make up the corpus: no data folder needed")
    parser.add_argument("--small", action="store_true", help=f"{_SMALL_DOCUMENTS:,} documents, a few questions")
    parser.add_argument("--documents", type=int, help="take this many, evenly spread")
    parser.add_argument("--questions", type=int, help="of each class; 60, or 4 with --small")
    parser.add_argument("--database-url", help="a PostgreSQL URL; two schemas named latency_… are dropped and made")
    parser.add_argument("--work-dir", type=Path, help="where the embedded server keeps its data")
    parser.add_argument("--keep", action="store_true", help="keep the embedded server's data at the end")
    parser.add_argument("--resume", action="store_true", help="use what is loaded and measured already")
    parser.add_argument("--out", type=Path, default=_CHECKOUT / "benchmarks" / "latency" / "results")
    return parser.parse_args()


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    name = "context-engine-latency-small" if args.small else "context-engine-latency"
    folder: Path = args.work_dir or Path(tempfile.gettempdir()) / name
    with EmbeddedServer.start(folder, options=_SERVER) as server:
        yield server.url()
    # Left in place after an error, for --resume.
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def _benchmark(args: argparse.Namespace) -> Benchmark:
    questions: int = args.questions or (4 if args.small else 60)
    documents: int | None = args.documents or (_SMALL_DOCUMENTS if args.small else None)
    if args.synthetic:
        return data.synthetic(documents or 50_000, questions)
    if not (args.data / "debian-packages").is_dir():
        raise SystemExit(f"no debian-packages in {args.data}: name the folder with --data, or use --synthetic")
    return data.load(args.data, documents, questions)


class Run:
    """One run's files: facts.json, raw.csv, candidates.csv, and what is made of them."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self.out: Path = args.out
        self.console = console
        self.out.mkdir(parents=True, exist_ok=True)
        self.benchmark = _benchmark(args)
        plan = Plan()
        self.plan = replace(plan, warm_up=1, tuning=1, least_runs=1, budget_s=0.1) if args.small else plan
        counts = {kind: len(self.benchmark.of_class(kind)) for kind in data.CLASSES}
        self.signature = f"{self.benchmark.name} {len(self.benchmark.documents)} {counts}"
        self.facts: dict[str, Any] = {}
        self.raw: list[summary.Row] = []
        self.tried: list[summary.Row] = []
        if args.resume:
            self._read()
        self.facts |= {
            "signature": self.signature,
            "data": self.benchmark.name,
            "documents": len(self.benchmark.documents),
            "questions": counts,
            "plan": asdict(self.plan),
            "callers": [
                {"label": c.label, "visible": c.visible, "share": c.share, "how": c.how} for c in self.benchmark.callers
            ],
        }
        self.facts.setdefault("cells", [])

    def _read(self) -> None:
        if not (self.out / "facts.json").exists():
            return
        found = json.loads((self.out / "facts.json").read_text())
        if found["signature"] != self.signature:
            raise SystemExit(f"--resume: {self.out} is of another run ({found['signature']})")
        self.facts = found
        if (self.out / "raw.csv").exists():
            self.raw = summary.read_csv(self.out / "raw.csv")
            self.tried = summary.read_csv(self.out / "candidates.csv")

    def save(self) -> None:
        (self.out / "facts.json").write_text(json.dumps(self.facts, indent=1) + "\n")
        summary.write_csv(self.out / "raw.csv", RAW_COLUMNS, self.raw)
        summary.write_csv(self.out / "candidates.csv", _TRIED_COLUMNS, self.tried)

    def fill(self, url: str) -> None:
        """Load both schemas, unless this run's are there."""
        with psycopg.connect(url, autocommit=True) as connection:
            for extension in ("vector", "pg_trgm"):
                connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
        if "sizes" in self.facts and wide.stored_signature(url) == self.signature:
            return
        self.facts["cells"], self.raw, self.tried = [], [], []
        self.facts["ingest"] = load.ingest(url, self.benchmark, self.console)
        with self.console.status("wide table and its indexes"):
            self.facts["wide"] = wide.build(url, self.benchmark, self.signature)
        self.facts["sizes"] = load.sizes(url)
        self.facts["conditions"] = load.conditions(url)
        self.save()

    def measure(self, url: str) -> None:
        """Measure the cells that are not done yet; each is saved as soon as it is."""
        with (
            load.new_engine(url, self.benchmark) as engine,
            wide.WideTable(url, self.plan.timeout_s) as table,
        ):
            bench = Bench(engine, table, self.benchmark, self.plan)
            for caller in self.benchmark.callers:
                for kind in data.CLASSES:
                    name = f"{caller.label}, {kind}"
                    if name in self.facts["cells"]:
                        continue
                    started = time.perf_counter()
                    with self.console.status(name) as status:
                        cell = bench.cell(caller, kind, lambda step, name=name: status.update(f"{name}: {step}"))
                    self.raw += cell.rows
                    self.tried += cell.tried
                    self.facts["cells"].append(name)
                    self.save()
                    self.console.print(f"{name}: {time.perf_counter() - started:.0f} s")

    def write(self) -> None:
        lines = summary.summarise(self.raw)
        summary.write_csv(self.out / "summary.csv", summary.SUMMARY_COLUMNS, lines)
        plots.draw(self.out, lines)
        (self.out / "results.md").write_text(report.page(self.facts, lines, self.raw, self.tried))
        self.console.print(f"written: {self.out / 'results.md'}")


def main() -> None:
    args = _arguments()
    run = Run(args, Console())
    before = _load_average()
    with _database(args) as url:
        run.fill(url)
        run.measure(url)
    run.facts["load_average"] = f"{before}, {_load_average()}"
    run.save()
    run.write()


def _load_average() -> str:
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "?"


if __name__ == "__main__":
    main()
