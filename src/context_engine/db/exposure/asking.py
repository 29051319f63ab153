"""Ask for one caller: every question, in every way, beside the exact answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import sql

from context_engine.db.exposure.catalog import index_condition, nodes
from context_engine.db.exposure.own import OwnDatabase, Resolved
from context_engine.db.exposure.session import Session, Snapshot, Timed, Timeout
from context_engine.db.exposure.statements import Parts
from context_engine.exposure.methods import LAYOUT_SHAPES, WALK, Method, long_walk
from context_engine.exposure.model import Caller, Environment, Layout, Plan, QuestionKind, Target
from context_engine.exposure.statistics import Key, Outcome, best, compare, summarise

NEIGHBOURS: Final = 50
_LAYOUT_QUESTIONS: Final = 10
_CANDIDATES: Final = 100
_PATIENCE: Final = 2
"""After this many timeouts a way is not tried again for the same caller."""
Params = dict[str, Any]
Condition = tuple[sql.Composable, Params]


def everything_or(values: tuple[str, ...] | None) -> str:
    """Write a caller's ACL values on one line."""
    return "everything" if values is None else " + ".join(values) or "nobody"


@dataclass(frozen=True, slots=True)
class Run:
    """What holds for all callers; `advance` is told of each question asked."""

    top_k: int
    samples: int
    seed: int
    given: Sequence[str]
    vectors: int
    advance: Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class _Question:
    kind: QuestionKind
    vector: str
    own_row: Key | None

    @property
    def extra(self) -> int:
        """Rows to ask for besides, since the question's own row is left out."""
        return 0 if self.own_row is None else 1


@dataclass(slots=True)
class _Scope:
    """A caller in its snapshot, and what was found out so far."""

    snapshot: Snapshot
    condition: Condition
    visible: int
    share: float
    resolved: Resolved | None
    walks: bool
    outcomes: dict[tuple[QuestionKind, str], list[Outcome]] = field(
        default_factory=lambda: defaultdict[tuple[QuestionKind, str], list[Outcome]](list)
    )
    timeouts: dict[tuple[QuestionKind, str], int] = field(
        default_factory=lambda: defaultdict[tuple[QuestionKind, str], int](int)
    )
    near: dict[QuestionKind, list[float]] = field(default_factory=lambda: defaultdict[QuestionKind, list[float]](list))
    dropped: int = 0
    too_slow: int = 0
    """Exact answers that ran into the statement timeout."""


