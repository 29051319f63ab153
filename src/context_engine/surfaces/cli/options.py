"""What the commands share: the database they work on, and the options for who asks and who may read."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from context_engine import ACL, PUBLIC, TRUSTED, Engine, InputError, Policy, Settings, document_id
from context_engine.access import check_document_id
from context_engine.ingest.plan import identify
from context_engine.model import Document, Principals

Words = list[str] | None

_principals = partial(typer.Option, metavar="PRINCIPAL")
As = Annotated[Words, _principals("--as", help="Who asks; repeat it for each principal.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Ask as a visitor: only public documents.")]
Trusted = Annotated[bool, typer.Option("--trusted", help="Ask without limits.")]
Sources = Annotated[Words, typer.Option("--source", metavar="SOURCE", help="Only from this source; repeatable.")]

Allow = Annotated[Words, _principals("--acl", help="Who may read: any of these; repeat it for each.")]
Public = Annotated[bool, typer.Option("--public", help="Everyone may read.")]
PolicyName = Annotated[str | None, typer.Option("--policy", metavar="NAME", help="Who may read: as this policy says.")]
Require = Annotated[Words, _principals("--require", help="Readers also need this one; repeatable.")]
Deny = Annotated[Words, _principals("--deny", help="Whoever has this one may not read; repeatable.")]

_BY_ID = "The document's id; or name it by the two options below."
DocumentId = Annotated[str | None, typer.Argument(metavar="DOCUMENT", help=_BY_ID)]
OneSource = Annotated[str | None, typer.Option("--source", metavar="SOURCE", help="The document's source.")]
_IN_SOURCE = "The document's id in its source."
ExternalId = Annotated[str | None, typer.Option("--external-id", metavar="ID", help=_IN_SOURCE)]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]


@dataclass(frozen=True, slots=True)
class Session:
    """How to open the engine; who runs the app in-process may hand one in as the context's `obj`."""

    database_url: str | None = None
    data_dir: Path | None = None
    embedder: object | None = None

    def engine(self) -> Engine:
        """Make an engine; it opens at its first call."""
        settings = Settings()
        if self.data_dir and settings.database_url:
            raise typer.BadParameter(
                "--data-dir is for the embedded database, but the settings name a database URL "
                "(CONTEXT_ENGINE_DATABASE_URL or context-engine.toml)"
            )
        return Engine(self.database_url, self.data_dir, self.embedder, settings)


def session_of(context: typer.Context) -> Session:
    """Return the session that the global options set up."""
    return context.find_object(Session) or Session()


def caller(as_: Words, anonymous: bool, trusted: bool) -> Principals:
    """Return who asks; exactly one of the three ways must be taken."""
    if bool(as_) + anonymous + trusted != 1:
        raise typer.BadParameter("say who asks: one of --as PRINCIPAL, --anonymous or --trusted")
    return TRUSTED if trusted else as_ or []


def acl_or_none(allow: Words, public: bool, policy: str | None, require: Words, deny: Words) -> ACL | Policy | None:
    """Return the ACL that the options describe, or None when there is no such option."""
    if bool(allow) + public + (policy is not None) > 1:
        raise typer.BadParameter("choose one of --acl, --public and --policy")
    if policy is not None:
        if require or deny:
            raise typer.BadParameter("a policy has its own --require and --deny")
        return Policy(policy)
    if allow or public:
        return ACL([PUBLIC] if public else allow or [], require or [], deny or [])
    if require or deny:
        raise typer.BadParameter("--require and --deny narrow an ACL: add --acl or --public")
    return None


def acl(allow: Words, public: bool, policy: str | None, require: Words, deny: Words) -> ACL | Policy:
    """Return the ACL that the options describe."""
    found = acl_or_none(allow, public, policy, require, deny)
    if found is None:
        raise typer.BadParameter("say who may read: --acl PRINCIPAL, --public or --policy NAME")
    return found


def document_ids(keys: Words, source: str | None, external_id: str | None) -> list[int]:
    """Return the ids of the documents that are named, either way."""
    if keys and source is None and external_id is None:
        for key in keys:
            if not re.fullmatch("[0-9]{1,19}", key):
                raise InputError(f"{key!r} is no document id: ids are whole numbers")
        return sorted({check_document_id(int(key)) for key in keys})
    if keys or source is None or external_id is None:
        raise typer.BadParameter("name a document: its id, or both --source and --external-id")
    return [document_id(*identify(Document(text="", source=source, external_id=external_id)))]
