"""Recognise which table, columns and library a database has, from its catalogue alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from context_engine.errors import InputError
from context_engine.exposure.model import AclKind, Column, Metric, Preset, Table, VectorIndex

OPERATORS: Final[dict[Metric, str]] = {"cosine": "<=>", "l2": "<->", "inner": "<#>", "l1": "<+>"}
VECTOR_TYPES: Final = ("vector", "halfvec")
_HINTS: Final[tuple[str, ...]] = tuple(
    (
        "acl acls acl_principals allow allowed allow_list allowed_principals allowed_groups allowed_users access "
        "access_groups access_control permissions principals groups group_ids roles readers viewers visible_to "
        "shared_with "
        "tenant tenant_id tenant_ids organization organization_id org org_id account account_id workspace workspace_id "
        "customer customer_id owner owner_id owners user_id user_ids user users team team_id teams department group "
        "group_id role project_id created_by"
    ).split()
)
"""Names that columns and metadata keys for permissions go by, the surest first."""
_JSON: Final = ("json", "jsonb")
_SCALARS: Final = ("text", "varchar", "bpchar", "uuid", "int2", "int4", "int8", "name", "citext", "bool")
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user named; None where the catalogue is to decide."""

    table: str | None = None
    embedding_column: str | None = None
    acl_column: str | None = None
    metric: Metric | None = None
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A table and what it is to the library that made it; `metadata` is the JSON column of a library's own."""

    preset: Preset
    table: Table
    embedding: Column
    metadata: Column | None


_PRESETS: Final[tuple[tuple[Preset, Callable[[Table], bool], str, str], ...]] = (
    ("langchain", lambda table: table.name == "langchain_pg_embedding", "embedding", "cmetadata"),
    ("langchain-v2", lambda table: table.column("langchain_id") is not None, "embedding", "langchain_metadata"),
    ("llamaindex", lambda table: table.name.startswith("data_"), "embedding", "metadata_"),
    ("haystack", lambda table: table.column("blob_mime_type") is not None, "embedding", "meta"),
)
"""Libraries' tables: what tells them, their vector column and their JSON column."""


def choose_table(tables: Sequence[Table], wanted: Wanted) -> Shape:
    """Find the table to measure.

    Raises:
        InputError: when there is none, more than one, or what was named is not there or cannot be measured.
    """
    if wanted.table is not None:
        found = [table for table in tables if wanted.table in _spellings(table)]
        if not found:
            known = _listed(table.title for table in tables) or "none"
            raise InputError(f"no table {wanted.table!r} with a vector column can be seen; with one: {known}")
        if len(found) > 1:
            raise InputError(f"more than one table is called {wanted.table!r}: name its schema, {_titles(found)}")
    else:
        found = [table for table in tables if table.kind in "rpm"]
        if not found:
            raise InputError(
                "no table with a vector column can be seen: check the database in the URL and the role's privileges"
            )
        if len(found) > 1:
            raise InputError(f"more than one table has a vector column: choose with --table, of {_titles(found)}")
    [table] = found
    if table.kind not in "rpm":
        kind = {"v": "a view", "f": "a foreign table"}.get(table.kind, "no table")
        raise InputError(f"{table.title} is {kind}: name the table behind it, whose plans and indexes are measured")
    return _shape(table, wanted)


def _spellings(table: Table) -> set[str]:
    return {table.name, table.title, table.quoted.partition(".")[2], table.quoted}


def _titles(tables: Iterable[Table]) -> str:
    return _listed(f"{table.title} (about {table.rows:,} rows)" for table in tables)


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def _shape(table: Table, wanted: Wanted) -> Shape:
    for preset, is_made_by, embedding, metadata in _PRESETS:
        vector, json = table.column(embedding), table.column(metadata)
        if vector and json and json.type[1] in _JSON and is_made_by(table):
            named = wanted.embedding_column
            return Shape(preset, table, _embedding(table, named) if named else vector, json)
    return Shape("plain", table, _embedding(table, wanted.embedding_column), None)


def _embedding(table: Table, named: str | None) -> Column:
    vectors = [column for column in table.columns if column.type[1] in (*VECTOR_TYPES, "sparsevec", "bit")]
    if named is not None:
        column = table.column(named)
        if column is None:
            raise InputError(f"{table.title} has no column {named!r}; it has {_names(table.columns)}")
        if column.type[1] not in VECTOR_TYPES:
            raise InputError(f"column {named!r} is of type {column.type[1]}, not vector or halfvec")
        return column
    dense = [column for column in vectors if column.type[1] in VECTOR_TYPES]
    if len(dense) != 1:
        many = f"has {len(dense)} vector columns" if dense else "has no vector or halfvec column"
        raise InputError(f"{table.title} {many}: choose with --embedding-column, of {_names(vectors)}")
    return dense[0]


def _names(columns: Iterable[Column]) -> str:
    return _listed(column.name for column in columns)


