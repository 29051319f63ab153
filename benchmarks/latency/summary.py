"""Percentiles and ratios from the raw rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from .baselines import LEGS
from .measure import PARTS, TOP_K

SUMMARY_COLUMNS: Final = (
    "caller", "share", "class", "part", "method", "questions", "p50_ms", "p90_ms", "p95_ms",
    "ratio_p50", "ratio_p50_if_legs_at_once", "timed_out", "short_lists", "recall", "note",
)  # fmt: skip
Row = dict[str, Any]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True, slots=True)
class _Series:
    """One method's rows for one caller, class and part, by question."""

    rows: dict[str, Row]

    def ms(self, questions: Iterable[str] | None = None) -> list[float]:
        chosen = self.rows if questions is None else [key for key in questions if key in self.rows]
        return [float(self.rows[key]["ms"]) for key in chosen]

    def total(self, column: str) -> int:
        return sum(int(row[column]) for row in self.rows.values())

    def short(self) -> int:
        return sum(int(row["rows"]) < min(TOP_K, int(row["visible"])) for row in self.rows.values())

    def recall(self) -> float | str:
        found = [float(row["recall"]) for row in self.rows.values() if row["recall"] != ""]
        return round(float(np.mean(found)), 3) if found else ""

    def notes(self) -> str:
        return " / ".join(sorted({row["note"] for row in self.rows.values()}))


def summarise(raw: Iterable[Row]) -> list[Row]:
    """Sum up: a row for each caller, class of question, part and method.

    `ratio_p50` compares medians over the questions that both answered. `ratio_p50_if_legs_at_once` takes, for each
    question, only the slowest of a plain method's three legs, as if the others ran beside it and cost nothing.
    """
    series: dict[tuple[str, str, str, str], _Series] = {}
    for row in raw:
        key = (row["caller"], row["class"], row["part"], row["method"])
        series.setdefault(key, _Series({})).rows[row["question"]] = row
    return [_line(series, key) for key in series if key[2] in PARTS]


def _line(series: dict[tuple[str, str, str, str], _Series], key: tuple[str, str, str, str]) -> Row:
    caller, kind, part, method = key
    here = series[key]
    values = here.ms()
    p50, p90, p95 = (float(value) for value in np.percentile(values, [50, 90, 95]))
    line: Row = {
        "caller": caller,
        "share": next(iter(here.rows.values()))["share"],
        "class": kind,
        "part": part,
        "method": method,
        "questions": len(values),
        "p50_ms": round(p50, 3),
        "p90_ms": round(p90, 3),
        "p95_ms": round(p95, 3),
        "timed_out": here.total("timed_out"),
        "short_lists": here.short(),
        "recall": here.recall(),
        "note": here.notes(),
    }
    ours = series.get((caller, kind, part, "ours"))
    if method != "ours" and ours is not None:
        base = float(np.median(ours.ms(here.rows)))
        line["ratio_p50"] = round(p50 / base, 2)
        if part == "hybrid":
            legs = [series[(caller, kind, leg, method)] for leg in LEGS]
            slowest = [max(leg.ms([question])[0] for leg in legs) for question in here.rows]
            line["ratio_p50_if_legs_at_once"] = round(float(np.median(slowest)) / base, 2)
    return line


def stages(raw: Iterable[Row]) -> list[Row]:
    """Median of each stage of our whole search, by caller and class."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in raw:
        if row["part"].startswith("stage "):
            key = (row["caller"], row["class"], row["part"].removeprefix("stage "))
            values.setdefault(key, []).append(float(row["ms"]))
    return [
        {"caller": caller, "class": kind, "stage": stage, "p50_ms": float(np.median(found))}
        for (caller, kind, stage), found in values.items()
    ]


def find(lines: Iterable[Row], **wanted: str) -> Row | None:
    matching = (line for line in lines if all(line[key] == wanted[key] for key in wanted))
    return next(matching, None)
