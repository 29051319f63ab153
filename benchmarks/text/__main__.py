"""Run the benchmark: `python -m benchmarks.text`."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from context_engine.db.embedded import EmbeddedServer

from . import measure, report

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_SERVER: Final = {"shared_buffers": "1GB", "fsync": "off", "full_page_writes": "off"}
_SIZES: Final = "10000,30000,100000,300000,1000000"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text", description=__doc__)
    parser.add_argument("--beside", type=int, default=100_000, help="chunks, beside plain PostgreSQL; 0 leaves it out")
    parser.add_argument("--growth", default=_SIZES, help="chunks, separated by commas; empty leaves it out")
    parser.add_argument("--questions", type=int, default=30, help="of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="times each is asked; its least counts")
    parser.add_argument("--fresh", action="store_true", help="measure again what the result files hold")
    parser.add_argument("--database-url", help="a PostgreSQL URL; schemas named text_… and latency_wide are made there")
    parser.add_argument("--work-dir", type=Path, default=_CHECKOUT / ".cache" / "text", help="the embedded server's")
    parser.add_argument("--out", type=Path, default=_CHECKOUT / "benchmarks" / "text" / "results")
    return parser.parse_args()


@contextmanager
def _database(args: argparse.Namespace) -> Generator[str]:
    if args.database_url:
        yield args.database_url
        return
    with EmbeddedServer.start(args.work_dir, options=_SERVER) as server:
        yield server.url()


def _beside(url: str, args: argparse.Namespace, console: Console) -> list[report.Row]:
    found = report.read(args.out / "beside.csv")
    if not args.beside or (found and not args.fresh):
        return found
    corpus = measure.make(args.beside, args.questions)
    with measure.open_engine(url, corpus) as engine, measure.open_wide(url, corpus) as table:
        found = [
            *measure.ours(engine, corpus, args.rounds, console.log),
            *measure.plain(table, corpus, 1, console.log),
        ]
    report.write(args.out / "beside.csv", found)
    return found


def _growth(url: str, args: argparse.Namespace, console: Console) -> list[report.Row]:
    found = [] if args.fresh else report.read(args.out / "growth.csv")
    for size in (int(part) for part in args.growth.split(",") if part):
        if any(int(row["chunks"]) == size for row in found):
            continue
        console.log(f"{size:,} chunks: making and storing")
        corpus = measure.make(size, args.questions)
        with measure.open_engine(url, corpus) as engine:
            found += measure.ours(engine, corpus, args.rounds, console.log)
        report.write(args.out / "growth.csv", found)
    return found


def main() -> None:
    args = _arguments()
    console = Console(stderr=True)
    with _database(args) as url:
        beside = _beside(url, args, console)
        growth = _growth(url, args, console)
    report.page(args.out, beside, growth)
    console.log(f"written to {args.out}")


if __name__ == "__main__":
    main()
