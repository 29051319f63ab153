"""The page: what was measured, on what, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from benchmarks.latency.report import table

from context_engine.exposure.statistics import at_most

from . import oracle
from .layouts import CLEARED, CONTRACTOR, LIMITED_SHARE, PUBLIC_SHARE, TEAMS
from .measure import ALONE, ASKED_EXACT, FORCED, IN_QUERY, Row, differing
from .ways import AFTER, LEGS, WORDS

_SHAPED: Final = ("ann", "fts any", "hybrid")
_HELD: Final = (IN_QUERY, ASKED_EXACT, FORCED)
_LIMITS: Final = """\
## What this does not show

- The reference is this engine too, on other tables: it shows that hidden documents change nothing, not that the
  ranking is right. The oracles are for that; they share with the engine how text is cut and becomes lexemes, and the
  edit distance of a library. They cover each leg's first ten, not the fusion; fusion is held in `tests/authz`.
- The reference lies in a schema of its own in the same server, with tables, indexes, lexicon and counts of its own, and
  its rows are copied, not ingested again. Who sees a document there is worked out by set logic in this benchmark.
- "Filter after" drops rows from the same engine's answer to everyone's search, and scans all vectors: it is what
  over-fetching costs in results at best. An approximate index under it would lose more. Its time is that of the
  search without a filter, texts of all candidates included; checking permissions is not in it.
- A hybrid search at 50× fuses 500 candidates of each leg where the reference fuses 100. That alone changes its ten, as
  the callers who see everything show; what they lose is not the filter's doing.
- Whether what a caller gets is relevant is not measured here: recall is against the visible-only database's ten.
- Random and clustered callers are constructed. The owned layout is one distribution of owners, of Debian packages, put
  together with judged sets that have one owner each; a caller there sees what that person sees, not a chosen share.
- One question at a time on one machine that was not idle, each question asked once; vectors are looked up, so the time
  to embed a question is not in any figure. Load averages stand with the callers.
- Nearly every document is one chunk, and a vector stands for the first 256 tokens of it.
- Equality was seen on these questions. Where none of n differed, the rule of three says that, with 95 % confidence, at
  most 3 / n of such questions would; it is about questions like these, not about any.
