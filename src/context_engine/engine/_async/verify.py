"""Hold the promise on the user's own database, in transactions that are undone.

For each caller the documents they may read are put apart, by a reading of the rules that shares nothing with the
engine's, and everything that the caller can call is asked of both: as the caller of the whole, as `TRUSTED` of the
part. The two must not differ by a byte.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from context_engine.access import make_scope, normalise_principals
from context_engine.db._async.pinned import AsyncPinnedStore, async_pin
from context_engine.db._async.store import AsyncStore
from context_engine.diagnostics.verify import (
    Answers,
    CallerCheck,
    Difference,
    Probe,
    VerifyReport,
    comparable,
    compare,
    draw_callers,
    draw_questions,
    plan_probe,
)
from context_engine.engine import arguments
from context_engine.engine.arguments import SearchOptions
from context_engine.errors import ConfigError, InputError, NotFound, StoreError
from context_engine.model import TRUSTED, DocumentInfo, Principals, SearchResult, Trusted, document_id
from context_engine.models.embedder import Embedder, async_embed_query
from context_engine.models.known import KnownQuestions
from context_engine.models.vectors import Vectors
from context_engine.names import LegName, Progress
from context_engine.retrieval.compose import Statement, Visibility, compose, resolve_scope
from context_engine.settings import Settings
from context_engine.sql import load

if TYPE_CHECKING:
    from context_engine.engine._async.engine import AsyncEngine

    Attach = Callable[[AsyncStore, Embedder, Settings], AsyncEngine]

_LISTED: Final = 5_000
_FETCHED: Final = 10
_MOST_PRINCIPALS: Final = 2_000
_ATTEMPTS: Final = 3
_IDS: Final = 1 << 63
_NEEDS: Final = "verify needs a role that may create a schema and write to the tables, though nothing of it stays"
_NOT_THERE: Final = document_id("context-engine-verify", "nothing has this id")


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """What to verify.

    Attributes:
        callers: the callers to ask as, or how many to draw.
        queries: the questions to ask, or how many to draw for each caller.
        probe: whether to plant canaries as well.
        seed: what callers and questions are drawn by.
        copy_chunks: up to how many chunks a caller's documents are copied; more are read where they lie.
    """

    callers: Sequence[Principals] | int
    queries: Sequence[str] | int
    probe: bool
    seed: int
    copy_chunks: int

    def __post_init__(self) -> None:
        for name, value in (("callers", self.callers), ("queries", self.queries)):
            if isinstance(value, str | bytes):
                raise InputError(f"{name} must be a list, or how many to draw")
            if isinstance(value, int) and (isinstance(value, bool) or not 1 <= value <= 10_000):
                raise InputError(f"{name} must be a list, or a whole number from 1 to 10000")
        if not isinstance(self.callers, int):
            for caller in self.callers:
                if isinstance(caller, Trusted):
                    raise InputError("from TRUSTED nothing is hidden: verify a caller with principals")
                normalise_principals(caller)


class AsyncVerifier:
    """Verifies one engine's database.

    Args:
        store: the database.
        embedder: the engine's.
        settings: the engine's.
        attach: makes an engine that works in an open transaction.
    """

    def __init__(self, store: AsyncStore, embedder: Embedder, settings: Settings, attach: Attach) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._attach = attach
        self._known: dict[str, Vectors] = {}

    async def verify(self, plan: VerifyPlan, progress: Progress | None = None) -> VerifyReport:
        """Verify caller by caller."""
        random = Random(plan.seed)
        callers = await self._callers(plan, random)
        checks: list[CallerCheck] = []
        for caller in callers:
            if progress:
                progress(len(checks), len(callers))
            try:
                checks.append(await self._caller(caller, plan, random))
            except ConfigError as error:
                raise ConfigError(f"{error}: {_NEEDS}") from error
        if progress:
            progress(len(checks), len(callers))
        return VerifyReport(tuple(checks), plan.seed)

    async def _callers(self, plan: VerifyPlan, random: Random) -> list[tuple[str, ...]]:
        if not isinstance(plan.callers, int):
            return [normalise_principals(caller) for caller in plan.callers]
        params = {"seed": str(plan.seed), "limit": _MOST_PRINCIPALS}
        rows = await self._store.query(Statement(load("verify/principals"), params))
        return draw_callers([name for (name,) in rows], random, plan.callers)

    async def _caller(self, caller: tuple[str, ...], plan: VerifyPlan, random: Random) -> CallerCheck:
        queries = plan.queries
        if isinstance(queries, int):
            texts = await self._texts(caller, random, queries)
            queries = draw_questions(texts, random, queries)
        probe = plan_probe(caller, random) if plan.probe else None
        await self._embed([*queries, *(probe.questions if probe else ())])
        for attempt in range(_ATTEMPTS):
            try:
                return await self._attempt(caller, queries, probe, plan.copy_chunks, random)
            except StoreError as error:  # what the probe writes may meet another writer
                if not error.retryable or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _attempt(
        self, caller: tuple[str, ...], queries: Sequence[str], probe: Probe | None, copy_chunks: int, random: Random
    ) -> CallerCheck:
        async with async_pin(self._store, write=True) as store:
            check = await self._hold(store, caller, queries, copy_chunks, random)
        if probe is None:
            return check
        async with async_pin(self._store, write=True) as store:
            answers, differences = await self._probe(store, caller, probe)
        return CallerCheck(
            caller,
            check.documents,
            check.chunks,
            check.against,
            check.answers,
            answers,
            check.approximate,
            (*check.differences, *differences),
        )

    async def _texts(self, caller: tuple[str, ...], random: Random, count: int) -> list[str]:
        """Sample stored texts: of the whole, whose words must not tell, and of what the caller finds."""
        found: list[str] = []
        for principals in (TRUSTED, list(caller)):
            scope = make_scope(principals)
            async with self._store.read() as transaction:
                [(resolved,)] = await transaction.run(resolve_scope(scope))
                visibility = Visibility(scope, *resolved)
                starts = [random.randrange(_IDS) for _ in range((count + 1) // 2)]
                answers = await transaction.run(
                    *(compose("read/sample", visibility, {"start": start}) for start in starts)
                )
            found += [text for rows in answers for _, text in rows]
        random.shuffle(found)
        return found

    async def _embed(self, queries: Sequence[str]) -> None:
        for query in queries:
            text = arguments.check_query(query, self._settings.search.max_query_chars)
            if text.strip() and text not in self._known:
                self._known[text] = await async_embed_query(self._embedder, text)

    async def _hold(
        self,
        store: AsyncPinnedStore,
        caller: tuple[str, ...],
        queries: Sequence[str],
        copy_chunks: int,
        random: Random,
    ) -> CallerCheck:
        """Put the caller's documents apart, and compare."""
        scratch = store.beside(f"context_engine_verify_{secrets.token_hex(8)}")
        against, documents, chunks = await _put_apart(scratch, caller, copy_chunks)
        params = {"start": random.randrange(_IDS), "limit": _FETCHED}
        hidden = await scratch.query(Statement(load("verify/hidden"), params))
        embedder = KnownQuestions(self._embedder, self._known)
        storage = {"storage": scratch.settings}
        alone = self._attach(scratch, embedder, self._settings.model_copy(update=storage))
        listed = await _list(alone, TRUSTED)
        fetched = [item.id for item in random.sample(listed, min(_FETCHED, len(listed)))]
        ids = [*fetched, *(key for (key,) in hidden), _NOT_THERE]
        asked = Asked(queries, ids, _filters(listed, ids, random))
        whole = self._attach(store, embedder, self._settings)
        wanted, _ = await ask(alone, TRUSTED, asked)
        got, approximate = await ask(whole, list(caller), asked)
        differences = tuple(compare(got, wanted))
        return CallerCheck(caller, documents, chunks, against, len(got), None, approximate, differences)

    async def _probe(
        self, store: AsyncPinnedStore, caller: tuple[str, ...], probe: Probe
    ) -> tuple[int, list[Difference]]:
        """Plant canaries, change them, take them away; and look each time whether the caller can tell."""
        engine = self._attach(store, KnownQuestions(self._embedder, self._known), self._settings)
        asked = Asked(probe.questions, [*probe.ids, _NOT_THERE], probe.filters)
        await engine.set_policy(*probe.policy)
        await _ingest(engine, [probe.bait])
        before, _ = await ask(engine, list(caller), asked)
        compared = 0
        differences: list[Difference] = []
        for step in ("planted", "changed", "removed"):
            if step == "planted":
                await _ingest(engine, probe.canaries)
                differences += await _unarmed(engine, probe)
            elif step == "changed":
                await _ingest(engine, probe.changed)
                await engine.set_policy(probe.policy[0], [])
            else:
                await engine.delete(probe.ids)
            after, _ = await ask(engine, list(caller), asked)
            compared += len(after)
            differences += [
                Difference("probe", f"{found.call} {found.asked}", f"with canaries {step}: {found.what}")
                for found in compare(after, before)
            ]
        return compared, differences


