"""The command `context-engine`: global options, the commands, and how errors end."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from context_engine import ContextEngineError, __version__
from context_engine.surfaces.cli import doctor, documents, ingest, search
from context_engine.surfaces.cli.access import acl_app, policy_app
from context_engine.surfaces.cli.helptext import examples, paragraphs
from context_engine.surfaces.cli.output import fail, out
from context_engine.surfaces.cli.session import session_of

HELP = paragraphs("""
Permission-aware search on PostgreSQL.

Works on an embedded PostgreSQL of its own, or with --database-url on yours. The commands here are the operator's:
whoever can run them against a database can read and change all of it.
""")

EPILOG = examples(
    "ingest handbook/ --acl group:staff --source handbook",
    'search "notice period" --as group:staff',
    after="""
Settings also come from CONTEXT_ENGINE_… variables and from context-engine.toml. Exit status: 0 done, 1 something was
not as asked, 2 the command could not run.
""",
)


class _Group(TyperGroup):
    """Ends our own errors with one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ContextEngineError as error:
            fail(error.code, str(error))
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=_Group,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"context-engine {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context,
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Your PostgreSQL instead of the embedded one; the variable keeps a password out of process "
            "lists. [dim]\\[env: CONTEXT_ENGINE_DATABASE_URL][/dim]",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the embedded database is kept. [dim]\\[env: CONTEXT_ENGINE_DATA_DIR][/dim]",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show it.")
    ] = False,
) -> None:
    if database_url == "":
        raise typer.BadParameter("--database-url is empty")
    if database_url and data_dir:
        raise typer.BadParameter("choose one of --database-url and --data-dir")
    # The pool's log repeats, for each attempt, parts of the URL; the error line says what is to be said.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    context.obj = replace(session_of(context), database_url=database_url, data_dir=data_dir)


@app.command(epilog=examples("--database-url postgresql://db.example/docs migrate"))
def migrate(context: typer.Context) -> None:
    """Make the tables, or bring them up to date; safe to repeat."""
    engine = session_of(context).engine()
    try:
        applied = engine.migrate()
    finally:
        engine.close()
    for name in applied:
        out.print(f"applied {name}")
    if not applied:
        out.print("nothing to do: the tables are up to date")


app.command("ingest", help=ingest.HELP, epilog=ingest.EPILOG)(ingest.ingest)
app.command("search", help=search.HELP, epilog=search.EPILOG)(search.search)
app.command("documents", help=documents.DOCUMENTS_HELP, epilog=documents.DOCUMENTS_EPILOG)(documents.documents)
app.command("delete", help=documents.DELETE_HELP, epilog=documents.DELETE_EPILOG)(documents.delete)
app.add_typer(acl_app, name="acl")
app.add_typer(policy_app, name="policy")
app.command("doctor", help=doctor.HELP, epilog=doctor.EPILOG)(doctor.doctor)


def main() -> None:
    """Run the command line."""
    app(prog_name="context-engine")
