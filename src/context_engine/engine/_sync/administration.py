# Generated from engine/_async/administration.py by tools/unasync.py: change that file instead.
"""What an administrator asks of an engine: the answers tell of documents that a caller may not see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Unpack

from context_engine.access import normalise_name
from context_engine.db._sync import harden as hardening
from context_engine.db._sync import maintain
from context_engine.db._sync.pinned import PinnedStore, pin
from context_engine.db._sync.store import Store
from context_engine.diagnostics.explain import Diff, Explanation, Readers
from context_engine.diagnostics.verify import VerifyReport
from context_engine.engine import arguments
from context_engine.engine._sync import explain
from context_engine.engine._sync.verify import Verifier, VerifyPlan
from context_engine.engine.arguments import SearchOptions
from context_engine.errors import ProviderError
from context_engine.model import Maintenance, Principals
from context_engine.models.embedder import Embedder, embed_query
from context_engine.models.known import KnownQuestions
from context_engine.models.vectors import Vectors
from context_engine.names import Progress
from context_engine.settings import Settings

if TYPE_CHECKING:
    from context_engine.engine._sync.engine import Engine


class Administration(ABC):
    """The part of an engine that is for administrators alone; no caller's request may reach it."""

    settings: Settings
    _embedder: Embedder

    @abstractmethod
    def _store(self) -> Store:
        """Return the open database."""

    @abstractmethod
    def _on(self, store: Store, embedder: Embedder, settings: Settings) -> Engine:
        """Return an engine like this one, at work in a transaction that is open already."""

    def maintain(
        self,
        *,
        rebuild: bool = False,
        reorder: bool = False,
        step: Callable[[str], None] = lambda _: None,
        progress: Progress | None = None,
    ) -> Maintenance:
        """Do upkeep: count waiting documents in, build the vector index where it is worth it, refresh statistics.

        Searches and writes go on meanwhile. Worth a run after many ACL changes or deletions; an ingest does by itself
        what it made necessary.

        Args:
            rebuild: make the vector index anew, also where there is one.
            reorder: put vectors and texts in the order of access classes, which makes searches of callers with few
                rights faster. It locks both tables while it lasts, some seconds for 100,000 chunks.
            step: called with the name of each step.
            progress: called with the number of documents put into a vector index that is built.
        """
        return maintain.maintain(self._store(), rebuild, reorder, step, progress)

    def harden(
        self, reader: str, *, trusted: str | None = None, leakproof: bool = False, undo: bool = False
    ) -> list[str]:
        """Put row-level policies on every table of documents, from the rule that searches follow; safe to repeat.

        Args:
            reader: the role whose members search; made when missing.
            trusted: a role whose members may also ask as `TRUSTED`; made when missing.
            leakproof: declare `@@` leakproof, so that its index serves below the policies; needs a superuser.
            undo: take the policies away instead; roles stay.

        Returns:
            The tables that are guarded, or were.

        Raises:
            ConfigError: when a role would pass by the policies, or this one may not make them.
        """
        names = [normalise_name(name, "a role") for name in (reader, trusted) if name is not None]
        store = self._store()
        if undo:
            return hardening.undo(store)
        return hardening.harden(store, names[0], names[1] if len(names) > 1 else None, leakproof)

    def who_can(self, document_id: int) -> Readers:
        """Tell who may read a document, a policy being looked up. For administrators.

        Raises:
            NotFound: when there is none.
        """
        with self._snapshot() as (engine, store):
            return explain.readers(store, engine, document_id)

    def explain(
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
        with self._snapshot(query) as (engine, store):
            return explain.Explainer(engine, store, query, principals, options).explain(document_id)

    def diff(self, query: str, *, a: Principals, b: Principals, **options: Unpack[SearchOptions]) -> Diff:
        """Lay what two callers find side by side, from one snapshot. For administrators.

        Args:
            query: the question.
            a: the first caller.
            b: the second.
            options: those of `search`.
        """
        with self._snapshot(query) as (engine, store):
            return explain.diff(engine, store, query, a, b, options)

    def verify(
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
        store = self._store()
        verifier = Verifier(store, self._embedder, self.settings, self._on)
        return verifier.verify(plan, progress)

    @contextmanager
    def _snapshot(self, *queries: str) -> Generator[tuple[Engine, PinnedStore]]:
        """Open a snapshot, and an engine whose every call reads it and that embeds each question once."""
        limit = self.settings.search.max_query_chars
        known: dict[str, Vectors] = {}
        for text in {arguments.check_query(query, limit) for query in queries} if queries else ():
            if text.strip():
                with suppress(ProviderError):  # what the search itself has to say of it
                    known[text] = embed_query(self._embedder, text)
        with pin(self._store(), write=False) as store:
            yield self._on(store, KnownQuestions(self._embedder, known), self.settings), store
