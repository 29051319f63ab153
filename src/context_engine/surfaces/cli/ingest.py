"""The command `ingest`."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from context_engine import ContextEngineError, IngestReport
from context_engine.model import STORED
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import err, out, plain, say, table
from context_engine.surfaces.cli.reading import Reader

_SHOWN = 20
_OUTCOMES = ("created", "updated", "unchanged", "acl_updated")


def ingest(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders.", show_default=False)],
    source: Annotated[str, typer.Option("--source", metavar="SOURCE", help="The namespace of the documents' ids.")],
    allow: options.Allow = None,
    public: options.Public = False,
    policy: options.PolicyName = None,
    require: options.Require = None,
    deny: options.Deny = None,
    all_failures: Annotated[bool, typer.Option("--all-failures", help=f"List more than {_SHOWN} failures.")] = False,
) -> None:
    """Store files and folders: text, Markdown, HTML, and JSON lines.

    A folder is searched at any depth. A file's id is its path below the folder, and its name is its title, or else the
    file's name. Storing the same content again costs nothing.

    Each line of a .jsonl or .jsonl.gz file is a document: {"id": …, "title": …, "text": …, "acl": …, "metadata": {…},
    "source": …}. Only id and text are needed. "acl" is a list of principals, or an object with "allow", "require",
    "deny" and "public": true, or {"policy": "name"}; a line without it is given what the options say.

    Without --acl, --public or --policy, documents that are stored already keep who may read them, and new ones are
    refused: there is no default.

    Examples:
        ingest handbook/ --acl group:staff --source handbook
        ingest board/*.md --acl group:board --deny group:employee-rep --source board
        ingest tickets.jsonl.gz --policy support --source tickets
    """
    acl = options.acl_or_none(allow, public, policy, require, deny)
    reader = Reader(paths, source, STORED if acl is None else acl)
    report, seconds = _run(options.session_of(context), reader)
    told = zip(reader.places, report.outcomes, strict=True)
    failures = [*reader.failures, *((place, item.error or "") for place, item in told if item.outcome == "failed")]
    _show_summary(report, reader, len(failures), seconds)
    if failures:
        shown = failures if all_failures else failures[:_SHOWN]
        out.print(table("failed", "why", rows=[(plain(where, "red"), reason) for where, reason in shown]))
        if len(failures) > len(shown):
            say(f"… and {len(failures) - len(shown):,} more: --all-failures lists them")
        if acl is None:
            say("no --acl, --public or --policy was given: new documents need one", "dim")
        raise typer.Exit(1)


def _run(session: options.Session, reader: Reader) -> tuple[IngestReport, float]:
    done, total = 0, reader.count()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    with (
        session.engine() as engine,
        Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal) as bar,
    ):
        task = bar.add_task("ingesting", total=total, rate=f"0 of {total:,}")
        started = time.perf_counter()

        def advance(count: int, _: int | None) -> None:
            nonlocal done
            done = count
            seen, seconds = count + len(reader.failures), time.perf_counter() - started
            bar.update(task, completed=seen, rate=f"{seen:,} of {total:,} {seen / seconds:,.0f}/s")
            if reader.exhausted and count == len(reader.places):
                bar.update(task, visible=False)
                bar.add_task("bringing indexes up to date", total=None, rate="")

        try:
            return engine.ingest(reader, advance), time.perf_counter() - started
        except (ContextEngineError, KeyboardInterrupt):
            say(f"stopped after {done:,} documents; run the same command again to go on", to=err)
            raise


def _show_summary(report: IngestReport, reader: Reader, failed: int, seconds: float) -> None:
    stored = [(name.replace("_", " "), report.count(name)) for name in _OUTCOMES]
    parts = " · ".join(f"{count:,} {name}" for name, count in [*stored, ("failed", failed)])
    total = failed + sum(count for _, count in stored)
    rate = len(report.outcomes) / seconds
    say(f"{total:,} documents: {parts} ({seconds:,.1f} s, {rate:,.0f} documents/s)")
    if reader.left_out:
        counted = sorted(reader.left_out.items(), key=lambda kind: (-kind[1], kind[0]))
        say(f"left out, not text: {', '.join(f'{kind} {count:,}' for kind, count in counted)}", "dim")
    for place, outcome in zip(reader.places, report.outcomes, strict=True):
        for warning in outcome.warnings:
            say(f"{place}: {warning}", "yellow", err)
