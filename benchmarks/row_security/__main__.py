"""What row-level policies cost: the same searches as the tables' owner, and as a role that is bound by them.

`python -m benchmarks.row_security` stores the 50,000 Debian packages (or `--synthetic`), hardens the database, and asks
each question as each caller. Every answer is compared with the owner's: ids, order, scores and `exact` must be equal.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from benchmarks.latency import data, load
from benchmarks.latency.data import Benchmark, Caller
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.progress import track

from context_engine import TRUSTED, Engine, SearchResult
from context_engine.db._sync.harden import harden, undo
from context_engine.db._sync.store import Store
from context_engine.db.embedded import EmbeddedServer

_HERE: Final = Path(__file__).resolve().parent
_SERVER: Final = {"shared_buffers": "1GB"}
_READER: Final = "row_security_reader"
_TRUSTED: Final = "row_security_trusted"
_LOGINS: Final = {"row_security_app": _READER, "row_security_job": _TRUSTED}
_PARTS: Final[dict[str, dict[str, float]]] = {
    "hybrid": {},
    "words": {"trgm": 0, "ann": 0},
    "spellings": {"fts": 0, "ann": 0},
    "vectors": {"fts": 0, "trgm": 0},
}
STATES: Final = ("owner", "policies", "policies, @@ leakproof")
_COLUMNS: Final = ("state", "caller", "share", "class", "part", "p50_ms", "p95_ms", "n", "unequal")
_LEAKPROOF: Final = "ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) NOT LEAKPROOF"

Row = dict[str, Any]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_security", description=__doc__)
    default = os.environ.get("CONTEXT_ENGINE_DATA", str(_HERE.parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder with debian-packages")
    parser.add_argument("--synthetic", action="store_true", help="make up the corpus: no data folder needed")
    parser.add_argument("--documents", type=int, help="take this many, evenly spread; all, or 50,000 made up")
    parser.add_argument("--questions", type=int, default=12, help="of each of the two classes")
    parser.add_argument("--database-url", help="a PostgreSQL URL, as a superuser; the schema latency_engine is dropped")
    parser.add_argument("--out", type=Path, default=_HERE / "results")
    return parser.parse_args()


@contextmanager
def _database(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="context-engine-row-security-"))
    folder.chmod(0o755)
    try:
        with EmbeddedServer.start(folder, options=_SERVER) as server:
            yield server.url()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _hardened(url: str, owner: Engine) -> Iterator[dict[str, str]]:
    """Roles and policies, taken away at the end; yields the URL of each login."""
    store = Store(url, owner.settings.storage)
    store.open()
    try:
        with psycopg.connect(url, autocommit=True) as admin:
            harden(store, _READER, _TRUSTED)
            for login, role in _LOGINS.items():
                admin.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{login}' IN ROLE {role}")
            try:
                yield {role: make_conninfo(url, user=login, password=login) for login, role in _LOGINS.items()}
            finally:
                admin.execute(_LEAKPROOF)
                undo(store)
                for role in (*_LOGINS, _READER, _TRUSTED):
                    admin.execute(f"DROP OWNED BY {role}")
                    admin.execute(f"DROP ROLE {role}")
    finally:
        store.close()


def _ask(
    engine: Engine, caller: Caller, question: data.Question, weights: dict[str, float]
) -> tuple[float, SearchResult]:
    principals = TRUSTED if caller.principals is None else list(caller.principals)
    started = time.perf_counter()
    result = engine.search(question.text, principals=principals, weights=weights)  # type: ignore[arg-type]
    return (time.perf_counter() - started) * 1000, result


def _answer(result: SearchResult) -> tuple[Any, ...]:
    hits = tuple((hit.chunk_id, hit.score, tuple(hit.legs.items())) for hit in result.hits)
    routes = tuple((leg, part.route, part.exact, part.error) for leg, part in result.report.legs.items())
    return hits, routes, result.report.visible_chunks


def _measure(
    state: str, engines: dict[str | None, Engine], benchmark: Benchmark, expected: dict[Any, Any]
) -> Iterator[Row]:
    cells = [(caller, kind, part) for caller in benchmark.callers for kind in data.CLASSES for part in _PARTS]
    for caller, kind, part in track(cells, f"{state:24}", console=Console(stderr=True)):
        engine = engines[_TRUSTED if caller.principals is None else _READER]
        times: list[float] = []
        unequal = 0
        for question in benchmark.of_class(kind):
            _ask(engine, caller, question, _PARTS[part])
            ms, result = _ask(engine, caller, question, _PARTS[part])
            times.append(ms)
            unequal += expected.setdefault((caller.label, question.id, part), _answer(result)) != _answer(result)
        p95 = sorted(times)[int(0.95 * (len(times) - 1))]
        yield {
            "state": state, "caller": caller.label, "share": round(caller.share, 4), "class": kind, "part": part,
            "p50_ms": round(statistics.median(times), 2), "p95_ms": round(p95, 2), "n": len(times), "unequal": unequal,
        }  # fmt: skip


def _page(rows: list[Row], facts: dict[str, Any]) -> str:
    lines = [
        "# What row-level policies cost",
        "",
        f"{facts['documents']:,} documents ({facts['data']}), {facts['classes']:,} access classes, PostgreSQL "
        f"{facts['server']}, {facts['cores']} cores, load average {facts['load']} at the start. Milliseconds, p50 of "
        f"{facts['questions']} questions, each asked twice and timed the second time.",
        "",
        f"Answers that differed from the owner's: **{sum(row['unequal'] for row in rows)}** of "
        f"{sum(row['n'] for row in rows if row['state'] != STATES[0]):,}.",
    ]
    for kind in data.CLASSES:
        lines += ["", f"## {kind.capitalize()} questions", ""]
        heads = [f"{part}: {state}" for part in _PARTS for state in ("owner", "policies", "leakproof")]
        lines += [f"| caller sees | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
        for caller in dict.fromkeys(row["caller"] for row in rows):
            found = {
                (row["part"], row["state"]): row["p50_ms"]
                for row in rows
                if row["caller"] == caller and row["class"] == kind
            }
            cells = [f"{found[part, state]:.1f}" for part in _PARTS for state in STATES]
            lines.append(f"| {caller} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    args = _arguments()
    if args.synthetic:
        benchmark = data.synthetic(args.documents or 50_000, args.questions)
    else:
        benchmark = data.load(args.data, args.documents, args.questions)
    load_average = f"{os.getloadavg()[0]:.2f}"
    rows: list[Row] = []
    expected: dict[Any, Any] = {}
    with _database(args.database_url) as url:
        with psycopg.connect(url, autocommit=True) as admin:
            for extension in ("vector", "pg_trgm"):
                admin.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
        load.ingest(url, benchmark, Console(stderr=True))
        with load.new_engine(url, benchmark) as owner, _hardened(url, owner) as urls:
            bound = {role: load.new_engine(login, benchmark) for role, login in urls.items()}
            rows += _measure(STATES[0], dict.fromkeys(bound, owner), benchmark, expected)
            rows += _measure(STATES[1], dict(bound), benchmark, expected)
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute(_LEAKPROOF.replace("NOT LEAKPROOF", "LEAKPROOF"))
                rows += _measure(STATES[2], dict(bound), benchmark, expected)
            facts = {
                "data": benchmark.name,
                "documents": len(benchmark.documents),
                "questions": args.questions,
                "classes": owner.inspect().counts.access_classes,  # type: ignore[union-attr]
                "server": owner.inspect().server.version,
                "cores": os.cpu_count(),
                "load": load_average,
            }
            for engine in bound.values():
                engine.close()
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "raw.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (args.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    (args.out / "results.md").write_text(_page(rows, facts))
    print((args.out / "results.md").read_text())


if __name__ == "__main__":
    main()
