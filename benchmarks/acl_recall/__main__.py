"""Run the benchmark: `python -m benchmarks.acl_recall`. It goes on where it was stopped."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.load import conditions
from benchmarks.latency.summary import write_csv
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from context_engine.db.embedded import EmbeddedServer
from context_engine.settings import AnalyserSettings, StorageSettings
from context_engine.text.analyse import Analyser

from . import corpus, layouts, plots, report, store, summary
from .layouts import LAYOUTS, SHARES
from .measure import Bench, Row, differing
from .oracle import Oracle, Postings
from .ways import Desk

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_SMALL: Final = 1_200
_SMALL_SHARES: Final = (0.1, 1.0)
_NARROW: Final = 0.1
_SERVER: Final = {"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "8GB"}


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acl_recall", description=__doc__)
    known = os.environ.get("CONTEXT_ENGINE_DATA", str(_CHECKOUT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(known), help="folder with the stored sets")
    parser.add_argument("--beir", type=Path, help="a folder in the BEIR layout instead, such as HotpotQA's")
    parser.add_argument("--synthetic", action="store_true", help="a made-up corpus instead: no data folder needed")
    parser.add_argument("--chunks", type=int, help=f"documents stored; 100,000, or {_SMALL:,} with --small")
    parser.add_argument("--questions", type=int, help="200, or 12 with --small")
    parser.add_argument("--small", action="store_true", help="does it hold, not how fast: about a minute")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--shares", nargs="+", type=float, help="that callers see, in the layouts with shares")
    parser.add_argument("--threshold", type=int, help="visible chunks up to which vectors are scanned; the engine's")
    parser.add_argument("--no-oracle", action="store_true", help="leave the oracles out")
    parser.add_argument("--database-url", help="a PostgreSQL URL; schemas named recall_… are dropped and made there")
    parser.add_argument("--work-dir", type=Path, help="where vectors and the embedded server's data are kept")
    parser.add_argument("--keep", action="store_true", help="keep the embedded server's data at the end")
    parser.add_argument("--fresh", action="store_true", help="measure everything again, from a new database")
    parser.add_argument("--against", type=Path, help="results of another run: whether both agree is told on the page")
    parser.add_argument("--page", action="store_true", help="only write the page and the plots again")
    parser.add_argument("--out", type=Path, help="where the results go; benchmarks/acl_recall/results/<chunks>")
    args = parser.parse_args(given)
    args.chunks = args.chunks or (_SMALL if args.small else 100_000)
    args.questions = args.questions or (12 if args.small else 200)
    args.shares = args.shares or list(_SMALL_SHARES if args.small else SHARES)
    args.work_dir = args.work_dir or Path(tempfile.gettempdir()) / "context-engine-acl-recall"
    args.out = args.out or _CHECKOUT / "benchmarks" / "acl_recall" / "results" / str(args.chunks)
    if args.threshold is None:
        args.threshold = args.chunks // 2 if args.small else StorageSettings().ann_exact_threshold
    return args


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    folder: Path = args.work_dir / f"server-{args.chunks}"
    if args.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    with EmbeddedServer.start(folder, options=_SERVER) as server:
        yield server.url()
    # Left in place after an error or an interruption, to go on from.
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


class Run:
    """One run's files: facts.json, raw.csv.gz, and what is made of them."""

    def __init__(self, args: argparse.Namespace, progress: Progress) -> None:
        self.args = args
        self.progress = progress
        self.out: Path = args.out
        self.out.mkdir(parents=True, exist_ok=True)
        args.work_dir.mkdir(parents=True, exist_ok=True)
        with self.bar("vectors") as step:
            self.corpus = _corpus(args, step)
        self.signature = f"{self.corpus.name}: {len(self.corpus)} of {args.questions}, threshold {args.threshold}"
        asked = "\0".join(question.text for question in self.corpus.questions)
        analyser = Analyser.of(AnalyserSettings()).fingerprint
        parts = f"{self.signature} {analyser} {asked}".encode() + self.corpus.chunks.ids.tobytes()
        self.digest = hashlib.blake2b(parts, digest_size=6).hexdigest()
        self.facts: dict[str, Any] = {"cells": {}, "oracle": [], "filled": {}}
        self.raw: list[Row] = []
        if not args.fresh and (self.out / "facts.json").is_file():
            self._read()
        kinds = [question.kind for question in self.corpus.questions]
        self.facts |= {
            "signature": self.signature,
            "data": self.corpus.name,
            "documents": len(self.corpus),
            "chunks": len(self.corpus.chunks.ids),
            "questions": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
            "threshold": args.threshold,
            "sources": len({item.source for item in self.corpus.items}),
        }

    def _read(self) -> None:
        found = json.loads((self.out / "facts.json").read_text())
        if found["signature"] != self.signature:
            raise SystemExit(f"{self.out} is of another run ({found['signature']}): use --fresh or another --out")
        self.facts = found
        self.raw = summary.read_raw(self.out / "raw.csv.gz")

    @contextmanager
    def bar(self, name: str) -> Generator[Callable[[int, int], None]]:
        task = self.progress.add_task(name, total=None)
        try:
            yield lambda done, total: self.progress.update(task, completed=done, total=total)
        finally:
            self.progress.remove_task(task)

    def save(self) -> None:
        (self.out / "facts.json").write_text(json.dumps(self.facts, indent=1) + "\n")
        summary.write_raw(self.out / "raw.csv.gz", self.raw)

    def measure(self, url: str) -> None:
        """Measure the callers that are not done yet; each is saved as soon as it is."""
        args, work = self.args, self.args.work_dir
        made = [layouts.make(name, self.corpus, args.shares) for name in args.layouts]
        pairs = [(layout, caller) for layout in made for caller in layout.callers]
        # Narrow callers of all layouts come first: they are quick.
        pending = sorted(
            (caller.target > _NARROW, place)
            for place, (layout, caller) in enumerate(pairs)
            if f"{layout.name}/{caller.label}" not in self.facts["cells"]
        )
        if not pending:
            self.progress.console.print(f"all of it is in {self.out}: use --fresh, or another --out, to measure again")
            return
        known = self._oracle(work / f"postings-{self.digest}.npz")
        after = work / f"unfiltered-{self.digest}.json"
        # What was filled by another run may be of another version of the engine.
        if not store.sign(url, self.signature, keep=bool(self.facts["filled"])):
            after.unlink(missing_ok=True)
        with ExitStack() as stack:
            bench = Bench(url, self.corpus, Desk(url, self.corpus, args.threshold, stack), known, args.small)
            for _, place in pending:
                layout, caller = pairs[place]
                self._fill(bench, layout)
                if not bench.prepared:
                    with self.bar("everything, for the filters that come after") as step:
                        bench.prepare(store.schema_of(layout.name), after, step)
                    self.facts["conditions"] = conditions(url)
                self._cell(bench, layout, caller)

    def _fill(self, bench: Bench, layout: layouts.Layout) -> None:
        if layout.name in bench.indexed:
            return
        with self.bar(f"{layout.name}: ingest") as step:
            took = store.fill(bench.url, self.corpus, layout, self.args.threshold, step)
        index = store.vector_index(bench.url, store.schema_of(layout.name))
        bench.indexed[layout.name] = index is not None
        if took:
            self.facts["filled"][layout.name] = took | {"classes": len(layout.rules), "vector_index": index}
            self.progress.console.print(f"{layout.name}: {json.dumps(self.facts['filled'][layout.name])}")
            self.save()

    def _oracle(self, file: Path) -> Oracle | None:
        if self.args.no_oracle:
            return None
        with self.bar("oracle: reading every text") as step:
            postings = Postings.kept(file, lambda: Postings.of(self.corpus, AnalyserSettings(), step))
        return Oracle(self.corpus, postings)

    def _cell(self, bench: Bench, layout: layouts.Layout, caller: layouts.Caller) -> None:
        name = f"{layout.name}/{caller.label}"
        with self.bar(name) as step:
            rows, oracles, facts = bench.cell(layout, caller, step)
        self.raw += rows
        self.facts["oracle"] += oracles
        self.facts["cells"][name] = facts
        self.save()
        wrong, said = len(differing(rows)), [row for row in oracles if row["differences"]]
        told = f"{name}: {facts['seconds']:.0f} s, {facts['visible']:,} chunks, exact and other than alone: {wrong}"
        self.progress.console.print(
            told + "".join(f"\n  oracle, {row['leg']}: {row['differences'][0]}" for row in said)
        )


