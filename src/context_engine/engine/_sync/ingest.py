# Generated from engine/_async/ingest.py by tools/unasync.py: change that file instead.
"""Ingest: clean, cut, diff, analyse, embed what is new, write each batch in one transaction."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from context_engine.access import AccessRule
from context_engine.db._sync.store import Row, Store, Transaction
from context_engine.engine import encode
from context_engine.engine._sync.acls import AccessClasses
from context_engine.engine.encode import EncodedText, Vector
from context_engine.errors import ContextEngineError, InputError, ProviderError, StoreError
from context_engine.ingest.diff import Change, StoredState, diff
from context_engine.ingest.plan import DocumentPlan, identify, plan_document
from context_engine.model import Document, IngestOutcome, IngestReport, Policy
from context_engine.models.embedder import Embedder, embed_documents
from context_engine.models.vectors import normalise
from context_engine.names import Progress
from context_engine.retrieval.compose import Statement
from context_engine.settings import Settings
from context_engine.sql import load
from context_engine.text.analyse import Analyser

_KNOWN_WORDS_LIMIT = 2_000_000
_MAX_ATTEMPTS = 10


class _MissingVectors(Exception):
    """Under the lock a document turned out to need chunks embedded; the transaction is undone first."""


@dataclass(slots=True)
class _Batch:
    """Documents that are written together, and what has been worked out for them."""

    plans: dict[int, DocumentPlan]
    seen: dict[int, StoredState] = field(default_factory=dict[int, StoredState])
    acl_ids: dict[int, int] = field(default_factory=dict[int, int])
    vectors: dict[bytes, Vector | None] = field(default_factory=dict[bytes, Vector | None])
    embedded: set[bytes] = field(default_factory=set[bytes])
    texts: EncodedText = field(default_factory=EncodedText)
    outcomes: dict[int, IngestOutcome] = field(default_factory=dict[int, IngestOutcome])

    def fail(self, plan: DocumentPlan, error: str) -> None:
        """Report a document as refused and leave it out."""
        self.plans.pop(plan.id, None)
        self.outcomes[plan.id] = IngestOutcome(
            plan.source, plan.external_id, plan.id, "failed", error=error, warnings=plan.warnings
        )


class Ingestor:
    """Writes the documents of one call."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        analyser: Analyser,
        settings: Settings,
        access_classes: AccessClasses,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._analyser = analyser
        self._settings = settings
        self._access_classes = access_classes
        self._known_words: set[str] = set()
        self._timings = {"plan": 0.0, "analyse": 0.0, "embed": 0.0, "write": 0.0}

    def ingest(self, documents: Iterable[Document], progress: Progress | None = None) -> IngestReport:
        """Ingest documents in batches; one bad document does not stop the others."""
        total = len(documents) if isinstance(documents, Sequence) else None
        outcomes: list[IngestOutcome] = []
        pending: list[DocumentPlan | IngestOutcome] = []
        ids: set[int] = set()
        for document in documents:
            started = time.perf_counter()
            planned = self._plan(document)
            self._clock("plan", started)
            if isinstance(planned, DocumentPlan):
                repeated = planned.id in ids
                if repeated or len(ids) >= self._settings.ingest.batch_documents:
                    outcomes.extend(self._flush(pending))
                    pending, ids = [], set()
                    if progress:
                        progress(len(outcomes), total)
                ids.add(planned.id)
            pending.append(planned)
        outcomes.extend(self._flush(pending))
        if progress:
            progress(len(outcomes), total)
        timings = {stage: seconds * 1000 for stage, seconds in self._timings.items()}
        return IngestReport(tuple(outcomes), timings)

    def _clock(self, stage: str, started: float) -> None:
        self._timings[stage] += time.perf_counter() - started

    def _plan(self, document: Document) -> DocumentPlan | IngestOutcome:
        try:
            if not isinstance(document, Document):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"not a Document but {type(document).__name__}")
            return plan_document(document, self._settings.ingest)
        except ContextEngineError as error:
            try:
                source, external_id = identify(document)
            except (ContextEngineError, AttributeError):
                source = repr(getattr(document, "source", None))[:100]
                external_id = repr(getattr(document, "external_id", None))[:100]
            return IngestOutcome(source, external_id, None, "failed", error=str(error))

    def _flush(self, pending: Sequence[DocumentPlan | IngestOutcome]) -> list[IngestOutcome]:
        plans = [item for item in pending if isinstance(item, DocumentPlan)]
        done = self._write_batch(plans) if plans else {}
        return [done[item.id] if isinstance(item, DocumentPlan) else item for item in pending]

    def _write_batch(self, plans: Sequence[DocumentPlan], whole: _Batch | None = None) -> dict[int, IngestOutcome]:
        """Write documents; as part of a `whole` that was refused, with what had been worked out for it."""
        batch = _Batch({plan.id: plan for plan in plans})
        self._resolve_acls(batch)
        if whole is None:
            batch.seen = self._stored(batch)
            self._prepare(batch, batch.seen)
        else:
            batch.seen, batch.texts = whole.seen, whole.texts
            batch.vectors, batch.embedded = whole.vectors, whole.embedded
        for _ in range(_MAX_ATTEMPTS):
            if not batch.plans:
                break
            try:
                started = time.perf_counter()
                try:
                    with self._store.write() as transaction:
                        changes = self._apply(transaction, batch)
                finally:
                    self._clock("write", started)
            except _MissingVectors:
                self._prepare(batch, self._stored(batch))
                continue
            except StoreError as error:
                self._after_refusal(batch, error)
                break
            self._conclude(batch, changes)
            break
        else:
            for plan in list(batch.plans.values()):
                batch.fail(plan, "the document kept changing while it was written: try again")
        return batch.outcomes

    def _after_refusal(self, batch: _Batch, error: StoreError) -> None:
        """Find the document that the database refused by writing the halves apart."""
        plans = list(batch.plans.values())
        if error.retryable:
            raise error
        if len(plans) == 1:
            batch.fail(plans[0], str(error))
            return
        middle = len(plans) // 2
        for half in (plans[:middle], plans[middle:]):
            batch.outcomes.update(self._write_batch(half, batch))

    def _resolve_acls(self, batch: _Batch) -> None:
        wanted: dict[int, AccessRule | Policy] = {
            plan.id: plan.acl for plan in batch.plans.values() if plan.acl is not None
        }
        found = self._access_classes.ids(wanted.values())
        for key, acl in wanted.items():
            if acl in found:
                batch.acl_ids[key] = found[acl]
            else:
                name = acl.name if isinstance(acl, Policy) else "?"
                batch.fail(batch.plans[key], f"no policy is named {name!r}: define it with set_policy")

    def _stored(self, batch: _Batch) -> dict[int, StoredState]:
        params = {"ids": sorted(batch.plans)}
        with self._store.read() as transaction:
            documents, chunks = transaction.run(
                Statement(load("write/stored_documents"), params),
                Statement(load("write/stored_chunks"), params),
            )
        return _states(documents, chunks)

    def _prepare(self, batch: _Batch, stored: Mapping[int, StoredState]) -> None:
        """Analyse and embed, before any lock is taken, the chunks that will be written."""
        needed: dict[bytes, str] = {}
        started = time.perf_counter()
        for plan in list(batch.plans.values()):
            try:
                change = diff(plan, stored.get(plan.id), batch.acl_ids.get(plan.id))
            except InputError as error:
                batch.fail(plan, str(error))
                continue
            if change.outcome == "unchanged":
                del batch.plans[plan.id]
                self._conclude(batch, [change])
            for planned in change.write:
                text = plan.indexed_text(planned)
                batch.texts.add(planned.content_hash, plan.name, text, self._analyser, self._settings.analyser)
                if planned.content_hash not in batch.vectors:
                    needed[planned.content_hash] = text
        self._clock("analyse", started)
        self._add_words(batch.texts.words)
        if needed:
            self._reuse(batch, needed, stored)
            self._embed(batch, needed)

    def _add_words(self, words: set[str]) -> None:
        """Store new lexemes, in a transaction of their own: a word that no chunk holds does no harm."""
        fresh = words - self._known_words
        if not fresh:
            return
        with self._store.write() as transaction:
            transaction.run(Statement(load("write/add_words"), encode.word_params(fresh)))
        if len(self._known_words) > _KNOWN_WORDS_LIMIT:
            self._known_words.clear()
        self._known_words |= fresh

    def _reuse(self, batch: _Batch, needed: dict[bytes, str], stored: Mapping[int, StoredState]) -> None:
        """Take over the vectors of chunks that only moved within their document."""
        moved = {
            content_hash
            for state in stored.values()
            for content_hash in state.chunks.values()
            if content_hash in needed
        }
        if not moved:
            return
        params = {"ids": sorted(stored), "hashes": sorted(moved)}
        with self._store.read() as transaction:
            [rows] = transaction.run(Statement(load("write/stored_embeddings"), params))
        for content_hash, vector in rows:
            batch.vectors[bytes(content_hash)] = np.asarray(vector, dtype=np.float32)
            needed.pop(bytes(content_hash), None)

    def _embed(self, batch: _Batch, needed: Mapping[bytes, str]) -> None:
        started = time.perf_counter()
        hashes = list(needed)
        size = self._settings.ingest.embed_batch
        for start in range(0, len(hashes), size):
            part = hashes[start : start + size]
            try:
                vectors = embed_documents(self._embedder, [needed[key] for key in part])
            except ProviderError as error:
                self._without_vectors(batch, set(part), error)
                continue
            unit, usable = normalise(vectors)
            for key, vector, good in zip(part, unit, usable, strict=True):
                batch.vectors[key] = vector if good else None
            batch.embedded.update(part)
        self._clock("embed", started)

    def _without_vectors(self, batch: _Batch, hashes: set[bytes], error: ProviderError) -> None:
        for plan in list(batch.plans.values()):
            if any(planned.content_hash in hashes for planned in plan.chunks):
                batch.fail(plan, f"embedding failed: {error}")

    def _apply(self, transaction: Transaction, batch: _Batch) -> list[Change]:
        """Lock the batch's documents, compare again, and write what differs."""
        creatable = [plan for plan in batch.plans.values() if plan.id in batch.acl_ids]
        params = {"ids": sorted(batch.plans)}
        claimed, documents, chunks = transaction.run(
            Statement(load("write/claim_documents"), encode.claim_params(creatable, batch.acl_ids)),
            Statement(load("write/lock_documents"), params),
            Statement(load("write/stored_chunks"), params),
        )
        created = {key for (key,) in claimed}
        stored = {key: state for key, state in _states(documents, chunks).items() if key not in created}
        changes = self._changes(batch, stored, created)
        work = [change for change in changes if change.outcome != "unchanged"]
        for change in work:
            for planned in change.write:
                if planned.content_hash not in batch.vectors:
                    raise _MissingVectors
        if work:
            self._write(transaction, batch, work)
        return changes

    def _changes(self, batch: _Batch, stored: Mapping[int, StoredState], created: set[int]) -> list[Change]:
        changes: list[Change] = []
        for key, plan in list(batch.plans.items()):
            state, acl_id = stored.get(key), batch.acl_ids.get(key)
            if state is None and key not in created and acl_id is not None:
                raise _MissingVectors  # deleted between claim and lock
            before = batch.seen.get(key)
            if state and state.acl_set_at != (before.acl_set_at if before else None):
                acl_id = None  # set_acl was called meanwhile: what it said stands
            try:
                changes.append(diff(plan, state, acl_id))
            except InputError as error:
                batch.fail(plan, str(error))
        return changes

    def _write(self, transaction: Transaction, batch: _Batch, changes: Sequence[Change]) -> None:
        ids = {"ids": [change.plan.id for change in changes]}
        transaction.run(Statement(load("write/untally_words"), ids))
        existing = [change for change in changes if change.before is not None]
        if existing:
            moved = encode.update_params(
                [change for change in existing if change.before and change.before.acl_id != change.acl_id]
            )
            stale = encode.stale_params(existing)
            move = {"ids": moved["ids"], "acl_ids": moved["acl_ids"]}
            transaction.run(
                Statement(load("write/delete_embeddings"), stale),
                Statement(load("write/delete_chunks"), stale),
                Statement(load("write/update_documents"), encode.update_params(existing)),
                Statement(load("write/move_chunks"), move),
                Statement(load("write/move_embeddings"), move),
            )
        transaction.copy("write/copy_chunks", encode.chunk_rows(changes, batch.texts))
        rows = encode.embedding_rows(changes, batch.vectors, self._settings.storage.vector_type)
        transaction.copy("write/copy_embeddings", rows)
        transaction.run(Statement(load("write/add_tally"), encode.tally_params(changes)))

    def _conclude(self, batch: _Batch, changes: Sequence[Change]) -> None:
        for change in changes:
            plan = change.plan
            hashes = [planned.content_hash for planned in change.write]
            unusable = [
                f"chunk {planned.position}: the embedding model gave no usable vector; only words find it"
                for planned in change.write
                if batch.vectors[planned.content_hash] is None
            ]
            kept_acl = plan.acl is not None and change.acl_id != batch.acl_ids[plan.id]
            remarks = ["the ACL was changed meanwhile and was kept"] if kept_acl else []
            batch.outcomes[plan.id] = IngestOutcome(
                plan.source,
                plan.external_id,
                plan.id,
                change.outcome,
                chunks=len(plan.chunks),
                embedded=sum(key in batch.embedded for key in hashes),
                warnings=(*plan.warnings, *unusable, *remarks),
            )


def _states(documents: Sequence[Row], chunks: Sequence[Row]) -> dict[int, StoredState]:
    hashes: dict[int, dict[int, bytes]] = {}
    for document, key, content_hash in chunks:
        hashes.setdefault(document, {})[key] = content_hash
    return {
        key: StoredState(source, external_id, acl_id, set_at, content_hash, hashes.get(key, {}))
        for key, source, external_id, acl_id, set_at, content_hash in documents
    }
