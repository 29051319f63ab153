"""Options that several commands share: who asks, and who may read."""

from typing import Annotated

import typer

from context_engine import ACL, PUBLIC, TRUSTED, InputError, Policy, document_id
from context_engine.access import check_document_id
from context_engine.ingest.plan import identify
from context_engine.model import AclLike, Document, Principals

_ID_DIGITS = 19

As = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="PRINCIPAL", help="Who asks; repeat it for each principal."),
]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Ask as a visitor: only public documents.")]
Trusted = Annotated[bool, typer.Option("--trusted", help="Ask without limits.")]

Allow = Annotated[
    list[str] | None,
    typer.Option("--acl", metavar="PRINCIPAL", help="Who may read: any of these; repeat it for each."),
]
Public = Annotated[bool, typer.Option("--public", help="Everyone may read.")]
PolicyName = Annotated[str | None, typer.Option("--policy", metavar="NAME", help="Who may read: as this policy says.")]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", metavar="PRINCIPAL", help="Readers also need this one; repeatable."),
]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="PRINCIPAL", help="Whoever has this one may not read; repeatable."),
]

Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="SOURCE", help="Only from this source; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]

DocumentId = Annotated[
    str | None,
    typer.Argument(metavar="DOCUMENT", help="The document's id; or name it by the two options below."),
]
OneSource = Annotated[str | None, typer.Option("--source", metavar="SOURCE", help="The document's source.")]
ExternalId = Annotated[
    str | None,
    typer.Option("--external-id", metavar="ID", help="The document's id in its source."),
]


def caller(as_: list[str] | None, anonymous: bool, trusted: bool) -> Principals:
    """Return who asks; exactly one of the three ways must be taken."""
    if bool(as_) + anonymous + trusted != 1:
        raise typer.BadParameter("say who asks: one of --as PRINCIPAL, --anonymous or --trusted")
    return TRUSTED if trusted else list(as_ or [])


def acl_or_none(
    allow: list[str] | None,
    public: bool,
    policy: str | None,
    require: list[str] | None,
    deny: list[str] | None,
) -> AclLike | None:
    """Return the ACL that the options describe, or None when there is no such option."""
    if bool(allow) + public + (policy is not None) > 1:
        raise typer.BadParameter("choose one of --acl, --public and --policy")
    if policy is not None:
        if require or deny:
            raise typer.BadParameter("a policy has its own --require and --deny")
        return Policy(policy)
    if not allow and not public:
        if require or deny:
            raise typer.BadParameter("--require and --deny narrow an ACL: add --acl or --public")
        return None
    return ACL([PUBLIC] if public else list(allow or []), require or [], deny or [])


def acl(
    allow: list[str] | None,
    public: bool,
    policy: str | None,
    require: list[str] | None,
    deny: list[str] | None,
) -> AclLike:
    """Return the ACL that the options describe."""
    found = acl_or_none(allow, public, policy, require, deny)
    if found is None:
        raise typer.BadParameter("say who may read: --acl PRINCIPAL, --public or --policy NAME")
    return found


def document_key(value: str) -> int:
    """Read a document id."""
    if not (value.isascii() and value.isdigit() and len(value) <= _ID_DIGITS):
        raise InputError(f"{value!r} is no document id: ids are whole numbers")
    return check_document_id(int(value))


def one_document(value: str | None, source: str | None, external_id: str | None) -> int:
    """Return the id of the document that is named, either way."""
    named = source is not None and external_id is not None
    if (value is not None) == named or (source is None) != (external_id is None):
        raise typer.BadParameter("name a document: its id, or both --source and --external-id")
    if value is not None:
        return document_key(value)
    key = identify(Document(text="", source=source or "", external_id=external_id))
    return document_id(*key)
