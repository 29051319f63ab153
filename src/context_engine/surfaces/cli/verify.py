"""The command `verify`."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from context_engine import CallerCheck, VerifyReport
from context_engine.model import Principals
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import err, out, print_json, say, table

_SHOWN: Final = 20
_number = partial(typer.Option, min=1, max=10_000, metavar="N")


def verify(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    queries: Annotated[options.Words, typer.Option("--query", metavar="QUERY", help="Ask this; repeatable.")] = None,
    draw_callers: Annotated[int, _number("--callers", help="Callers to draw when none is given.")] = 5,
    draw_queries: Annotated[int, _number("--queries", help="Questions to draw when none is given.")] = 10,
    probe: Annotated[bool, typer.Option("--probe", help="Also plant canaries, and look who can tell.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw by this number; another draws others.")] = 0,
    copy_chunks: Annotated[
        int, typer.Option(min=0, metavar="N", help="Copy a caller's documents up to this many chunks.")
    ] = 20_000,
    as_json: options.AsJson = False,
) -> None:
    """Hold the promise on this database: does each caller get exactly what their documents alone would give?

    For each caller, what they may read is put apart in a scratch schema (as views, where a copy would be too large),
    and everything a caller can call is asked of both: ids, order, scores of every leg, counts, listings, errors. With
    --probe, documents that the caller may not read are planted, changed and removed, with words, names and vectors of
    their own, and no answer may change by a byte: the attack known as STRESS.

    Safe on a database in use: all of it happens in transactions that are undone. Nobody else sees the schema or the
    canaries, and neither an interrupt nor a crash leaves any. The role must be allowed to create a schema. Ends with
    status 1 when anything differs.

    Examples:
        verify --probe
        verify --as group:staff --query "notice period" --json
    """
    if as_ and anonymous:
        raise typer.BadParameter("choose one of --as and --anonymous")
    if not as_json:
        say("writes only in transactions that are undone: nobody else sees it, and nothing of it stays", "dim", err)
    given: list[Principals] = [as_ or []] if as_ or anonymous else []
    with options.session_of(context).engine() as engine, _progress() as progress:
        task = progress.add_task("callers", total=None)
        report = engine.verify(
            callers=given or draw_callers,
            queries=queries or draw_queries,
            probe=probe,
            seed=seed,
            copy_chunks=copy_chunks,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(1)


def _progress() -> Progress:
    columns = (TextColumn("verifying"), BarColumn(), TextColumn("{task.completed} of {task.total} callers"))
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True)


def _show(report: VerifyReport) -> None:
    rows = [
        (
            _caller(check),
            f"{check.documents:,}",
            f"{check.chunks:,}",
            check.against,
            f"{check.answers:,}",
            "" if check.probed is None else f"{check.probed:,}",
            f"{len(check.differences):,}",
        )
        for check in report.callers
    ]
    out.print(table("caller", "documents", "chunks", "held against", "answers", "probed", "differences", rows=rows))
    for check in report.callers:
        for found in check.differences[:_SHOWN]:
            say(f"{_caller(check)}: {found.call} {found.asked!r}: {found.what}", "red")
        if len(check.differences) > _SHOWN:
            say(f"{_caller(check)}: {len(check.differences) - _SHOWN:,} more: --json lists all", "red")
    if any(check.approximate for check in report.callers):
        say("the vector leg is approximate for some callers by default; it was compared with exact=True", "yellow")
    if report.ok:
        say("every answer is what the caller's documents alone would give", "green")
    else:
        say("the promise is broken: run `context-engine doctor`, and report it with this output", "red")


def _caller(check: CallerCheck) -> str:
    names = check.principals
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2:,} more"
    return ", ".join(names) or "anonymous"
