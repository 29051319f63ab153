"""The page: what was measured, on what, and what it does not show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.latency.report import table

from context_engine.settings import SearchSettings

from .generate import KINDS, NEIGHBOURS, NOISE, QUESTION_NOISE, TOWARDS
from .load import HNSW_EF_CONSTRUCTION, HNSW_M
from .measure import Plan, Row
from .methods import LIMIT
from .plots import APART, growth
from .summary import UNFILTERED, at_equal_recall, beside_at

LEAST_RECALL: Final = 0.99
MOST_TIMES_HNSW: Final = 3.0
LEAST_TIMES_WIDE: Final = 4.0
_MIB: Final = 1024 * 1024
_COMPARED: Final = ("ours", "planner", "iterative", "after-1x", "after-10x", "after-50x", "faiss-filtered-ef400")

_LIMITS = """\
## What this does not show

- The vectors are made from real ones, not embedded from texts: how they lie together is kept, what they mean is not.
- One question at a time on one machine, warm; nothing about throughput, many writers, or a network in between.
- "ours" is the vector leg by itself: one transaction with its statement, by the route that the engine takes. Which
  access classes a caller sees is looked up before, once per search in the engine, and is not counted here; neither is
  fusion. Plain statements are given the classes too.
- Plain pgvector has an index on each column of access classes beside the HNSW index, and chooses its plan; its
  statistics are fresh. Methods that are slow for a caller answer fewer questions (`questions` in `summary.csv`).
- HNSW without a filter is asked for what nobody but an unlimited caller may have; it stands for the cost of the walk.
- Recall counts rows that are as near as the last true one, to 0.000001, as found. Questions whose exact answer is empty
  count as found.
- How HNSW compares depends on the questions: it finds what is near one stored vector with ease, and loses much of what
  lies in two places. The table by kind shows both.
- The index is built once, in the first layout; the others take it over with their own access classes, since centroids
  and signs do not depend on who may see what.
