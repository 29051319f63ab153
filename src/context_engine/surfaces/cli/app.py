"""The command `context-engine`: global options, the commands, and how errors end."""

import inspect
import logging
import re
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from context_engine import ContextEngineError, __version__
from context_engine.surfaces.cli.audit import export_audit, list_audit, prune_audit
from context_engine.surfaces.cli.doctor import doctor
from context_engine.surfaces.cli.documents import delete, documents, list_policies, set_acl, set_policy, show_acl
from context_engine.surfaces.cli.explain import diff, explain, who_can
from context_engine.surfaces.cli.exposure import check_acl_exposure
from context_engine.surfaces.cli.harden import harden
from context_engine.surfaces.cli.ingest import ingest
from context_engine.surfaces.cli.maintain import maintain
from context_engine.surfaces.cli.options import session_of
from context_engine.surfaces.cli.output import err, say
from context_engine.surfaces.cli.search import search
from context_engine.surfaces.cli.verify import verify

_URL = (
    "Your PostgreSQL instead of the embedded one; the variable keeps a password out of process lists. "
    "[dim]\\[env: CONTEXT_ENGINE_DATABASE_URL][/dim]"
)
_DATA_DIR = "Where the embedded database is kept. [dim]\\[env: CONTEXT_ENGINE_DATA_DIR][/dim]"
_AUDIT = "See, export or prune the record of what callers asked and were given."
_POLICY = "Name an access rule that many documents point to; a change takes effect for all of them at once."


def _help_and_epilog(text: str) -> tuple[str, str]:
    """Lay a text out: paragraphs are filled by the terminal, each line below `Examples:` is a command to copy."""
    fill = partial(re.sub, r"(?<!\n)\n(?!\n)", " ")
    text, _, listed = inspect.cleandoc(text).partition("\n\nExamples:\n")
    listed, _, after = listed.partition("\n\n")
    commands = [f"[cyan]context-engine {line.strip()}[/cyan]" for line in listed.splitlines()]
    title = {0: [], 1: ["Example:"]}.get(len(commands), ["Examples:"])
    return fill(text), "\n\n".join([*title, *commands, f"\n{fill(after)}"]).strip()


class _Group(TyperGroup):
    """Ends our own errors with one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ContextEngineError as error:
            say(f"error: {error} ({error.code})", "red", err)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"context-engine {__version__}")
        raise typer.Exit


def _global_options(
    context: typer.Context,
    database_url: Annotated[str | None, typer.Option(metavar="URL", help=_URL)] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help=_DATA_DIR)] = None,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Show it.")] = False,
) -> None:
    """Permission-aware search on PostgreSQL.

    Works on an embedded PostgreSQL of its own, or with --database-url on yours. The commands here are the operator's:
    whoever can run them against a database can read and change all of it.

    Examples:
        ingest handbook/ --acl group:staff --source handbook
        search "notice period" --as group:staff

    Settings also come from CONTEXT_ENGINE_… variables and from context-engine.toml. Exit status: 0 done, 1 something
    was not as asked, 2 the command could not run.
    """
    if database_url == "":
        raise typer.BadParameter("--database-url is empty")
    if database_url and data_dir:
        raise typer.BadParameter("choose one of --database-url and --data-dir")
    # The pool's log repeats, for each attempt, parts of the URL; the error line says what is to be said.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    context.obj = replace(session_of(context), database_url=database_url, data_dir=data_dir)


def migrate(context: typer.Context) -> None:
    """Make the tables, or bring them up to date; safe to repeat.

    Examples:
        --database-url postgresql://db.example/docs migrate
    """
    with closing(session_of(context).engine()) as engine:
        applied = engine.migrate()
    for line in [f"applied {name}" for name in applied] or ["nothing to do: the tables are up to date"]:
        say(line)


def reindex(context: typer.Context) -> None:
    """Make the words of all documents again, after a change of the analyser's settings.

    Nothing is embedded anew. Searches go on meanwhile; writers wait, and programs that have the database open must open
    it again afterwards.

    Examples:
        reindex
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        closing(session_of(context).engine()) as engine,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar,
    ):
        task = bar.add_task("reindexing", total=None)
        done = engine.reindex(lambda count, total: bar.update(task, completed=count, total=total))
    say(f"{done:,} documents reindexed")


def _add(to: typer.Typer, *commands: FunctionType) -> None:
    """Add commands, named by the first word of their functions."""
    for command in commands:
        _add_as(to, command.__name__.split("_")[0], command)


def _add_as(to: typer.Typer, name: str, command: FunctionType) -> None:
    text, epilog = _help_and_epilog(command.__doc__ or "")
    to.command(name, help=text, epilog=epilog)(command)


_help, _epilog = _help_and_epilog(_global_options.__doc__ or "")
app.callback(help=_help, epilog=_epilog)(_global_options)
_add(app, migrate, reindex, ingest, search, documents, delete, doctor, maintain, harden, verify, explain, diff)
_add_as(app, "who-can", who_can)
_add_as(app, "check-acl-exposure", check_acl_exposure)
app.add_typer(acl := typer.Typer(help="Show or change who may read a document.", no_args_is_help=True), name="acl")
_add(acl, show_acl, set_acl)
app.add_typer(policy := typer.Typer(help=_POLICY, no_args_is_help=True), name="policy")
_add(policy, set_policy, list_policies)
app.add_typer(audit := typer.Typer(help=_AUDIT, no_args_is_help=True), name="audit")
_add(audit, list_audit, export_audit, prune_audit)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names may have letters that a terminal of another age lacks
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="context-engine")
