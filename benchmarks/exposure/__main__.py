"""Run the benchmark: `python -m benchmarks.exposure`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from context_engine import Settings
from context_engine.db.embedded import EmbeddedServer
from context_engine.db.exposure.measure import Request, measure
from context_engine.exposure.as_json import as_json
from context_engine.exposure.page import page
from context_engine.exposure.target import Wanted

from . import data, plots, report

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_ROWS: Final = 100_000
_SMALL_ROWS: Final = 2_000
_SERVER: Final = {"shared_buffers": "1GB", "maintenance_work_mem": "1GB"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exposure", description=__doc__)
    default = os.environ.get("CONTEXT_ENGINE_DATA", str(_CHECKOUT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder with the stored corpora")
    parser.add_argument("--synthetic", action="store_true", help="make up the vectors: no data folder needed")
    parser.add_argument("--small", action="store_true", help=f"{_SMALL_ROWS:,} rows and few questions")
    parser.add_argument("--samples", type=int, help="questions of a kind for each caller; 50, or 2 with --small")
    parser.add_argument("--database-url", help=f"a PostgreSQL URL; the table {data.TABLE} is dropped and made")
    parser.add_argument("--work-dir", type=Path, help="where the embedded server keeps its data")
    parser.add_argument("--keep", action="store_true", help="keep the embedded server's data at the end")
    parser.add_argument("--resume", action="store_true", help="use the table and the layouts that are there already")
    parser.add_argument("--out", type=Path, default=_CHECKOUT / "benchmarks" / "exposure" / "results")
    return parser.parse_args()


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    name = "context-engine-exposure-small" if args.small else "context-engine-exposure"
    folder: Path = args.work_dir or Path(tempfile.gettempdir()) / name
    with EmbeddedServer.start(folder, options=_SERVER) as server:
        yield server.url()
    # Left in place after an error, for --resume.
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(args: argparse.Namespace, url: str, rows: int, console: Console) -> None:
    if args.resume and _stored(url) == rows:
        return
    with console.status(f"{rows:,} rows and their indexes"):
        data.fill(url, data.synthetic(rows) if args.synthetic else data.load(args.data, rows))


def _stored(url: str) -> int:
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass(%s)", (data.TABLE,)).fetchone() == (None,):
            return 0
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(data.TABLE))
        [(rows,)] = connection.execute(count).fetchall()
        return rows


def _measure(url: str, layout: str, samples: int, out: Path, console: Console) -> dict[str, Any]:
    # Names of generated groups tell their sizes; owners stay hashed.
    request = Request(
        Wanted(table=data.TABLE, acl_column=layout), max_scopes=14, samples=samples, show_acl=layout != "owned"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(layout, total=None)

        def advance(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{layout}: {what}")

        found = measure(url, request, Settings(), advance)
    if layout == data.LAYOUTS[0]:
        (out / "page.html").write_text(page(found), encoding="utf-8")
    return as_json(found)


def main() -> None:
    args, console = _arguments(), Console()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    rows = _SMALL_ROWS if args.small else _ROWS
    samples = args.samples or (2 if args.small else 50)
    reports: dict[str, dict[str, Any]] = {}
    with _database(args) as url:
        _fill(args, url, rows, console)
        for layout in data.LAYOUTS:
            file = out / f"{layout}.json"
            if args.resume and file.exists() and (found := json.loads(file.read_text()))["samples"] == samples:
                reports[layout] = found
                continue
            before = os.getloadavg()[0]
            reports[layout] = _measure(url, layout, samples, out, console)
            reports[layout]["machine"] = {
                "cores": os.cpu_count(),
                "system": f"{platform.system()} {platform.machine()}",
                "load_average": [round(before, 2), round(os.getloadavg()[0], 2)],
            }
            file.write_text(json.dumps(reports[layout], indent=1) + "\n")
            console.print(f"{layout}: {reports[layout]['verdict'][0]['what']}")
    plots.draw(out / "recall.png", reports)
    (out / "results.md").write_text(report.page(reports))
    console.print(f"written: {out / 'results.md'}")


if __name__ == "__main__":
    main()
