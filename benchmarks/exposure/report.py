"""The results as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .plots import KINDS

_SHOWN: Final = ("after-1x", "after-10x", "after-10x-ef", "after-50x-ef", "planned", "forced", "iterative", "routed")


def page(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Write `results.md`."""
    first = next(iter(reports.values()))
    environment, machine = first["environment"], first["machine"]
    parts = [
        "# What check-acl-exposure shows on one table in three layouts",
        "Made by `make bench-exposure`; the whole reports are beside this page.",
        f"{first['vectors']:,} rows, {first['target']['dim']} dimensions, HNSW (m 16, ef_construction 64), a GIN index "
        f"on each ACL column; hnsw.ef_search {environment['ef_search']}; PostgreSQL {environment['server']}, pgvector "
        f"{environment['pgvector']}; {machine['cores']} cores; load average at start and end of each layout: "
        f"{'; '.join(str(report['machine']['load_average']) for report in reports.values())}. "
        f"{first['samples']} questions of each kind for each caller. Recall is against the exact answer; in brackets "
        "the share of empty answers.",
        "![Recall against the visible share](recall.png)",
    ]
    for layout, report in reports.items():
        parts += [f"## {layout}", "\n".join(f"- {finding['what']}" for finding in report["verdict"])]
        for kind, title in KINDS.items():
            parts += [f"### {layout}: {title}", _recall(report, kind)]
        parts += [
            f"### {layout}: a random set of the same size in place of each caller's rows",
            _recall(report, "random"),
        ]
        parts += [f"### {layout}: latency, p50 in ms, questions near the caller's rows", _latency(report)]
    return "\n\n".join(parts) + "\n"


def _recall(report: Mapping[str, Any], kind: str) -> str:
    ways = [way for way in _SHOWN if any(way in caller["figures"].get(kind, {}) for caller in report["callers"])]
    rows: list[Sequence[str]] = []
    for caller in report["callers"]:
        figures = caller["figures"].get(kind)
        if figures:
            cells = [_cell(figures.get(way)) for way in ways]
            rows.append([f"{caller['share']:.2%}", caller["plan"], *cells])
    return _table(["sees", "plan today", *(report["methods"][way] for way in ways)], rows)


def _cell(figures: Mapping[str, Any] | None) -> str:
    if not figures or not figures["questions"]:
        return "–"
    empty = f" ({figures['empty']:.0%})" if figures["empty"] else ""
    return f"{figures['recall']:.3f}{empty}"


def _latency(report: Mapping[str, Any]) -> str:
    ways = [way for way in _SHOWN if way in report["methods"]]
    rows: list[Sequence[str]] = []
    for caller in report["callers"]:
        figures = caller["figures"].get("own", {})
        cells = [f"{figures[way]['p50_ms']:.1f}" if way in figures else "–" for way in ways]
        rows.append([f"{caller['share']:.2%}", *cells])
    return _table(["sees", *(report["methods"][way] for way in ways)], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
