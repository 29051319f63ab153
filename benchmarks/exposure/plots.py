"""Recall against the visible share, a panel for each layout and kind of question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

mpl.use("Agg")

WAYS: Final = {
    "after-10x": ("filter after, 10×", "#b3261e", "s"),
    "after-10x-ef": ("filter after, 10×, ef_search raised", "#e08e0b", "^"),
    "forced": ("in the query, index forced", "#7a5ea8", "v"),
    "planned": ("in the query, as planned", "#2b6cb0", "D"),
    "iterative": ("iterative scan", "#6b6b6b", "x"),
    "routed": ("routed by what the caller sees", "#0b6e4f", "o"),
}
KINDS: Final = {"own": "questions near the caller's rows", "others": "questions near other rows"}


def _means(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Join callers of one size: their mean."""
    by_share: dict[float, list[float]] = {}
    for share, recall in points:
        by_share.setdefault(share, []).append(recall)
    return list(by_share), [sum(recalls) / len(recalls) for recalls in by_share.values()]


def draw(file: Path, reports: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the plot."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    for row, (kind, kind_title) in enumerate(KINDS.items()):
        for column, (layout, report) in enumerate(reports.items()):
            axes = figure.add_subplot(len(KINDS), len(reports), row * len(reports) + column + 1)
            axes.set_xscale("log")
            for place, (way, (_, colour, marker)) in enumerate(WAYS.items()):
                points = sorted(
                    (caller["share"] * 100, caller["figures"][kind][way]["recall"])
                    for caller in report["callers"]
                    if way in caller["figures"].get(kind, {})
                )
                if points:
                    axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, linestyle="")
                    axes.plot(*_means(points), color=colour, linewidth=4 - 0.5 * place)
            axes.set_ylim(-0.03, 1.03)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
            axes.grid(alpha=0.3)
            axes.set_title(f"{layout}: {kind_title}", fontsize=10)
            if column == 0:
                axes.set_ylabel("recall@10")
            if row == len(KINDS) - 1:
                axes.set_xlabel("share of the rows that the caller sees")
    lines = [mpl.lines.Line2D([], [], color=colour, marker=marker) for _, colour, marker in WAYS.values()]
    figure.legend(lines, [title for title, _, _ in WAYS.values()], loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(file, dpi=150)