"""


def page(facts: dict[str, Any], lines: list[Row], raw: list[Row]) -> str:
    return "\n".join(
        [
            "# What permissions cost a caller\n",
            _opening(facts),
            _verdict(facts, lines, raw),
            "![Recall by visible share](recall.png)\n",
            "## What a filter that comes after loses\n",
            _shape(lines),
            "## Recall@10, by leg\n",
            _explained(),
            *(_recall(lines, leg) for leg in LEGS),
            "## Above the exact threshold, and the index forced below it\n",
            _routes(facts, lines),
            "## How many words are respelled\n",
            _words(lines),
            "## Oracles\n",
            _oracles(facts),
            "## Time\n",
            "![Median of each leg by visible share](latency.png)\n",
            _times(lines),
            "## Callers\n",
            _callers(facts),
            _LIMITS,
            "## Conditions\n",
            _conditions(facts),
        ]
    )


def _opening(facts: dict[str, Any]) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in facts["questions"].items())
    return (
        f"{facts['chunks']:,} chunks of {facts['documents']:,} documents ({facts['data']}),"
        f" {sum(facts['questions'].values())} questions ({kinds}). Made by `make bench-acl-recall`; one row for each"
        " question, caller, leg and method is in `raw.csv.gz`, their summary in `summary.csv`.\n\n"
        "Each caller's every search is held against the same search, with the same settings, on a database that holds"
        " only the documents this caller may see, where vectors are scanned. Equal means the same chunks, in the same"
        " order, with the same scores to the last bit, rank and score in each leg of a hybrid search included, and the"
        " same number of visible chunks.\n"
    )


def _verdict(facts: dict[str, Any], lines: list[Row], raw: list[Row]) -> str:
    exact = [row for row in raw if row["method"] in (IN_QUERY, ASKED_EXACT) and row["exact"]]
    wrong = differing(exact)
    told = [f"- Permissions in the query, route exact: {len(exact):,} searches, {len(wrong):,} not equal."]
    count = sum(facts["questions"].values())
    if exact and not wrong:
        told[0] += (
            f" None of the {count} questions differed for any caller on any leg; by the rule of three, for one caller"
            f" and one leg, at most {at_most(count):.1%} of such questions would, with 95 % confidence."
        )
    for leg in LEGS:
        mine = [line for line in lines if line["leg"] == leg and line["method"] == IN_QUERY]
        whole = [line for line in mine if line["exact"] == 1 and line["asked"]]
        if whole:
            told.append(
                f"- {leg}, {len(whole)} callers whose route is exact: recall {_span(whole, 'recall')}, order equal for"
                f" {_span(whole, 'order')} of their questions, order and scores for {_span(whole, 'scores')}."
            )
        rest = [line for line in mine if line["exact"] < 1]
        if rest:
            told.append(
                f"- {leg}, {len(rest)} callers above the threshold, approximate and reported so: recall"
                f" {_span(rest, 'recall')}, equal for {_span(rest, 'scores')} of their questions."
            )
    if facts["oracle"]:
        agree, asked = (sum(row[name] for row in facts["oracle"]) for name in ("agree", "questions"))
        told.append(f"- Oracles: {agree:,} of {asked:,} answers agree.")
    if "against" in facts:
        apart = facts["against"]["apart"]
        told.append(
            f"- Another run from a fresh database: of {facts['against']['compared']:,} recalls"
            f" {len(apart)} lie outside of each other's intervals."
        )
    return "\n".join(told) + "\n"


def _span(lines: list[Row], column: str) -> str:
    low, high = min(line[column] for line in lines), max(line[column] for line in lines)
    return f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"


def _shape(lines: list[Row]) -> str:
    known = {(x["layout"], x["caller"], x["leg"], x["method"]): x for x in lines if x["asked"] and x["target"]}
    layouts = list(dict.fromkeys(key[0] for key in known))
    callers = {x["caller"]: x["target"] for x in known.values() if x["target"] < 1}
    rows: list[Sequence[object]] = []
    for caller in sorted(callers, key=lambda name: callers[name]):
        for method in AFTER:
            cells: list[str] = []
            for layout in layouts:
                for leg in _SHAPED:
                    line = known.get((layout, caller, leg, method))
                    cells.append(f"{line['recall']:.3f}" if line else "–")
            rows.append((caller, method, *cells))
    header = ("sees", "", *(f"{layout}: {leg}" for layout in layouts for leg in _SHAPED))
    return (
        "Recall@10. 1×, 10× and 50× the ten wanted are taken from the answer to everyone, and what is hidden is"
        " dropped. For the text legs there is more to it than the limit: hidden documents are counted in the word"
        " frequencies behind the scores, so that even a list that is full is in another order (`o` below).\n\n"
        + table(header, rows)
    )


def _explained() -> str:
    return (
        "Mean share of the reference's first ten that was found, over the questions to which it has any hit; in"
        " brackets the 95 % interval by percentile bootstrap over questions, left out where all are the same. "
        "`e` and `s`: share of the questions with an empty list, and with a shorter list than the reference's; `o`:"
        " with the same chunks in the same order, two empty lists among them.\n"
    )


def _recall(lines: list[Row], leg: str) -> str:
    mine = [line for line in lines if line["leg"] == leg]
    if not mine:
        return ""
    rows: list[Sequence[object]] = []
    for layout, caller in dict.fromkeys((line["layout"], line["caller"]) for line in mine):
        found = {x["method"]: x for x in mine if x["layout"] == layout and x["caller"] == caller}
        cells = [_cell(found.get(method)) for method in (IN_QUERY, *AFTER)]
        first = found[IN_QUERY]
        rows.append((layout, caller, f"{first['visible']:,}", first["asked"], *cells))
    header = ("layout", "caller", "sees, chunks", "questions with hits", "in the query", *AFTER)
    return f"### {leg}\n\n" + table(header, rows)


def _cell(line: Row | None) -> str:
    if line is None or not line["asked"]:
        return "–"
    told = f"{line['recall']:.3f}"
    if line["low"] != line["high"]:
        told += f" ({line['low']:.3f} to {line['high']:.3f})"
    if line["empty"] or line["short"]:
        told += f" e {line['empty']:.0%} s {line['short']:.0%}"
    return told + ("" if line["order"] == 1 else f" o {line['order']:.0%}")


def _routes(facts: dict[str, Any], lines: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    wide = {(x["layout"], x["caller"], x["leg"]) for x in lines if x["method"] == ASKED_EXACT}
    for line in lines:
        above = (line["layout"], line["caller"], line["leg"]) in wide
        if line["method"] == FORCED or (above and line["method"] in _HELD):
            rows.append(
                (line["layout"], line["caller"], f"{line['visible']:,}", line["leg"], line["method"], _cell(line),
                 f"{line['exact']:.0%}", f"{line['scores']:.0%}", line["p50_ms"], line["p90_ms"])
            )  # fmt: skip
    header = ("layout", "caller", "sees", "leg", "", "recall@10", "said to be exact", "equal", "p50 ms", "p90 ms")
    return (
        f"Up to {facts['threshold']:,} visible chunks vectors are scanned; above, an inverted file over visible rows"
        " answers and the report says so. Forced: the threshold at 0, so that narrow callers are sent to the index too;"
        " where it gives too few rows the engine goes on exactly, and says so. In a hybrid search the least score among"
        " a leg's 100 candidates scales the others, so that one candidate which the index misses changes every score:"
        " equal is rare there, the same order (`o`) is not.\n\n" + table(header, rows)
    )


def _words(lines: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    hybrid = [line for line in lines if line["leg"] == "hybrid"]
    for layout, caller in dict.fromkeys((x["layout"], x["caller"]) for x in hybrid if x["method"] in WORDS):
        for line in hybrid:
            if (line["layout"], line["caller"]) == (layout, caller) and line["method"] in (IN_QUERY, *WORDS):
                shipped = line["method"] == IN_QUERY
                same = ("", "") if shipped else (f"{line['set']:.1%}", f"{line['order']:.1%}")
                name = "words 16, as shipped" if shipped else line["method"]
                rows.append((layout, caller, name, f"{line['ran_trgm']:.0%}", *same, line["p50_ms"], line["p90_ms"]))
    header = ("layout", "caller", "", "searches with respelled words", "same ten", "same order", "p50 ms", "p90 ms")
    return (
        "`search.trgm_max_query_words` in a hybrid search, beside the default of 16 and beside the leg switched off;"
        " same ten and same order: as with 16. Only words that no visible chunk holds are respelled, so a limit on"
        " their number matters for long questions of narrow callers.\n\n" + table(header, rows)
    )


def _oracles(facts: dict[str, Any]) -> str:
    rows: list[Sequence[object]] = []
    for leg in oracle.LEGS:
        mine = [row for row in facts["oracle"] if row["leg"] == leg]
        if mine:
            counted = [f"{sum(row[name] for row in mine):,}" for name in ("questions", "hits", "agree")]
            rows.append((leg, len(mine), *counted, f"{max(row['worst'] for row in mine):.1e}"))
    wrong = [
        f"- {x['layout']}, {x['caller']}, {x['leg']}: {told}" for x in facts["oracle"] for told in x["differences"]
    ]
    header = ("leg", "callers", "answers", "hits", "agree", "scores apart at most, relative")
    return (
        "Brute force in NumPy over the stored vectors in half precision; BM25 over postings made from the texts; the"
        " fuzzy leg's words looked for one by one in everything visible. None asks the database. Shared with the"
        " engine: `plan_document` (how a document is cut), `Analyser` (how text becomes lexemes, in documents, in"
        " questions and for mended words), and the edit distance of rapidfuzz, held against another on some pairs of"
        " each word. How a question is read and what its words may stand for is the second reading in"
        " `context_engine.testing`, which the tests use as well."
        f" Scores may differ by {oracle.RELATIVE:g}, and of two within {oracle.TIE:g} either may be first. Above the"
        " threshold the vector leg's answer with `exact=True` is held.\n\n"
        + table(header, rows)
        + ("\n" + "\n".join(wrong) + "\n" if wrong else "")
    )


def _times(lines: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    for layout, caller in dict.fromkeys((line["layout"], line["caller"]) for line in lines):
        cells: list[str] = []
        for leg in LEGS:
            chosen = [
                x for x in lines
                if (x["layout"], x["caller"], x["leg"], x["method"]) == (layout, caller, leg, IN_QUERY)
            ]  # fmt: skip
            cells += [f"{line['p50_ms']:.1f}, {line['p90_ms']:.1f}" for line in chosen] or [""]
        rows.append((layout, caller, *cells))
    hybrid = [x["p50_ms"] for x in lines if x["leg"] == "hybrid" and x["method"] == IN_QUERY]
    after = _after_times(lines)
    context = (
        f"Medians of a whole hybrid search lie between {min(hybrid):.1f} and {max(hybrid):.1f} ms. For context, and no"
        " more than that: a peer publishes 2.6 s for its search at 100,000 chunks, on a laptop of its own and a corpus"
        " of its own.\n\n"
        if hybrid
        else ""
    )
    return (
        "Median and 90th percentile in ms, permissions in the query as shipped, one question at a time. A leg is a"
        " whole search with the other legs off, access classes and texts of the hits included.\n\n"
        + table(("layout", "caller", *LEGS), rows)
        + "\n"
        + context
        + "The searches without a filter, whose rows are dropped afterwards:\n\n"
        + after
    )


def _after_times(lines: list[Row]) -> str:
    rows: list[Sequence[object]] = []
    for method, candidates in AFTER.items():
        found = [next((x for x in lines if x["leg"] == leg and x["method"] == method), None) for leg in LEGS]
        cells = [f"{line['p50_ms']:.1f}, {line['p90_ms']:.1f}" if line else "" for line in found]
        rows.append((f"{method}: {candidates} rows", *cells))
    return table(("", *LEGS), rows)


def _callers(facts: dict[str, Any]) -> str:
    rows = [
        (x["layout"], x["caller"], f"{x['documents']:,}", f"{x['visible'] / facts['chunks']:.2%}",
         f"{x['principals']:,}", x["how"], " to ".join(map(str, x["load_average"])))
        for x in facts["cells"].values()
    ]  # fmt: skip
    header = ("layout", "caller", "documents", "of the chunks", "principals", "who", "load average")
    return (
        "random: a thousand groups, each document in one of them, drawn at random. clustered: 40 seed documents drawn"
        " uniformly, each document joins the nearest by cosine, whole clusters in random order until the wanted share,"
        " the last one from its seed outwards. owned: the owners in the data. rules: one or two of"
        f" {TEAMS} teams; {PUBLIC_SHARE:.0%} of the documents are everyone's, {LIMITED_SHARE:.0%} require `{CLEARED}`,"
        f" {LIMITED_SHARE:.0%} deny `{CONTRACTOR}`. Where a call is narrowed to sources or documents, the reference"
        " holds what is left.\n\n" + table(header, rows)
    )


def _conditions(facts: dict[str, Any]) -> str:
    found = dict(facts.get("conditions", {}))
    settings = found.pop("server_settings", {})
    rows: list[Sequence[object]] = [(name, str(value)) for name, value in found.items()]
    rows += [(f"server: {name}", value) for name, value in settings.items()]
    rows += [(f"{name}: seconds of ingest", _filled(known)) for name, known in facts["filled"].items()]
    rows += [(f"method {method}", told) for method, told in _methods()]
    rows.append(("seconds in all", f"{facts.get('seconds', 0):,}"))
    return table(("", ""), rows)


def _filled(known: dict[str, Any]) -> str:
    timings = ", ".join(f"{name} {value}" for name, value in known.items() if isinstance(value, float))
    return f"{timings}; {known['classes']:,} access classes"


def _methods() -> Iterable[tuple[str, str]]:
    yield ALONE, "TRUSTED on the visible-only database, exact=True, defaults"
    yield IN_QUERY, "principals on the whole, defaults: 100 candidates a leg, top_k 10"
    yield from (
        (method, f"TRUSTED on the whole, top_k {count}, {max(count, 100)} candidates a leg")
        for method, count in AFTER.items()
    )
