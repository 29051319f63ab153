"""What a run found: the tables as CSV, a page, and a plot."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from .answer import Scores, mean
from .compare import MEASURES, compare
from .configurations import BASE, CONFIGURATIONS, SHIPPED
from .sets import FUZZY, JUDGED, Half, JudgedSet

mpl.use("Agg")

Row = dict[str, Any]
Answers = Mapping[tuple[str, str], Scores]
"""Scores by set and configuration."""

WANTED: Final = {
    "name-exact": 0.97, "name-typo": 0.93, "name-variant": 0.93, "name-prefix": 0.85,
    "words-typo": 0.85, "code-exact": 0.90, "code-variant": 0.70,
}  # fmt: skip
"""The least nDCG@10 of each kind of `debian-fuzzy`, at shipped defaults."""
_COLOURS: Final = {"ahead": "#0b6e4f", "tie": "#8a8a8a", "behind": "#b3261e"}
_PARTS: Final[dict[str, tuple[Half, ...]]] = {"tune": ("tune",), "held": ("held",), "all": ("tune", "held")}


def _part(judged: JudgedSet, scores: Scores, part: str, kind: str = "") -> Scores:
    chosen = (query for query in judged.queries if query.half in _PARTS[part] and kind in ("", query.kind))
    return {query.id: scores[query.id] for query in chosen}


def tables(sets: Sequence[JudgedSet], answers: Answers, names: Sequence[str], final: bool) -> dict[str, list[Row]]:
    """Lay out the means, and each configuration against the vector leg alone and against what is shipped."""
    parts = list(_PARTS) if final else ["tune"]
    means: list[Row] = []
    compared: list[Row] = []
    kinds: list[Row] = []
    for judged in sets:
        for part in parts:
            for name in names:
                scores = _part(judged, answers[judged.name, name], part)
                if not scores:
                    continue
                row = {"set": judged.name, "queries": part, "configuration": name, "n": len(scores)}
                means.append(row | {key: f"{mean(scores, key):.4f}" for key in MEASURES})
                compared += [
                    row | {"against": other} | _compared(scores, _part(judged, answers[judged.name, other], part))
                    for other in (BASE, SHIPPED)
                    if other != name and other in names
                ]
                kinds += _kinds(judged, answers[judged.name, name], part, name)
    return {"means": means, "comparisons": compared, "kinds": kinds}


def _compared(ours: Scores, theirs: Scores) -> Row:
    found = compare([ours[key]["ndcg"] for key in ours], [theirs[key]["ndcg"] for key in ours])
    return {
        "difference": f"{found.difference:+.4f}",
        "low": f"{found.low:+.4f}",
        "high": f"{found.high:+.4f}",
        "verdict": found.verdict,
    }


def _kinds(judged: JudgedSet, scores: Scores, part: str, name: str) -> list[Row]:
    if judged.name != FUZZY:
        return []
    rows: list[Row] = []
    for kind in WANTED:
        chosen = _part(judged, scores, part, kind)
        if chosen:
            value = f"{mean(chosen, 'ndcg'):.4f}"
            rows.append({"queries": part, "configuration": name, "kind": kind, "n": len(chosen), "ndcg": value})
    return rows


def write(folder: Path, found: Mapping[str, Sequence[Row]], final: bool) -> None:
    """Write the CSV files, the page and the plot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in found.items():
        if rows:
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    part = "all" if final else "tune"
    _draw(folder / "hybrid.png", found["comparisons"], part)
    (folder / "results.md").write_text("\n".join(_page(found, part, final)) + "\n", encoding="utf-8")