def json_columns(shape: Shape, wanted: Wanted) -> list[Column]:
    """List the JSON columns whose keys have to be known before the ACL column can be chosen."""
    if wanted.acl_column is not None:
        named, path = _named_column(shape.table, wanted.acl_column)
        return [named] if path and named.type[1] in _JSON else []
    if shape.metadata is not None:
        return [shape.metadata]
    return [column for column in shape.table.columns if column.type[1] in _JSON and column.readable]


def _named_column(table: Table, name: str) -> tuple[Column, tuple[str, ...]]:
    """Split `column.key.key`; a column whose own name has dots wins."""
    for column in sorted(table.columns, key=lambda column: -len(column.quoted)):
        for spelling in {column.name, column.quoted}:
            if name == spelling:
                return column, ()
            if name.startswith(spelling + "."):
                return column, tuple(name[len(spelling) + 1 :].split("."))
    raise InputError(f"{table.title} has no column {name!r}; it has {_names(table.columns)}")


JsonKinds = dict[tuple[str, tuple[str, ...]], dict[str, int]]
"""For (column, path): how often a value of each JSON type stands there, in a sample of the rows."""


def choose_acl(
    shape: Shape, wanted: Wanted, kinds: JsonKinds
) -> tuple[Column, tuple[str, ...], AclKind, tuple[str, ...]]:
    """Find the column, or the JSON key, that says who may read; with other columns that might have been meant.

    Raises:
        InputError: when nothing that looks like one is there, or its type holds no permissions.
    """
    if wanted.acl_column is not None:
        column, path = _named_column(shape.table, wanted.acl_column)
        return column, path, _acl_kind(column, path, kinds), ()
    found: list[tuple[int, Column, tuple[str, ...]]] = []
    for column in shape.table.columns:
        if column.name.lower() in _HINTS and _plain_kind(column):
            found.append((_HINTS.index(column.name.lower()), column, ()))
    for name, path in kinds:
        column = shape.table.column(name)
        if column and path[0].lower() in _HINTS and _json_kind(kinds[name, path]):
            found.append((_HINTS.index(path[0].lower()), column, path))
    if not found:
        keys = [f"{name}.{'.'.join(path)}" for name, path in kinds]
        raise InputError(
            f"nothing in {shape.table.title} is named like a permission: say which column it is with --acl-column; "
            f"there are {_listed([*(column.name for column in shape.table.columns), *keys])}"
        )
    found.sort(key=lambda item: (item[0], item[1].name))
    _, column, path = found[0]
    others = tuple(".".join((other.name, *rest)) for _, other, rest in found[1:])
    return column, path, _acl_kind(column, path, kinds), others


def _plain_kind(column: Column) -> AclKind | None:
    if column.is_array:
        return "array"
    return "scalar" if column.type[1] in _SCALARS and column.array_type else None


def _json_kind(types: dict[str, int]) -> AclKind | None:
    holding = {name: count for name, count in types.items() if name in ("array", "string", "number")}
    if not holding:
        return None
    return "json_array" if max(holding, key=holding.__getitem__) == "array" else "json_scalar"


def _acl_kind(column: Column, path: tuple[str, ...], kinds: JsonKinds) -> AclKind:
    title = ".".join((column.name, *path))
    if not column.readable:
        raise InputError(f"the role may not read column {column.name!r}: grant SELECT on it")
    if path and column.type[1] not in _JSON:
        raise InputError(
            f"column {column.name!r} is of type {column.type[1]}, which has no keys: name the column alone"
        )
    if not path and column.type[1] in _JSON:
        raise InputError(
            f"column {column.name!r} is a JSON document: name the key that says who may read, "
            f"--acl-column {column.name}.KEY"
        )
    kind = _json_kind(kinds.get((column.name, path), {})) if path else _plain_kind(column)
    if kind is None and path:
        there = ", ".join(kinds.get((column.name, path), {})) or "nothing"
        raise InputError(f"{title} holds {there} in the rows looked at; a list, a string or a number was expected")
    if kind is None:
        raise InputError(
            f"column {title!r} is of type {column.type[1]}, which cannot say who may read: an array, a text, uuid or "
            "integer column, or a key in a JSON column was expected"
        )
    return kind


def choose_index(indexes: Sequence[VectorIndex], metric: Metric | None) -> tuple[str, VectorIndex | None]:
    """Choose the distance operator and the index: the index decides, else `metric`, else cosine.

    Raises:
        InputError: when indexes for different distances exist and none was chosen.
    """
    if metric is not None:
        operator = OPERATORS[metric]
        indexes = [index for index in indexes if index.operator == operator]
        return operator, _best(indexes)
    operators = sorted({index.operator for index in indexes})
    if len(operators) > 1:
        names = [name for name, operator in OPERATORS.items() if operator in operators]
        raise InputError(f"there are indexes for more than one distance: choose with --distance, of {', '.join(names)}")
    return (operators[0] if operators else OPERATORS["cosine"]), _best(indexes)


def _best(indexes: Sequence[VectorIndex]) -> VectorIndex | None:
    """Of several, a whole one before a partial one, on the column before on a cast, HNSW before IVFFlat."""
    return min(indexes, key=lambda index: (index.partial, index.cast, index.method), default=None)
