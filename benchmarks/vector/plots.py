"""Recall and latency against the visible share, and latency as the table grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from .measure import Row

mpl.use("Agg")

_STYLE: Final = {
    "ours": ("Context Engine", "#0b6e4f", "o-"),
    "planner": ("pgvector, filter, ef 40", "#b3261e", "^-"),
    "iterative": ("pgvector, iterative scan, defaults", "#e08e0b", "s-"),
    "after-1x": ("filter after, 1x", "#c9b6d9", "v--"),
    "after-10x": ("filter after, 10x", "#8f63b0", "v--"),
    "after-50x": ("filter after, 50x", "#5a2d82", "v--"),
    "unfiltered-ef100": ("HNSW without filter, ef 100", "#666666", ":"),
    "unfiltered-ef400": ("HNSW without filter, ef 400", "#111111", ":"),
    "faiss-filtered-ef400": ("HNSW in process, filtered, ef 400", "#2f6db5", "x--"),
}
_MARKERS: Final = "osv^D"
APART: Final = ("growth", "wide")
"""Layouts that are made for one comparison."""


def draw(folder: Path, lines: Sequence[Row], count: int) -> None:
    """Write `recall.png`, `latency.png` and `growth.png`."""
    layouts = list(dict.fromkeys(line["layout"] for line in lines if line["layout"] not in APART))
    for column, file, title in (
        ("recall@10", "recall.png", "recall@10"),
        ("p50_ms", "latency.png", "p50 in ms"),
    ):
        figure = Figure(figsize=(4.6 * len(layouts), 5.2), layout="constrained")
        for place, layout in enumerate(layouts, 1):
            axes = figure.add_subplot(1, len(layouts), place)
            _by_share(axes, [line for line in lines if line["layout"] == layout and line["n"] == count], column)
            axes.set_title(f"{layout}, {count:,} chunks", fontsize=10)
            axes.set_ylabel(title)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        figure.savefig(folder / file, dpi=130)
    _growth(folder, lines, count)


def _by_share(axes: Axes, lines: Sequence[Row], column: str) -> None:
    axes.set_xscale("log")
    if column == "p50_ms":
        axes.set_yscale("log")
    else:
        axes.set_ylim(-0.03, 1.03)
    for method, (name, colour, style) in _STYLE.items():
        points = sorted((line["share"] * 100, line[column]) for line in lines if line["method"] == method)
        if points:
            axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4, label=name)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.set_xlabel("share of the chunks that the caller sees")
    axes.grid(visible=True, which="major", alpha=0.3)


def _growth(folder: Path, lines: Sequence[Row], count: int) -> None:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    ours = [line for line in lines if line["method"] == "ours"]
    series = growth(ours)
    for marker, (visible, points) in zip(_MARKERS, series.items(), strict=False):
        left.plot(*zip(*points, strict=True), marker=marker, label=f"about {visible:,} visible")
    left.set_title("ours, the number of visible chunks fixed", fontsize=10)
    left.set_xlabel("chunks stored")
    layouts = dict.fromkeys(line["layout"] for line in ours if line["layout"] not in APART)
    for marker, layout in zip(_MARKERS, layouts, strict=False):
        points = sorted((line["visible"], line["p50_ms"]) for line in ours if line["layout"] == layout)
        right.plot(*zip(*points, strict=True), marker=marker, label=layout)
    right.set_title(f"ours, {count:,} chunks stored", fontsize=10)
    right.set_xlabel("visible chunks")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.set_ylabel("p50 in ms")
        axes.grid(visible=True, which="major", alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    left.set_xticks(sorted({stored for points in series.values() for stored, _ in points}))
    figure.savefig(folder / "growth.png", dpi=130)


def growth(ours: Sequence[Row]) -> dict[int, list[tuple[int, float]]]:
    """List our p50 by stored chunks, for each number of visible chunks that is measured at more than one size."""
    series: dict[int, list[tuple[int, float]]] = {}
    for line in ours:
        if line["layout"] == "growth":
            series.setdefault(round(line["target"] * line["n"]), []).append((line["n"], line["p50_ms"]))
    return {visible: sorted(points) for visible, points in sorted(series.items()) if len(points) > 1}
