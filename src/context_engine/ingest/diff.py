"""What must change so that the stored document becomes the planned one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from context_engine.errors import InputError
from context_engine.ingest.plan import DocumentPlan, PlannedChunk
from context_engine.model import Outcome


@dataclass(frozen=True, slots=True)
class StoredState:
    """A document as the database holds it.

    Attributes:
        acl_set_at: when set_acl was last called for it.
        chunks: the content hash of each stored chunk, by chunk id.
    """

    source: str
    external_id: str
    acl_id: int
    acl_set_at: datetime | None
    content_hash: bytes
    chunks: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class Change:
    """The rows to write for one document.

    Attributes:
        outcome: what the caller is told.
        acl_id: the access class that all of its rows have afterwards.
        write: chunks to write anew.
        stale: ids of chunks to remove, the ones to be written anew among them.
    """

    plan: DocumentPlan
    before: StoredState | None
    outcome: Outcome
    acl_id: int
    write: tuple[PlannedChunk, ...]
    stale: tuple[int, ...]


def diff(plan: DocumentPlan, stored: StoredState | None, acl_id: int | None) -> Change:
    """Compare a plan with what is stored.

    Args:
        plan: the document to be.
        stored: the document as it is, or None when it is new.
        acl_id: the access class asked for, or None to keep the stored one.

    Raises:
        InputError: for a new document without an ACL, or two ids with one hash.
    """
    if stored is None:
        if acl_id is None:
            raise InputError("a new document needs an acl: a list of principals, PUBLIC, ACL(…) or Policy(…)")
        return Change(plan, None, "created", acl_id, plan.chunks, ())
    if (stored.source, stored.external_id) != (plan.source, plan.external_id):
        raise InputError("another document has the same id: change the external_id")
    wanted = stored.acl_id if acl_id is None else acl_id
    if stored.content_hash == plan.content_hash:
        outcome: Outcome = "unchanged" if wanted == stored.acl_id else "acl_updated"
        return Change(plan, stored, outcome, wanted, (), ())
    write = tuple(item for item in plan.chunks if stored.chunks.get(item.id) != item.content_hash)
    kept = {item.id for item in plan.chunks} - {item.id for item in write}
    stale = tuple(sorted(set(stored.chunks) - kept))
    return Change(plan, stored, "updated", wanted, write, stale)
