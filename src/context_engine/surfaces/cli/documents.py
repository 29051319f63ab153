"""The commands `documents`, `delete`, `acl` and `policy`: what is stored, and who may read it."""

import json
from itertools import islice
from typing import Annotated

import typer

from context_engine import Policy
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import acl_json, acl_words, document_json, err, out, print_json, say, table

_ROWS = 100


def documents(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    as_: options.As = None,
    anonymous: options.Anonymous = False,
    trusted: options.Trusted = False,
    sources: options.Sources = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, metavar="N", help="Rows at most; 0 for all. 100 in a table, all in JSON."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the documents that a caller may see.

    Say who asks: --as for each principal of the caller, --anonymous for a visitor, or --trusted for all documents.

    Examples:
        documents --as group:staff --source handbook
        documents --trusted --json
    """
    principals = options.caller(as_, anonymous, trusted)
    with options.session_of(context).engine() as engine:
        listed = engine.list_documents(principals=principals, sources=sources or None)
        if as_json:
            separator = "["
            for item in islice(listed, limit or None):
                print(separator, json.dumps(document_json(item)), sep="\n", end="")
                separator = ","
            print("[]" if separator == "[" else "\n]")
            return
        shown = islice(listed, _ROWS if limit is None else limit or None)
        rows = [(str(item.id), item.source, item.external_id, item.name) for item in shown]
        if rows:
            out.print(table("id", "source", "external id", "name", rows=rows))
        total = engine.count(principals=principals, sources=sources or None).documents
        say(f"{len(rows):,} of {total:,} documents{': --limit 0 lists all' if total > len(rows) else ''}", "dim")


def delete(
    context: typer.Context,
    keys: Annotated[options.Words, typer.Argument(metavar="DOCUMENT", help="The documents' ids.")] = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
) -> None:
    """Delete documents with all that was made of them.

    Examples:
        delete 4611686018427387904
        delete --source handbook --external-id board/minutes.md
    """
    ids = options.document_ids(keys, source, external_id)
    with options.session_of(context).engine() as engine:
        deleted = engine.delete(ids)
    say(f"{deleted:,} deleted")
    if deleted < len(ids):
        say(f"{len(ids) - deleted:,} not found", "red", err)
        raise typer.Exit(1)


def show_acl(
    context: typer.Context,
    key: options.DocumentId = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell who may read a document.

    Examples:
        acl show --source handbook --external-id hr/salary-bands-2026.md
    """
    [document] = options.document_ids([key] if key else None, source, external_id)
    with options.session_of(context).engine() as engine:
        acl = engine.get_acl(document)
        behind = engine.policies().get(acl.name) if isinstance(acl, Policy) else None
    if as_json:
        print_json({"document_id": str(document), "acl": acl_json(acl)})
    else:
        say(f"{acl_words(acl)}: {acl_words(behind)}" if behind else acl_words(acl))


def set_acl(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    key: options.DocumentId = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
    allow: options.Allow = None,
    public: options.Public = False,
    policy: options.PolicyName = None,
    require: options.Require = None,
    deny: options.Deny = None,
) -> None:
    """Change who may read a document; takes effect with the next search.

    Examples:
        acl set 4611686018427387904 --acl group:hr --deny group:contractor
        acl set --source handbook --external-id board/pay.md --policy board-only
    """
    [document] = options.document_ids([key] if key else None, source, external_id)
    acl = options.acl(allow, public, policy, require, deny)
    with options.session_of(context).engine() as engine:
        engine.set_acl(document, acl)
    say(acl_words(acl))


def set_policy(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")],
    allow: options.Allow = None,
    public: options.Public = False,
    require: options.Require = None,
    deny: options.Deny = None,
) -> None:
    """Define a policy, or change it for every document that points to it.

    Examples:
        policy set board-only --acl group:board --deny group:employee-rep
    """
    acl = options.acl(allow, public, None, require, deny)
    with options.session_of(context).engine() as engine:
        engine.set_policy(name, acl)
    say(f"{name}: {acl_words(acl)}")


def list_policies(context: typer.Context, as_json: options.AsJson = False) -> None:
    """List every policy with what it says."""
    with options.session_of(context).engine() as engine:
        policies = engine.policies()
    if as_json:
        print_json({name: acl_json(acl) for name, acl in policies.items()})
    elif policies:
        rows = [(name, acl_words(acl)) for name, acl in policies.items()]
        out.print(table("policy", "who may read", rows=rows))
    else:
        say("no policies")
