"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from context_engine.exposure.model import Caller, Figures, Finding, QuestionKind, Report
from context_engine.exposure.plot import Line, legend, share_plot
from context_engine.exposure.verdict import ASKED, pooled

KINDS: Final[dict[QuestionKind, str]] = {
    "own": "questions drawn from the caller's own rows",
    "others": "questions drawn from rows that the caller may not see",
    "given": "the questions that were given",
    "random": "a random set of the same size in place of the caller's rows",
}
_BRIEFLY: Final[dict[QuestionKind, str]] = {
    "own": "questions near the caller's rows",
    "others": "questions near other rows",
    "given": "the given questions",
    "random": "a random set of the same size",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td:first-child { white-space: nowrap; }
.scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1rem; }
.finding { border-left: .35rem solid #8a8a8a; padding: .3rem .8rem; margin: .6rem 0; background: var(--soft); }
.no-gap { border-color: #0b6e4f; } .slight { border-color: #e08e0b; }
.gap { border-color: #d9541e; } .severe { border-color: #b3261e; }
.low { color: #b3261e; font-weight: 600; } .fix::before { content: "→ "; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; }
svg.key { width: 28px; height: 8px; margin-right: .4rem; vertical-align: middle; }
svg text { fill: currentColor; font-size: 11px; } svg .title { font-size: 13px; font-weight: 600; }
svg .axis, svg .tick { text-anchor: middle; } svg .end { text-anchor: end; } svg .grid { stroke: #8883; fill: none; }
""".strip()


def page(report: Report) -> str:
    """Write the page."""
    target = report.target
    kinds: list[QuestionKind] = [kind for kind in KINDS if any(kind in caller.figures for caller in report.callers)]
    sections = [
        f"<h1>Are searches on {escape(target.table.title)} losing results to permissions?</h1>",
        f"<p>{escape(subject(report))}</p>",
        "<h2>Verdict</h2>",
        *(_finding(finding) for finding in report.verdict),
        f"<h2>Plots</h2>{legend(list(report.methods.values()))}",
        f'<div class="plots">{"".join(_plots(report, kinds))}</div>',
        "<h2>Callers</h2>",
        _callers_table(report),
        *(f"<h2>Recall@{report.top_k}: {escape(KINDS[kind])}</h2>{_figures_table(report, kind)}" for kind in kinds),
        "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in reading(report)) + "</ul>",
    ]
    title = escape(f"check-acl-exposure: {target.table.title}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "\n".join(sections)
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>\n'


def subject(report: Report) -> str:
    """Say on one line what was measured."""
    target, environment = report.target, report.environment
    index = f"index {target.index.name} ({target.index.method})" if target.index else "no pgvector index"
    base = f", one {target.base[0].name}" if target.base else ""
    return (
        f"{report.vectors:,} rows with vectors ({target.preset}{base}), distance {target.operator}, {index}, "
        f"permission in {target.acl.title} ({target.acl.kind.replace('_', ' ')}), {report.acl_values:,} "
        f"{'principals' if target.preset == 'context-engine' else 'ACL values'}; PostgreSQL {environment.server}, "
        f"pgvector {environment.pgvector}; the {report.top_k} best rows asked for, up to {report.samples} questions "
        "of a kind for each caller."
    )


def reading(report: Report) -> tuple[str, ...]:
    """List the notes, and what has to be known to read the numbers."""
    ef = report.environment.ef_search
    return (
        *report.notes,
        "recall is the share of the exact best rows that came back, the exact answer taken in the same snapshot; the "
        "row that a question was drawn from is left out of both",
        *([f"hnsw.ef_search is {ef} where a way does not say otherwise"] if ef is not None else []),
        "plan, as PostgreSQL makes it today: walks the vector index and filters, or finds the rows by the index on the "
        "permission, or reads all rows",
        "alike: how many ACL values open as many rows as this one; lost rows: of the questions asked, in the way "
        "that is judged",
        "near own, near others: the caller's share of the rows nearest to one of its own, and to one of the others'; "
        "a random set has its plain share in both",
        "latency is what this client waited, one question at a time, after the exact answer had read the same rows",
    )


def _finding(finding: Finding) -> str:
    advice = f'<div class="fix">{escape(_fix(finding))}</div>' if finding.fix else ""
    level = finding.level.replace(" ", "-")
    return f'<div class="finding {level}">{escape(finding.what)}{advice}</div>'


def _fix(finding: Finding) -> str:
    return f"{finding.fix or ''}" + (f" ({finding.backing})" if finding.backing else "")


def _plots(report: Report, kinds: Sequence[QuestionKind]) -> Iterable[str]:
    callers = sorted(report.callers, key=lambda caller: caller.share)
    for kind in kinds:
        yield share_plot(f"Recall@{report.top_k}: {_BRIEFLY[kind]}", _lines(report, callers, kind, "recall"), "recall")
    for kind in kinds:
        lines = _lines(report, callers, kind, "empty")
        if any(value for line in lines for _, value in line.points):
            yield share_plot(f"Empty answers: {_BRIEFLY[kind]}", lines, "empty")
    yield share_plot("Latency, median over all questions", _lines(report, callers, None, "p50_ms"), "ms", True)


def _lines(report: Report, callers: Sequence[Caller], kind: QuestionKind | None, value: str) -> list[Line]:
    lines: list[Line] = []
    for place, name in enumerate(report.methods):
        points: list[tuple[float, float]] = []
        for caller in callers:
            figures = pooled(caller, name) if kind is None else caller.figures.get(kind, {}).get(name)
            if figures and figures.questions and caller.share:
                points.append((caller.share, float(getattr(figures, value))))
        lines.append(Line(report.methods[name], tuple(points), place))
    return lines


def _callers_table(report: Report) -> str:
    head = ("caller", "rows", "share", "plan today", "near own", "near others", "random", "judgement", "what to do")
    rows: list[str] = []
    for caller in report.callers:
        finding, layout = report.findings[caller.label], caller.layout
        plan = f"{caller.plan} {caller.plan_index or ''}".strip()
        near = [_percent(layout.near_own), _percent(layout.near_others), _percent(layout.expected)]
        numbers = "".join(f"<td>{text}</td>" for text in (f"{caller.visible:,}", f"{caller.share:.3%}"))
        cells = [f"<td>{escape(caller.label)}</td>", numbers, f'<td class="text">{escape(plan)}</td>']
        cells += [f"<td>{text}</td>" for text in near]
        texts = (f"{finding.level}: {finding.what}", _fix(finding))
        rows.append("".join([*cells, *(f'<td class="text">{escape(text)}</td>' for text in texts)]))
    return _table(head, rows)


def _figures_table(report: Report, kind: QuestionKind) -> str:
    names = [name for name in report.methods if any(name in c.figures.get(kind, {}) for c in report.callers)]
    rows: list[str] = []
    for caller in report.callers:
        cells = [f"<td>{escape(caller.label)}</td><td>{caller.share:.3%}</td>"]
        cells += [f"<td>{_cell(caller.figures.get(kind, {}).get(name))}</td>" for name in names]
        rows.append("".join(cells))
    return _table(("caller", "share", *(report.methods[name] for name in names)), rows)


def _cell(figures: Figures | None) -> str:
    if figures is None or not figures.questions:
        return "timed out" if figures and figures.timeouts else "–"
    low = ' class="low"' if figures.lossy and figures.recall < 0.95 else ""
    empty = f", {figures.empty:.0%} empty" if figures.empty else ""
    return f"<span{low}>{figures.recall:.3f}</span><br><small>{figures.p50_ms:.1f} ms{empty}</small>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.2%}"


__all__ = ["ASKED", "KINDS", "page", "reading", "subject"]
