"""Run the benchmark: `python -m benchmarks.retrieval`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from context_engine.db.embedded import EmbeddedServer

from . import report, sets
from .answer import Scores, Workshop
from .configurations import BASE, CONFIGURATIONS, SHIPPED

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_SERVER: Final = {"shared_buffers": "512MB", "fsync": "off", "full_page_writes": "off"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=__doc__)
    default = os.environ.get("CONTEXT_ENGINE_DATA", str(_CHECKOUT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="the folder with the judged sets")
    parser.add_argument("--sets", default=",".join((*sets.JUDGED, sets.FUZZY)), help="only these of the folder's sets")
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS), help="only these, by name")
    parser.add_argument("--beir", type=Path, action="append", default=[], help="a folder in the BEIR layout")
    parser.add_argument("--multihop", type=Path, action="append", default=[], help="a folder of a multi-hop collection")
    parser.add_argument("--final", action="store_true", help="all queries: the held-out half too")
    parser.add_argument("--limit", type=int, help="the first N queries of each set")
    parser.add_argument("--fresh", action="store_true", help="forget what was answered before")
    parser.add_argument("--database-url", help="a PostgreSQL URL; schemas named after the sets are made there")
    parser.add_argument("--work-dir", type=Path, default=_CHECKOUT / ".cache" / "retrieval", help="what is kept")
    parser.add_argument("--out", type=Path, default=_CHECKOUT / "benchmarks" / "retrieval" / "results")
    return parser.parse_args()


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    with EmbeddedServer.start(args.work_dir / "server", options=_SERVER) as server:
        yield server.url()


def _sets(args: argparse.Namespace) -> list[sets.JudgedSet]:
    names = [name for name in args.sets.split(",") if name]
    absent = [name for name in names if not (args.data / name).is_dir()]
    if absent:
        raise SystemExit(f"no {', '.join(absent)} in {args.data}: name the folder with --data, or choose with --sets")
    found = [sets.load(args.data, name) for name in names]
    found += [sets.load_beir(folder) for folder in args.beir]
    found += [sets.load_multihop(folder) for folder in args.multihop]
    return [judged.chosen(args.final, args.limit) for judged in found]


def _run(
    workshop: Workshop, found: Sequence[sets.JudgedSet], names: Sequence[str], console: Console
) -> dict[tuple[str, str], Scores]:
    answers: dict[tuple[str, str], Scores] = {}
    columns = (TextColumn("{task.description:45}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        whole = bars.add_task("all", total=len(found) * len(names))
        for judged in found:
            for name in names:
                bar = bars.add_task(f"{judged.name} · {name}", total=None)
                answers[judged.name, name] = workshop.answer(
                    judged,
                    CONFIGURATIONS[name],
                    lambda done, total, bar=bar: bars.update(bar, completed=done, total=total),
                )
                bars.remove_task(bar)
                bars.advance(whole)
    return answers


def _show(rows: Sequence[report.Row], console: Console) -> None:
    table = Table("set", "queries", "difference to the vector leg", "95 % interval", "verdict")
    for row in rows:
        if row["configuration"] == SHIPPED and row["against"] == BASE:
            interval = f"{row['low']} to {row['high']}"
            table.add_row(row["set"], f"{row['n']} ({row['queries']})", row["difference"], interval, row["verdict"])
    console.print(table)


def main() -> None:
    args = _arguments()
    console = Console()
    names = report.known(dict.fromkeys((BASE, SHIPPED, *args.configurations.split(","))))
    found = _sets(args)
    with _database(args) as url:
        answers = _run(Workshop(url, args.work_dir, args.fresh), found, names, console)
    tables = report.tables(found, answers, names, args.final)
    report.write(args.out, tables, args.final)
    _show(tables["comparisons"], console)
    console.print(f"written to {args.out}")


if __name__ == "__main__":
    main()
