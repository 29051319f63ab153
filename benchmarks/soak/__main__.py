"""Readers, writers, revokers and deleters at once, for minutes: `python -m benchmarks.soak`.

Two runs of eight processes on one database. In the first the corpus is small, and each answer is held against the
oracle over the very snapshot it saw. In the second there are 50,000 documents more, and each hit is held against the
access rule in plain SQL; it is the one to look at for times. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from benchmarks.latency.data import Benchmark, as_documents
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from context_engine import TRUSTED, Engine, document_id
from context_engine.db.embedded import EmbeddedServer
from context_engine.diagnostics.doctor import judge

from . import load, world
from .snapshot import Snapshots, read_differences, search_differences
from .worker import ROLES, plain_acl

_HERE: Final = Path(__file__).resolve().parent
_MIB: Final = 1024 * 1024
_SERVER: Final = {"shared_buffers": "1GB"}

Found = dict[str, Any]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long the checked run takes; 0 leaves it out")
    parser.add_argument("--load-seconds", type=float, default=180, help="how long the other takes; 0 leaves it out")
    parser.add_argument("--processes", type=int, default=len(ROLES), help="at most eight")
    parser.add_argument("--documents", type=int, default=50_000, help="the corpus of the second run")
    parser.add_argument(
        "--database-url", help="a PostgreSQL URL, as a superuser; databases soak_… are dropped and made"
    )
    parser.add_argument("--out", type=Path, default=_HERE / "results")
    return parser.parse_args()


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="context-engine-soak-"))
    folder.chmod(0o755)
    try:
        with EmbeddedServer.start(folder, options=_SERVER) as server:
            yield server.url()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_database(url: str, name: str) -> str:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # type: ignore[arg-type]
        admin.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return psycopg.conninfo.make_conninfo(url, dbname=name)


def _prepare(url: str, run: str, benchmark: Benchmark | None, console: Console) -> None:
    rng = random.Random(0)
    embedder = load.EMBEDDER if run == "load" else world.EMBEDDER
    with Engine(url, embedder=embedder, settings=world.settings()) as engine:
        for name in world.POLICIES:
            engine.set_policy(name, world.policy_rule(rng))
        shared = [f"shared-{number}" for number in range(world.SHARED)]
        engine.ingest([world.document(rng, name, "the start", world.acl(rng)) for name in shared])
        if benchmark:
            made = as_documents(benchmark.documents)
            with Progress(TextColumn("ingest"), BarColumn(), TimeRemainingColumn(), console=console) as bar:
                task = bar.add_task("", total=len(made))
                report = engine.ingest(made, lambda done, _: bar.update(task, completed=done))
            assert not report.failed


def _postmaster(url: str) -> psutil.Process | None:
    with psycopg.connect(url) as connection:
        [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
        try:
            return psutil.Process(pid).parent()
        except psutil.Error:
            return None


def _memory(postmaster: psutil.Process | None) -> float:
    """Mebibytes of the server's processes together, shared memory counted once."""
    if postmaster is None:
        return 0.0
    total = 0
    for process in (postmaster, *postmaster.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total / _MIB


def _run(run: str, url: str, seconds: float, processes_: int, benchmark: Benchmark | None, console: Console) -> Found:
    context = multiprocessing.get_context("spawn")
    counters = context.Array("q", 2 * processes_, lock=False)
    ready = context.Barrier(processes_ + 1)
    asked = (benchmark.callers, benchmark.questions) if benchmark else None
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(target=load.work, args=(url, number, seconds, folder, asked, counters, ready), daemon=True)
            for number in range(processes_)
        ]
        for process in processes:
            process.start()
        postmaster = _postmaster(url)
        ready.wait(300)
        started = time.monotonic()
        server: list[tuple[float, float]] = []
        columns = (TextColumn(run), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=seconds)
            while alive := [process for process in processes if process.is_alive()]:
                passed = time.monotonic() - started
                if passed < seconds:
                    server.append((round(passed, 1), round(_memory(postmaster), 1)))
                read, written = sum(counters[0::2]), sum(counters[1::2])
                bar.update(task, completed=min(passed, seconds), description=f"{read:,} reads, {written:,} writes")
                alive[0].join(2)
        failed = [process.exitcode for process in processes if process.exitcode]
        if failed:
            raise SystemExit(f"a process ended with {failed}")
        found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("process-*.json"))]
    return {"seconds": seconds, "processes": found, "server_mib": server}