"""


_GROWTH: Final = (
    "What is scanned exactly costs the same whatever the size of the table, and grows in proportion to what is "
    "visible: rows of one access class lie together, so hidden rows are not read. By the index a fixed number of "
    "visible rows is ranked, and the hidden entries between them are read too: the cost grows with stored over "
    "visible, and hardly with what is visible once that is most of the table. Where the two meet, the route "
    "changes (decision 0041; a point of 100,000 visible in 500,000 stored that takes over 100 ms was measured "
    "before the last change of that rule).\n"
)


def page(facts: dict[str, Any], lines: list[Row], by_kind: dict[str, list[Row]]) -> str:
    ours = _of_ours(lines)
    return "\n".join(
        [
            f"# The vector leg at {facts['chunks']:,} chunks\n",
            _opening(facts),
            "## Targets\n",
            _targets(facts, lines, ours),
            _kinds(by_kind),
            "## Ours, by layout and share\n",
            _ours(lines, ours),
            "![Recall by visible share](recall.png)\n",
            "![Latency by visible share](latency.png)\n",
            "## Beside it\n",
            _beside(lines),
            _unfiltered(lines),
            _wide(facts, lines),
            "## As it grows\n",
            "![Latency as the table grows](growth.png)\n",
            _growth(lines),
            _GROWTH,
            "## Size, build time, memory\n",
            _build(facts),
            _sizes(facts),
            "## Callers\n",
            _callers(facts),
            "## Conditions\n",
            _conditions(facts),
            _LIMITS,
        ]
    )


def _opening(facts: dict[str, Any]) -> str:
    plan = Plan(**facts["plan"])
    classes = ", ".join(f"{name} {count:,}" for name, count in facts["classes"].items())
    low, high = TOWARDS
    return (
        f"Vectors: each is made from one of {facts['base']:,} embeddings ({facts['data']}) drawn at random, moved"
        f" towards one of its {NEIGHBOURS} nearest by a part between {low:g} and {high:g}, with noise of {NOISE:g}"
        " times the distance to its nearest, and brought to unit length. It inherits that document's owners.\n\n"
        f"Questions: {plan.questions}, drawn from everything that is stored, as many of each kind. Near: a stored"
        f" vector with noise (standard deviation {QUESTION_NOISE:g} in each dimension). Between: the sum of two stored"
        " vectors, whose nearest lie in two places. Asked: real short questions on the corpus that the vectors were"
        f" made from. Limit {LIMIT}; the order of the methods is drawn anew for each question.\n\n"
        f"Access classes: {classes}. Random: drawn. Clustered: whole clusters around seeds. Owned: the real owners.\n\n"
        f"The route is exact up to {facts['threshold']:,} visible chunks, in a table of more than 240,000 up to a"
        f" number that grows with the root of its size; above it {facts['ann_rows']:,} visible rows are ranked by"
        f" signs, or {SearchSettings().ann_share:.0%} of the root of visible times all rows where that is more.\n"
    )


def _targets(facts: dict[str, Any], lines: list[Row], ours: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    exact = [line for line in [*ours, *(x for x in lines if x["method"] == "exact")] if line["note"] == "exact"]
    if exact:
        rows.append(_bound("recall@10, exact route, lowest", "1", exact, "recall@10", lambda value: value >= 1))
    wanted = f"at least {LEAST_RECALL:g}"
    for depth in (10, 50):
        column = f"recall@{depth}"
        rows.append(_bound(f"{column}, lowest", wanted, ours, column, lambda value: value >= LEAST_RECALL))
    empty, short = sum(line["empty"] for line in ours), sum(line["short"] for line in ours)
    rows.append(("empty lists, short lists", "0, 0", f"{empty}, {short}", _yes(empty + short == 0)))
    ratios = [(line["p50_ms"] / found[0]["p50_ms"], line) for line in ours if (found := at_equal_recall(lines, line))]
    if ratios:
        ratio, line = max(ratios, key=lambda pair: pair[0])
        rows.append(
            (f"p50 over HNSW without a filter at equal recall, highest ({_where(line)})",
             f"at most {MOST_TIMES_HNSW:g}", ratio, _yes(ratio <= MOST_TIMES_HNSW))
        )  # fmt: skip
        within = sum(ratio <= MOST_TIMES_HNSW for ratio, _ in ratios)
        rows.append(("callers within that", len(ratios), within, _yes(within == len(ratios))))
    for target, ratio in _wide_ratios(lines):
        rows.append(
            (f"p50 of one wide table over p50 of ours, exact, {target:.0%} of {facts['chunks']:,}",
             f"at least {LEAST_TIMES_WIDE:g}", ratio, _yes(ratio >= LEAST_TIMES_WIDE))
        )  # fmt: skip
    return table(("", "wanted", "measured", "reached"), rows)


def _of_ours(lines: list[Row]) -> list[Row]:
    return [line for line in lines if line["method"] == "ours" and line["layout"] not in APART]


def _kinds(by_kind: dict[str, list[Row]]) -> str:
    """Show what a mean over all questions hides: HNSW finds one kind with ease, and loses much of another."""
    rows: list[Sequence[object]] = []
    for kind, lines in by_kind.items():
        ours = _of_ours(lines)
        pairs = [
            (line["p50_ms"] / found[0]["p50_ms"], line) for line in ours if (found := at_equal_recall(lines, line))
        ]
        ratio, where = max(pairs, key=lambda pair: pair[0], default=("", None))
        within = f"{sum(pair[0] <= MOST_TIMES_HNSW for pair in pairs)} of {len(pairs)}" if pairs else ""
        rows.append(
            (kind, f"{min(x['recall@10'] for x in ours):.4f}", f"{min(x['recall@50'] for x in ours):.4f}", ratio,
             _where(where) if where else "", within)
        )  # fmt: skip
    header = ("questions", "lowest recall@10", "lowest recall@50", "highest p50 over HNSW at equal recall", "where",
              f"callers at {MOST_TIMES_HNSW:g} or less")  # fmt: skip
    return "### By kind of question\n\n" + table(header, rows)


def _bound(
    what: str, wanted: str, lines: list[Row], column: str, reached: Callable[[float], bool]
) -> tuple[object, ...]:
    line = min(lines, key=lambda line: line[column])
    return (f"{what} ({_where(line)})", wanted, f"{line[column]:.4f}", _yes(reached(line[column])))


def _where(line: Row) -> str:
    return f"{line['layout']}, {_percent(line['target'])}"


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.01 else f"{share:.0%}"


def _ours(lines: list[Row], ours: list[Row]) -> str:
    header = ("layout", "caller", "sees", "route", "p50 ms", "p95 ms", "recall@10", "recall@50", "empty", "short",
              "HNSW without a filter, at equal recall@10: ef", "its recall@10", "its p50 ms", "ours over it",
              "ours over ef 100, whatever it finds")  # fmt: skip
    rows: list[Sequence[object]] = []
    for line in ours:
        found = at_equal_recall(lines, line)
        beside: tuple[object, ...] = ("", "", "", "")
        hundred = beside_at(lines, line, f"{UNFILTERED}100")
        if found:
            best, reached = found
            ef = best["method"].removeprefix(UNFILTERED) + ("" if reached else ", finds less")
            beside = (ef, f"{best['recall@10']:.4f}", best["p50_ms"], line["p50_ms"] / best["p50_ms"])
        rows.append(
            (line["layout"], _percent(line["target"]), f"{line['visible']:,}", line["note"], line["p50_ms"],
             line["p95_ms"], f"{line['recall@10']:.4f}", f"{line['recall@50']:.4f}", line["empty"], line["short"],
             *beside, "" if not hundred else line["p50_ms"] / hundred["p50_ms"])
        )  # fmt: skip
    return table(header, rows)


def _beside(lines: list[Row]) -> str:
    parts: list[str] = []
    for name, cell in (
        ("recall@10", lambda line: f"{line['recall@10']:.3f}"),
        ("p50 in ms", lambda line: line["p50_ms"]),
        ("questions with an empty or a short list, of those asked", lambda line: _lists(line)),
    ):
        parts.append(f"### {name}\n\n" + _matrix(lines, cell))
    plans = [line for line in lines if line["method"] in ("planner", "iterative")]
    rows = [(line["layout"], _percent(line["target"]), line["method"], line["note"]) for line in plans]
    if rows:
        parts.append("### How pgvector found its rows\n\n" + table(("layout", "caller", "method", "plan"), rows))
    return "\n".join(parts)


def _lists(line: Row) -> str:
    return f"{line['empty']} + {line['short'] - line['empty']} of {line['questions']}"


def _matrix(lines: list[Row], cell: Callable[[Row], object]) -> str:
    found = {(line["layout"], line["target"], line["method"]): line for line in lines if line["layout"] not in APART}
    methods = [name for name in ("exact", *_COMPARED) if any(key[2] == name for key in found)]
    places = list(dict.fromkeys((key[0], key[1]) for key in found))
    rows = [
        (layout, _percent(target),
         *(cell(found[key]) if (key := (layout, target, name)) in found else "" for name in methods))
        for layout, target in places
    ]  # fmt: skip
    return table(("layout", "caller", *methods), rows)


def _unfiltered(lines: list[Row]) -> str:
    names = [line["method"] for line in lines if "unfiltered" in line["method"]]
    rows: list[Sequence[object]] = []
    for name in dict.fromkeys(names):
        chosen = [line for line in lines if line["method"] == name]
        p50 = sorted(line["p50_ms"] for line in chosen)
        columns = ("recall@10", "recall@50", *(f"recall@10 {kind}" for kind in KINDS))
        recalls = [sum(line[column] for line in chosen) / len(chosen) for column in columns]
        rows.append((name, p50[len(p50) // 2], f"{p50[0]:.2f} to {p50[-1]:.2f}", *(f"{x:.4f}" for x in recalls)))
    if not rows:
        return ""
    header = ("", "p50 ms, median over callers", "lowest to highest", "recall@10", "recall@50",
              *(f"recall@10, {kind}" for kind in KINDS))  # fmt: skip
    return "### HNSW without a filter, over everything\n\n" + table(header, rows)


def _wide_ratios(lines: list[Row]) -> list[tuple[float, float]]:
    chosen = {(line["target"], line["method"]): line["p50_ms"] for line in lines if line["layout"] == "wide"}
    return [(key[0], chosen[key[0], "wide"] / p50) for key, p50 in chosen.items() if key[1] == "ours"]


def _wide(facts: dict[str, Any], lines: list[Row]) -> str:
    chosen = [line for line in lines if line["layout"] == "wide"]
    if not chosen:
        return ""
    known = facts["filled"]["wide"]
    rows = [
        (_percent(x["target"]), f"{x['visible']:,}", x["method"], x["p50_ms"], x["p95_ms"], f"{x['recall@10']:.4f}")
        for x in chosen
    ]
    return (
        "### One wide table, exact\n\nText and a `vector` in one row, rows as they came, an index on the access class;"
        f" {known['vectors_out_of_line']:.0%} of the vectors out of line, {known['mean_characters']:.0f} characters of"
        " text on average.\n\n" + table(("caller", "sees", "", "p50 ms", "p95 ms", "recall@10"), rows)
    )


def _growth(lines: list[Row]) -> str:
    series = growth([line for line in lines if line["method"] == "ours"])
    rows = [(f"{visible:,}", f"{count:,}", p50) for visible, points in series.items() for count, p50 in points]
    return table(("visible chunks, about", "chunks stored", "p50 ms"), rows)


def _build(facts: dict[str, Any]) -> str:
    rows: list[Sequence[object]] = []
    for name, done in facts["filled"].items():
        if name == "wide":
            continue
        index = done.get("index", done)
        seconds = {"rows": done.get("rows_s", done.get("fill_s")), "index": index.get("seconds", index.get("hnsw_s"))}
        rows.append(
            (name, seconds["rows"], "" if seconds["index"] is None else seconds["index"],
             index.get("taken_over_s", ""), *_memory(index))
        )  # fmt: skip
    if "faiss" in facts:
        known = facts["faiss"]
        rows.append((f"faiss {known['version']}, in process", "", known["seconds"], "", *_memory(known)))
    header = ("", "rows, s", "index built, s", "index taken over, s", "Python MiB: before, highest",
              "server MiB: before, highest")  # fmt: skip
    return (
        f"HNSW everywhere: m {HNSW_M}, ef_construction {HNSW_EF_CONSTRUCTION}; the one in the database is built by"
        " up to two workers beside the leader, with 2 GB.\n\n" + table(header, rows)
    )


def _memory(known: dict[str, Any]) -> tuple[str, str]:
    def pair(name: str) -> str:
        before, peak = known.get(f"{name}_before_mib"), known.get(f"{name}_peak_mib")
        return "" if before is None else f"{before:,.0f}, {peak:,.0f}"

    return pair("python"), pair("server")


def _sizes(facts: dict[str, Any]) -> str:
    rows: list[Sequence[object]] = []
    for size in facts["sizes"]:
        indexes: dict[str, int] = size["indexes"] or {}
        listed = ", ".join(f"{n} {b / _MIB:.1f}" for n, b in sorted(indexes.items(), key=lambda pair: -pair[1]))
        rows.append((f"{size['schema']}.{size['table']}", f"{size['rows']:,}", size["table_bytes"] / _MIB, listed))
    return table(("table", "rows (estimate)", "table MiB", "each index MiB"), rows)


def _callers(facts: dict[str, Any]) -> str:
    return table(
        ("layout", "caller", "sees", "access classes", "who"),
        (
            (c["layout"], _percent(c["target"]), f"{c['visible']:,}", f"{c['classes']:,}", c["how"])
            for c in facts["callers"]
        ),
    )


def _conditions(facts: dict[str, Any]) -> str:
    found = dict(facts["conditions"])
    settings = found.pop("server_settings")
    rows = [(name, str(value)) for name, value in found.items()]
    rows += [(f"server: {name}", value) for name, value in settings.items()]
    rows.append(("load average at start and end", facts["load_average"]))
    return table(("", ""), rows)