def _page(found: Mapping[str, Sequence[Row]], part: str, final: bool) -> Iterable[str]:
    yield "# Retrieval quality\n"
    yield "Written by `python -m benchmarks.retrieval`; how, and by which rule, is in [the README](../README.md).\n"
    for which in ("held", "all") if final else ("tune",):
        label = {"held": "the held-out half", "all": "all queries", "tune": "the half for tuning"}[which]
        yield f"## Hybrid at shipped defaults against the vector leg alone, {label}\n"
        yield from _against(found, which)
    yield "## nDCG@10 of every configuration\n"
    yield from _every(found["means"], part)
    yield "## Verdicts of every configuration against the vector leg alone (ahead / tie / behind, judged sets)\n"
    yield from _verdicts(found["comparisons"], part)
    if found["kinds"]:
        yield f"## Names, slips and codes ({FUZZY}), nDCG@10 by kind\n"
        yield from _by_kind(found["kinds"], part)
    yield "![Differences to the vector leg alone](hybrid.png)"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _against(found: Mapping[str, Sequence[Row]], part: str) -> Iterable[str]:
    rows = [row for row in found["comparisons"] if _is(row, part, SHIPPED) and row["against"] == BASE]
    value = {(row["set"], row["configuration"]): row for row in found["means"] if row["queries"] == part}
    yield from _table(
        ["set", "n", "vector leg", "hybrid", "difference", "95 % interval", "verdict"],
        [
            [
                row["set"],
                str(row["n"]),
                value[row["set"], BASE]["ndcg"],
                value[row["set"], SHIPPED]["ndcg"],
                row["difference"],
                f"{row['low']} to {row['high']}",
                row["verdict"],
            ]
            for row in rows
        ],  # fmt: skip
    )
    judged = [row for row in rows if row["set"] in JUDGED]
    if judged:
        gain = sum(float(row["difference"]) for row in judged) / len(judged)
        counts = {name: sum(row["verdict"] == name for row in judged) for name in _COLOURS}
        told = ", ".join(f"{name} on {count}" for name, count in counts.items())
        yield f"Over the {len(judged)} judged sets: {told}; mean difference {gain:+.4f}.\n"


def _is(row: Row, part: str, name: str) -> bool:
    return row["queries"] == part and row["configuration"] == name


def _names(rows: Iterable[Row], part: str) -> list[str]:
    return list(dict.fromkeys(row["configuration"] for row in rows if row["queries"] == part))


def _every(means: Sequence[Row], part: str) -> Iterable[str]:
    sets = list(dict.fromkeys(row["set"] for row in means))
    value = {(row["configuration"], row["set"]): row["ndcg"] for row in means if row["queries"] == part}
    lines: list[list[str]] = []
    for name in _names(means, part):
        judged = [float(value[name, key]) for key in sets if key in JUDGED]
        average = f"{sum(judged) / len(judged):.4f}" if judged else ""
        lines.append([name, average, *(value[name, key] for key in sets)])
    yield from _table(["configuration", "mean, judged sets", *sets], lines)


def _verdicts(compared: Sequence[Row], part: str) -> Iterable[str]:
    lines: list[list[str]] = []
    for name in _names(compared, part):
        rows = [r for r in compared if _is(r, part, name) and r["against"] == BASE and r["set"] in JUDGED]
        counts = [sum(row["verdict"] == verdict for row in rows) for verdict in _COLOURS]
        behind = ", ".join(row["set"] for row in rows if row["verdict"] == "behind")
        if rows:
            lines.append([name, " / ".join(map(str, counts)), behind])
    yield from _table(["configuration", "ahead / tie / behind", "behind on"], lines)


def _by_kind(kinds: Sequence[Row], part: str) -> Iterable[str]:
    value = {(row["configuration"], row["kind"]): row["ndcg"] for row in kinds if row["queries"] == part}
    yield from _table(
        ["configuration", *WANTED],
        [
            ["*wanted*", *(f"{least:.2f}" for least in WANTED.values())],
            *([name, *(value[name, kind] for kind in WANTED)] for name in _names(kinds, part)),
        ],
    )


def _draw(path: Path, compared: Sequence[Row], part: str) -> None:
    rows = [row for row in compared if _is(row, part, SHIPPED) and row["against"] == BASE]
    figure = Figure(figsize=(8, 0.45 * len(rows) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(reversed(rows)):
        low, middle, high = (float(row[key]) for key in ("low", "difference", "high"))
        axes.plot([low, high], [place, place], color=_COLOURS[row["verdict"]], linewidth=2)
        axes.plot(middle, place, "o", color=_COLOURS[row["verdict"]])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row["set"] for row in reversed(rows)])
    axes.set_xlabel("nDCG@10, hybrid at shipped defaults minus the vector leg alone, with 95 % interval")
    axes.grid(visible=True, axis="x", alpha=0.3)
    figure.savefig(path, dpi=130)


def known(names: Iterable[str]) -> list[str]:
    """Check names of configurations."""
    chosen = list(names)
    unknown = [name for name in chosen if name not in CONFIGURATIONS]
    if unknown:
        raise SystemExit(f"no configuration {', '.join(unknown)}; there are {', '.join(CONFIGURATIONS)}")
    return chosen
