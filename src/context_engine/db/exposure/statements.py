"""Write the statements for a table, with every name quoted and every value bound."""

from __future__ import annotations

from typing import Any, Final, LiteralString

from psycopg import sql

from context_engine.exposure.model import AclColumn, Column, Target
from context_engine.exposure.scopes import random_bound
from context_engine.sql import load

_OPERATORS: Final[dict[str, LiteralString]] = {"<=>": "<=>", "<->": "<->", "<#>": "<#>", "<+>": "<+>"}
_CONDITIONS: Final[dict[str, LiteralString]] = {
    "array": "exposure/condition_array",
    "scalar": "exposure/condition_scalar",
    "json_array": "exposure/condition_json_array",
    "json_scalar": "exposure/condition_json_scalar",
}
TRUE: Final = sql.SQL("true")


def identifier(*names: str) -> sql.Identifier:
    """Quote a name; a percent sign is doubled, since every statement is run with parameters."""
    return sql.Identifier(*(name.replace("%", "%%") for name in names))


def _literal(text: str) -> sql.Composable:
    return sql.SQL("{}::text").format(sql.Literal(text.replace("%", "%%")))


class Parts:
    """The pieces that every statement on a target is made of."""

    def __init__(self, target: Target) -> None:
        self.table = identifier(target.table.schema, target.table.name)
        self.embedding = identifier(target.embedding.name)
        self.base: sql.Composable = sql.SQL("true")
        self.base_params: dict[str, Any] = {}
        if target.base:
            column, value = target.base
            equal = sql.SQL("{} = %(base)s::{}")
            self.base = equal.format(identifier(column.name), identifier(*column.type))
            self.base_params = {"base": value}
        self.key = sql.SQL(", ").join(sql.Identifier(name) for name in target.key)
        operator = sql.SQL(_OPERATORS[target.operator])
        type_ = identifier(*target.embedding.type)
        compare = sql.SQL("({} {} %(question)s::{})")
        self.distance = compare.format(self.embedding, operator, type_)
        self.order: sql.Composable = self.distance
        index = target.index
        if index and index.cast:
            cast_type = sql.SQL("{}({})").format(
                identifier(target.embedding.type[0], index.type), sql.Literal(index.dim)
            )
            cast = sql.SQL("({}::{})").format(self.embedding, cast_type)
            self.order = compare.format(cast, operator, cast_type)
        self.library_order = self.distance if target.library_query else self.order
        self.acl = target.acl

    def all(self) -> dict[str, sql.Composable]:
        """Name the pieces as the SQL files do."""
        return {
            "table": self.table,
            "embedding": self.embedding,
            "base": self.base,
            "key": self.key,
            "distance": self.distance,
        }

    def condition(self, values: tuple[str, ...] | None) -> tuple[sql.Composable, dict[str, Any]]:
        """Write what makes a row visible; None sees every row."""
        if values is None:
            return TRUE, {}
        template = sql.SQL(load(_CONDITIONS[self.acl.kind]).strip())
        column = identifier(self.acl.column.name)
        parts: dict[str, sql.Composable] = {"column": column, "leaf": leaf(self.acl)}
        array_type = self.acl.column.type if self.acl.column.is_array else self.acl.column.array_type
        if array_type:
            parts["array_type"] = identifier(*array_type)
        return sql.SQL("({})").format(template.format(**parts)), {"values": list(values)}

    def random(self, share: float, seed: int) -> tuple[sql.Composable, dict[str, Any]]:
        """Write a condition that a random set of this share meets, the same rows each time."""
        condition = sql.SQL("({})").format(sql.SQL(load("exposure/condition_random").strip()))
        return condition, {"seed": seed, "bound": random_bound(share)}

    def value(self) -> sql.Composable:
        """Write the ACL values of a row, as text, one a row."""
        column = identifier(self.acl.column.name)
        if self.acl.kind == "array":
            return sql.SQL("unnest({})::text").format(column)
        if self.acl.kind == "scalar":
            return sql.SQL("{}::text").format(column)
        if self.acl.kind == "json_scalar":
            return leaf(self.acl)
        elements = "jsonb_array_elements_text(CASE WHEN jsonb_typeof({0}) = 'array' THEN {0} END)"
        return sql.SQL(elements).format(leaf(self.acl))


def leaf(acl: AclColumn) -> sql.Composable:
    """Write the path to the ACL inside a JSON column as the libraries do, so that their indexes fit."""
    if not acl.path:
        return identifier(acl.column.name)
    array = acl.kind == "json_array"
    start = sql.SQL("{}::jsonb") if array and acl.column.type[1] != "jsonb" else sql.SQL("{}")
    path: sql.Composable = start.format(identifier(acl.column.name))
    for place, key in enumerate(acl.path):
        last = place == len(acl.path) - 1
        arrow = sql.SQL(" ->> ") if last and not array else sql.SQL(" -> ")
        path = sql.SQL("{}{}{}").format(path, arrow, _literal(key))
    return sql.SQL("({})").format(path)


def sample(share: float | None) -> sql.Composable:
    """Write the clause that reads a part of the table's pages; nothing for all of it."""
    if share is None:
        return sql.SQL("")
    return sql.SQL("TABLESAMPLE SYSTEM ({}) REPEATABLE (1)").format(sql.Literal(share * 100))


def column_of(column: Column) -> sql.Identifier:
    """Quote a column's name."""
    return identifier(column.name)
