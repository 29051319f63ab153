"""The audit trail: a record of each read, queued by the call and written by a thread of its own.

A call never waits for the trail, and the trail has its own connection, outside the call's transaction. A record that
cannot be kept is counted, logged, told in the notes of the searches that follow, and, once the table can be written
again, told there by a record `lost`.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import hmac
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.access import Scope
from context_engine.db._sync import audit as table
from context_engine.db._sync.store import Store
from context_engine.errors import ContextEngineError, SchemaOutOfDate, StoreError
from context_engine.model import AuditAction, AuditRecord, AuditState, DocumentInfo, SearchResult
from context_engine.settings import AuditSettings, Settings

AuditHook = Callable[[AuditRecord], None]

_LOG: Final = logging.getLogger("context_engine.audit")
_BATCH: Final = 500
_FIRST_RETRY_S: Final = 0.5
_LONGEST_RETRY_S: Final = 30.0
_PRUNE_EVERY_S: Final = 3_600.0
_CLOSE_WITHIN_S: Final = 10.0


def query_hash(query: str, settings: AuditSettings) -> str | None:
    """Hash a question as the trail does: HMAC-SHA256 in hex; None without a key."""
    if settings.hash_key is None:
        return None
    return hmac.new(settings.hash_key.get_secret_value().encode(), query.encode(), hashlib.sha256).hexdigest()


@dataclass(slots=True)
class Answer:
    """What a call returned, as far as the trail keeps it."""

    document_ids: tuple[int, ...] = ()
    chunk_ids: tuple[int, ...] = ()
    legs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def take(self, result: SearchResult) -> None:
        """Keep a search's hits and routes."""
        self.document_ids = tuple(hit.document.id for hit in result.hits)
        self.chunk_ids = tuple(hit.chunk_id for hit in result.hits)
        self.legs = {leg: asdict(report) for leg, report in result.report.legs.items()}

    def take_documents(self, documents: Iterable[DocumentInfo]) -> None:
        """Keep the documents that were shown."""
        self.document_ids = tuple(document.id for document in documents)


