"""Recall, order, scores and time from the raw rows, with intervals; and whether two runs agree."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.retrieval.compare import compare

from context_engine.exposure.statistics import at_most

from .layouts import LAYOUTS
from .measure import RAW_COLUMNS, Row

COLUMNS: Final = (
    "layout", "caller", "target", "visible", "leg", "method", "questions", "asked", "recall", "low", "high", "empty",
    "short", "set", "order", "scores", "exact", "at_most", "ran_trgm", "p50_ms", "p90_ms",
)  # fmt: skip
_NUMBERS: Final = ("visible", "wanted", "returned", "found", "order", "scores", "exact")
_REALS: Final = ("target", "ms")
Key = tuple[str, str, str, str]


def write_raw(path: Path, rows: Iterable[Row]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, RAW_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_raw(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        row |= {name: int(row[name]) for name in _NUMBERS} | {name: float(row[name]) for name in _REALS}
    return rows


def key_of(row: Mapping[str, Any]) -> Key:
    return row["layout"], row["caller"], row["leg"], row["method"]


def summarise(raw: Iterable[Row]) -> list[Row]:
    """Sum up: a row for each layout, caller, leg and method."""
    groups: dict[Key, list[Row]] = {}
    for row in raw:
        groups.setdefault(key_of(row), []).append(row)
    lines = [_line(rows) for rows in groups.values()]
    return sorted(lines, key=lambda line: (LAYOUTS.index(line["layout"]), line["target"]))


def recall(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Average the share of the reference's hits that was found, over the questions to which it has any.

    Returns:
        The mean and its 95 % interval, by percentile bootstrap over questions.
    """
    shares = [row["found"] / row["wanted"] for row in rows if row["wanted"]]
    if len(set(shares)) < 2:
        only = shares[0] if shares else float("nan")
        return only, only, only
    found = compare(shares, [0.0] * len(shares))
    return found.difference, found.low, found.high


def _line(rows: list[Row]) -> Row:
    first, count = rows[0], len(rows)
    mean, low, high = recall(rows)
    p50, p90 = np.percentile([row["ms"] for row in rows], [50, 90])
    alike = sum(row["order"] and row["scores"] for row in rows)
    return {
        **{name: first[name] for name in ("layout", "caller", "target", "visible", "leg", "method")},
        "questions": count,
        "asked": sum(row["wanted"] > 0 for row in rows),
        "recall": round(mean, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "empty": sum(row["returned"] == 0 < row["wanted"] for row in rows) / count,
        "short": sum(row["returned"] < row["wanted"] for row in rows) / count,
        "set": sum(row["found"] == row["wanted"] == row["returned"] for row in rows) / count,
        "order": sum(row["order"] for row in rows) / count,
        "scores": alike / count,
        "exact": sum(row["exact"] for row in rows) / count,
        "at_most": round(at_most(count), 4) if alike == count else "",
        "ran_trgm": sum("trgm:spellings" in row["route"] for row in rows) / count,
        "p50_ms": round(float(p50), 2),
        "p90_ms": round(float(p90), 2),
    }


def disagreements(ours: Iterable[Row], theirs: Iterable[Row]) -> tuple[int, list[str]]:
    """Compare two runs: how many recalls both have, and those whose intervals do not meet, in words."""
    known = {key_of(line): line for line in theirs}
    apart: list[str] = []
    both = 0
    for line in ours:
        other = known.get(key_of(line))
        if other is None or line["asked"] == 0:
            continue
        both += 1
        if line["low"] > float(other["high"]) or float(other["low"]) > line["high"]:
            apart.append(f"{', '.join(key_of(line))}: {line['recall']} and {other['recall']}")
    return both, apart
