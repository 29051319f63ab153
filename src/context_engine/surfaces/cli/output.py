"""Write for people and for programs. What comes from documents is never taken for markup or terminal codes."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from context_engine import ACL, DocumentInfo, Policy
from context_engine.access import normalise_rule

out = Console(highlight=False)
err = Console(highlight=False, stderr=True)

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    """Put a text on one line, and replace what could steer a terminal or turn the reading direction."""
    hidden = {char for char in text if unicodedata.category(char) in _HIDDEN and char not in _JOINERS}
    return " ".join(text.split()).translate(dict.fromkeys(map(ord, hidden), "\ufffd"))


def plain(text: str, style: str = "") -> Text:
    """Make text that rich prints as it is, in the given style."""
    return Text(printable(text), style)


def say(text: str, style: str = "", to: Console = out) -> None:
    """Write one line, whatever its length."""
    to.print(plain(text, style), soft_wrap=True)


def print_json(value: Any) -> None:
    """Write JSON for programs; non-ASCII is escaped, so that nothing in it can steer a terminal."""
    print(json.dumps(value, indent=2, allow_nan=False))


def table(*columns: str, rows: Sequence[Sequence[str | Text]]) -> Table:
    """Lay out rows; a cell that is too wide is folded, never cut."""
    folded = (Column(column, overflow="fold") for column in columns)
    made = Table(*folded, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows:
        made.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def document_json(document: DocumentInfo) -> dict[str, Any]:
    """Write a document; ids are strings, as they have more digits than a JavaScript number holds."""
    return {**asdict(document), "id": str(document.id)}


def acl_json(acl: ACL | Policy) -> dict[str, Any]:
    """Write an ACL in the form that `ingest` reads from a line."""
    return {"policy": acl.name} if isinstance(acl, Policy) else asdict(normalise_rule(acl))


def acl_words(acl: ACL | Policy) -> str:
    """Say in words who may read."""
    if isinstance(acl, Policy):
        return f"policy {acl.name}"
    rule = normalise_rule(acl)
    allowed = "any of " + ", ".join(rule.allow) if rule.allow else "nobody but unrestricted callers"
    require = [f"who also has {' and '.join(rule.require)}"] if rule.require else []
    deny = [f"except who has {' or '.join(rule.deny)}"] if rule.deny else []
    return ", ".join(["everyone" if rule.public else allowed, *require, *deny])
