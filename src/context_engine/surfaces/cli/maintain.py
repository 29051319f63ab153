"""`context-engine maintain`: upkeep, when it suits."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from context_engine import TRUSTED
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import err, print_json, say

_REBUILD = "Make the vector index anew, also where there is one."
_REORDER = "Put rows in the order of access classes: faster for callers with few rights; locks tables for some seconds."


def maintain(
    context: typer.Context,
    rebuild: Annotated[bool, typer.Option("--rebuild", help=_REBUILD)] = False,
    reorder: Annotated[bool, typer.Option("--reorder", help=_REORDER)] = False,
    as_json: options.AsJson = False,
) -> None:
    """Do upkeep now: count waiting documents in, build the vector index where it is worth it, refresh statistics.

    An ingest does by itself what it made necessary; this is for after many ACL changes or deletions, and for a quiet
    hour. Searches and writes go on meanwhile, but for --reorder.

    Examples:
        maintain
        maintain --reorder --rebuild
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        options.session_of(context).engine() as engine,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar,
    ):
        task = bar.add_task("opening", total=None)
        total = engine.count(principals=TRUSTED).documents
        done = engine.maintain(
            rebuild=rebuild,
            reorder=reorder,
            step=lambda name: bar.update(task, description=name),
            progress=lambda filed, _: bar.update(task, completed=filed, total=total),
        )
    if as_json:
        print_json(asdict(done))
        return
    say(f"{done.filed:,} documents counted in")
    say("a vector index was built" if done.index_built else "no vector index had to be built")
    if done.reordered:
        say("rows are in the order of access classes")
