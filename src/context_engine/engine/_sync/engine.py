# Generated from engine/_async/engine.py by tools/unasync.py: change that file instead.
"""The engine: what a program holds on to."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from context_engine.access import (
    Filters,
    Scope,
    check_document_id,
    make_scope,
    normalise_acl,
    normalise_name,
    normalise_rule,
)
from context_engine.db._sync import maintain
from context_engine.db._sync.inspect import inspect
from context_engine.db._sync.migrate import is_fresh, migrate, register
from context_engine.db._sync.store import Store
from context_engine.db.facts import check_dimension
from context_engine.db.threads import in_thread
from context_engine.diagnostics.facts import DatabaseFacts
from context_engine.engine import arguments
from context_engine.engine._sync.acls import AccessClasses
from context_engine.engine._sync.administration import Administration
from context_engine.engine._sync.audit import Audit
from context_engine.engine._sync.ingest import Ingestor
from context_engine.engine._sync.reindex import Reindexer
from context_engine.engine._sync.search import Searcher, SearchRequest
from context_engine.engine.audit import AuditHook, AuditTrail
from context_engine.engine.embedded import start_embedded
from context_engine.errors import InputError, NotFound, ProviderError, StoreError
from context_engine.model import (
    ACL,
    AclLike,
    Chunk,
    Count,
    Document,
    DocumentInfo,
    IngestReport,
    Policy,
    Principals,
    SearchResult,
    StoredDocument,
)
from context_engine.models.embedder import Embedder, as_embedder, embed_query
from context_engine.names import LegName, Progress
from context_engine.retrieval.compose import Visibility, compose, resolve_scope
from context_engine.retrieval.query import read_question
from context_engine.settings import AuditSettings, Settings
from context_engine.text.analyse import Analyser

_PAGE = 500


class Engine(Administration):
    """Permission-aware hybrid retrieval over one database.

    Opens at the first call, or as a context manager; close it to give its connections back. One engine serves many
    callers at once.

    Args:
        database_url: a PostgreSQL URL; without one, the embedded server starts.
        data_dir: where the embedded server keeps its data; `CONTEXT_ENGINE_DATA_DIR` or the user's data directory
            when left out.
        embedder: anything with `name`, `dim`, `embed_documents` and `embed_query`; the local model when left out.
        settings: all settings; read from variables and the TOML file when left out.
        audit_hook: called with a record of each read, in a thread of the engine's own; what it raises is logged.

    Attributes:
        audit: the audit trail, for the operator.
    """

    def __init__(
        self,
        database_url: str | None = None,
        data_dir: str | Path | None = None,
        embedder: object | None = None,
        settings: Settings | None = None,
        audit_hook: AuditHook | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._url = database_url or self.settings.database_url
        self._data_dir = Path(data_dir) if data_dir else self.settings.data_dir
        self._embedder: Embedder = as_embedder(embedder or arguments.default_embedder())
        self._analyser = Analyser.of(self.settings.analyser)
        self._audit_hook = audit_hook
        self.audit = Audit(self)
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._closed = False

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> _Opened:
        with self._lock:
            self._check_not_closed()
            if self._opened is None:
                self._opened = self._connect()
            return self._opened

    def _check_not_closed(self) -> None:
        if self._closed:
            raise StoreError("the engine is closed: make a new one")

    def _connect(self, upgrade: bool = False, reindex: bool = False) -> _Opened:
        check_dimension(self._embedder.dim, self.settings.storage.vector_type)
        server = None
        url = self._url
        if url is None:
            server = in_thread(start_embedded, self._data_dir)
            url = server.url()
        store = Store(url, self.settings.storage)
        try:
            store.open()
            applied: list[str] = []
            if upgrade or is_fresh(store):
                applied = migrate(store)
            store.locate_extensions()
            facts = arguments.facts(self._embedder, self.settings, self._analyser.fingerprint)
            register(store, {name: fact for name, fact in facts.items() if name == "embedder" or not reindex})
            trail = AuditTrail(url, self.settings, self._audit_hook)
            in_thread(trail.open)
        except BaseException:
            store.close()
            if server is not None:
                in_thread(server.close)
            raise
        return _Opened(self, store, server, applied, trail)

    def close(self) -> None:
        """Close the pool, and the embedded server when this was its last user."""
        with self._lock:
            opened, self._opened = self._opened, None
            self._closed = True
        if opened is not None:
            in_thread(opened.trail.close)
            opened.store.close()
            if opened.server is not None:
                in_thread(opened.server.close)

    def migrate(self) -> list[str]:
        """Bring the schema up to date.

        Returns:
            The names of the migrations applied, oldest first; empty when there was nothing to do.
        """
        with self._lock:
            self._check_not_closed()
            if self._opened is None:
                self._opened = self._connect(upgrade=True)
                return self._opened.applied
        return migrate(self._opened.store)

    def reindex(self, progress: Progress | None = None) -> int:
        """Make the words of every stored chunk again, after a change of the analyser's settings or version.

        Nothing is embedded anew. It is one transaction: searches go on with the old words until it ends, and writers
        wait. Engines that were open before must be opened again afterwards.

        Args:
            progress: called after each batch with documents done and in all.

        Returns:
            How many documents were analysed again.
        """
        with self._lock:
            self._check_not_closed()
            if self._opened is None:
                self._opened = self._connect(reindex=True)
        facts = arguments.facts(self._embedder, self.settings, self._analyser.fingerprint)
        worded = {name: fact for name, fact in facts.items() if name != "embedder"}
        done = Reindexer(self._opened.store, self._analyser, self.settings).run(worded, progress)
        maintain.settle(self._opened.store, done)
        return done

    def ingest(self, documents: Iterable[Document], progress: Progress | None = None) -> IngestReport:
        """Store documents: new ones, changed ones, and what of them changed.

        Safe to repeat: the same content costs nothing. A document that cannot be stored is in the report, with the
        reason, and the others go on.

        Args:
            documents: any iterable; it is read once, in batches.
            progress: called after each batch with documents done and, where known, in all.
        """
        if isinstance(documents, Document):
            raise InputError("ingest takes a list of documents: wrap this one in [ ]")
        opened = self._open()
        report = opened.ingestor().ingest(documents, progress)
        started = time.perf_counter()
        written = report.created + report.updated
        notes = maintain.settle(opened.store, written)
        report.timings_ms["settle"] = (time.perf_counter() - started) * 1000
        return replace(report, notes=tuple(notes))

    def search(
        self,
        query: str,
        *,
        principals: Principals,
        top_k: int = 10,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
        exact: bool = False,
        weights: Mapping[LegName, float] | None = None,
    ) -> SearchResult:
        """Search what a caller may see.

        Args:
            query: words, "phrases" and -exclusions; any text is legal up to `search.max_query_chars`.
            principals: who asks; `[]` is anonymous, `TRUSTED` sees everything.
            top_k: how many hits at most, from 1 to 10,000.
            sources: only these namespaces.
            documents: only these document ids.
            metadata: wanted values by key: a value, a list of values, or comparisons such as `{"gte": 2020}`.
            exact: scan every visible vector, however many there are.
            weights: fusion weights for this call, over those in the settings, taken as they are (see
                `fusion.adaptive`); 0 switches a leg off.

        Raises:
            InputError: when an argument is not valid.
            LegError: when every leg failed.
        """
        scope = make_scope(principals, Filters(sources, documents, metadata))
        text = arguments.check_query(query, self.settings.search.max_query_chars)
        merged = arguments.merge_weights(self.settings.fusion.weights, weights)
        arguments.check_top_k(top_k)
        search = self.settings.search
        question = read_question(text, self._analyser, search.lexical_match, search.max_query_terms)
        opened = self._open()
        with opened.trail.record("search", scope, text, top_k=top_k, exact=exact, weights=weights) as answer:
            started = time.perf_counter()
            embedding: str | None = None
            failed: dict[LegName, str] = {}
            if merged.get("ann", 0) > 0 and text.strip() and not question.only_excludes:
                try:
                    vector = embed_query(self._embedder, text)
                    embedding = arguments.vector_literal(vector)
                except ProviderError as error:
                    failed["ann"] = str(error)
            embed_ms = (time.perf_counter() - started) * 1000
            adaptive = self.settings.fusion.adaptive and not weights
            request = SearchRequest(question, scope, embedding, merged, adaptive, failed, top_k, exact)
            result = opened.searcher.search(request)
            answer.take(result)
        result.report.timings_ms["embed"] = embed_ms
        return opened.trail.noted(result)

    def get_document(self, document_id: int, *, principals: Principals) -> StoredDocument:
        """Fetch a document with its text.

        Raises:
            NotFound: when there is none, or it is not this caller's: the two are one answer.
        """
        scope = make_scope(principals)
        params = {"document_id": check_document_id(document_id)}
        opened = self._open()
        with opened.trail.record("get", scope, document=document_id) as answer:
            with opened.store.read() as transaction:
                [(visible,)] = transaction.run(resolve_scope(scope))
                visibility = Visibility(scope, *visible)
                [rows] = transaction.run(compose("read/document", visibility, params))
            if not rows:
                raise NotFound
            chunks = tuple(row[5] for row in rows if row[5] is not None)
            document = StoredDocument(*rows[0][:5], text="".join(chunks), chunks=chunks)
            answer.take_documents([document])
        return document

    def neighbours(
        self, document_id: int, position: int, *, principals: Principals, before: int = 1, after: int = 1
    ) -> tuple[Chunk, ...]:
        """Fetch the chunks around a place in a document, in reading order, the one at the place among them.

        Args:
            document_id: the document.
            position: the place, from 0, as in `Hit.position`.
            principals: who asks.
            before: how many chunks before it, from 0 to 1,000.
            after: how many after it, from 0 to 1,000.

        Raises:
            NotFound: when there is no such document, or it is not this caller's.
        """
        scope = make_scope(principals)
        window = arguments.window(position, before, after)
        params = {"document_id": check_document_id(document_id), **window}
        opened = self._open()
        with opened.trail.record("get", scope, document=document_id, window=window) as answer:
            with opened.store.read() as transaction:
                [(visible,)] = transaction.run(resolve_scope(scope))
                [rows] = transaction.run(compose("read/neighbours", Visibility(scope, *visible), params))
            if not rows:
                raise NotFound
            chunks = tuple(Chunk(*row) for row in rows if row[0] is not None)
            answer.document_ids = (document_id,)
            answer.chunk_ids = tuple(chunk.chunk_id for chunk in chunks)
        return chunks

    def list_documents(
        self,
        *,
        principals: Principals,
        sources: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Generator[DocumentInfo]:
        """Yield the documents a caller may see, by ascending id."""
        return self._pages(make_scope(principals, Filters(sources, None, metadata)))

    def _pages(self, scope: Scope) -> Generator[DocumentInfo]:
        opened = self._open()
        after = -1
        while True:
            with opened.trail.record("list", scope, after=after) as answer:
                with opened.store.read() as transaction:
                    [(visible,)] = transaction.run(resolve_scope(scope))
                    params = {"after": after, "limit": _PAGE}
                    statement = compose("read/documents", Visibility(scope, *visible), params)
                    [rows] = transaction.run(statement)
                page = [DocumentInfo(*row) for row in rows]
                answer.take_documents(page)
            for document in page:  # noqa: UP028 - an asynchronous generator has no `yield from`
                yield document
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def count(
        self,
        *,
        principals: Principals,
        sources: Sequence[str] | None = None,
        documents: Sequence[int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Count:
        """Count the documents and chunks a caller may see."""
        scope = make_scope(principals, Filters(sources, documents, metadata))
        opened = self._open()
        with opened.trail.record("count", scope):
            with opened.store.read() as transaction:
                [(visible,)] = transaction.run(resolve_scope(scope))
                visibility = Visibility(scope, *visible)
                if not scope.narrowed_by_document:
                    return Count(visibility.documents, visibility.chunks)
                [[(found, chunks)]] = transaction.run(compose("read/count", visibility))
                return Count(found, chunks)

    def set_acl(self, documents: int | Sequence[int], acl: AclLike) -> None:
        """Change who may read documents, in one transaction; nothing is embedded anew.

        Raises:
            NotFound: when one of the documents does not exist; none is changed then.
            InputError: when the ACL is not valid, or names no policy.
        """
        ids = arguments.document_ids(documents)
        rule = normalise_acl(acl)
        opened = self._open()
        found = opened.access_classes.ids([rule])
        if rule not in found:
            name = rule.name if isinstance(rule, Policy) else "?"
            raise InputError(f"no policy is named {name!r}: define it with set_policy")
        maintain.set_acl(opened.store, ids, found[rule])

    def set_policy(self, name: str, acl: ACL | AclLike) -> None:
        """Define a policy, or change it for every document that points to it, at once."""
        opened = self._open()
        opened.access_classes.set_policy(normalise_name(name, "a policy's name"), normalise_rule(acl))

    def policies(self) -> dict[str, ACL]:
        """List every policy with its ACL."""
        opened = self._open()
        return maintain.policies(opened.store)

    def get_acl(self, document_id: int) -> ACL | Policy:
        """Tell who may read a document.

        Raises:
            NotFound: when there is none.
        """
        key = check_document_id(document_id)
        opened = self._open()
        return maintain.document_acl(opened.store, key)

    def delete(self, documents: int | Sequence[int]) -> int:
        """Delete documents with all that was made of them; returns how many there were."""
        ids = arguments.document_ids(documents)
        opened = self._open()
        return maintain.delete(opened.store, ids)

    def _on(self, store: Store, embedder: Embedder, settings: Settings) -> Engine:
        """Return an engine like this one, at work in a transaction that is open already."""
        other = Engine(self._url, self._data_dir, embedder, settings)
        silent = settings.model_copy(update={"audit": AuditSettings()})  # no call of a user's
        other._opened = _Opened(other, store, None, [], AuditTrail("", silent, None))
        return other

    def _store(self) -> Store:
        return (self._open()).store

    def inspect(self) -> DatabaseFacts:
        """Gather what there is to know about the database, changing nothing: not even missing tables are made."""
        expected = arguments.facts(self._embedder, self.settings, self._analyser.fingerprint)
        server, url = None, self._url
        if url is None:
            server = in_thread(start_embedded, self._data_dir)
            url = server.url()
        store = Store(url, self.settings.storage)
        try:
            store.open()
            return inspect(store, expected, embedded=server is not None)
        finally:
            store.close()
            if server is not None:
                in_thread(server.close)


class _Opened:
    """What an open engine holds."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        server: arguments.Server | None,
        applied: list[str],
        trail: AuditTrail,
    ) -> None:
        self.store = store
        self.trail = trail
        self.server = server
        self.applied = applied
        self.access_classes = AccessClasses(store)
        self.searcher = Searcher(store, engine.settings, engine._analyser)  # pyright: ignore[reportPrivateUsage]
        self._engine = engine

    def ingestor(self) -> Ingestor:
        """Make an ingestor for one call."""
        return Ingestor(
            self.store,
            self._engine._embedder,  # pyright: ignore[reportPrivateUsage]
            self._engine._analyser,  # pyright: ignore[reportPrivateUsage]
            self._engine.settings,
            self.access_classes,
        )
