"""Find out from the catalogue, and from as few rows as will do, what is to be measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from context_engine.db.exposure.session import Row, Session, Snapshot
from context_engine.db.exposure.statements import TRUE, Parts, column_of, identifier, sample
from context_engine.errors import ConfigError, InputError
from context_engine.exposure.model import AclColumn, Candidate, Column, Environment, Table, Target, VectorIndex
from context_engine.exposure.target import (
    VECTOR_TYPES,
    JsonKinds,
    Shape,
    Wanted,
    choose_acl,
    choose_index,
    choose_table,
    json_columns,
)

_ITERATIVE_SINCE: Final = (0, 8)
_SAMPLED_ROWS: Final = 1_000_000
"""Above this many rows, ACL values are counted on a sample of the table's pages of about this size."""
_CAST: Final = re.compile(r"\(*\"?(?P<column>.+?)\"?\)*::(?:.+\.)?(?:vector|halfvec)\(\d+\)\)*")


@dataclass(frozen=True, slots=True)
class Found:
    """A target, what was decided for the user, and what is worth knowing."""

    target: Target
    notes: tuple[str, ...]


def environment(session: Session, exact_threshold: int, ef_search: int | None) -> Environment:
    """Look at the server, and from here on at its vector types.

    Args:
        session: where to look.
        exact_threshold: up to how many visible rows Context Engine scans exactly.
        ef_search: what the application sets `hnsw.ef_search` to; None for what is set for this role.

    Raises:
        ConfigError: pgvector is not there.
    """
    with session.snapshot() as snapshot:
        found = snapshot.load("extension")
    if not found:
        raise ConfigError("this database has no extension vector: check the URL")
    [(schema, version)] = found
    session.look_in(schema)
    with session.snapshot() as snapshot:
        [(server, role, _)] = snapshot.load("loaded")
        [(ef_today, probes, max_scan)] = snapshot.load("settings")
    iterative = tuple(int(part) for part in version.split(".")[:2]) >= _ITERATIVE_SINCE
    ef_search = ef_today if ef_search is None else ef_search
    return Environment(server, version, role, iterative, ef_search, probes, max_scan, exact_threshold)


def read_tables(snapshot: Snapshot) -> list[Table]:
    """List the relations with a vector column that the role may read."""
    tables: list[Table] = []
    for oid, group in groupby(snapshot.load("tables"), key=lambda row: row[0]):
        rows = list(group)
        _, schema, name, quoted, kind, estimate, security, is_partition, readable = rows[0][:9]
        columns = tuple(_column(row[9:]) for row in rows)
        if readable and not is_partition:
            tables.append(Table(oid, schema, name, quoted, kind, estimate, security, columns))
    return tables


def _column(row: Row) -> Column:
    name, quoted, type_schema, type_, modifier, array_schema, array_type, is_array, readable = row
    array = (array_schema, array_type) if array_type else None
    dim = modifier if type_ in VECTOR_TYPES and modifier > 0 else None
    return Column(name, quoted, (type_schema, type_), array, is_array, readable, dim)


def find_target(snapshot: Snapshot, wanted: Wanted) -> Found:
    """Decide what to measure.

    Raises:
        InputError: it is not clear, or not there.
        ConfigError: the role may not read it.
    """
    notes: list[str] = []
    shape = choose_table(read_tables(snapshot), wanted)
    if not shape.embedding.readable:
        raise ConfigError(f"the role may not read column {shape.embedding.name!r}: grant SELECT on it")
    base = _collection(snapshot, shape, wanted, notes)
    plain = _provisional(shape, base)
    if not read_totals(snapshot, Parts(plain)).vectors:
        raise nothing_there(shape.table)
    kinds = _json_kinds(snapshot, shape, wanted, Parts(plain))
    column, path, kind, others = choose_acl(shape, wanted, kinds)
    acl = AclColumn(column, path, kind)
    if wanted.acl_column is None:
        more = f" ({', '.join(others)} could be meant too)" if others else ""
        notes.append(f"who may read was taken from {acl.title} by its name{more}: --acl-column chooses another")
    indexes, unusable = _indexes(snapshot, shape)
    notes += unusable
    operator, index = choose_index(indexes, wanted.metric)
    if not indexes and wanted.metric is None:
        notes.append("no vector index tells the distance: cosine was taken, --distance chooses another")
    dim = shape.embedding.dim or _dimension(snapshot, Parts(plain))
    library = shape.preset != "plain"
    if index and index.cast and library:
        notes.append(
            f"index {index.name} is on a cast of the column, and this library orders by the column itself: its "
            "queries do not use the index"
        )
    target = Target(shape.preset, shape.table, shape.embedding, dim, acl, base, operator, index, library)
    return Found(target, tuple(notes))


def nothing_there(table: Table) -> InputError:
    """Say that there are no rows, and why that may be."""
    policies = "; row-level security is on, and may hide them from this role" if table.row_security else ""
    return InputError(f"{table.title} has no rows with a vector: nothing can be measured{policies}")


def _provisional(shape: Shape, base: tuple[Column, str] | None) -> Target:
    """Make a target that is good for looking at the table before the ACL column is known."""
    acl = AclColumn(shape.embedding, (), "scalar")
    return Target(shape.preset, shape.table, shape.embedding, None, acl, base, "<=>", None, True)


