"""The commands `acl` and `policy`: who may read."""

from typing import Annotated

import typer

from context_engine import Policy
from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.helptext import examples
from context_engine.surfaces.cli.output import out, plain, print_json, table
from context_engine.surfaces.cli.session import session_of
from context_engine.surfaces.cli.wire import acl_json, acl_words

acl_app = typer.Typer(help="Show or change who may read a document.", no_args_is_help=True)
policy_app = typer.Typer(
    help="Name an access rule that many documents point to; a change takes effect for all of them at once.",
    no_args_is_help=True,
)


@acl_app.command(
    "show",
    epilog=examples("acl show --source handbook --external-id hr/salary-bands-2026.md"),
)
def show_acl(
    context: typer.Context,
    key: options.DocumentId = None,
    source: options.OneSource = None,
    external_id: options.ExternalId = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell who may read a document."""
    document = options.one_document(key, source, external_id)
    with session_of(context).engine() as engine:
        acl = engine.get_acl(document)
        behind = engine.policies().get(acl.name) if isinstance(acl, Policy) else None
    if as_json:
        print_json({"document_id": str(document), "acl": acl_json(acl)})
        return
    words = f"{acl_words(acl)}: {acl_words(behind)}" if behind else acl_words(acl)
    out.print(plain(words), soft_wrap=True)


@acl_app.command(
    "set",
    epilog=examples(
        "acl set 4611686018427387904 --acl group:hr --deny group:contractor",
        "acl set --source handbook --external-id board/pay.md --policy board-only",
    ),
)
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
    """Change who may read a document; takes effect with the next search."""
    document = options.one_document(key, source, external_id)
    acl = options.acl(allow, public, policy, require, deny)
    with session_of(context).engine() as engine:
        engine.set_acl(document, acl)
        out.print(plain(acl_words(engine.get_acl(document))), soft_wrap=True)


@policy_app.command(
    "set",
    epilog=examples("policy set board-only --acl group:board --deny group:employee-rep"),
)
def set_policy(  # noqa: PLR0913 (an option is an argument)
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")],
    allow: options.Allow = None,
    public: options.Public = False,
    require: options.Require = None,
    deny: options.Deny = None,
) -> None:
    """Define a policy, or change it for every document that points to it."""
    acl = options.acl(allow, public, None, require, deny)
    with session_of(context).engine() as engine:
        engine.set_policy(name, acl)
        stored = engine.policies()
    for policy, rule in stored.items():
        if policy == name:
            out.print(plain(f"{policy}: {acl_words(rule)}"), soft_wrap=True)


@policy_app.command("list")
def list_policies(context: typer.Context, as_json: options.AsJson = False) -> None:
    """List every policy with what it says."""
    with session_of(context).engine() as engine:
        policies = engine.policies()
    if as_json:
        print_json({name: acl_json(acl) for name, acl in policies.items()})
    elif policies:
        rows = [(name, acl_words(acl)) for name, acl in policies.items()]
        out.print(table("policy", "who may read", rows=rows))
    else:
        out.print("no policies")
