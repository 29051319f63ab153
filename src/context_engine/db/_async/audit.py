"""The audit table: written by the trail, read and pruned by the operator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.db._async.store import AsyncStore
from context_engine.errors import ConfigError
from context_engine.model import AuditAction, AuditRecord
from context_engine.retrieval.compose import Statement
from context_engine.sql import load

_PAGE: Final = 1_000
_PRUNED_AT_ONCE: Final = 5_000
_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which records are asked for; what is None does not narrow.

    Attributes:
        principal: records of callers who had this principal.
        trusted: only records of `TRUSTED`.
        query: records of exactly this question, as it was kept; `query_hash` is its hash under the current key.
        since: the first moment, inclusive.
        until: the last moment, exclusive.
    """

    principal: str | None = None
    trusted: bool = False
    action: AuditAction | None = None
    document: int | None = None
    query: str | None = None
    query_hash: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def check_writable(store: AsyncStore) -> None:
    """Make sure that records can be stored.

    Raises:
        ConfigError: when the role may not.
    """
    table = {"audit_table": f'"{store.settings.schema_name}".audit'}
    [(allowed,)] = await store.query(Statement(load("audit/may_write"), table))
    if not allowed:
        raise ConfigError(
            "the audit trail is switched on (audit.enabled), but this role may not write it: "
            f"GRANT INSERT ON {store.settings.schema_name}.audit, or migrate first"
        )


async def insert(store: AsyncStore, records: Sequence[AuditRecord]) -> None:
    """Store records; one that is there already stays."""
    rows = json.dumps([{**asdict(record), "at": record.at.isoformat()} for record in records])
    async with store.write() as transaction:
        await transaction.run(Statement(load("audit/insert"), {"records": rows}))


async def list_records(store: AsyncStore, wanted: AuditFilter, limit: int | None = None) -> AsyncIterator[AuditRecord]:
    """Yield records, the newest first."""
    params: dict[str, Any] = asdict(wanted)
    params |= {"since": wanted.since or _BEGINNING, "before_at": wanted.until or _END, "before_id": _LAST_ID}
    if wanted.until:
        params["before_id"] = "00000000-0000-0000-0000-000000000000"
    left = limit
    while left is None or left > 0:
        params["limit"] = _PAGE if left is None else min(left, _PAGE)
        rows = await store.query(Statement(load("audit/list"), params))
        for key, at, action, principals, query, query_hash, filters, documents, chunks, legs, duration, error in rows:
            who = None if principals is None else tuple(principals)
            ids = tuple(documents), tuple(chunks)
            yield AuditRecord(key, at, action, who, query, query_hash, filters, *ids, legs, duration, error)
        if len(rows) < params["limit"]:
            return
        params |= {"before_at": rows[-1][1], "before_id": rows[-1][0]}
        left = None if left is None else left - len(rows)


async def prune(store: AsyncStore, older_than_days: float) -> int:
    """Delete records that are older; returns how many there were."""
    params = {"older_than_s": older_than_days * 86_400, "limit": _PRUNED_AT_ONCE}
    total = 0
    while True:
        async with store.write() as transaction:
            deleted = await transaction.affected(Statement(load("audit/prune"), params))
        total += deleted
        if deleted < _PRUNED_AT_ONCE:
            return total