async def _ingest(engine: AsyncEngine, documents: Sequence[Any]) -> None:
    report = await engine.ingest(documents)
    if report.failed:
        raise StoreError(f"the probe could not be planted: {report.failed[0].error}")


async def _unarmed(engine: AsyncEngine, probe: Probe) -> list[Difference]:
    """Make sure that there is something to see: without limits the canaries are found."""
    result = await engine.search(probe.armed, principals=TRUSTED, top_k=1000, exact=True)
    found = {hit.document.id for hit in result.hits}
    if found >= set(probe.ids[:1]):
        return []
    return [Difference("probe", probe.armed, "the canaries cannot be found at all: the probe shows nothing")]


async def _put_apart(
    scratch: AsyncPinnedStore, caller: Sequence[str], copy_chunks: int
) -> tuple[Literal["copy", "views"], int, int]:
    """Fill a schema with what the caller may read, as tables or as views; return which, and how much that is."""
    async with scratch.write() as transaction:
        await transaction.script(load("verify/open"))
        readable = Statement(load("verify/readable"), {"principals": list(caller)})
        await transaction.run(readable)
        [[(documents, chunks)]] = await transaction.run(Statement(load("verify/size")))
        if chunks > copy_chunks:
            await transaction.script(load("verify/views"))
            return "views", documents, chunks
        await transaction.script(load("schema"))
        await transaction.script(load("verify/copy"))
        await transaction.run(Statement(load("admin/analyze")))
    return "copy", documents, chunks


