"""The page: what was measured, on what, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from .baselines import LEGS
from .data import CLASSES, LONG_WORDS, SEED
from .measure import Plan
from .summary import Row, find, stages

TARGETS: Final = (
    ("10.0%", "long", "peer", 50.0),
    ("10.0%", "short", "peer", 20.0),
    ("10.0%", "long", "plain", 5.0),
    ("10.0%", "short", "plain", 5.0),
)
_MIB = 1024 * 1024
_NAMES = {"ours": "Context Engine", "peer": "peer's shapes", "plain": "best plain SQL"}

_LIMITS = """\
## What this does not show

- One question at a time on one machine: nothing about throughput, many callers at once, or a database over a network.
- The time to embed a question is not in it: vectors are looked up.
- All methods are warm and share one server, whose buffers hold the tables of all; the processor's caches hold what the
  method before has left.
- The peer is rebuilt from the shape of its statements, not run. Its legs run one after the other here; the column
  "legs at once" takes only the slowest of them, with nothing for the others, against our whole search.
- A leg of ours by itself is a whole search with the other legs off, access classes and texts of the hits included; a
  leg in plain SQL is its statement alone.
- The methods do not answer alike. `ts_rank` and `ts_rank_cd` have no idf; trigram similarity is over texts or names
  where ours is over words; HNSW is approximate. Which answers are better is for the other benchmarks.
- "Best plain SQL" is the fastest of the statements in `baselines.py`, chosen per leg, caller and class of question on
  questions that are among those measured, which favours it. A vector statement competes when it finds at least
  nine tenths of the ten nearest visible documents; text statements compete whatever they find.
- Long questions are beginnings of descriptions, not questions that people asked; their vectors are mixed, not embedded.
"""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = number(value) if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def number(value: float) -> str:
    """Write a number with about three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def page(facts: dict[str, Any], lines: list[Row], raw: list[Row], tried: list[Row]) -> str:
    plan = Plan(**facts["plan"])
    return "\n".join(
        [
            "# Latency of permission-aware search\n",
            _opening(facts, plan),
            _targets(lines),
            "## Whole hybrid search\n",
            "![Latency of a whole search by visible share](hybrid.png)\n",
            _hybrid(lines),
            "## Each leg by itself\n",
            "![Latency of each leg by visible share](legs.png)\n",
            *(_leg(lines, leg) for leg in LEGS),
            "## Where our time goes\n",
            _stages(raw),
            "## The plain statements that won\n",
            _winners(tried),
            "## Ingest and memory\n",
            _ingest(facts),
            _sizes(facts),
            "## Conditions\n",
            _conditions(facts),
            _LIMITS,
        ]
    )


def _opening(facts: dict[str, Any], plan: Plan) -> str:
    callers = table(
        ("caller", "sees", "share", "who"),
        ((c["label"], f"{c['visible']:,}", f"{c['share']:.2%}", c["how"]) for c in facts["callers"]),
    )
    counts = facts["questions"]
    return (
        f"{facts['documents']:,} documents ({facts['data']}), {counts['long']} long questions and {counts['short']}"
        " short names, one at a time; the order of the methods is drawn anew for each question.\n\n"
        f"Long: the first {LONG_WORDS[0]} to {LONG_WORDS[1]} words of a document's description (`random.Random({SEED})`"
        " draws the documents), with a vector mixed from its own and two of its section. Short: package names, whole,"
        " misspelled, written otherwise and cut off, with the stored vectors.\n\n"
        f"Each cell: {plan.warm_up} questions to warm up, then every question once; a plain method stops after"
        f" {plan.budget_s:g} s, but not before {plan.least_runs} questions. A plain statement is cut off at"
        f" {plan.timeout_s:g} s and counts with that time.\n\n" + callers
    )


