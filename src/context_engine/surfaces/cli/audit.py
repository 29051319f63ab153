"""The commands `audit`: what callers asked, and what they were given."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from context_engine import AuditRecord, Engine
from context_engine.access import check_document_id
from context_engine.model import AuditAction
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import err, out, print_json, say, table

_ACTIONS: tuple[str, ...] = get_args(AuditAction)
_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"]
_MOMENT = "a day or a moment, in UTC"

Who = Annotated[str | None, typer.Option("--as", metavar="PRINCIPAL", help="Only calls by whoever had this principal.")]
Trusted = Annotated[bool, typer.Option("--trusted", help="Only calls without limits.")]
Action = Annotated[
    str | None,
    typer.Option("--action", metavar="CALL", help=f"Only calls of this kind: {', '.join(_ACTIONS)}."),
]
Document = Annotated[
    int | None, typer.Option("--document", metavar="ID", help="Only calls that returned this document.")
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="TEXT", help="Only this very question; where it is kept as a hash, by its hash."),
]
Since = Annotated[datetime | None, typer.Option("--since", formats=_FORMATS, help=f"Not before: {_MOMENT}.")]
Until = Annotated[datetime | None, typer.Option("--until", formats=_FORMATS, help=f"Before: {_MOMENT}.")]


def list_audit(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    as_: Who = None,
    trusted: Trusted = False,
    action: Action = None,
    document: Document = None,
    query: Query = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=0, metavar="N", help="Rows at most; 0 for all.")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """List what callers asked and were given, the newest first.

    Kept where the setting audit.enabled says so (CONTEXT_ENGINE_AUDIT__ENABLED=true), by every engine on this database.

    Examples:
        audit list --as user:ada --since 2026-03-01
        audit list --document 4611686018427387904 --json
    """
    wanted = _wanted(as_, trusted, action, document, query, since, until)
    with options.session_of(context).engine() as engine:
        records = list(engine.audit.records(**wanted, limit=limit or None))
    if as_json:
        print_json([record_json(record) for record in records])
        return
    if records:
        headings = ("when (UTC)", "call", "who", "question", "answer", "how", "ms")
        out.print(table(*headings, rows=[_row(record) for record in records]))
    say(f"{len(records):,} records{': --limit 0 lists all' if limit and len(records) == limit else ''}", "dim")


def export_audit(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; - is the standard output.")],
    as_: Who = None,
    trusted: Trusted = False,
    action: Action = None,
    document: Document = None,
    query: Query = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Write records as lines of JSON, the newest first; an existing file is not overwritten.

    Examples:
        audit export march.jsonl --since 2026-03-01 --until 2026-04-01
        audit export - --as user:ada
    """
    wanted = _wanted(as_, trusted, action, document, query, since, until)
    if target != "-" and Path(target).exists():
        raise typer.BadParameter(f"{target} is there already: choose another file")
    if target != "-" and not Path(target).parent.is_dir():
        raise typer.BadParameter(f"there is no folder {Path(target).parent}")
    with options.session_of(context).engine() as engine:
        lines = _lines(engine, wanted)
        if target == "-":
            sys.stdout.writelines(lines)
            return
        with Path(target).open("x", encoding="utf-8") as file:
            count = 0
            for count, line in enumerate(lines, 1):  # noqa: B007 - counted for the last line
                file.write(line)
    say(f"{count:,} records written to {target}")


def prune_audit(
    context: typer.Context,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="Instead of the setting audit.retention_days."),
    ] = None,
) -> None:
    """Delete records whose time is over.

    An engine whose role may delete does so by itself; this is for the others.

    Examples:
        audit prune --older-than 365
    """
    with options.session_of(context).engine() as engine:
        if older_than is None and engine.settings.audit.retention_days is None:
            raise typer.BadParameter("say how old: --older-than DAYS, or the setting audit.retention_days")
        say(f"{engine.audit.prune(older_than):,} records deleted")


def _wanted(  # noqa: PLR0913 (an option is an argument)
    as_: str | None,
    trusted: bool,
    action: str | None,
    document: int | None,
    query: str | None,
    since: datetime | None,
    until: datetime | None,
) -> dict[str, Any]:
    if as_ is not None and trusted:
        raise typer.BadParameter("choose one of --as and --trusted")
    if action is not None and action not in _ACTIONS:
        raise typer.BadParameter(f"--action is one of {', '.join(_ACTIONS)}")
    return {
        "principal": as_,
        "trusted": trusted,
        "action": cast(AuditAction | None, action),
        "document": None if document is None else check_document_id(document),
        "query": query,
        "since": since and since.replace(tzinfo=UTC),
        "until": until and until.replace(tzinfo=UTC),
    }


def _lines(engine: Engine, wanted: dict[str, Any]) -> Iterator[str]:
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"))
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=None)
        for record in engine.audit.records(**wanted):
            yield json.dumps(record_json(record)) + "\n"
            progress.advance(task)


def record_json(record: AuditRecord) -> dict[str, Any]:
    """Write a record; ids are strings, as they have more digits than a JavaScript number holds."""
    ids = {name: [str(key) for key in getattr(record, name)] for name in ("document_ids", "chunk_ids")}
    return {**asdict(record), "at": record.at.isoformat(), **ids}


def _row(record: AuditRecord) -> tuple[str, ...]:
    who = "TRUSTED" if record.principals is None else ", ".join(record.principals) or "anonymous"
    if record.action == "lost":
        return (_when(record), "lost", "", "", f"{record.filters['records']:,} records are missing", "", "")
    question = record.query if record.query is not None else f"hash {(record.query_hash or '')[:12]}…"
    asked = question if record.query is not None or record.query_hash else ""
    found = f"{len(record.document_ids)} documents" if record.action != "search" else f"{len(record.chunk_ids)} hits"
    how = [f"{leg} {report['route']}{'' if report['exact'] else ' (approximate)'}" for leg, report in _legs(record)]
    answer = f"error {record.error}" if record.error else "" if record.action == "count" else found
    return (_when(record), record.action, who, asked, answer, ", ".join(how), f"{record.duration_ms:.0f}")


def _when(record: AuditRecord) -> str:
    return record.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _legs(record: AuditRecord) -> list[tuple[str, dict[str, Any]]]:
    return [(leg, report) for leg, report in record.legs.items() if report["route"] not in ("off", "empty")]