def _corpus(args: argparse.Namespace, progress: Callable[[int, int], None]) -> corpus.Corpus:
    if args.synthetic:
        return corpus.synthetic(args.chunks, args.questions)
    if args.beir:
        return corpus.beir(args.beir, args.chunks, args.questions, args.work_dir / "vectors", progress)
    return corpus.load(args.data, args.chunks, args.questions, args.work_dir / "vectors", progress)


def write(out: Path, against: Path | None, console: Console) -> int:
    """Write the page, the plots and the summary; returns how much is wrong."""
    facts = json.loads((out / "facts.json").read_text())
    raw = summary.read_raw(out / "raw.csv.gz")
    lines = summary.summarise(raw)
    write_csv(out / "summary.csv", summary.COLUMNS, lines)
    if against:
        other = summary.summarise(summary.read_raw(against / "raw.csv.gz"))
        both, apart = summary.disagreements(lines, other)
        facts["against"] = {"compared": both, "apart": apart}
        (out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    plots.draw(out, lines, facts["chunks"])
    (out / "results.md").write_text(report.page(facts, lines, raw))
    console.print(f"written: {out / 'results.md'}")
    wrong = len(differing(raw)) + sum(row["questions"] - row["agree"] for row in facts["oracle"])
    if wrong:
        console.print(f"{wrong} answers differ where they must not: see {out / 'results.md'}")
    return wrong


def main(given: Sequence[str] | None = None) -> int:
    """Run; returns 1 where an exact answer differs from the visible-only database's or an oracle's."""
    args = _arguments(given)
    if args.page:
        return int(write(args.out, args.against, Console()) > 0)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console()) as progress:
        started = time.perf_counter()
        run = Run(args, progress)
        with _database(args) as url:
            run.measure(url)
        run.facts["seconds"] = round(run.facts.get("seconds", 0) + time.perf_counter() - started)
        run.save()
        return int(write(run.out, args.against, progress.console) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
