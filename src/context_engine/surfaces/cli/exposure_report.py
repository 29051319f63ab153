"""The report of `check-acl-exposure` for people at a terminal."""

from typing import Final

from rich.text import Text

from context_engine.exposure.model import Caller, Figures, Finding, Level, QuestionKind, Report
from context_engine.exposure.page import KINDS, reading, subject
from context_engine.exposure.verdict import pooled
from context_engine.surfaces.cli.output import out, plain, say, table

_STYLES: Final[dict[Level, str]] = {
    "no gap": "green",
    "slight": "yellow",
    "gap": "red",
    "severe": "bold red",
    "not measured": "dim",
}
_SHORT: Final = {"planned": "planned", "forced": "forced", "iterative": "iterative", "routed": "routed"}


def show(report: Report) -> None:
    """Write the whole report."""
    say(f"{report.target.table.title}", "bold")
    say(subject(report))
    for kind in KINDS:
        if any(kind in caller.figures for caller in report.callers):
            _figures(report, kind)
    _latency(report)
    _callers(report)
    _heading("Verdict")
    for finding in report.verdict:
        _finding(finding)
    _heading("Notes")
    for note in reading(report):
        say(f"· {note}", "dim")


def _heading(text: str) -> None:
    out.print()
    say(text, "bold")


def _finding(finding: Finding) -> None:
    say(f"{finding.level}: {finding.what}", _STYLES[finding.level])
    if finding.fix:
        say(f"→ {finding.fix}" + (f" ({finding.backing})" if finding.backing else ""))


def column(name: str) -> str:
    """Shorten a way's name for the head of a column."""
    return _SHORT.get(name, name.replace("after-", "after ").replace("x", "×").replace("-ef", ", ef↑"))


def _figures(report: Report, kind: QuestionKind) -> None:
    _heading(f"Recall@{report.top_k} (and empty answers): {KINDS[kind]}")
    names = [name for name in report.methods if any(name in c.figures.get(kind, {}) for c in report.callers)]
    rows: list[list[str | Text]] = []
    alone = [report.everything] if report.everything and kind == "own" else []
    for caller in (*alone, *report.callers):
        cells = [_cell(caller.figures.get(kind, {}).get(name)) for name in names]
        rows.append([caller.label, _share(caller), *cells])
    out.print(table("caller", "sees", *map(column, names), rows=rows))


def _cell(figures: Figures | None) -> Text:
    if figures is None or not figures.questions:
        return plain("timed out" if figures and figures.timeouts else "–", "dim")
    empty = f" ({figures.empty:.0%})" if figures.empty else ""
    style = "green" if not figures.lossy else "yellow" if figures.recall >= 0.95 else "red"
    # 1.00 is kept for what lost nothing.
    recall = "1.00" if not figures.lossy else f"{min(figures.recall, 0.99):.2f}"
    return plain(recall + empty, style)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}" if share >= 0.01 or not share else f"{share:.3%}"


def _share(caller: Caller) -> str:
    return f"{caller.share:.3%}" if caller.share < 0.001 else f"{caller.share:.2%}"


def _latency(report: Report) -> None:
    _heading("Latency, p50 in ms over all questions")
    every = [*([report.everything] if report.everything else []), *report.callers]
    names = [name for name in report.methods if any(pooled(caller, name).questions for caller in every)]
    rows: list[list[str]] = []
    for caller in every:
        figures = [pooled(caller, name) for name in names]
        cells = [f"{each.p50_ms:.1f}" if each.questions else "–" for each in figures]
        rows.append([caller.label, _share(caller), *cells])
    out.print(table("caller", "sees", *map(column, names), rows=rows))


def _callers(report: Report) -> None:
    _heading("Callers: how their rows lie, and what follows")
    rows: list[list[str | Text]] = []
    for caller in report.callers:
        finding, layout = report.findings[caller.label], caller.layout
        near = [_percent(layout.near_own), _percent(layout.near_others), _percent(layout.expected)]
        alike = f"{caller.alike:,}" if caller.alike > 1 else "–"
        plan = f"{caller.plan} {caller.plan_index or ''}".strip()
        words = plain(f"{finding.level}: {finding.what}", _STYLES[finding.level])
        rows.append([caller.label, f"{caller.visible:,}", alike, plan, *near, words])
    columns = ("caller", "rows", "alike", "plan today", "near own", "near others", "random", "judgement")
    out.print(table(*columns, rows=rows))
    advice: dict[str, list[str]] = {}
    for caller in report.callers:
        finding = report.findings[caller.label]
        if finding.fix:
            advice.setdefault(finding.fix, []).append(f"{caller.label} ({finding.backing})")
    for fix, told in advice.items():
        say(f"→ {fix}")
        say(f"  for {', '.join(told)}", "dim")
