"""One caller in one layout: every leg, every way, held against the visible-only database and the oracles."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from . import oracle, store
from .corpus import Corpus
from .layouts import Caller, Layout, Mask
from .oracle import Oracle, View
from .store import REFERENCE, schema_of
from .ways import AFTER, LEGS, WORDS, Answer, Desk, kept

Row = dict[str, Any]
Progress = Callable[[int, int], None]

RAW_COLUMNS: Final = (
    "layout", "caller", "target", "visible", "leg", "method", "question", "wanted", "returned", "found", "order",
    "scores", "exact", "route", "ms",
)  # fmt: skip
IN_QUERY: Final = "in the query"
ASKED_EXACT: Final = "in the query, exact=True"
FORCED: Final = "in the query, index forced"
ALONE: Final = "reference"
WORDED: Final = (0.01, 0.1, 1.0)
"""Callers, by the share they see, for whom `trgm_max_query_words` is varied."""
_WARM_UP: Final = 5


@dataclass(frozen=True, slots=True)
class Unfiltered:
    """What everyone's search gave, from which hidden rows are dropped afterwards."""

    ids: tuple[int, ...]
    rows: NDArray[np.int64]
    scores: tuple[float, ...]
    ms: float


class Bench:
    """Measures callers one after the other."""

    def __init__(self, url: str, corpus: Corpus, desk: Desk, known: Oracle | None, small: bool = False) -> None:
        self.url = url
        self.corpus = corpus
        self.desk = desk
        self.known = known
        self.indexed: dict[str, bool] = {}
        self._warm_up = 1 if small else _WARM_UP
        self.places = range(len(corpus.questions))
        self._documents = {key: row for row, key in enumerate(corpus.chunks.document_ids.tolist())}
        self._chunks = {key: row for row, key in enumerate(corpus.chunks.ids.tolist())}
        self._after: dict[tuple[str, str], list[Unfiltered]] = {}

    def prepare(self, schema: str, file: Path, progress: Progress) -> None:
        """Ask everything without a filter, once: it is the same for each caller and, the content being one, layout."""
        stored: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
        wanted = [(leg, method) for leg in LEGS for method in AFTER]
        for done, (leg, method) in enumerate(wanted):
            progress(done, len(wanted))
            key = f"{leg}/{method}"
            if key not in stored:
                for place in self.places[: self._warm_up]:
                    self.desk.unfiltered(schema, leg, place, AFTER[method])
                answers = [self.desk.unfiltered(schema, leg, place, AFTER[method]) for place in self.places]
                stored[key] = [
                    [answer.ids, [self._documents[key] for key in answer.documents], answer.scores, answer.ms]
                    for answer in answers
                ]
                file.write_text(json.dumps(stored))
            self._after[leg, method] = [
                Unfiltered(tuple(ids), np.array(rows, dtype=np.int64), tuple(scores), ms)
                for ids, rows, scores, ms in stored[key]
            ]

    @property
    def prepared(self) -> bool:
        return bool(self._after)

    def cell(self, layout: Layout, caller: Caller, progress: Progress) -> tuple[list[Row], list[Row], Row]:
        """Measure one caller; returns raw rows, what the oracles say, and facts."""
        started, load = time.perf_counter(), _load_average()
        seen = layout.seen(caller, self.corpus)
        chunks = seen[self.corpus.chunks.rows]
        visible = int(chunks.sum())
        store.put_apart(self.url, self.corpus, layout, seen, self.desk.threshold)
        apart_s = time.perf_counter() - started
        head: Row = {"layout": layout.name, "caller": caller.label, "target": caller.target, "visible": visible}
        view = View(self.known, chunks) if self.known else None
        rows: list[Row] = []
        oracles: list[Row] = []
        for done, leg in enumerate(LEGS):
            progress(done, len(LEGS))
            asked = self._leg(layout, caller, leg, visible)
            alone = asked[ALONE]
            for method, answers in asked.items():
                rows += [
                    head | {"leg": leg, "method": method} | self._row(place, answer, alone[place])
                    for place, answer in enumerate(answers)
                ]
            rows += [head | {"leg": leg} | row for row in self._filtered(leg, seen, alone)]
            if leg == "hybrid" and caller.target in WORDED:
                rows += [head | {"leg": leg} | row for row in self._words(layout, caller, asked[IN_QUERY])]
            if view and leg in oracle.LEGS:
                oracles.append(head | self._oracle(view, leg, asked.get(ASKED_EXACT, asked[IN_QUERY])))
        self.desk.close(REFERENCE)
        store.drop_reference(self.url)
        facts = head | {
            "how": caller.how,
            "documents": int(seen.sum()),
            "principals": len(caller.principals),
            "put_apart_s": round(apart_s, 1),
            "seconds": round(time.perf_counter() - started, 1),
            "load_average": [load, _load_average()],
        }
        return rows, oracles, facts

    def _leg(self, layout: Layout, caller: Caller, leg: str, visible: int) -> dict[str, list[Answer]]:
        schema = schema_of(layout.name)
        options: dict[str, dict[str, Any]] = {IN_QUERY: {}}
        if leg in ("ann", "hybrid") and visible > self.desk.threshold:
            options[ASKED_EXACT] = {"exact": True}
        if leg == "ann" and self.indexed[layout.name] and visible:
            options[FORCED] = {"forced": True}
        for place in self.places[: self._warm_up]:
            self.desk.reference(REFERENCE, leg, place)
        found = {ALONE: [self.desk.reference(REFERENCE, leg, place) for place in self.places]}
        for method, more in options.items():
            for place in self.places[: self._warm_up]:
                self.desk.in_query(schema, leg, place, caller, **more)
            found[method] = [self.desk.in_query(schema, leg, place, caller, **more) for place in self.places]
        return found

    def _row(self, place: int, answer: Answer, alone: Answer) -> Row:
        return {
            "question": self.corpus.questions[place].id,
            "wanted": len(alone.ids),
            "returned": len(answer.ids),
            "found": len(set(answer.ids) & set(alone.ids)),
            "order": int(answer.ids == alone.ids),
            "scores": int(answer.scores == alone.scores and answer.detail == alone.detail),
            "exact": int(answer.exact),
            "route": answer.route,
            "ms": round(answer.ms, 3),
        }

    def _filtered(self, leg: str, seen: Mask, alone: list[Answer]) -> list[Row]:
        rows: list[Row] = []
        for method in AFTER:
            for place, (answer, wanted) in enumerate(zip(self._after[leg, method], alone, strict=True)):
                places = kept(answer.rows, seen)
                ids = tuple(answer.ids[at] for at in places)
                rows.append(
                    {
                        "method": method,
                        "question": self.corpus.questions[place].id,
                        "wanted": len(wanted.ids),
                        "returned": len(ids),
                        "found": len(set(ids) & set(wanted.ids)),
                        "order": int(ids == wanted.ids),
                        "scores": int(tuple(answer.scores[at] for at in places) == wanted.scores),
                        "exact": 0,
                        "route": "",
                        "ms": answer.ms,
                    }
                )
        return rows

    def _words(self, layout: Layout, caller: Caller, shipped: list[Answer]) -> list[Row]:
        """Vary how many words are respelled; held against what is shipped."""
        rows: list[Row] = []
        for method, sections in WORDS.items():
            schema = schema_of(layout.name)
            for place in self.places[: self._warm_up]:
                self.desk.in_query(schema, "hybrid", place, caller, **sections)
            answers = [self.desk.in_query(schema, "hybrid", place, caller, **sections) for place in self.places]
            rows += [
                {"method": method} | self._row(place, answer, shipped[place]) for place, answer in enumerate(answers)
            ]
        return rows

    def _oracle(self, view: View, leg: str, answers: list[Answer]) -> Row:
        found: list[str] = []
        worst = 0.0
        for place, answer in enumerate(answers):
            difference, apart = view.differs(leg, place, answer, self._chunks)
            worst = max(worst, apart)
            if difference:
                found.append(f"{self.corpus.questions[place].id}: {difference}")
        return {
            "leg": leg,
            "questions": len(answers),
            "agree": len(answers) - len(found),
            "hits": sum(len(answer.ids) for answer in answers),
            "worst": worst,
            "differences": found[:5],
        }


def _load_average() -> float:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else -1.0


def differing(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Pick the searches that say they are exact, with the permissions in the query, and are not the reference's."""
    return [
        row
        for row in rows
        if row["method"] in (IN_QUERY, ASKED_EXACT, FORCED) and row["exact"] and not (row["order"] and row["scores"])
    ]