@dataclass(frozen=True, slots=True)
class Asked:
    """What both sides are asked: questions, documents by id, and filters for a count and a search each."""

    queries: Sequence[str]
    documents: Sequence[int]
    filters: Sequence[Mapping[str, Any]]


def _filters(listed: Sequence[DocumentInfo], documents: Sequence[int], random: Random) -> list[Mapping[str, Any]]:
    """Draw a filter of each kind; the documents are visible, hidden and missing ones."""
    found: list[Mapping[str, Any]] = [{"documents": list(documents)}]
    if listed:
        one = random.choice(listed)
        found.append({"sources": [one.source]})
        found += [{"metadata": {key: {"ne": None}}} for key in sorted(one.metadata)[:1]]
    return found


async def ask(engine: AsyncEngine, principals: Principals, asked: Asked) -> tuple[Answers, bool]:
    """Call everything that a caller can call; returns the answers, and whether a vector route was approximate."""
    answers: dict[tuple[str, str], Any] = {}
    approximate = False
    legs: list[LegName] = [leg for leg, weight in engine.settings.fusion.weights.items() if leg != "graph" and weight]
    variants: dict[str, dict[LegName, float] | None] = {"fused": None}
    for leg in legs:
        variants[leg] = {name: float(name == leg) for name in legs}
    for query in asked.queries:
        for call, weights in variants.items():
            answers[call, query], walked = await _search(engine, principals, query, {"weights": weights})
            approximate = approximate or walked
    for filters in asked.filters:
        answers["count", repr(filters)] = await engine.count(principals=principals, **filters)
        for query in asked.queries[:2]:
            options: SearchOptions = {**filters, "top_k": 50}  # pyright: ignore[reportAssignmentType]
            answers["filtered", f"{query} {filters}"], _ = await _search(engine, principals, query, options)
    answers["count", ""] = await engine.count(principals=principals)
    answers["list", ""] = await _list(engine, principals)
    for key in asked.documents:
        try:
            answers["document", str(key)] = await engine.get_document(key, principals=principals)
        except NotFound as error:
            answers["document", str(key)] = _told(error)
        try:
            answers["neighbours", str(key)] = await engine.neighbours(key, 1, principals=principals)
        except NotFound as error:
            answers["neighbours", str(key)] = _told(error)
    return answers, approximate


async def _search(
    engine: AsyncEngine, principals: Principals, query: str, options: SearchOptions
) -> tuple[SearchResult | str, bool]:
    try:
        result = await engine.search(query, principals=principals, **options)
        walked = not result.report.exact
        if walked:
            exact: SearchOptions = {**options, "exact": True}
            result = await engine.search(query, principals=principals, **exact)
        return comparable(result), walked
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - what is hidden may well show as a crash
        return _told(error), False


def _told(error: Exception) -> str:
    """Write all that a caller sees of an error."""
    return f"{type(error).__name__}: {error}"


async def _list(engine: AsyncEngine, principals: Principals) -> list[DocumentInfo]:
    found: list[DocumentInfo] = []
    async with aclosing(engine.list_documents(principals=principals)) as listed:
        async for item in listed:
            found.append(item)
            if len(found) == _LISTED:
                break
    return found
