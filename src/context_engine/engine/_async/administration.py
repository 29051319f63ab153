"""What an administrator asks of an engine: the answers tell of documents that a caller may not see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Unpack

from context_engine.db._async.pinned import AsyncPinnedStore, async_pin
from context_engine.db._async.store import AsyncStore
from context_engine.diagnostics.explain import Diff, Explanation, Readers
from context_engine.diagnostics.verify import VerifyReport
from context_engine.engine import arguments
from context_engine.engine._async import explain
from context_engine.engine._async.verify import AsyncVerifier, VerifyPlan
from context_engine.engine.arguments import SearchOptions
from context_engine.errors import ProviderError
from context_engine.model import Principals
from context_engine.models.embedder import Embedder, async_embed_query
from context_engine.models.known import KnownQuestions
from context_engine.models.vectors import Vectors
from context_engine.names import Progress
from context_engine.settings import Settings

if TYPE_CHECKING:
    from context_engine.engine._async.engine import AsyncEngine


class AsyncAdministration(ABC):
    """The part of an engine that is for administrators alone; no caller's request may reach it."""

    settings: Settings
    _embedder: Embedder

    @abstractmethod
    async def _store(self) -> AsyncStore:
        """Return the open database."""

    @abstractmethod
    def _on(self, store: AsyncStore, embedder: Embedder, settings: Settings) -> AsyncEngine:
        """Return an engine like this one, at work in a transaction that is open already."""

    async def who_can(self, document_id: int) -> Readers:
        """Tell who may read a document, a policy being looked up. For administrators.

        Raises:
            NotFound: when there is none.
        """
        async with self._snapshot() as (engine, store):
            return await explain.readers(store, engine, document_id)

    async def explain(
        self, document_id: int, query: str, *, principals: Principals, **options: Unpack[SearchOptions]
    ) -> Explanation:
        """Tell why a document is, or is not, in what a caller finds.

        For administrators: the answer tells of a document whether the caller may see it or not.

        Args:
            document_id: the document.
            query: the question.
            principals: the caller.
            options: those of `search`.

        Raises:
            NotFound: when there is no such document.
            InputError: when an argument is not valid.
        """
        async with self._snapshot(query) as (engine, store):
            return await explain.AsyncExplainer(engine, store, query, principals, options).explain(document_id)

    async def diff(self, query: str, *, a: Principals, b: Principals, **options: Unpack[SearchOptions]) -> Diff:
        """Lay what two callers find side by side, from one snapshot. For administrators.

        Args:
            query: the question.
            a: the first caller.
            b: the second.
            options: those of `search`.
        """
        async with self._snapshot(query) as (engine, store):
            return await explain.diff(engine, store, query, a, b, options)

    async def verify(
        self,
        *,
        callers: Sequence[Principals] | int = 5,
        queries: Sequence[str] | int = 10,
        probe: bool = False,
        seed: int = 0,
        copy_chunks: int = 20_000,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Hold the promise on this database: does each caller get what their documents alone would give?

        All that is written is written in transactions that are undone: nobody else sees it, and a crash leaves
        nothing. The role must be allowed to create a schema.

        Args:
            callers: the callers to ask as, or how many to draw from the stored principals.
            queries: the questions to ask, or how many to draw for each caller from the stored texts.
            probe: also plant documents that the caller may not read, and look whether any answer changes.
            seed: what is drawn is drawn by this number.
            copy_chunks: up to how many chunks a caller's documents are copied; more are read where they lie.
            progress: called with callers done and in all.
        """
        plan = VerifyPlan(callers, queries, probe, seed, copy_chunks)
        store = await self._store()
        verifier = AsyncVerifier(store, self._embedder, self.settings, self._on)
        return await verifier.verify(plan, progress)

    @asynccontextmanager
    async def _snapshot(self, *queries: str) -> AsyncGenerator[tuple[AsyncEngine, AsyncPinnedStore]]:
        """Open a snapshot, and an engine whose every call reads it and that embeds each question once."""
        limit = self.settings.search.max_query_chars
        known: dict[str, Vectors] = {}
        for text in {arguments.check_query(query, limit) for query in queries} if queries else ():
            if text.strip():
                with suppress(ProviderError):  # what the search itself has to say of it
                    known[text] = await async_embed_query(self._embedder, text)
        async with async_pin(await self._store(), write=False) as store:
            yield self._on(store, KnownQuestions(self._embedder, known), self.settings), store
