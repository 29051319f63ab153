"""Say in plain words what the numbers mean, and which fix they speak for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_engine.exposure.model import Caller, Figures, Finding, Level, QuestionKind, Report
from context_engine.exposure.statistics import at_most, interval, pool

ASKED: Final[tuple[QuestionKind, ...]] = ("own", "others", "given")
_ABOUT: Final[dict[QuestionKind, str]] = {
    "own": "questions near the caller's rows",
    "others": "questions near other rows",
    "given": "the given questions",
}
GOOD_RECALL: Final = 0.99
_SLIGHT: Final = 0.95
_SEVERE: Final = 0.5
_OFTEN_EMPTY: Final = 0.1
_TELLING: Final = 0.02
"""A difference in recall that is worth a sentence."""


def pooled(caller: Caller, method: str) -> Figures:
    """Join a caller's figures for one way over all questions that were really asked."""
    return pool([caller.figures[kind][method] for kind in ASKED if method in caller.figures.get(kind, {})])


def judge(report: Report) -> Report:
    """Add the findings."""
    findings = {caller.label: _judge_caller(report, caller) for caller in report.callers}
    judged = replace(report, findings=findings)
    return replace(judged, verdict=tuple(_judge_all(judged)))


def level_of(figures: Figures) -> Level:
    """Grade one caller's figures."""
    if not figures.questions:
        return "not measured"
    if not figures.lossy:
        return "no gap"
    if figures.recall < _SEVERE or figures.empty >= _OFTEN_EMPTY:
        return "severe"
    return "slight" if figures.recall >= _SLIGHT and not figures.short else "gap"


def is_measured(report: Report) -> bool:
    """Whether any caller had a question with an answer to compare with."""
    return any(pooled(caller, report.method).questions for caller in report.callers)


def passes(report: Report, least: float) -> bool:
    """Whether every caller that was measured keeps at least this recall in the way that is judged."""
    measured = [pooled(caller, report.method) for caller in report.callers]
    return all(figures.recall >= least for figures in measured if figures.questions)


def _judge_caller(report: Report, caller: Caller) -> Finding:
    figures = pooled(caller, report.method)
    level = level_of(figures)
    if level == "not measured":
        return Finding(level, "no question has an answer to compare with: the rows are too few, or time ran out")
    if level == "no gap":
        sure = at_most(figures.questions)
        return Finding(level, f"0 of {figures.questions} questions lost a row; at most {sure:.0%} of such questions do")
    parts = [f"recall {figures.recall:.2f}", f"{figures.lossy} of {figures.questions} questions lost rows"]
    if figures.short:
        parts.append(f"{figures.short:.0%} came short, {figures.empty:.0%} empty")
    return Finding(level, ", ".join(parts), *_fix(report, [caller]))


def _fix(report: Report, callers: Sequence[Caller]) -> tuple[str | None, str | None]:
    """Name the way that finds most for these callers, the fastest of those that find all, and what it did."""
    offered: list[tuple[bool, float, float, str]] = []
    for name in report.methods:
        if name == report.method or (name.startswith("after") and not report.method.startswith("after")):
            continue
        figures = pool([pooled(caller, name) for caller in callers])
        if figures.questions:
            good = figures.recall >= GOOD_RECALL and not figures.short
            offered.append((not good, figures.p50_ms if good else -figures.recall, figures.recall, name))
    now = pool([pooled(caller, report.method) for caller in callers])
    better = [
        offer for offer in offered if offer[2] > now.recall + _TELLING or (not offer[0] and offer[2] > now.recall)
    ]
    if not better:
        return None, None
    name = min(better)[3]
    figures = pool([pooled(caller, name) for caller in callers])
    return _advice(report, callers, name), f"measured: recall {figures.recall:.2f}, p50 {figures.p50_ms:.1f} ms"


