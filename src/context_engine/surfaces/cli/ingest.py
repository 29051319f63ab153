"""The command `ingest`."""

import time
from pathlib import Path
from typing import Annotated

import typer

from context_engine import ContextEngineError, IngestReport
from context_engine.model import STORED
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.files import Failure, Found, find_files
from context_engine.surfaces.cli.helptext import examples, paragraphs
from context_engine.surfaces.cli.lines import Defaults
from context_engine.surfaces.cli.output import err, out, plain, table
from context_engine.surfaces.cli.progress import ingest_progress
from context_engine.surfaces.cli.reading import Reader, count_documents
from context_engine.surfaces.cli.session import Session, session_of

_SHOWN = 20

HELP = paragraphs("""
Store files and folders: text, Markdown, HTML, and JSON lines.

A folder is searched at any depth. A file's id is its path below the folder, and its name is its title, or else the
file's name. Storing the same content again costs nothing.

Each line of a .jsonl or .jsonl.gz file is a document: {"id": …, "title": …, "text": …, "acl": …, "metadata": {…},
"source": …}. Only id and text are needed. "acl" is a list of principals, or an object with "allow", "require", "deny"
and "public": true, or {"policy": "name"}; a line without it is given what the options say.

Without --acl, --public or --policy, documents that are stored already keep who may read them, and new ones are
refused: there is no default.
""")

EPILOG = examples(
    "ingest handbook/ --acl group:staff --source handbook",
    "ingest board/*.md --acl group:board --deny group:employee-rep --source board",
    "ingest tickets.jsonl.gz --policy support --source tickets",
)


def ingest(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders.", show_default=False)],
    source: Annotated[
        str,
        typer.Option("--source", metavar="SOURCE", help="The namespace of the documents' ids."),
    ],
    allow: options.Allow = None,
    public: options.Public = False,
    policy: options.PolicyName = None,
    require: options.Require = None,
    deny: options.Deny = None,
    all_failures: Annotated[bool, typer.Option("--all-failures", help=f"List more than {_SHOWN} failures.")] = False,
) -> None:
    """Store documents."""
    acl = options.acl_or_none(allow, public, policy, require, deny)
    found = find_files(paths)
    reader = Reader(found, Defaults(source, STORED if acl is None else acl))
    report, seconds = _run(session_of(context), found, reader)
    _show_summary(report, reader, found, seconds)
    failures = _failures(report, reader)
    if failures:
        _show_failures(failures, None if all_failures else _SHOWN, unnamed_acl=acl is None)
        raise typer.Exit(1)


def _run(session: Session, found: Found, reader: Reader) -> tuple[IngestReport, float]:
    done, total = 0, count_documents(found.files) + len(found.failures)
    with session.engine() as engine, ingest_progress(total) as bar:

        def advance(count: int, _: int | None) -> None:
            nonlocal done
            done = count
            bar.advance(count + len(reader.failures))
            if reader.exhausted and count == reader.count:
                bar.finish()

        started = time.perf_counter()
        try:
            return engine.ingest(reader, advance), time.perf_counter() - started
        except (ContextEngineError, KeyboardInterrupt):
            err.print(f"stopped after {done:,} documents; run the same command again to go on")
            raise


def _failures(report: IngestReport, reader: Reader) -> list[Failure]:
    refused = [
        Failure(reader.where(place), outcome.error or "")
        for place, outcome in enumerate(report.outcomes)
        if outcome.outcome == "failed"
    ]
    return [*reader.failures, *refused]


def _show_summary(report: IngestReport, reader: Reader, found: Found, seconds: float) -> None:
    failed = len(report.failed) + len(reader.failures)
    counts = {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "acl updated": report.count("acl_updated"),
        "failed": failed,
    }
    total = len(report.outcomes) + len(reader.failures)
    parts = " · ".join(f"{count:,} {name}" for name, count in counts.items())
    rate = f"{len(report.outcomes) / seconds:,.0f} documents/s"
    out.print(f"{total:,} documents: {parts} ({seconds:,.1f} s, {rate})", soft_wrap=True)
    if found.left_out:
        counted = sorted(found.left_out.items(), key=lambda kind: (-kind[1], kind[0]))
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in counted)
        out.print(plain(f"left out, not text: {kinds}", "dim"), soft_wrap=True)
    for place, outcome in enumerate(report.outcomes):
        for warning in outcome.warnings:
            err.print(plain(f"{reader.where(place)}: {warning}", "yellow"), soft_wrap=True)


def _show_failures(failures: list[Failure], limit: int | None, unnamed_acl: bool) -> None:
    rows = [(plain(where, "red"), reason) for where, reason in failures[:limit]]
    out.print(table("failed", "why", rows=rows))
    if limit is not None and len(failures) > limit:
        out.print(f"… and {len(failures) - limit:,} more: --all-failures lists them")
    if unnamed_acl:
        out.print("no --acl, --public or --policy was given: new documents need one", style="dim")
