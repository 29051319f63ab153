# Generated from engine/_async/audit.py by tools/unasync.py: change that file instead.
"""What an operator may ask of the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from context_engine.access import normalise_name
from context_engine.db._sync import audit as table
from context_engine.db._sync.store import Store
from context_engine.db.threads import in_thread
from context_engine.engine import arguments
from context_engine.engine.audit import AuditTrail, query_hash
from context_engine.errors import InputError
from context_engine.model import AuditAction, AuditRecord, AuditState
from context_engine.settings import Settings


class _Opened(Protocol):
    store: Store
    trail: AuditTrail


class _Engine(Protocol):
    settings: Settings

    @property
    def _opened(self) -> _Opened | None: ...

    def _open(self) -> _Opened: ...


class Audit:
    """The audit trail of an engine's database: `engine.audit`."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    @property
    def state(self) -> AuditState:
        """How this engine's part of it is doing: what is written, waiting and lost."""
        opened = self._engine._opened  # pyright: ignore[reportPrivateUsage]
        return opened.trail.state if opened else AuditState()

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until every record of this engine is written; returns whether that came about in time."""
        opened = self._engine._open()  # pyright: ignore[reportPrivateUsage]
        return in_thread(opened.trail.flush, timeout_s)

    def records(
        self,
        *,
        principal: str | None = None,
        trusted: bool = False,
        action: AuditAction | None = None,
        document: int | None = None,
        query: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[AuditRecord]:
        """Yield what was kept, by any engine, the newest first.

        Args:
            principal: only calls by whoever had this principal.
            trusted: only calls by `TRUSTED`.
            action: only calls of this kind.
            document: only calls that returned this document.
            query: only calls with exactly this question, kept as it is or hashed with the present key.
            since: no earlier than this.
            until: earlier than this.
            limit: at most so many.

        Raises:
            InputError: when a principal or a question cannot be one.
        """
        settings = self._engine.settings
        text = None if query is None else arguments.check_query(query, settings.search.max_query_chars)
        wanted = table.AuditFilter(
            principal=None if principal is None else normalise_name(principal, "a principal"),
            trusted=trusted,
            action=action,
            document=document,
            query=text,
            query_hash=None if text is None else query_hash(text, settings.audit),
            since=since,
            until=until,
        )
        opened = self._engine._open()  # pyright: ignore[reportPrivateUsage]
        for record in table.list_records(opened.store, wanted, limit):  # noqa: UP028 - see engine.py
            yield record

    def prune(self, older_than_days: float | None = None) -> int:
        """Delete records that are older than this, or than `audit.retention_days`; returns how many there were.

        Raises:
            InputError: when neither says how old.
        """
        days = older_than_days if older_than_days is not None else self._engine.settings.audit.retention_days
        if days is None or not 0 <= days < float("inf"):
            raise InputError("say how old: older_than_days, or the setting audit.retention_days")
        opened = self._engine._open()  # pyright: ignore[reportPrivateUsage]
        return table.prune(opened.store, days)