class AuditTrail:
    """Takes records from one engine's calls; does nothing where neither the table nor a hook is wanted."""

    def __init__(self, url: str, settings: Settings, hook: AuditHook | None) -> None:
        self._settings = settings.audit
        self._hook = hook
        storage = settings.storage.model_copy(update={"pool_size": 1})
        self._store = Store(url, storage) if self._settings.enabled else None
        self._on = self._store is not None or hook is not None
        self._changed = threading.Condition()
        self._waiting: deque[AuditRecord] = deque()
        self._under_way = 0
        self._untold = 0
        self._closing = False
        self._stop_at = float("inf")
        self._state = AuditState()
        self._thread = threading.Thread(target=self._work, name="context-engine-audit", daemon=True)

    def open(self) -> None:
        """Connect, and start writing.

        Raises:
            ConfigError: when the table cannot be written.
        """
        if not self._on:
            return
        if self._store:
            self._store.open()
            try:
                table.check_writable(self._store)
            except BaseException:
                self._store.close()
                raise
        self._thread.start()
        # For an engine that is never closed: the thread ends with the interpreter, whatever is waiting.
        atexit.register(self.close)

    def close(self) -> None:
        """Write what is waiting, for ten seconds at most where the database does not take it, and stop."""
        atexit.unregister(self.close)
        with self._changed:
            self._closing = True
            self._stop_at = time.monotonic() + _CLOSE_WITHIN_S
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        if self._store:
            self._store.close()

    def flush(self, timeout_s: float) -> bool:
        """Wait until every record so far is written; returns whether that came about in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._under_way, timeout_s)

    @property
    def state(self) -> AuditState:
        """How it is going."""
        with self._changed:
            return replace(self._state, waiting=len(self._waiting) + self._under_way)

    def noted(self, result: SearchResult) -> SearchResult:
        """Tell in a search's notes that the trail has holes."""
        lost = self._state.lost
        if not lost:
            return result
        note = f"the audit trail has lost {lost} records: see the log of context_engine.audit"
        return replace(result, report=replace(result.report, notes=(*result.report.notes, note)))

    @contextmanager
    def record(self, action: AuditAction, scope: Scope, query: str | None = None, **asked: object) -> Generator[Answer]:
        """Record the call that the block makes, however it ends.

        Raises:
            StoreError: when the record finds no place and `audit.when_full` is `refuse`.
        """
        answer = Answer()
        if not self._on:
            yield answer
            return
        at, started, error = datetime.now(UTC), time.perf_counter(), None
        try:
            yield answer
        except ContextEngineError as failure:
            error = failure.code
            raise
        except BaseException as failure:
            error = "cancelled" if isinstance(failure, asyncio.CancelledError) else type(failure).__name__
            raise
        finally:
            made = AuditRecord(
                str(uuid.uuid4()),
                at,
                action,
                scope.principals,
                *self._question(query),
                filters=_filters(scope, asked),
                document_ids=answer.document_ids,
                chunk_ids=answer.chunk_ids,
                legs=answer.legs,
                duration_ms=(time.perf_counter() - started) * 1000,
                error=error,
            )
            kept = self._put(made)
        if not kept and self._settings.when_full == "refuse":
            raise StoreError(
                "the audit trail is full or cannot be written, and no answer is given without a record "
                "(audit.when_full)",
                retryable=True,
            )

    def _question(self, query: str | None) -> tuple[str | None, str | None]:
        if query is None or self._settings.query == "none":
            return None, None
        return (query, None) if self._settings.query == "text" else (None, query_hash(query, self._settings))

    def _put(self, record: AuditRecord) -> bool:
        with self._changed:
            if self._closing or len(self._waiting) >= self._settings.queue_size:
                self._lose(1)
                return False
            self._waiting.append(record)
            self._changed.notify_all()
        return True

    def _lose(self, count: int) -> None:
        if not self._state.lost:
            _LOG.error("the audit trail loses records: %s", self._state.error or "its queue is full")
        self._state = replace(self._state, lost=self._state.lost + count)
        self._untold += count

    def _work(self) -> None:
        prune_at = time.monotonic()
        while True:
            if self._store and self._settings.retention_days and time.monotonic() >= prune_at:
                prune_at = time.monotonic() + _PRUNE_EVERY_S
                self._prune(self._store, self._settings.retention_days)
            with self._changed:
                idle_s = max(prune_at - time.monotonic(), 1.0) if self._settings.retention_days else None
                self._changed.wait_for(lambda: self._waiting or self._closing, idle_s)
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                self._under_way = len(batch)
                if not batch and self._closing:
                    break
            self._deliver(batch)
            with self._changed:
                self._under_way = 0
                self._changed.notify_all()
        with self._changed:
            if self._untold:
                _LOG.error("the audit trail closed with %d records lost and not told in the table", self._untold)

    def _deliver(self, batch: Sequence[AuditRecord]) -> None:
        if self._hook:
            for record in batch:
                self._call_hook(self._hook, record)
        if self._store and batch:
            self._write(self._store, batch)

    def _call_hook(self, hook: AuditHook, record: AuditRecord) -> None:
        try:
            hook(record)
        except Exception:  # noqa: BLE001 - whatever it is, it is not the trail's end
            _LOG.exception("the audit hook failed")
            with self._changed:
                self._state = replace(self._state, hook_failures=self._state.hook_failures + 1)

    def _write(self, store: Store, batch: Sequence[AuditRecord]) -> None:
        """Store a batch, trying again until the trail is closed and its time is over."""
        pause = _FIRST_RETRY_S
        while True:
            with self._changed:
                untold = self._untold
            try:
                table.insert(store, [*batch, *([_gap(untold)] if untold else [])])
            except ContextEngineError as error:
                self._failed(error)
                if _of_the_data(error) and len(batch) > 1:
                    for record in batch:
                        self._write(store, [record])
                    return
                if _of_the_data(error) or not self._wait(pause):
                    with self._changed:
                        self._lose(len(batch))
                    return
                pause = min(2 * pause, _LONGEST_RETRY_S)
                continue
            with self._changed:
                self._untold -= untold
                self._state = replace(self._state, written=self._state.written + len(batch), error=None)
            return

    def _failed(self, error: ContextEngineError) -> None:
        with self._changed:
            if self._state.error != str(error):
                _LOG.error("the audit trail cannot be written: %s", error)
            self._state = replace(self._state, error=str(error))
            self._changed.notify_all()

    def _wait(self, pause_s: float) -> bool:
        """Wait before another try; returns whether there may be one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closing, pause_s):
                return True
            left = min(_FIRST_RETRY_S, self._stop_at - time.monotonic())
            self._changed.wait_for(lambda: False, max(left, 0.0))
        return time.monotonic() < self._stop_at

    def _prune(self, store: Store, days: float) -> None:
        try:
            table.prune(store, days)
        except ContextEngineError as error:
            _LOG.warning("records past audit.retention_days were not deleted: %s", error)


def _of_the_data(error: ContextEngineError) -> bool:
    """Whether it was the records that the database refused, so that trying again is of no use."""
    passing = not isinstance(error, StoreError) or error.retryable or error.connection_lost
    return not passing and not isinstance(error, SchemaOutOfDate)


def _gap(count: int) -> AuditRecord:
    """Say in the trail itself that records are missing before this moment."""
    key, at = str(uuid.uuid4()), datetime.now(UTC)
    return AuditRecord(key, at, "lost", (), None, None, {"records": count}, (), (), {}, 0.0, None)


def _filters(scope: Scope, asked: dict[str, object]) -> dict[str, Any]:
    given = {"sources": scope.sources, "documents": scope.documents, "metadata": scope.metadata, **asked}
    return {name: value for name, value in given.items() if value is not None}
