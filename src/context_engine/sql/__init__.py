"""SQL statements, one a file, loaded by name.

A file is part of the package's own source, so its text counts as literal: nothing from a caller is ever in it.
`{schema}` stands for the schema's quoted name; every value is a bound parameter.
"""

from functools import cache
from importlib.resources import files
from typing import LiteralString, cast


@cache
def load(name: str) -> LiteralString:
    """Return the text of `sql/<name>.sql`."""
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return cast(LiteralString, text)


@cache
def migrations() -> tuple[tuple[int, str, LiteralString], ...]:
    """List every migration as (version, name, text), oldest first."""
    names = sorted(
        entry.name.removesuffix(".sql")
        for entry in files(__name__).joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    )
    return tuple((int(name.split("_")[0]), name, load(f"migrations/{name}")) for name in names)