def _advice(report: Report, callers: Sequence[Caller], name: str) -> str:
    index = report.target.index
    if report.target.preset == "context-engine":
        return "search through the engine, which asks for the permission in the query"
    if name == "planned":
        return "put the permission into the query itself, before the LIMIT"
    if name == "iterative" and index:
        return f"SET LOCAL {index.method}.iterative_scan = 'relaxed_order' with the permission in the query"
    if name.endswith("-ef") or name.startswith("after"):
        return f"search as in “{report.methods[name]}”"
    if name == "forced":
        return "let the query walk the vector index"
    exact = [caller for caller in callers if caller.routed_exact]
    if len(exact) < len(callers):
        return (
            "route by how much a caller sees: exact up to a threshold, above it an iterative scan with a larger budget"
        )
    advice = "scan the caller's rows exactly: order by an expression that the vector index does not serve"
    if report.filter_index is None:
        advice += f", and make an index on {report.target.acl.title}; it was measured without one"
    return advice


def _judge_all(report: Report) -> Iterator[Finding]:
    measured = [caller for caller in report.callers if pooled(caller, report.method).questions]
    if not measured:
        yield Finding("not measured", "no caller could be measured: see the notes")
        return
    yield _headline(report, measured)
    yield from _planner_luck(report, measured)
    if not report.method.startswith("after"):
        yield from _filter_after(report, measured)
    yield from _layout(report, measured)
    yield from _setup(report)


def _headline(report: Report, measured: Sequence[Caller]) -> Finding:
    total = pool([pooled(caller, report.method) for caller in measured])
    title = report.methods[report.method]
    losing = [caller for caller in measured if pooled(caller, report.method).lossy]
    if not losing:
        return Finding(
            "no gap",
            f"None of {total.questions} questions of {_callers(len(measured))} lost a row ({title}). With 95 % "
            f"confidence at most {at_most(total.questions):.1%} of questions like these lose one (rule of three).",
        )
    worst = min(losing, key=lambda caller: pooled(caller, report.method).recall)
    low = pooled(worst, report.method)
    first, last = interval(total.lossy, total.questions)
    what = (
        f"{len(losing)} of {_callers(len(measured))} {'loses' if len(losing) == 1 else 'lose'} results ({title}): mean "
        f"recall@{report.top_k} {total.recall:.2f}, {total.short:.0%} of the answers short and {total.empty:.0%} "
        f"empty. {total.lossy} of {total.questions} questions lost a row (95 % interval {first:.0%} to {last:.0%}). "
        f"Worst: {worst.label}, who sees {worst.share:.2%} of the rows, recall {low.recall:.2f}."
    )
    alone = report.everything and pooled(report.everything, report.method)
    if alone and alone.questions and alone.lossy:
        what += f" Without any permission the same search has recall {alone.recall:.2f}."
    return Finding(level_of(low), what, *_fix(report, losing))


def _callers(count: int) -> str:
    return f"{count} {'caller' if count == 1 else 'callers'}"


def _planner_luck(report: Report, measured: Sequence[Caller]) -> Iterator[Finding]:
    """Tell when it is the planner's choice alone that keeps results, and what the index would do."""
    if report.method != "planned" or report.target.preset == "context-engine":
        return
    spared = [
        caller
        for caller in measured
        if caller.plan != "vector index" and "forced" in report.methods and pooled(caller, "forced").questions
    ]
    if not spared:
        return
    figures = pool([pooled(caller, "forced") for caller in spared])
    if figures.recall < pool([pooled(caller, "planned") for caller in spared]).recall - _TELLING:
        what = (
            f"For {len(spared)} of {_callers(len(measured))} the planner leaves the vector index aside today. If it "
            f"takes the index (a smaller LIMIT, other statistics, a larger table), recall is {figures.recall:.2f} with "
            f"{figures.empty:.0%} empty."
        )
        yield Finding(level_of(figures), what, "do not leave it to the planner: set the way in the query")


