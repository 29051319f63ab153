"""Percentiles, recall and short lists from the raw rows."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from .generate import KINDS
from .measure import RAW_COLUMNS, Row

SUMMARY_COLUMNS: Final = (
    "n", "layout", "target", "share", "visible", "method", "questions", "p50_ms", "p95_ms", "recall@10", "recall@50",
    *(f"recall@10 {kind}" for kind in KINDS), "empty", "short", "note",
)  # fmt: skip
UNFILTERED: Final = "unfiltered-ef"
_NUMBERS: Final = {"n": int, "visible": int, "rows": int, "wanted": int, "question": int}
_REALS: Final = ("target", "share", "ms", "recall@10", "recall@50")


def write_raw(path: Path, rows: Iterable[Row]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, RAW_COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_raw(path: Path) -> list[Row]:
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        return [_typed(row) for row in csv.DictReader(file)]


def _typed(row: dict[str, str]) -> Row:
    typed: Row = dict(row)
    typed |= {name: kind(row[name]) for name, kind in _NUMBERS.items()}
    return typed | {name: float(row[name]) for name in _REALS}


def summarise(raw: Iterable[Row]) -> list[Row]:
    """Sum up: a row for each size, layout, share and method."""
    groups: dict[tuple[int, str, float, str], list[Row]] = {}
    for row in raw:
        groups.setdefault((row["n"], row["layout"], row["target"], row["method"]), []).append(row)
    return [_line(rows) for rows in groups.values()]


def by_kind(raw: Iterable[Row]) -> dict[str, list[Row]]:
    """Sum up for each kind of question by itself."""
    rows = list(raw)
    found = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    return {kind: summarise(chosen) for kind, chosen in found.items() if chosen}


def _line(rows: list[Row]) -> Row:
    first = rows[0]
    p50, p95 = np.percentile([row["ms"] for row in rows], [50, 95])
    return {
        **{name: first[name] for name in ("n", "layout", "target", "share", "visible", "method")},
        "questions": len(rows),
        "p50_ms": round(float(p50), 3),
        "p95_ms": round(float(p95), 3),
        "recall@10": _mean(rows, "recall@10"),
        "recall@50": _mean(rows, "recall@50"),
        **{f"recall@10 {kind}": _mean([row for row in rows if row["kind"] == kind], "recall@10") for kind in KINDS},
        "empty": sum(row["rows"] == 0 < row["wanted"] for row in rows),
        "short": sum(row["rows"] < row["wanted"] for row in rows),
        "note": " / ".join(sorted({row["note"] for row in rows if row["note"]})),
    }


def _mean(rows: list[Row], column: str) -> float:
    return round(float(np.mean([row[column] for row in rows])), 4) if rows else float("nan")


def at_equal_recall(lines: Iterable[Row], ours: Row) -> tuple[Row, bool] | None:
    """Find the fastest unfiltered HNSW scan that finds at least as much as ours does; else the widest one.

    Only scans measured beside ours, question by question, are looked at, and only those that can fill the list.

    Returns:
        The scan's line and whether it reaches our recall; None where none was measured.
    """
    beside = [
        line
        for line in lines
        if line["method"].startswith(UNFILTERED) and all(line[name] == ours[name] for name in ("n", "layout", "target"))
    ]
    good = [line for line in beside if line["recall@10"] >= ours["recall@10"]]
    if good:
        return min(good, key=lambda line: line["p50_ms"]), True
    return (max(beside, key=lambda line: int(line["method"].removeprefix(UNFILTERED))), False) if beside else None


def beside_at(lines: Iterable[Row], ours: Row, method: str) -> Row | None:
    """Find what another method did for the same caller."""
    same = ("n", "layout", "target")
    found = (line for line in lines if line["method"] == method and all(line[name] == ours[name] for name in same))
    return next(found, None)
