"""The tables, the page and the plot."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from .measure import CALLERS, KINDS, OURS, PLAIN, Row

mpl.use("Agg")

_COLUMNS: Final = ("chunks", "caller", "visible", "questions", "leg", "method", "n", "p50_ms", "p95_ms")
_LEG: Final = {leg: method for method, (leg, _) in OURS.items()}


def read(path: Path) -> list[Row]:
    """Read rows that a run has left."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page(folder: Path, beside: Sequence[Row], growth: Sequence[Row]) -> None:
    """Write the page and the plot."""
    lines = ["# Speed of the text legs\n", "Written by `python -m benchmarks.text`; see [the README](../README.md).\n"]
    if beside:
        lines += [f"## Beside plain PostgreSQL, {int(beside[0]['chunks']):,} chunks\n", *_beside(beside)]
    if growth:
        _draw(folder / "growth.png", growth)
        lines += ["## As the corpus grows, p50 in ms\n", *_growth(growth), "![Growth](growth.png)"]
    (folder / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _beside(rows: Sequence[Row]) -> Iterable[str]:
    found = {(row["caller"], row["questions"], row["method"]): row for row in rows}
    yield "p50 in ms; in brackets: how many times as long as our leg for the same purpose.\n"
    yield "| caller sees | questions | " + " | ".join((*OURS, *PLAIN)) + " |"
    yield "|---|---|" + "---|" * (len(OURS) + len(PLAIN))
    for caller in CALLERS:
        for kind in KINDS:
            if (caller, kind, next(iter(OURS))) not in found:
                continue
            cells = [f"{float(found[caller, kind, method]['p50_ms']):.1f}" for method in OURS]
            for method, (leg, _) in PLAIN.items():
                ms = float(found[caller, kind, method]["p50_ms"])
                cells.append(f"{ms:,.1f} ({ms / float(found[caller, kind, _LEG[leg]]['p50_ms']):,.1f})")
            yield f"| {caller} | {kind} | " + " | ".join(cells) + " |"
    yield ""


def _growth(rows: Sequence[Row]) -> Iterable[str]:
    sizes = sorted({int(row["chunks"]) for row in rows})
    found = {(row["caller"], row["questions"], row["method"], int(row["chunks"])): row["p50_ms"] for row in rows}
    yield "| leg | caller sees | questions | " + " | ".join(f"{size:,}" for size in sizes) + " |"
    yield "|---|---|---|" + "---|" * len(sizes)
    for method in OURS:
        for caller in CALLERS:
            for kind in KINDS:
                cells = [f"{float(found.get((caller, kind, method, size), 'nan')):.1f}" for size in sizes]
                yield f"| {method.rpartition(' ')[0][-4:]} | {caller} | {kind} | " + " | ".join(cells) + " |"
    yield ""


def _draw(path: Path, rows: Sequence[Row]) -> None:
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    for place, method in enumerate(OURS):
        axes = figure.add_subplot(1, 2, place + 1)
        for caller, style in zip(CALLERS, ("--", "-"), strict=True):
            for kind, colour in zip(KINDS, ("#0b6e4f", "#e08e0b", "#3b5bdb"), strict=True):
                points = sorted(
                    (int(row["chunks"]), float(row["p50_ms"]))
                    for row in rows
                    if (row["method"], row["caller"], row["questions"]) == (method, caller, kind)
                )
                axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=4,
                          label=f"{kind}, {caller}")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("chunks")
        axes.set_ylabel("p50 in ms")
        axes.set_title(method, fontsize=10)
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
