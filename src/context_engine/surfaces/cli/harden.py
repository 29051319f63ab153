"""The command `harden`."""

from typing import Annotated

import typer

from context_engine.surfaces.cli import options
from context_engine.surfaces.cli.output import say


def harden(
    context: typer.Context,
    reader: Annotated[
        str, typer.Option("--reader", metavar="ROLE", help="The role whose members search.")
    ] = "context_engine_reader",
    trusted: Annotated[
        str | None,
        typer.Option("--trusted-reader", metavar="ROLE", help="A role whose members may also ask without limits."),
    ] = None,
    leakproof: Annotated[
        bool,
        typer.Option("--leakproof", help="Declare @@ leakproof in this database, so that its index is used below."),
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the policies away; the roles stay.")] = False,
) -> None:
    """Put row-level policies on the tables: a second belt, in the database itself.

    Each row that a member of the reader role reads is checked by PostgreSQL against the caller's principals, by the
    rule that searches follow; where no caller is set, nothing is seen. Searches return the same. Run it as the owner
    of the tables, who writes as before and is not bound; then let the application search as a member of the role.

    Examples:
        --database-url postgresql://owner@db.example/docs harden
        --database-url postgresql://owner@db.example/docs harden --undo

    Then, in SQL: CREATE ROLE app LOGIN PASSWORD '…' IN ROLE context_engine_reader. What it costs is in
    docs/row-security.md.
    """
    with options.session_of(context).engine() as engine:
        tables = engine.harden(reader, trusted=trusted, leakproof=leakproof, undo=undo)
    if undo:
        say(f"no row-level policies any more on {', '.join(tables)}")
        return
    say(f"row-level policies on {', '.join(tables)}")
    say(f"members of {reader} see what the caller of each transaction may see")
    if trusted:
        say(f"members of {trusted} may also ask without limits")
    say(f"next: CREATE ROLE app LOGIN PASSWORD '…' IN ROLE {reader}; and search as it", "dim")
