"""Latency against the visible share, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from .baselines import LEGS
from .data import CLASSES
from .summary import Row

mpl.use("Agg")

_STYLE: Final = {
    "ours": ("Context Engine", "#0b6e4f", "o"),
    "plain": ("best plain SQL", "#e08e0b", "s"),
    "peer": ("peer's statement shapes", "#b3261e", "^"),
}
_QUESTIONS: Final = {"long": "long questions (16 to 20 words)", "short": "short names"}
_APART: Final = "all principals"


def draw(folder: Path, lines: Sequence[Row]) -> None:
    """Write `hybrid.png` and `legs.png`."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    for place, kind in enumerate(CLASSES):
        axes = figure.add_subplot(1, 2, place + 1)
        _panel(axes, lines, kind, "hybrid")
        axes.set_title(f"Whole search, {_QUESTIONS[kind]}", fontsize=10)
    _legend(figure)
    figure.savefig(folder / "hybrid.png", dpi=150)
    figure = Figure(figsize=(12, 7), layout="constrained")
    for row, kind in enumerate(CLASSES):
        for column, leg in enumerate(LEGS):
            axes = figure.add_subplot(2, 3, row * 3 + column + 1)
            _panel(axes, lines, kind, leg)
            axes.set_title(f"{leg} leg, {_QUESTIONS[kind]}", fontsize=10)
    _legend(figure)
    figure.savefig(folder / "legs.png", dpi=150)


def _panel(axes: Axes, lines: Sequence[Row], kind: str, part: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for method, (_, colour, marker) in _STYLE.items():
        chosen = [
            (float(line["share"]) * 100, float(line["p50_ms"]), line["caller"] == _APART)
            for line in lines
            if line["class"] == kind and line["part"] == part and line["method"] == method
        ]
        joined = sorted(point[:2] for point in chosen if not point[2])
        axes.plot(*zip(*joined, strict=True), color=colour, marker=marker, markersize=5)
        for share, p50, apart in chosen:
            if apart:
                axes.plot(share, p50, marker, color=colour, markersize=7, markerfacecolor="none")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("share of the documents that the caller sees")
    axes.set_ylabel("p50 in ms")
    axes.grid(visible=True, which="major", alpha=0.3)


def _legend(figure: Figure) -> None:
    axes = figure.axes[0]
    for name, colour, marker in _STYLE.values():
        axes.plot([], [], color=colour, marker=marker, markersize=5, label=name)
    axes.plot(
        [],
        [],
        "o",
        color="grey",
        markersize=7,
        markerfacecolor="none",
        label="100 % by naming all principals",
    )
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
