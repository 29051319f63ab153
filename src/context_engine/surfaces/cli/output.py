"""Write for people and for programs. What comes from documents is never taken for markup or terminal codes."""

import json
import os
import unicodedata
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

out = Console(highlight=False)
err = Console(highlight=False, stderr=True)

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    """Put a text on one line, and replace what could steer a terminal or turn the reading direction."""
    line = " ".join(text.split())
    if line.isprintable() and line.isascii():
        return line
    return "".join(
        "\ufffd" if unicodedata.category(char) in _HIDDEN and char not in _JOINERS else char for char in line
    )


def printable_path(path: str | os.PathLike[str]) -> str:
    """Write a path that need not be valid text."""
    return printable(os.fsencode(path).decode(errors="replace"))


def plain(text: str, style: str = "") -> Text:
    """Make text that rich prints as it is, in the given style."""
    return Text(printable(text), style)


def fail(code: str, message: str) -> None:
    """Write an error: one red line."""
    err.print(plain(f"error: {message} ({code})", "red"), soft_wrap=True)


def print_json(value: Any) -> None:
    """Write JSON for programs; non-ASCII is escaped, so that nothing in it can steer a terminal."""
    print(json.dumps(value, indent=2, allow_nan=False))


def table(*columns: str, rows: Sequence[Sequence[str | Text]]) -> Table:
    """Lay out rows; a cell that is too wide is folded, never cut."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    return made
