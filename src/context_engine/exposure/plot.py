"""Small line plots as inline SVG, so that a report is one file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 560
HEIGHT: Final = 300
_LEFT: Final = 52
_RIGHT: Final = 14
_TOP: Final = 30
_BOTTOM: Final = 42
COLOURS: Final = (
    "#b3261e",
    "#e08e0b",
    "#7a5ea8",
    "#2b6cb0",
    "#0b6e4f",
    "#8a8a8a",
    "#c2185b",
    "#00838f",
    "#444444",
    "#a1887f",
    "#5c6bc0",
)
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line of points (share of the rows, value), by rising share; `place` fixes its colour."""

    name: str
    points: tuple[tuple[float, float], ...]
    place: int


def share_plot(title: str, lines: Sequence[Line], unit: str, logarithmic: bool = False) -> str:
    """Draw values against the share of the rows that a caller sees, on a logarithmic scale.

    Args:
        title: what is shown.
        lines: what to draw.
        unit: what a value is, for the axis.
        logarithmic: draw the values on a logarithmic scale too; else they run from 0 to 1.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    shares = [share for share, _ in points]
    x = _Log(min(shares) / 1.2, min(1.0, max(shares) * 1.2), _LEFT, WIDTH - _RIGHT)
    floor, ceiling = HEIGHT - _BOTTOM, _TOP
    values = [max(value, 1e-3) for _, value in points]
    y = _Log(min(values) / 1.3, max(values) * 1.3, floor, ceiling) if logarithmic else _Linear(floor, ceiling)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text x="{_LEFT}" y="18" class="title">{escape(title)}</text>',
        *(_tick_x(x.place(tick), f"{tick * 100:g} %") for tick in x.ticks()),
        *(_tick_y(y.place(tick), f"{tick:g}") for tick in y.ticks()),
        f'<text x="{(WIDTH + _LEFT) / 2:.0f}" y="{HEIGHT - 6}" class="axis">'
        "share of the rows that the caller sees</text>",
        f'<text x="12" y="{HEIGHT / 2:.0f}" class="axis" transform="rotate(-90 12 {HEIGHT / 2:.0f})">'
        f"{escape(unit)}</text>",
        *(_line(line, x, y) for line in lines if line.points),
        "</svg>",
    ]
    return "\n".join(parts)


def legend(names: Sequence[str]) -> str:
    """Name the colours, in the order of the lines' places."""
    items = (
        f'<li><svg viewBox="0 0 28 8" class="key"><path d="M0 4H28" {_stroke(place)}/></svg>{escape(name)}</li>'
        for place, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _stroke(place: int) -> str:
    dash = _DASHES[place // len(COLOURS) % len(_DASHES)]
    colour = COLOURS[place % len(COLOURS)]
    # Later lines are thinner, so that of lines on one another each is seen.
    width = max(1.5, 6.5 - 0.6 * place)
    return f'stroke="{colour}" stroke-width="{width:g}" fill="none"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _line(line: Line, x: _Log, y: _Log | _Linear) -> str:
    places = [(x.place(share), y.place(max(value, 0.0)), share, value) for share, value in line.points]
    path = "M" + " L".join(f"{px:.1f} {py:.1f}" for px, py, _, _ in places)
    colour = COLOURS[line.place % len(COLOURS)]
    dots = (
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.2" fill="{colour}">'
        f"<title>{escape(line.name)}: {value:.3g} at {share:.3%} of the rows</title></circle>"
        for px, py, share, value in places
    )
    return f'<path d="{path}" {_stroke(line.place)}/>' + "".join(dots)


def _tick_x(place: float, text: str) -> str:
    return (
        f'<path d="M{place:.1f} {_TOP}V{HEIGHT - _BOTTOM}" class="grid"/>'
        f'<text x="{place:.1f}" y="{HEIGHT - _BOTTOM + 15}" class="tick">{text}</text>'
    )


def _tick_y(place: float, text: str) -> str:
    return (
        f'<path d="M{_LEFT} {place:.1f}H{WIDTH - _RIGHT}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" class="tick end">{text}</text>'
    )


@dataclass(frozen=True, slots=True)
class _Log:
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        return self.start + (self.end - self.start) * math.log(max(value, self.low) / self.low) / span

    def ticks(self) -> list[float]:
        powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high) + 1e-9) + 1)
        return [10.0**power for power in powers] or [self.high]


@dataclass(frozen=True, slots=True)
class _Linear:
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * min(1.0, value)

    def ticks(self) -> list[float]:
        return [0.0, 0.25, 0.5, 0.75, 1.0]