def _last_look(run: str, url: str, found: Found) -> list[str]:
    """With everybody gone: all that was acknowledged is there, nothing else is, and the books are right."""
    wrong: list[str] = []
    embedder = load.EMBEDDER if run == "load" else world.EMBEDDER
    with Engine(url, embedder=embedder, settings=world.settings()) as engine:
        stored = {item.external_id: item.id for item in engine.list_documents(principals=TRUSTED)}
        owned = {name: state for process in found["processes"] for name, state in process["owned"].items()}
        for name, state in owned.items():
            if state is None:
                wrong += [f"deleted and there: {name}"] if name in stored else []
                continue
            if name not in stored:
                wrong.append(f"lost: {name}")
                continue
            key = document_id("default", name)
            if engine.get_document(key, principals=TRUSTED).text != state[0]:
                wrong.append(f"stale: {name}")
            if plain_acl(engine.get_acl(key)) != state[1]:
                wrong.append(f"another ACL: {name}")
        wrong += [f"nobody's: {name}" for name in stored if name.startswith("own-") and name not in owned]
        findings = judge(engine.inspect(), engine.settings)
        wrong += [item.what for item in findings if item.level == "problem"]
        if run == "checked":
            snapshots, rng = Snapshots(url), random.Random(1)
            for _ in range(50):
                asked = world.question(rng)
                with snapshots.taken() as oracle:
                    named = {"principals": asked.principals, "top_k": asked.top_k, "weights": asked.weights}
                    result = engine.search(asked.query, **named, **asked.filters)  # type: ignore[arg-type]
                    wrong += search_differences(engine, oracle, asked, result)
                    wrong += read_differences(engine, oracle, asked)
            snapshots.close()
    with psycopg.connect(url) as connection:
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        [(found["deadlocks"],)] = connection.execute(query).fetchall()
    return wrong


def _growth(samples: list[Any]) -> tuple[float, float]:
    """Median memory of the second third of the run, and of the last."""
    third = max(len(samples) // 3, 1)
    middle, last = samples[third : 2 * third] or samples, samples[-third:]
    return statistics.median(value for _, value in middle), statistics.median(value for _, value in last)


def _percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    picked = [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.95, 0.99)]
    return " | ".join(f"{value:,.0f}" for value in (*picked, ordered[-1]))


def _section(run: str, found: Found) -> list[str]:
    processes, seconds = found["processes"], found["seconds"]
    done: Counter[str] = sum((Counter(process["done"]) for process in processes), Counter())
    errors: Counter[str] = sum((Counter(process["errors"]) for process in processes), Counter())
    ms: dict[str, list[float]] = {}
    for process in processes:
        for kind, values in process["ms"].items():
            ms.setdefault(kind, []).extend(values)
    wrong = sum(process["wrong_count"] for process in processes)
    title = {"checked": "Each answer against the oracle", "load": "Over a large corpus"}[run]
    lines = [
        f"## {title}",
        "",
        "| | |",
        "|---|---|",
        f"| seconds, processes | {seconds:.0f}, {len(processes)} |",
        f"| documents at the end | {found['documents']:,} |",
        f"| searches | {done['search']:,} ({done['search'] / seconds:.1f}/s) |",
        f"| counts, listings and documents read | {done['read']:,} |",
        f"| writes (ingest, set_acl, policy, delete) | {done['write']:,} ({done['write'] / seconds:.1f}/s) |",
        f"| answers that differed, leaks, lost or stale documents | **{wrong}** |",
        f"| found wrong at the end | **{len(found['last_look'])}** |",
        f"| errors that a caller saw | **{sum(errors.values())}** {dict(errors) or ''} |",
        f"| deadlocks in the server | **{found['deadlocks']}** |",
    ]
    lines += ["", "| call | n | p50 ms | p95 | p99 | most |", "|---|---|---|---|---|---|"]
    lines += [f"| {kind} | {len(values):,} | {_percentiles(values)} |" for kind, values in sorted(ms.items())]
    lines += ["", "| memory, MiB | second third | last third | growth |", "|---|---|---|---|"]
    for process in processes:
        middle, last = (value / _MIB for value in _growth(process["rss"]))
        lines.append(
            f"| {process['number']} {process['role']} | {middle:.0f} | {last:.0f} | {last / middle - 1:+.1%} |"
        )
    middle, last = _growth(found["server_mib"])
    lines.append(f"| server | {middle:.0f} | {last:.0f} | {last / max(middle, 1) - 1:+.1%} |")
    for text in [text for process in processes for text in process["wrong"]] + found["last_look"]:
        lines += ["", f"- {text}"]
    return lines


def main() -> int:
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    average = os.getloadavg()[0]
    wrong = 0
    sections: list[str] = []
    with _server(args.database_url) as server:
        for run, seconds in (("checked", args.seconds), ("load", args.load_seconds)):
            if seconds <= 0:
                continue
            url = _new_database(server, f"soak_{run}")
            benchmark = load.corpus(args.documents) if run == "load" else None
            _prepare(url, run, benchmark, console)
            found = _run(run, url, seconds, args.processes, benchmark, console)
            found["last_look"] = _last_look(run, url, found)
            with psycopg.connect(url) as connection:
                [(count,)] = connection.execute("SELECT count(*) FROM context_engine.document").fetchall()
                [(version,)] = connection.execute("SELECT current_setting('server_version')").fetchall()
            found |= {"documents": count, "server": version, "cores": os.cpu_count(), "load_average": average}
            sections += ["", *_section(run, found)]
            for process in found["processes"]:
                wrong += process["wrong_count"] + sum(process["errors"].values())
                del process["owned"], process["ms"]
            wrong += len(found["last_look"])
            (args.out / f"{run}.json").write_text(json.dumps(found, indent=1) + "\n")
    conditions = f"PostgreSQL {version}, {os.cpu_count()} cores, load average {average:.2f} at the start."
    (args.out / "results.md").write_text("\n".join(["# Soak", "", conditions, *sections]) + "\n")
    print((args.out / "results.md").read_text())
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
