"""The commands `documents` and `delete`."""

import json
from itertools import islice
from typing import Annotated

import typer

from context_engine import Engine
from context_engine.model import Principals
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.helptext import examples, paragraphs
from context_engine.surfaces.cli.output import err, out, table
from context_engine.surfaces.cli.session import session_of
from context_engine.surfaces.cli.wire import document_json

_EVERY = 0

DOCUMENTS_HELP = paragraphs("""
List the documents that a caller may see.

Say who asks: --as for each principal of the caller, --anonymous for a visitor, or --trusted for all documents.
""")

DOCUMENTS_EPILOG = examples(
    "documents --as group:staff --source handbook",
    "documents --trusted --json",
)

DELETE_HELP = paragraphs("""
Delete documents with all that was made of them.""")

DELETE_EPILOG = examples(
    "delete 4611686018427387904",
    "delete --source handbook --external-id board/minutes.md",
)


def documents(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    trusted: options.Trusted = False,
    sources: options.Sources = None,
    limit: Annotated[int, typer.Option("--limit", min=_EVERY, metavar="N", help="Rows at most; 0 for all.")] = 100,
    as_json: options.AsJson = False,
) -> None:
    """List documents; as JSON always all of them."""
    principals = options.caller(as_, anonymous, trusted)
    with session_of(context).engine() as engine:
        if as_json:
            _write_json(engine, principals, sources or None)
        else:
            _show(engine, principals, sources or None, limit)


def _write_json(engine: Engine, principals: Principals, sources: list[str] | None) -> None:
    separator = "["
    for document in engine.list_documents(principals=principals, sources=sources):
        print(separator, json.dumps(document_json(document)), sep="\n", end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def _show(engine: Engine, principals: Principals, sources: list[str] | None, limit: int) -> None:
    listed = engine.list_documents(principals=principals, sources=sources)
    rows = [
        (str(document.id), document.source, document.external_id, document.name)
        for document in islice(listed, limit or None)
    ]
    if rows:
        out.print(table("id", "source", "external id", "name", rows=rows))
    total = engine.count(principals=principals, sources=sources).documents
    more = ": --limit 0 lists all" if total > len(rows) else ""
    out.print(f"{len(rows):,} of {total:,} documents{more}", style="dim")


def delete(
    context: typer.Context,
    keys: Annotated[list[str] | None, typer.Argument(metavar="DOCUMENT", help="The documents' ids.")] = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
) -> None:
    """Delete documents."""
    if keys and source is None and external_id is None:
        ids = sorted({options.document_key(key) for key in keys})
    else:
        ids = [options.one_document(keys[0] if keys else None, source, external_id)]
    with session_of(context).engine() as engine:
        deleted = engine.delete(ids)
    out.print(f"{deleted:,} deleted")
    if deleted < len(ids):
        err.print(f"{len(ids) - deleted:,} not found", style="red")
        raise typer.Exit(1)
