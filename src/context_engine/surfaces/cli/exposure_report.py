"""The report of `check-acl-exposure` for people at a terminal."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.text import Text

from context_engine.exposure.model import Caller, Figures, Finding, Level, Plan, QuestionKind, Report
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
_PLANS: Final[dict[Plan, str]] = {
    "vector index": "vector",
    "filter index": "filter",
    "sequential scan": "all rows",
    "other": "other",
}
_SHORT: Final = {"planned": "plan", "forced": "index", "iterative": "iter"}


def show(report: Report) -> None:
    """Write the whole report."""
    say(f"{report.target.table.title}", "bold")
    say(subject(report))
    _legend(report)
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
    base = name.removesuffix("-ef")
    short = _SHORT.get(base, base.removeprefix("after-").replace("x", "×"))
    return short if base == name else f"{short}+"


def _legend(report: Report) -> None:
    """Say once what the heads of the columns mean."""
    _heading("Ways of searching")
    rows: list[tuple[str, str]] = []
    for name, title in report.methods.items():
        rows.append((column(name), f"{title}, which is judged" if name == report.method else title))
    out.print(table("", "", rows=rows))


def _figures(report: Report, kind: QuestionKind) -> None:
    _heading(f"Recall@{report.top_k}: {KINDS[kind]}")
    names = [name for name in report.methods if any(name in c.figures.get(kind, {}) for c in report.callers)]
    alone = [report.everything] if report.everything and kind == "own" else []
    callers = [caller for caller in (*alone, *report.callers) if kind in caller.figures]
    heads = ("caller", "sees", *map(column, names))
    out.print(table(*heads, rows=[_row(caller, kind, names, _recall) for caller in callers]))
    if any(figures.empty for caller in callers for figures in caller.figures[kind].values()):
        say("empty answers, in %", "bold")
        out.print(table(*heads, rows=[_row(caller, kind, names, _empty) for caller in callers]))


def _row(
    caller: Caller, kind: QuestionKind, names: Sequence[str], cell: Callable[[Figures | None], Text]
) -> list[str | Text]:
    figures = caller.figures[kind]
    return [_unbroken(caller.label), _unbroken(_share(caller)), *(cell(figures.get(name)) for name in names)]


def _unbroken(text: str) -> Text:
    made = plain(text)
    made.no_wrap = True
    return made


def _recall(figures: Figures | None) -> Text:
    if figures is None or not figures.questions:
        return plain("late" if figures and figures.timeouts else "–", "dim")
    style = "green" if not figures.lossy else "yellow" if figures.recall >= 0.95 else "red"
    # 1.00 is kept for what lost nothing.
    return plain("1.00" if not figures.lossy else f"{min(figures.recall, 0.99):.2f}", style)


def _empty(figures: Figures | None) -> Text:
    if figures is None or not figures.questions:
        return plain("–", "dim")
    return plain(f"{figures.empty * 100:.0f}", "red" if figures.empty else "dim")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}" if share >= 0.01 or not share else f"{share:.3%}"


def _share(caller: Caller) -> str:
    return f"{caller.share:.3%}" if caller.share < 0.001 else f"{caller.share:.2%}"


def _latency(report: Report) -> None:
    _heading("Latency, p50 in ms over all questions")
    every = [*([report.everything] if report.everything else []), *report.callers]
    names = [name for name in report.methods if any(pooled(caller, name).questions for caller in every)]
    rows: list[list[str | Text]] = []
    for caller in every:
        figures = [pooled(caller, name) for name in names]
        cells = [f"{each.p50_ms:.1f}" if each.questions else "–" for each in figures]
        rows.append([_unbroken(caller.label), _unbroken(_share(caller)), *cells])
    out.print(table("caller", "sees", *map(column, names), rows=rows))


def _callers(report: Report) -> None:
    _heading("Callers: how their rows lie, and what follows")
    rows: list[list[str | Text]] = []
    for caller in report.callers:
        finding, layout = report.findings[caller.label], caller.layout
        near = [_percent(layout.near_own), _percent(layout.near_others), _percent(layout.expected)]
        alike = f"{caller.alike:,}" if caller.alike > 1 else "–"
        figures = pooled(caller, report.method)
        grade = plain(finding.level, _STYLES[finding.level])
        lost = f"{figures.lossy} of {figures.questions}"
        rows.append([caller.label, f"{caller.visible:,}", alike, _PLANS[caller.plan], *near, grade, lost])
    columns = ("caller", "rows", "alike", "plan", "near own", "near others", "random", "grade", "lost rows")
    out.print(table(*columns, rows=rows))
    advice: dict[str, list[str]] = {}
    for caller in report.callers:
        finding = report.findings[caller.label]
        if finding.fix:
            advice.setdefault(finding.fix, []).append(f"{caller.label} ({finding.backing})")
    for fix, told in advice.items():
        say(f"→ {fix}")
        say(f"  for {', '.join(told)}", "dim")