def _filter_after(report: Report, measured: Sequence[Caller]) -> Iterator[Finding]:
    """Tell what an application would get that searches first and filters afterwards."""
    told: list[str] = []
    worst: Figures | None = None
    for name in report.methods:
        if name.startswith("after"):
            figures = pool([pooled(caller, name) for caller in measured])
            if figures.questions:
                title = report.methods[name].removeprefix("filter after, ")
                told.append(f"{title}: recall {figures.recall:.2f}, {figures.empty:.0%} empty")
                worst = worst if worst and worst.recall <= figures.recall else figures
    if worst and worst.lossy:
        what = "An application that filters after the search would get, fetching " + "; ".join(told) + "."
        yield Finding(level_of(worst), what, *_fix(replace(report, method="after-1x"), measured))


def _layout(report: Report, measured: Sequence[Caller]) -> Iterator[Finding]:
    """Say how much of the loss the shape of the permissions causes, for each kind of question."""
    lifts = sorted(lift for caller in measured if (lift := caller.layout.lift) is not None)
    told: list[str] = []
    costs = False
    for kind in ASKED:
        for name in _telling_methods(report):
            pairs = [
                (caller.figures[kind][name], caller.figures["random"][name])
                for caller in measured
                if name in caller.figures.get(kind, {}) and name in caller.figures.get("random", {})
            ]
            now, random = pool([pair[0] for pair in pairs]), pool([pair[1] for pair in pairs])
            if not now.questions or not random.questions or abs(random.recall - now.recall) <= _TELLING:
                continue
            said = f"{report.methods[name]}, {_ABOUT[kind]}: {now.recall:.2f}, at random {random.recall:.2f}"
            if random.recall > now.recall:
                costs = True
                said += f" ({(random.recall - now.recall) / (1 - now.recall):.0%} of the loss is due to the shape)"
            told.append(said)
    if not told:
        return
    what = "Shape of the permissions: "
    if lifts:
        what += (
            f"of the rows nearest to one of their own, callers see {lifts[len(lifts) // 2]:.1f} times as many as they "
            "would of a random set of the same size (median). "
        )
    what += f"Recall as it is, and with the same shares spread at random: {'; '.join(told)}."
    yield Finding("slight" if costs else "no gap", what)


def _telling_methods(report: Report) -> list[str]:
    """Choose the ways whose loss depends most on the layout: what is fetched once, and the walk of the index."""
    wide = "after-10x-ef" if "after-10x-ef" in report.methods else "after-10x"
    walk = "iterative" if "iterative" in report.methods else "forced"
    return [name for name in (wide, walk) if name in report.methods]


def _setup(report: Report) -> Iterator[Finding]:
    target, environment = report.target, report.environment
    if target.index is None and target.preset != "context-engine":
        yield Finding("no gap", "There is no vector index: each search compares every row that it may, and loses none.")
    elif (
        target.index
        and target.index.method == "hnsw"
        and environment.ef_search
        and report.top_k > environment.ef_search
    ):
        what = (
            f"hnsw.ef_search is {environment.ef_search}, below the {report.top_k} rows asked for: the index gives no "
            "more than that, with or without permissions."
        )
        yield Finding("gap", what, f"set hnsw.ef_search to {2 * report.top_k} or more, or use iterative scans")
    if report.filter_index is None and target.preset != "context-engine":
        what = (
            f"No index finds rows by {target.acl.title}: an exact answer for one caller reads all {report.rows:,} rows."
        )
        yield Finding("slight", what, _index_statement(report))


def _index_statement(report: Report) -> str:
    acl, table = report.target.acl, report.target.table.quoted
    column = acl.column.quoted
    keys = ["'" + key.replace("'", "''") + "'" for key in acl.path]
    if acl.kind == "array":
        made = f"USING gin ({column})"
    elif acl.kind == "scalar":
        made = f"({column})"
    elif acl.kind == "json_scalar":
        made = "((" + " -> ".join([column, *keys[:-1]]) + f" ->> {keys[-1]}))"
    else:
        start = column if acl.column.type[1] == "jsonb" else f"{column}::jsonb"
        made = "USING gin ((" + " -> ".join([start, *keys]) + "))"
    return f"CREATE INDEX CONCURRENTLY ON {table} {made}"
