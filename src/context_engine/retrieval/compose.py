"""Put a reading statement together with the relations it may name.

`compose` is the only way to a statement that reads documents: it puts `sql/visible.sql` in front, with the lines
that the scope asks for. The tables themselves lie in a schema that is on no search path, so a statement that names
one of them instead of `visible_…` fails.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, LiteralString

from context_engine.access import Scope
from context_engine.sql import load

READS: Final[tuple[LiteralString, ...]] = (
    "legs/document_frequency",
    "legs/document_frequency_tally",
    "legs/document_frequency_few",
    "legs/visible_words",
    "legs/visible_completions",
    "legs/fts_bm25",
    "legs/fts_bm25_scan",
    "legs/fts_ts_rank_cd",
    "legs/fts_ts_rank",
    "legs/ann_exact",
    "legs/ann_ivf",
    "read/count",
    "read/hydrate",
    "read/document",
    "read/documents",
    "read/neighbours",
    "read/sample",
    "read/chunk_facts",
)
"""Every statement that reads documents; each is under the plan check."""


Way = Literal["class", "list", "row", "key"]
"""How a statement finds its rows, and with it how it says which access classes are visible: see visible.sql."""

_MANY_CLASSES: Final = 64
"""Of so many classes each holds little, and the index of classes is the way; of fewer the planner has statistics."""
FEW: Final = 0.25
_FEW_VECTORS: Final = 0.75
"""Up to this share of all chunks a caller's rows are found by their access classes; rows of vectors are wide."""
_BY_KEY: Final = {"read/hydrate", "read/document", "read/neighbours", "read/chunk_facts"}
_BY_ROW: Final = {"legs/ann_ivf", "legs/document_frequency_tally"}
_BY_WORD: Final = {
    "legs/document_frequency",
    "legs/visible_completions",
    "legs/fts_bm25",
    "legs/fts_ts_rank_cd",
    "legs/fts_ts_rank",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its bound values, with settings for it alone, or (`local`) from it to the transaction's end."""

    text: LiteralString
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    local: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Visibility:
    """A scope as the database resolved it, for one transaction.

    Attributes:
        scope: who asks, and the filters.
        acls: the visible access classes as an int[] literal; None for `TRUSTED`.
        documents: visible documents, before filters on documents and metadata.
        chunks: visible chunks, before filters on documents and metadata.
        untallied: documents of anyone's that the tally of words lacks, counted up to 1,000.
        stored: about how many chunks there are in all, 0 or less when unknown: how rows are found, never which.
    """

    scope: Scope
    acls: str | None
    documents: int
    chunks: int
    untallied: int
    stored: float = 0.0

    def is_within(self, share: float) -> bool:
        """Whether the caller sees at most that share of all chunks."""
        return self.stored <= 0 or self.chunks <= share * self.stored


@cache
def _text(name: LiteralString, marks: frozenset[str]) -> LiteralString:
    """Join a statement and the relations it names, keeping a marked line only where its mark holds."""
    text = _kept_lines(load(name), marks)
    relations = _relations(marks)
    needed: set[str] = set()
    reading: list[str] = [text]
    while reading:  # what nobody names is neither parsed nor locked
        words = re.findall(r"\bvisible_\w+", reading.pop())
        reading += [relations[word] for word in words if word in relations and word not in needed]
        needed.update(words)
    joined = ",\n".join([definition for relation, definition in relations.items() if relation in needed])
    return f"WITH {joined}\n{text}" if joined else text


def _relations(marks: frozenset[str]) -> dict[str, LiteralString]:
    """Split visible.sql into the definition of each relation, by its name."""
    found: dict[str, LiteralString] = {}
    for part in load("visible").split("\n),\n"):
        text = "\n".join(line for line in part.splitlines() if not line.startswith("-- "))
        found[text.partition(" AS ")[0]] = _kept_lines(text.removesuffix("\n)") + "\n)", marks)
    return found


def _kept_lines(text: LiteralString, marks: frozenset[str]) -> LiteralString:
    lines: list[LiteralString] = []
    for line in text.splitlines():
        condition, found, mark = line.partition("-- if ")
        if not found:
            lines.append(line)
        elif mark.strip() in marks:
            lines.append(condition.rstrip())
    return "\n".join(lines)


def _way(name: LiteralString, visibility: Visibility) -> Way:
    if name in _BY_KEY:
        return "key"
    if name in _BY_ROW or not visibility.is_within(_FEW_VECTORS if name == "legs/ann_exact" else FEW):
        return "row"
    few_classes = (visibility.acls or "").count(",") < _MANY_CLASSES
    return "list" if name in _BY_WORD or few_classes else "class"


def _marks(visibility: Visibility, way: Way) -> frozenset[str]:
    scope = visibility.scope
    present = {
        "scoped": not scope.trusted,
        f"scoped by {way}": not scope.trusted,
        "sources": scope.sources is not None,
        "documents": scope.documents is not None,
        "metadata": scope.metadata is not None,
        "filtered": scope.sources is not None or scope.metadata is not None,
        "narrowed": scope.narrowed,
    }
    return frozenset(mark for mark, holds in present.items() if holds)


def compose(
    name: LiteralString,
    visibility: Visibility,
    params: dict[str, Any] | None = None,
    settings: dict[str, str] | None = None,
) -> Statement:
    """Compose the reading statement `name` for what `visibility` may see."""
    scope = visibility.scope
    if visibility.acls is None and not scope.trusted:
        raise AssertionError("a scoped caller without resolved access classes")
    scope_params = {
        "visible_acls": visibility.acls,
        "sources": None if scope.sources is None else list(scope.sources),
        "documents": None if scope.documents is None else list(scope.documents),
        "metadata": scope.metadata,
    }
    marks = _marks(visibility, _way(name, visibility))
    if params and params.get("excluded"):
        marks |= {"excluded"}
    if visibility.untallied:
        marks |= {"untallied", "untallied and excluded"} if "excluded" in marks else {"untallied"}
    return Statement(_text(name, marks), {**scope_params, **(params or {})}, settings or {})


def resolve_scope(scope: Scope) -> Statement:
    """Ask which access classes a scope sees, and how many documents and chunks they hold.

    Row-level policies, where there are some, learn from the same statement who asks.
    """
    sources = None if scope.sources is None else list(scope.sources)
    if scope.principals is None:
        return Statement(load("read/scope_trusted"), {"sources": sources}, local={"context_engine.trusted": "on"})
    names = list(scope.principals)
    params = {"principals": names, "sources": sources}
    return Statement(load("read/scope"), params, local={"context_engine.principals": json.dumps(names)})