class Asker:
    """Measures callers on one target."""

    def __init__(
        self,
        session: Session,
        target: Target,
        environment: Environment,
        methods: Sequence[Method],
        own: OwnDatabase | None,
        parts: Parts,
    ) -> None:
        self._session = session
        self._target = target
        self._environment = environment
        self._methods = methods
        self._own = own
        self._parts = parts
        self.notes: list[str] = []

    def measure(self, run: Run, values: tuple[str, ...] | None, name: str) -> Caller:
        """Measure one caller in one snapshot; None for a caller who sees everything.

        Raises:
            Timeout: the rows could not even be counted in time.
        """
        run.advance(0, name)
        with self._session.snapshot() as snapshot:
            resolved = self._own.resolve(snapshot, values) if self._own else None
            condition = self._parts.condition(resolved.acl_ids if resolved else values)
            visible = self._count(snapshot, condition)
            walks = self._walks(snapshot, condition)
            scope = _Scope(snapshot, condition, visible, visible / run.vectors, resolved, walks)
            plan, index = self._planned_as(scope)
            planned = run.samples * (1 if run.given or values is None else 2)
            asked = 0
            for question in self._draw(scope, run, values is None):
                if scope.too_slow < _PATIENCE:
                    self._ask(scope, run, question)
                else:
                    scope.dropped += 1
                asked += 1
                run.advance(1, name)
            run.advance(planned - asked, name)
        if scope.too_slow >= _PATIENCE:
            self.notes.append(f"{name}: exact answers ran into the statement timeout; --timeout-s allows more")
        return self._caller(scope, plan, index)

    def unmeasured(self, rows: int, vectors: int) -> Caller:
        """Stand in for a caller that could not be measured."""
        share = rows / vectors
        return Caller("", None, rows, share, 1, "other", None, True, Layout(None, None, 0, share), {})

    def _caller(self, scope: _Scope, plan: Plan, index: str | None) -> Caller:
        figures: dict[QuestionKind, dict[str, Any]] = {}
        for kind, name in dict.fromkeys([*scope.outcomes, *scope.timeouts]):
            outcomes = scope.outcomes.get((kind, name), [])
            figures.setdefault(kind, {})[name] = summarise(outcomes, scope.timeouts.get((kind, name), 0))

        def mean(kind: QuestionKind) -> float | None:
            shares = scope.near.get(kind)
            return sum(shares) / len(shares) if shares else None

        layout = Layout(mean("own"), mean("others"), NEIGHBOURS, scope.share)
        exact = self._routes_exactly(scope)
        return Caller("", None, scope.visible, scope.share, 1, plan, index, exact, layout, figures, scope.dropped)

    def _count(self, snapshot: Snapshot, condition: Condition) -> int:
        statement = snapshot.compose("visible", **self._parts.all(), condition=condition[0])
        [(visible,)] = snapshot.ask(statement, self._bound(condition)).rows
        return visible

    def _bound(self, condition: Condition, question: str | None = None, limit: int | None = None) -> Params:
        params = {**self._parts.base_params, **condition[1]}
        if question is not None:
            params |= {"question": question, "limit": limit}
        return params

    def _any_question(self) -> str:
        return "[" + ",".join(["1"] * (self._target.dim or 1)) + "]"

    def _walks(self, snapshot: Snapshot, condition: Condition) -> bool:
        """Tell whether the planner can be brought to walk the vector index under this condition."""
        if self._target.index is None:
            return False
        statement = self._search(snapshot, condition)
        plan = snapshot.explain(statement, self._bound(condition, self._any_question(), 1), WALK)
        walks = any("Order By" in node for node in nodes(plan))
        if not walks:
            name = self._target.index.name
            self.notes.append(
                f"the planner does not walk index {name} for some callers, even with all else switched off"
            )
        return walks

    def _planned_as(self, scope: _Scope) -> tuple[Plan, str | None]:
        """Name the plan that the condition in the query gets today."""
        question = self._any_question()
        if self._own and scope.resolved:
            statement = self._own.exact(scope.resolved, question, self._own.candidates_of(1))
            plan = self._own.explain(scope.snapshot, statement)
        else:
            limit = next(method.limit for method in self._methods if method.shape == "planned")
            search = self._search(scope.snapshot, scope.condition, library=True)
            plan = scope.snapshot.explain(search, self._bound(scope.condition, question, limit))
        found = nodes(plan)
        for node in found:
            if "Order By" in node:
                return "vector index", node.get("Index Name")
        if index := index_condition(plan, self._parts):
            return "filter index", index
        return ("sequential scan" if any("Seq Scan" in node["Node Type"] for node in found) else "other"), None

    def _search(self, snapshot: Snapshot, condition: Condition, library: bool = False) -> sql.Composed:
        order = self._parts.library_order if library else self._parts.order
        return snapshot.compose("in_query", **self._parts.all(), condition=condition[0], order=order)

    def _draw(self, scope: _Scope, run: Run, everything: bool) -> list[_Question]:
        """Take the given questions, or draw some from the caller's rows and some from the others."""
        if run.given:
            return [_Question("given", vector, None) for vector in run.given[: run.samples]]
        condition, params = scope.condition
        places: list[tuple[QuestionKind, sql.Composable]] = [("own", condition)]
        if not everything:
            places.append(("others", sql.SQL("{} IS NOT TRUE").format(condition)))
        drawn: list[_Question] = []
        for kind, where in places:
            statement = scope.snapshot.compose("draw", **self._parts.all(), condition=where)
            bound = {**self._parts.base_params, **params, "seed": run.seed, "limit": run.samples}
            rows = scope.snapshot.ask(statement, bound).rows
            drawn += [_Question(kind, vector, (first, second)) for first, second, vector in rows]
        return drawn

    def _ask(self, scope: _Scope, run: Run, question: _Question) -> None:
        """Ask in every way, and the same for a random set of the same size."""
        exact = self._exact(scope, run, question, scope.condition)
        if exact:
            for method in self._methods:
                if method.shape in ("forced", "iterative") and not scope.walks:
                    continue
                self._try(scope, run, question, method, scope.condition, exact, question.kind)
        else:
            scope.dropped += 1
        if scope.share < 1:
            random = self._parts.random(scope.share, run.seed)
            exact = self._exact(scope, run, question, random)
            for method in self._methods if exact else ():
                if method.shape in LAYOUT_SHAPES and (scope.walks or method.shape == "after"):
                    self._try(scope, run, question, method, random, exact, "random")
            self._look_around(scope, question)

    def _exact(self, scope: _Scope, run: Run, question: _Question, condition: Condition) -> list[float]:
        """Return the distances of the exact answer, sorted; none where it took too long."""
        statement = scope.snapshot.compose("exact", **self._parts.all(), condition=condition[0])
        try:
            answer = scope.snapshot.ask(statement, self._bound(condition, question.vector, run.top_k + question.extra))
        except Timeout:
            scope.too_slow += 1
            return []
        return _distances(answer, question, run.top_k)

    def _try(  # noqa: PLR0913 (one question, one way, one set of rows)
        self,
        scope: _Scope,
        run: Run,
        question: _Question,
        method: Method,
        condition: Condition,
        exact: list[float],
        kind: QuestionKind,
    ) -> None:
        if scope.timeouts[kind, method.name] >= _PATIENCE:
            return
        try:
            if method.shape == "routed":
                answer = self._routed(scope, run, question)
            elif method.shape == "planned" and self._own and scope.resolved:
                limit = self._own.candidates_of(run.top_k) + question.extra
                planned = self._own.exact(scope.resolved, question.vector, limit)
                answer = self._own.ask(scope.snapshot, planned)
            else:
                name = "filter_after" if method.shape == "after" else "in_query"
                library = method.shape in ("planned", "after")
                order = self._parts.library_order if library else self._parts.order
                statement = scope.snapshot.compose(name, **self._parts.all(), condition=condition[0], order=order)
                params = self._bound(condition, question.vector, method.limit + question.extra)
                answer = scope.snapshot.ask(statement, params, method.settings(question.extra))
        except Timeout:
            scope.timeouts[kind, method.name] += 1
            return
        returned = _distances(answer, question, run.top_k)
        scope.outcomes[kind, method.name].append(compare(returned, exact, answer.ms))

    def _routes_exactly(self, scope: _Scope) -> bool:
        if self._own and scope.resolved:
            return self._own.routes_exactly(scope.resolved)
        return scope.visible <= self._environment.exact_threshold or not scope.walks

    def _routed(self, scope: _Scope, run: Run, question: _Question) -> Timed:
        """Take the route that Context Engine takes: exact for few rows; else a walk, completed where it ends short."""
        snapshot, condition = scope.snapshot, scope.condition
        if self._own and scope.resolved:
            limit = self._own.candidates_of(run.top_k) + question.extra
            return self._own.search(snapshot, scope.resolved, question.vector, limit)
        limit = max(_CANDIDATES, run.top_k) + question.extra
        params = self._bound(condition, question.vector, limit)
        exact = snapshot.compose("exact", **self._parts.all(), condition=condition[0])
        index = self._target.index
        if index is None or self._routes_exactly(scope):
            return snapshot.ask(exact, params)
        walk = long_walk(index, scope.visible, limit, self._environment.iterative)
        answer = snapshot.ask(self._search(snapshot, condition), params, walk)
        if len(answer.rows) >= min(limit, scope.visible):
            return answer
        rest = snapshot.ask(exact, params)
        return Timed(rest.rows, answer.ms + rest.ms)

    def _look_around(self, scope: _Scope, question: _Question) -> None:
        """See how many of a question's nearest rows are the caller's."""
        if question.kind == "given" or len(scope.near[question.kind]) >= _LAYOUT_QUESTIONS:
            return
        statement = scope.snapshot.compose("neighbours", **self._parts.all(), condition=scope.condition[0])
        try:
            answer = scope.snapshot.ask(statement, self._bound(scope.condition, question.vector, NEIGHBOURS + 1))
        except Timeout:
            return
        seen = [bool(visible) for *key, visible in answer.rows if tuple(key) != question.own_row][:NEIGHBOURS]
        if seen:
            scope.near[question.kind].append(sum(seen) / len(seen))


def _distances(answer: Timed, question: _Question, top_k: int) -> list[float]:
    rows = [((first, second), distance) for first, second, distance in answer.rows if distance is not None]
    return best(rows, question.own_row, top_k)