def _collection(snapshot: Snapshot, shape: Shape, wanted: Wanted, notes: list[str]) -> tuple[Column, str] | None:
    column = shape.table.column("collection_id")
    if shape.preset != "langchain" or column is None:
        if wanted.collection is not None:
            raise InputError("--collection is for LangChain's table langchain_pg_embedding")
        return None
    collections = identifier(shape.table.schema, "langchain_pg_collection")
    table = identifier(shape.table.schema, shape.table.name)
    found = snapshot.load("collections", table=table, collections=collections)
    if wanted.collection is not None:
        found = [row for row in found if wanted.collection in row[:2]]
        if not found:
            raise InputError(f"no collection {wanted.collection!r} with rows in {shape.table.title}")
    if not found:
        return None
    key, name, rows = found[0]
    if len(found) > 1:
        notes.append(f"of {len(found)} collections the largest was taken, {name} ({rows:,} rows): see --collection")
    return column, key


def _json_kinds(snapshot: Snapshot, shape: Shape, wanted: Wanted, parts: Parts) -> JsonKinds:
    kinds: JsonKinds = {}
    for column in json_columns(shape, wanted):
        named = {"column": column_of(column), "table": parts.table, "base": parts.base}
        if wanted.acl_column is not None:
            path = tuple(wanted.acl_column.removeprefix(column.name).removeprefix(column.quoted)[1:].split("."))
            params = {"path": list(path), **parts.base_params}
            for type_, count in snapshot.load("json_path", params, **named):
                kinds.setdefault((column.name, path), {})[type_] = count
            continue
        for key, type_, count in snapshot.load("json_keys", parts.base_params, **named):
            kinds.setdefault((column.name, (key,)), {})[type_] = count
    return kinds


def _indexes(snapshot: Snapshot, shape: Shape) -> tuple[list[VectorIndex], list[str]]:
    usable: list[VectorIndex] = []
    notes: list[str] = []
    params = {"table": shape.table.oid, "column": shape.embedding.name}
    for row in snapshot.load("vector_indexes", params):
        name, method, operator, type_, modifier, expression, partial, valid, text = row
        cast = _CAST.fullmatch(text) if expression else None
        if not valid:
            notes.append(f"index {name} is not valid (its build was interrupted): it was left aside")
        elif expression and not (cast and cast["column"] in (shape.embedding.name, shape.embedding.quoted)):
            notes.append(f"index {name} is on an expression that is no cast of the vector column: it was left aside")
        else:
            dim = modifier if modifier > 0 else None
            usable.append(VectorIndex(name, method, operator, type_, dim, bool(expression), partial))
    return usable, notes


def _dimension(snapshot: Snapshot, parts: Parts) -> int | None:
    """Look up the dimension of a column that does not fix it.

    Raises:
        InputError: the first rows have more than one.
    """
    found = snapshot.load("dimensions", parts.base_params, **_only(parts, "table", "embedding", "base"))
    if len(found) > 1:
        dims = ", ".join(str(dim) for (dim,) in sorted(found))
        raise InputError(f"the vectors have different dimensions ({dims}), which cannot be compared in one search")
    return found[0][0] if found else None


def _only(parts: Parts, *names: str) -> dict[str, Any]:
    return {name: piece for name, piece in parts.all().items() if name in names}


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows that the searches go over, and those of them that have a vector."""

    rows: int
    vectors: int


def read_totals(snapshot: Snapshot, parts: Parts) -> Totals:
    """Count rows and vectors."""
    [counts] = snapshot.load("totals", parts.base_params, **_only(parts, "table", "embedding", "base"))
    return Totals(*counts)


def read_candidates(snapshot: Snapshot, target: Target, parts: Parts, notes: list[str]) -> list[Candidate]:
    """Count the rows that each ACL value opens."""
    share = None
    if target.table.rows > _SAMPLED_ROWS:
        share = _SAMPLED_ROWS / target.table.rows
        notes.append(f"ACL values were counted on {share:.1%} of the table's pages: rare values may be missing")
    pieces = {**_only(parts, "table", "embedding", "base"), "value": parts.value(), "sample": sample(share)}
    rows = snapshot.load("values", parts.base_params, **pieces)
    return [Candidate((value,), round(count / (share or 1)), alike) for value, count, alike in rows]


def filter_index(snapshot: Snapshot, parts: Parts, values: tuple[str, ...], question: str) -> str | None:
    """Name the index that finds a caller's rows by the permission, if the table has one."""
    condition, params = parts.condition(values)
    statement = snapshot.compose("exact", **parts.all(), condition=condition)
    bound = {**parts.base_params, **params, "question": question, "limit": 1}
    plan = snapshot.explain(statement, bound, {"enable_seqscan": "off"})
    return index_condition(plan, parts)


def index_condition(plan: dict[str, Any], parts: Parts) -> str | None:
    """Name the index in a plan that is asked for the permission."""
    names = [parts.acl.column.name, *parts.acl.path]
    for node in nodes(plan):
        asked = str(node.get("Index Cond", ""))
        if any(name in asked for name in names) and "Index Name" in node:
            return str(node["Index Name"])
    return None


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """List a plan's nodes."""
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


__all__ = ["TRUE"]
