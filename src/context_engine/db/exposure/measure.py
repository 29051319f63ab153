"""Measure: choose callers, draw questions, ask each in every way, and compare with the exact answer.

Each caller is measured in one read-only snapshot, so that every way sees the rows that the exact answer was taken from,
and no snapshot is held for longer than one caller takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from context_engine.db.exposure.asking import Asker, Run, everything_or
from context_engine.db.exposure.catalog import (
    Totals,
    environment,
    filter_index,
    find_target,
    nothing_there,
    read_candidates,
    read_totals,
)
from context_engine.db.exposure.own import OwnDatabase, find_own
from context_engine.db.exposure.session import Session, Snapshot, Timeout
from context_engine.db.exposure.statements import Parts
from context_engine.errors import InputError
from context_engine.exposure.budget import fit, rows_of_a_question
from context_engine.exposure.methods import Method, plan_methods
from context_engine.exposure.model import Caller, Candidate, Environment, Report, Target
from context_engine.exposure.scopes import choose_scopes, label
from context_engine.exposure.target import Wanted
from context_engine.exposure.verdict import judge
from context_engine.settings import Settings

EVERYTHING: Final = "everything"
_ENGINE_TITLES: Final = {"planned": "in the query, exact", "routed": "as the engine searches"}
Progress = Callable[[int, int, str], None]
"""Called with questions asked, questions in all, and what is being done."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure and how much.

    Attributes:
        wanted: what the user named of the table.
        top_k: rows that a caller asks for, 1 to 1,000.
        max_scopes: callers to choose where none is given.
        samples: questions of each kind and caller.
        callers: sets of ACL values (of principals, on a Context Engine database); empty to choose by themselves.
        questions: vectors as pgvector writes them; empty to draw them from the rows.
        method: the way that the application takes; None for what the database is made for.
        ef_search: what the application sets `hnsw.ef_search` to; None for what is set for this role and database.
        timeout_s: limit for one statement.
        row_budget: rows that the scans of all statements may read together.
        show_acl: whether the report may hold ACL values.
    """

    wanted: Wanted = Wanted()
    top_k: int = 10
    max_scopes: int = 12
    samples: int = 20
    callers: tuple[tuple[str, ...], ...] = ()
    questions: tuple[str, ...] = ()
    method: str | None = None
    ef_search: int | None = None
    timeout_s: float = 30.0
    row_budget: int = 1_000_000_000
    seed: int = 1
    show_acl: bool = False


def measure(url: str, request: Request, settings: Settings, progress: Progress | None = None) -> Report:
    """Measure a database; nothing in it is changed.

    Raises:
        InputError: what was asked for is not there or cannot be measured.
        ConfigError: pgvector is missing, or the role lacks a privilege.
        StoreError: the database cannot be reached or refused a statement.
    """
    session = Session(url, request.timeout_s)
    try:
        return _Measurement(session, request, settings, progress or _silent).report()
    finally:
        session.close()


def _silent(done: int, total: int, what: str) -> None:
    pass


class _Measurement:
    """One measurement of one target."""

    def __init__(self, session: Session, request: Request, settings: Settings, progress: Progress) -> None:
        self._session = session
        self._request = request
        self._progress = progress
        self._notes: list[str] = []
        progress(0, 0, "reading the catalogue")
        self._environment = environment(session, settings.storage.ann_exact_threshold, request.ef_search)
        with session.snapshot() as snapshot:
            own = find_own(snapshot, settings) if request.wanted == Wanted() else None
            self._target = own or self._find(snapshot)
        self._own = OwnDatabase(settings, session) if own else None
        self._parts = Parts(self._target)
        self._methods = self._plan()
        self._key = secrets.token_bytes(16)

    def _find(self, snapshot: Snapshot) -> Target:
        found = find_target(snapshot, self._request.wanted)
        self._notes += found.notes
        return found.target

    def _plan(self) -> list[Method]:
        environment = self._environment
        methods = plan_methods(self._target.index, self._request.top_k, environment.ef_search, environment.iterative)
        if self._target.preset == "context-engine":
            methods = [replace(each, title=_ENGINE_TITLES.get(each.name, each.title)) for each in methods]
        names = [method.name for method in methods]
        if self._request.method is not None and self._request.method not in names:
            raise InputError(f"--method {self._request.method} is none of {', '.join(names)}")
        return methods

    def report(self) -> Report:
        """Measure all callers and judge."""
        request, target = self._request, self._target
        totals, candidates, served_by = self._look()
        acl_values = sum({candidate.rows: candidate.alike for candidate in candidates}.values())
        chosen = [Candidate(values, 0) for values in request.callers] or choose_scopes(candidates, request.max_scopes)
        if not chosen:
            raise InputError(f"no row of {target.table.title} has a value in {target.acl.title}: nobody to measure for")
        cost = rows_of_a_question(totals.vectors, served_by is not None, target.index is not None)
        room = fit(len(chosen), request.samples, cost, request.row_budget)
        self._notes += room.notes
        kinds = 1 if request.questions else 2
        total = room.samples * (kinds * room.scopes + 1)
        asker = Asker(self._session, self._target, self._environment, self._methods, self._own, self._parts)
        done = 0

        def advance(step: int, what: str) -> None:
            nonlocal done
            done = min(done + step, total)
            self._progress(done, total, what)

        run = Run(request.top_k, room.samples, request.seed, request.questions, totals.vectors, advance)
        everything = self._caller(asker, run, None, Candidate((), totals.vectors))
        callers = [self._caller(asker, run, candidate.values, candidate) for candidate in _thinned(chosen, room.scopes)]
        self._notes += asker.notes
        return self._judged(totals, acl_values, served_by, everything, callers, room.samples)

    def _look(self) -> tuple[Totals, list[Candidate], str | None]:
        """Count what there is, and find the index on the permission."""
        self._progress(0, 0, "counting ACL values")
        target, parts, request = self._target, self._parts, self._request
        with self._session.snapshot() as snapshot:
            totals = read_totals(snapshot, parts)
            if not totals.vectors:
                raise nothing_there(target.table)
            if self._own:
                candidates = self._own.candidates(snapshot)
            else:
                candidates = read_candidates(snapshot, target, parts, self._notes)
            narrow = request.callers[0] if request.callers else candidates[0].values if candidates else ()
            values = self._own.resolve(snapshot, narrow).acl_ids or () if self._own else narrow
            question = "[" + ",".join(["1"] * (target.dim or 1)) + "]"
            served_by = filter_index(snapshot, parts, values, question)
        return totals, candidates, served_by

    def _caller(self, asker: Asker, run: Run, values: tuple[str, ...] | None, candidate: Candidate) -> Caller:
        name = EVERYTHING if values is None else label(values, self._key)
        shown = everything_or(values) if self._request.show_acl else name
        try:
            measured = asker.measure(run, values, shown)
        except Timeout:
            self._notes.append(f"{shown} was left out: counting its rows ran into the statement timeout")
            measured = asker.unmeasured(candidate.rows, run.vectors)
        values = values if self._request.show_acl else None
        return replace(measured, label=shown, values=values, alike=candidate.alike)

    def _judged(
        self,
        totals: Totals,
        acl_values: int,
        served_by: str | None,
        everything: Caller,
        callers: list[Caller],
        samples: int,
    ) -> Report:
        request, target = self._request, self._target
        policies = "row-level security is on for this table: what this role may not see was not measured"
        notes = [
            *([policies] if target.table.row_security else []),
            *_missing(totals, target),
            *_lacking(self._environment),
            *self._notes,
        ]
        return judge(
            Report(
                environment=self._environment,
                target=target,
                rows=totals.rows,
                vectors=totals.vectors,
                acl_values=acl_values,
                top_k=request.top_k,
                samples=samples,
                seed=request.seed,
                method=request.method or ("routed" if self._own else "planned"),
                methods={method.name: method.title for method in self._methods},
                filter_index=served_by,
                everything=everything,
                callers=tuple(callers),
                findings={},
                verdict=(),
                notes=tuple(dict.fromkeys(notes)),
                settings=_settings(request),
            )
        )


def _thinned(chosen: list[Candidate], most: int) -> Iterable[Candidate]:
    return chosen if len(chosen) <= most else choose_scopes(chosen, most) or chosen[:most]


def _missing(totals: Totals, target: Target) -> list[str]:
    missing = totals.rows - totals.vectors
    if not missing:
        return []
    return [
        f"{missing:,} of {totals.rows:,} rows have no vector in {target.embedding.name}: no vector search finds them"
    ]


def _lacking(environment: Environment) -> list[str]:
    if environment.iterative:
        return []
    return [
        f"pgvector {environment.pgvector} has no iterative index scans (0.8 brought them): a filtered walk ends after "
        "hnsw.ef_search rows, whatever the filter left of them"
    ]


def _settings(request: Request) -> dict[str, Any]:
    """Say how it was measured, without the callers and questions that were given."""
    kept = asdict(request)
    return {**kept, "callers": len(request.callers), "questions": len(request.questions)}
