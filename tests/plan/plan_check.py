"""Walk a plan and find the scans of guarded tables that do not carry the access condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

GUARDED = {"document", "chunk", "embedding", "code", "word_tally"}
_ACL = r"\(*(?:\w+\.)?acl_id(?: \+ 0\))?"
_CONDITIONS = ("Filter", "Index Cond", "Recheck Cond")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a plan's nodes, subplans among them."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def guarded_scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in nodes(plan) if node.get("Relation Name") in GUARDED]


def unguarded(plan: dict[str, Any], acls: str) -> list[str]:
    """Name the scans of guarded tables that lack the condition on the access class; `acls` as an array, such as {1,2}.

    The plan is one of EXPLAIN (VERBOSE), which says what subplans put out.
    """
    lists = {node["Subplan Name"]: node.get("Output") for node in nodes(plan) if "Subplan Name" in node}
    return [
        f"{node['Node Type']} on {node['Relation Name']}: {list(_conditions(node))}"
        for node in guarded_scans(plan)
        if not any(_is_access_condition(part, acls, lists) for part in _conditions(node))
    ]


def _conditions(node: dict[str, Any]) -> Iterator[str]:
    """Yield what holds for every row of a scan, each condition by itself."""
    for name in _CONDITIONS:
        if name in node:
            yield from conjuncts(node[name])
    if node["Node Type"] in ("Bitmap Heap Scan", "BitmapAnd"):
        for child in node["Plans"]:
            # Of alternatives (BitmapOr) none holds for every row.
            if child["Node Type"] in ("Bitmap Index Scan", "BitmapAnd"):
                yield from _conditions(child)


def _is_access_condition(condition: str, acls: str, lists: Mapping[str, list[str] | None]) -> bool:
    """Whether a condition holds for rows of these access classes only, however they are written down."""
    given = f"'{acls}'::integer[]"
    if re.fullmatch(rf"{_ACL} = ANY \({re.escape(given)}\)\)*", condition):
        return True
    once = re.fullmatch(rf"{_ACL} = ANY \(\((InitPlan \d+)\)\.col1\)\)*", condition)
    if once:
        return lists.get(once[1]) == [given]
    hashed = re.fullmatch(rf"\(*ANY {_ACL} = \(hashed (SubPlan \d+)\)\.col1\)\) IS TRUE\)*", condition)
    return hashed is not None and lists.get(hashed[1]) == [f"unnest({given})"]


def conjuncts(expression: str) -> list[str]:
    """Split an expression at its outermost ANDs; an OR stays whole."""
    parts: list[str] = []
    depth, start, quoted = 0, 0, False
    for at, letter in enumerate(expression):
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and expression.startswith(" AND ", at):
                parts.append(expression[start:at])
                start = at + len(" AND ")
    parts.append(expression[start:])
    if len(parts) > 1:
        return [inner for part in parts for inner in conjuncts(part)]
    wrapped = expression.startswith("(") and _closes_at_end(expression)
    return conjuncts(expression[1:-1]) if wrapped else [expression]


def _closes_at_end(expression: str) -> bool:
    depth, quoted = 0, False
    for at, letter in enumerate(expression):
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return at == len(expression) - 1
    return False
