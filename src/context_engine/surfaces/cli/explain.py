"""The commands `explain`, `who-can` and `diff`: why somebody gets what they get."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from context_engine import TRUSTED, ChunkStanding, DocumentInfo, Explanation
from context_engine.model import LegHit, Principals
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import (
    acl_json,
    acl_words,
    document_json,
    out,
    print_json,
    printable,
    say,
    table,
)
from context_engine.surfaces.cli.search import METADATA, read_metadata

_Query = Annotated[str, typer.Argument(metavar="QUERY", help="What is asked.")]
_TopK = Annotated[int, typer.Option("--top-k", metavar="N", help="How many hits at most.")]
_Metadata = Annotated[options.Words, typer.Option(metavar="KEY=VALUE", help=METADATA)]
_CALLER = "A caller: one principal, or a JSON list of them; \\[] is anonymous. Given twice, or once with --trusted."


def explain(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    query: _Query,
    key: options.DocumentId = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    trusted: options.Trusted = False,
    top_k: _TopK = 10,
    sources: Annotated[
        options.Words, typer.Option("--only-source", metavar="SOURCE", help="The search's --source; repeatable.")
    ] = None,
    metadata: _Metadata = None,
    exact: Annotated[bool, typer.Option("--exact", help="Scan every visible vector.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Tell why a document is, or is not, in what a caller finds.

    By which rule it is visible or not, which filter leaves it out, how it stands in each leg, and what cuts it off.
    For administrators: the answer tells of documents that the caller may not see.

    Examples:
        explain "notice period" 4611686018427387904 --as group:staff
        explain "pay review" --source handbook --external-id hr/pay.md --anonymous
    """
    [document] = options.document_ids([key] if key else None, source, external_id)
    who = options.caller(as_, anonymous, trusted)
    asked: dict[str, Any] = {"top_k": top_k, "sources": sources, "metadata": read_metadata(metadata or [])}
    with options.session_of(context).engine() as engine:
        found = engine.explain(document, query, principals=who, exact=exact, **asked)
    if as_json:
        access = {**asdict(found.access), "acl": acl_json(found.access.acl)}
        chunks = [{**asdict(chunk), "chunk_id": str(chunk.chunk_id)} for chunk in found.chunks]
        print_json({**asdict(found), "document": document_json(found.document), "access": access, "chunks": chunks})
        return
    _show(found)


def _show(found: Explanation) -> None:
    say(found.verdict, "bold")
    policy = f"policy {found.access.policy}: " if found.access.policy else ""
    rows = [("document", _name(found.document)), ("who may read", policy + acl_words(found.access.acl))]
    rows += [("because" if found.access.visible else "not visible", reason) for reason in found.access.reasons]
    rows += [("left out", reason) for reason in found.filtered_out]
    out.print(table("", "", rows=rows))
    for chunk in found.chunks:
        out.print()
        say(f"chunk {chunk.position}: {chunk.why}", "bold")
        say(printable(chunk.text)[:100], "dim")
        out.print(table("leg", "rank", "score", "", rows=_legs(chunk)))


def _legs(chunk: ChunkStanding) -> list[tuple[str, str, str, str]]:
    return [
        (leg, str(place.rank or ""), "" if place.score is None else f"{place.score:.4f}", place.why)
        for leg, place in chunk.legs.items()
    ]


def _name(document: DocumentInfo) -> str:
    name = f"{document.name} · " if document.name else ""
    return f"{name}{document.source} · {document.external_id} · {document.id}"


def who_can(
    context: typer.Context,
    key: options.DocumentId = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell who can read a document, with what its policy says.

    Examples:
        who-can --source handbook --external-id hr/pay.md
    """
    [document] = options.document_ids([key] if key else None, source, external_id)
    with options.session_of(context).engine() as engine:
        found = engine.who_can(document)
    if as_json:
        told = {"document": document_json(found.document), "policy": found.policy, "acl": acl_json(found.acl)}
        print_json(told)
        return
    rows = [("document", _name(found.document)), ("readers", acl_words(found.acl))]
    rows += [("by policy", found.policy)] if found.policy else []
    out.print(table("", "", rows=rows))


def diff(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    query: _Query,
    callers: Annotated[options.Words, typer.Option("--as", metavar="CALLER", help=_CALLER)] = None,
    trusted: Annotated[bool, typer.Option("--trusted", help="The second caller has no limits.")] = False,
    top_k: _TopK = 10,
    sources: options.Sources = None,
    metadata: _Metadata = None,
    as_json: options.AsJson = False,
) -> None:
    """Lay what two callers find side by side, and say why one of them does not get what the other does.

    Examples:
        diff "notice period" --as group:staff --as '["group:staff", "group:hr"]'
        diff "launch date" --as '[]' --trusted
    """
    named: list[Principals] = [_read_caller(text) for text in callers or []]
    if len(named) + trusted != 2:
        raise typer.BadParameter("name two callers: --as CALLER --as CALLER, or --as CALLER --trusted")
    a, b = [*named, *([TRUSTED] if trusted else [])]
    with options.session_of(context).engine() as engine:
        found = engine.diff(
            query, a=a, b=b, top_k=top_k, sources=sources or None, metadata=read_metadata(metadata or [])
        )
    if as_json:
        rows = [
            {**asdict(row), "chunk_id": str(row.chunk_id), "document": document_json(row.document)}
            for row in found.rows
        ]
        print_json({"rows": rows, "report_a": asdict(found.report_a), "report_b": asdict(found.report_b)})
        return
    cells = [
        (_place(row.a), _place(row.b), f"{row.document.source} · {row.document.external_id} · {row.position}", row.why)
        for row in found.rows
    ]
    out.print(table("A", "B", "chunk", "", rows=cells))
    seen = f"{found.report_a.visible_chunks:,} and {found.report_b.visible_chunks:,}"
    say(f"{len(found.rows):,} chunks; {seen} chunks visible", "dim")


def _place(place: LegHit | None) -> str:
    return f"{place.rank} ({place.score:.4f})" if place else "–"


def _read_caller(text: str) -> Principals:
    if not text.startswith("["):
        return [text]
    try:
        return json.loads(text)
    except ValueError:
        raise typer.BadParameter(f"--as takes a principal or a JSON list of them, not {text!r}") from None
