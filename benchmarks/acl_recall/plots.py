"""Recall by visible share and method, and the time of a whole search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from .measure import FORCED, IN_QUERY, Row
from .ways import LEGS

mpl.use("Agg")

_STYLE: Final = {
    IN_QUERY: ("in the query", "#0b6e4f", "o-"),
    FORCED: ("in the query, vector index forced", "#2b6cb0", "x:"),
    "after-1x": ("filter after, 1×", "#c9b6d9", "v--"),
    "after-10x": ("filter after, 10×", "#8f63b0", "v--"),
    "after-50x": ("filter after, 50×", "#5a2d82", "v--"),
}
_COLOURS: Final = {"ann": "#2b6cb0", "fts any": "#e08e0b", "fts all": "#b3261e", "trgm": "#8f63b0", "hybrid": "#0b6e4f"}


def draw(folder: Path, lines: Sequence[Row], chunks: int) -> None:
    """Write `recall.png` and `latency.png`; callers of the layout of rules, who see no chosen share, are left out."""
    chosen = [line | {"share": 100 * line["visible"] / chunks} for line in lines if line["target"] > 0]
    layouts = list(dict.fromkeys(line["layout"] for line in chosen))
    if not layouts:
        return
    figure = Figure(figsize=(3.4 * len(LEGS), 3.1 * len(layouts) + 0.6), layout="constrained")
    for row, layout in enumerate(layouts):
        for column, leg in enumerate(LEGS):
            axes = figure.add_subplot(len(layouts), len(LEGS), row * len(LEGS) + column + 1)
            here = [line for line in chosen if line["layout"] == layout and line["leg"] == leg]
            for method, (name, colour, style) in _STYLE.items():
                _line(axes, [line for line in here if line["method"] == method], "recall", name, colour, style)
            axes.set_ylim(-0.03, 1.03)
            axes.set_title(f"{leg}, {layout}", fontsize=10)
            if column == 0:
                axes.set_ylabel("recall@10")
            if row == len(layouts) - 1:
                axes.set_xlabel("share of the chunks that the caller sees")
    _legend(figure)
    figure.savefig(folder / "recall.png", dpi=110)
    figure = Figure(figsize=(4.4 * len(layouts), 4.4), layout="constrained")
    first: Axes | None = None
    for column, layout in enumerate(layouts, 1):
        axes = figure.add_subplot(1, len(layouts), column, sharey=first)
        axes.set_yscale("log")
        for leg, colour in _COLOURS.items():
            here = [x for x in chosen if x["layout"] == layout and x["leg"] == leg and x["method"] == IN_QUERY]
            _line(axes, here, "p50_ms", leg, colour, "o-")
        axes.set_title(layout, fontsize=10)
        axes.set_xlabel("share of the chunks that the caller sees")
        axes.set_ylabel("median, ms")
        for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            formatted(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:g}"[0] in "125" else ""))
        first = first or axes
    _legend(figure)
    figure.savefig(folder / "latency.png", dpi=110)


def _line(axes: Axes, lines: Sequence[Row], column: str, name: str, colour: str, style: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    points = sorted((line["share"], line[column]) for line in lines)
    if points:
        axes.plot(*zip(*points, strict=True), style, color=colour, label=name, markersize=4)


def _legend(figure: Figure) -> None:
    found = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
