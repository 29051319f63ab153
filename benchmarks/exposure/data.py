"""Rows from the stored embeddings, each with three ACLs: clustered, random and by real owners."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

Vectors = NDArray[np.float32]

SEED: Final = 20240603
SHARES: Final = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
GROUPS_OF_A_SHARE: Final = 2
LAYOUTS: Final = ("clustered", "random", "owned")
TABLE: Final = "exposure_bench"
_JITTER: Final = 0.02
_OWNED: Final = "debian-packages"


@dataclass(frozen=True, slots=True)
class Rows:
    """Vectors, float32, unit-normalised, with each row's ACL in each layout."""

    vectors: Vectors
    acls: dict[str, list[list[str]]]


def load(folder: Path, rows: int) -> Rows:
    """Read every stored corpus, and fill up to `rows` with near copies of rows drawn at random.

    clustered: each group holds the rows nearest to a centre. random: groups of the same sizes, drawn at random.
    owned: Debian's packages have their real maintainers, every other row belongs to its corpus.
    """
    rng = np.random.default_rng(SEED)
    vectors, owners = _stored(folder)
    if rows < len(vectors):
        chosen = np.sort(rng.choice(len(vectors), rows, replace=False))
        vectors, owners = vectors[chosen], [owners[row] for row in chosen]
    elif rows > len(vectors):
        chosen = rng.choice(len(vectors), rows - len(vectors))
        noise = rng.standard_normal((len(chosen), vectors.shape[1])).astype(np.float32) * _JITTER
        vectors = np.concatenate([vectors, vectors[chosen] + noise])
        owners += [owners[row] for row in chosen]
    return _lay_out(vectors, owners, rng)


def synthetic(rows: int, dim: int = 32) -> Rows:
    """Make up vectors in clusters, each cluster with an owner."""
    rng = np.random.default_rng(SEED)
    cluster = rng.integers(0, 30, rows)
    centres = rng.standard_normal((30, dim))
    vectors = (centres[cluster] + rng.standard_normal((rows, dim))).astype(np.float32)
    return _lay_out(vectors, [[f"owner-{number}"] for number in cluster], rng)


def _lay_out(vectors: Vectors, owners: list[list[str]], rng: np.random.Generator) -> Rows:
    rows = len(vectors)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    clustered: list[list[str]] = [[] for _ in range(rows)]
    random: list[list[str]] = [[] for _ in range(rows)]
    for share in SHARES:
        size = max(1, round(share * rows))
        for number in range(GROUPS_OF_A_SHARE):
            name = f"group-{share * 100:g}%-{number}"
            centre = vectors[rng.integers(rows)]
            for row in np.argpartition(-(vectors @ centre), size - 1)[:size]:
                clustered[row].append(name)
            for row in rng.choice(rows, size, replace=False):
                random[row].append(name)
    return Rows(vectors, {"clustered": clustered, "random": random, "owned": owners})


def _stored(folder: Path) -> tuple[Vectors, list[list[str]]]:
    parts: list[Vectors] = []
    owners: list[list[str]] = []
    for file in sorted(folder.glob("*/corpus.minilm.f16.npy")):
        stored = np.load(file).astype(np.float32)
        parts.append(stored)
        if file.parent.name == _OWNED:
            owners += [row["acl"] for row in _lines(file.parent / "corpus.jsonl.gz")]
        else:
            owners += [[f"corpus:{file.parent.name}"]] * len(stored)
    if not parts:
        raise SystemExit(f"no stored embeddings in {folder}: name the folder with --data")
    return np.concatenate(parts), owners


def _lines(path: Path) -> Iterator[dict[str, list[str]]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def fill(url: str, rows: Rows) -> None:
    """Make the table, its HNSW index and a GIN index on each layout's ACL."""
    table = sql.Identifier(TABLE)
    dim = rows.vectors.shape[1]
    columns = sql.SQL(", ").join(sql.SQL("{} text[] NOT NULL").format(sql.Identifier(name)) for name in LAYOUTS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        make = sql.SQL("CREATE TABLE {} (id integer PRIMARY KEY, embedding vector({}) NOT NULL, {})")
        connection.execute(make.format(table, sql.Literal(dim), columns))
        with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(table)) as copy:
            for row, vector in enumerate(rows.vectors):
                written = "[" + ",".join(map(str, vector.tolist())) + "]"
                copy.write_row((row, written, *(rows.acls[name][row] for name in LAYOUTS)))
        connection.execute("SET maintenance_work_mem = '1GB'")
        connection.execute(sql.SQL("CREATE INDEX ON {} USING hnsw (embedding vector_cosine_ops)").format(table))
        for name in LAYOUTS:
            index = sql.SQL("CREATE INDEX ON {} USING gin ({})")
            connection.execute(index.format(table, sql.Identifier(name)))
        connection.execute(sql.SQL("VACUUM ANALYZE {}").format(table))