def _targets(lines: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    for caller, kind, method, least in TARGETS:
        line = find(lines, caller=caller, **{"class": kind}, part="hybrid", method=method)
        if line:
            ratio = float(line["ratio_p50"])
            rows.append(
                (f"{kind} questions, caller with {caller}, against {_NAMES[method]}", f"at least {least:g}",
                 ratio, "yes" if ratio >= least else "no")
            )  # fmt: skip
    hybrid = [line for line in lines if line["part"] == "hybrid" and line["method"] != "ours"]
    if hybrid:
        low = min(hybrid, key=lambda line: float(line["ratio_p50"]))
        where = f"{low['class']}, {low['caller']}, {_NAMES[low['method']]}"
        ratio = float(low["ratio_p50"])
        rows.append(
            (
                f"the lowest of all rows ({where})",
                "at least 1",
                ratio,
                "yes" if ratio >= 1 else "no",
            )
        )
    return table(("p50 of the other over p50 of ours, whole search", "wanted", "measured", "reached"), rows)


def _hybrid(lines: list[Row]) -> str:
    header = ("questions", "caller", "method", "n", "p50 ms", "p90 ms", "p95 ms", "ratio of p50", "ratio, legs at once",
              "cut off", "lists under 10")  # fmt: skip
    return table(header, (
        (line["class"], line["caller"], _NAMES[line["method"]], line["questions"], float(line["p50_ms"]),
         float(line["p90_ms"]), float(line["p95_ms"]), line.get("ratio_p50", ""),
         line.get("ratio_p50_if_legs_at_once", ""), line["timed_out"], line["short_lists"])
        for line in _ordered(lines, "hybrid")
    ))  # fmt: skip


def _leg(lines: list[Row], leg: str) -> str:
    extra = ("recall@10",) if leg == "vector" else ()
    header = (
        "questions",
        "caller",
        "method",
        "n",
        "p50 ms",
        "p95 ms",
        "ratio of p50",
        "cut off",
        "way taken",
        *extra,
    )
    rows = [
        (line["class"], line["caller"], _NAMES[line["method"]], line["questions"], float(line["p50_ms"]),
         float(line["p95_ms"]), line.get("ratio_p50", ""), line["timed_out"], line["note"],
         *((line["recall"],) if extra else ()))
        for line in _ordered(lines, leg)
    ]  # fmt: skip
    return f"### {leg}\n\n" + table(header, rows)


def _ordered(lines: list[Row], part: str) -> list[Row]:
    chosen = [line for line in lines if line["part"] == part]
    return sorted(chosen, key=lambda line: CLASSES.index(line["class"]))


def _stages(raw: list[Row]) -> str:
    found = stages(raw)
    names = list(dict.fromkeys(row["stage"] for row in found))
    cells = {(row["class"], row["caller"], row["stage"]): row["p50_ms"] for row in found}
    places = list(dict.fromkeys((row["class"], row["caller"]) for row in found))
    places.sort(key=lambda place: CLASSES.index(place[0]))
    rows = [(*place, *(float(cells.get((*place, name), 0.0)) for name in names)) for place in places]
    return "Medians in ms, whole hybrid search.\n\n" + table(("questions", "caller", *names), rows)


def _winners(tried: list[Row]) -> str:
    best = [row for row in tried if str(row["chosen"]) == "True"]
    rows = [
        (
            row["class"],
            row["caller"],
            row["leg"],
            row["statement"],
            float(row["p50_ms"]),
            row["rows"],
        )
        for row in best
    ]
    head = ("questions", "caller", "leg", "statement", "p50 ms when chosen", "rows")
    return "Every statement tried, with its time, is in `candidates.csv`.\n\n" + table(head, rows)


def _ingest(facts: dict[str, Any]) -> str:
    done = facts["ingest"]
    stages_s = ", ".join(f"{name} {ms / 1000:.1f}" for name, ms in done["timings_ms"].items())
    memory = done["memory"]
    rows: list[Sequence[object]] = [
        ("documents, chunks", f"{done['documents']:,}, {done['chunks']:,}"),
        ("seconds in all, one call", done["wall_s"]),
        ("seconds by stage", stages_s),
        ("documents a second, all counted", done["documents_per_s"]),
        ("documents a second, without the embedder", done["documents_per_s_without_embedder"]),
        (
            "documents a second, without the embedder and the upkeep after (statistics, vector index)",
            done["documents_per_s_without_embedder_and_settling"],
        ),
        (
            "Python process, MiB: before (the corpus and its vectors are in memory), highest",
            f"{memory['python_before_mib']:.0f}, {memory['python_peak_mib']:.0f}",
        ),
    ]
    if "server_peak_mib" in memory:
        rows.append(
            (
                "server's processes together, MiB (shared memory counted once): before, highest",
                f"{memory['server_before_mib']:.0f}, {memory['server_peak_mib']:.0f}",
            )
        )
    wide = facts["wide"]["seconds"]
    rows += [(f"wide table, seconds: {name}", float(spent)) for name, spent in wide.items()]
    share = facts["wide"]["vectors_out_of_line"]
    rows.append(("wide table: vectors stored out of line", f"{share:.1%}"))
    return table(("", ""), rows)


def _sizes(facts: dict[str, Any]) -> str:
    rows: list[Sequence[object]] = []
    for size in facts["sizes"]:
        indexes: dict[str, int] = size["indexes"] or {}
        parts = sorted(indexes.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{name.split('.')[-1]} {bytes_ / _MIB:.1f}" for name, bytes_ in parts)
        rows.append(
            (f"{size['schema']}.{size['table']}", f"{size['rows']:,}", size["heap_bytes"] / _MIB,
             size["toast_bytes"] / _MIB, size["index_bytes"] / _MIB, listed)
        )  # fmt: skip
    header = (
        "table",
        "rows (estimate)",
        "heap MiB",
        "TOAST and maps MiB",
        "indexes MiB",
        "each index MiB",
    )
    return table(header, rows)


def _conditions(facts: dict[str, Any]) -> str:
    found = dict(facts["conditions"])
    settings = found.pop("server_settings")
    rows = [(name, str(value)) for name, value in found.items()]
    rows += [(f"server: {name}", value) for name, value in settings.items()]
    rows.append(("load average at start and end", facts["load_average"]))
    return table(("", ""), rows)
