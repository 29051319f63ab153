"""Lay changes out as rows: the arrays and binary records that the writing statements take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from context_engine.db import copy_format
from context_engine.ingest.diff import Change
from context_engine.ingest.plan import DocumentPlan
from context_engine.names import VectorType
from context_engine.retrieval.bm25 import DIMENSIONS, Saturation, term_frequencies
from context_engine.retrieval.legs import int_array
from context_engine.retrieval.spelling_keys import stored_keys
from context_engine.settings import AnalyserSettings
from context_engine.text.analyse import Analyser

Vector = NDArray[np.float32]


@dataclass(slots=True)
class EncodedText:
    """The text side of chunks, by content hash, and every lexeme in them."""

    by_hash: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict[bytes, tuple[bytes, bytes]])
    words: set[str] = field(default_factory=set[str])

    def add(self, content_hash: bytes, name: str, text: str, analyser: Analyser, settings: AnalyserSettings) -> None:
        """Analyse what is indexed of a chunk, its document's name with it, and keep tsvector and sparsevec, encoded."""
        if content_hash in self.by_hash:
            return
        analysis = analyser.analyse(text)
        saturation = Saturation(settings.k1, settings.b, settings.length_pivot, settings.name_weight)
        named = analyser.analyse(name).positions
        weights = term_frequencies(analysis.positions, analysis.length, saturation, named)
        self.words.update(analysis.positions)
        self.by_hash[content_hash] = (
            copy_format.tsvector(analysis.positions),
            copy_format.sparsevec(weights, DIMENSIONS),
        )


def chunk_rows(changes: Iterable[Change], texts: EncodedText) -> Iterable[bytes]:
    """Encode the rows of `chunk`, in access-class order so that a caller's rows lie together."""
    for change in sorted(changes, key=lambda item: item.acl_id):
        for planned in change.write:
            place = planned.id, change.plan.id, change.acl_id, planned.position
            yield _chunk_row(*place, planned.content_hash, planned.text, texts)


def stored_chunk_rows(rows: Iterable[Sequence[Any]], texts: EncodedText) -> Iterable[bytes]:
    """Encode stored chunks again, each (document id, its name, id, access class, position, content hash, text)."""
    for document_id, _, key, acl_id, position, content_hash, text in sorted(rows, key=lambda row: row[3]):
        yield _chunk_row(key, document_id, acl_id, position, bytes(content_hash), text, texts)


def _chunk_row(  # noqa: PLR0913 - the columns of one row
    key: int, document_id: int, acl_id: int, position: int, content_hash: bytes, text: str, texts: EncodedText
) -> bytes:
    lexemes, terms = texts.by_hash[content_hash]
    return copy_format.row(
        (
            copy_format.int8(key),
            copy_format.int8(document_id),
            copy_format.int4(acl_id),
            copy_format.int4(position),
            content_hash,
            lexemes,
            terms,
            text.encode(),
        )
    )


def embedding_rows(
    changes: Iterable[Change], vectors: Mapping[bytes, Vector | None], vector_type: VectorType
) -> Iterable[bytes]:
    """Encode the rows of `embedding`, in access-class order; a chunk without a usable vector has none."""
    encoded = copy_format.halfvec if vector_type == "halfvec" else copy_format.vector
    for change in sorted(changes, key=lambda item: item.acl_id):
        for planned in change.write:
            vector = vectors[planned.content_hash]
            if vector is not None:
                yield copy_format.row(
                    (
                        copy_format.int8(planned.id),
                        copy_format.int8(change.plan.id),
                        copy_format.int4(change.acl_id),
                        encoded(vector),
                    )
                )


def word_params(words: Iterable[str]) -> dict[str, object]:
    """Lay out words for the lexicon."""
    ordered = sorted(words)
    return {"words": ordered, "keys": [int_array(stored_keys(word)) for word in ordered]}


def claim_params(plans: Sequence[DocumentPlan], acl_ids: Mapping[int, int]) -> dict[str, object]:
    """Lay out the documents that may be created."""
    return {
        "ids": [plan.id for plan in plans],
        "acl_ids": [acl_ids[plan.id] for plan in plans],
        "sources": [plan.source for plan in plans],
        "external_ids": [plan.external_id for plan in plans],
        "names": [plan.name for plan in plans],
        "metadata": [plan.metadata for plan in plans],
        "content_hashes": [plan.content_hash for plan in plans],
    }


def update_params(changes: Sequence[Change]) -> dict[str, object]:
    """Lay out the documents that change."""
    return {
        "ids": [change.plan.id for change in changes],
        "acl_ids": [change.acl_id for change in changes],
        "names": [change.plan.name for change in changes],
        "metadata": [change.plan.metadata for change in changes],
        "content_hashes": [change.plan.content_hash for change in changes],
    }


def stale_params(changes: Iterable[Change]) -> dict[str, object]:
    """Lay out the chunks that go."""
    pairs = [(change.plan.id, stale) for change in changes for stale in change.stale]
    return {"document_ids": [pair[0] for pair in pairs], "chunk_ids": [pair[1] for pair in pairs]}


def tally_params(changes: Iterable[Change]) -> dict[str, object]:
    """Lay out what each (access class, source) gains and loses."""
    totals: dict[tuple[int, str], list[int]] = {}

    def add(acl_id: int, source: str, documents: int, chunks: int) -> None:
        total = totals.setdefault((acl_id, source), [0, 0])
        total[0] += documents
        total[1] += chunks

    for change in changes:
        if change.before is not None:
            add(change.before.acl_id, change.plan.source, -1, -len(change.before.chunks))
        chunks = len(change.plan.chunks)
        if change.before is not None and change.outcome == "acl_updated":
            chunks = len(change.before.chunks)
        add(change.acl_id, change.plan.source, 1, chunks)
    kept = {key: total for key, total in sorted(totals.items()) if any(total)}
    return {
        "acl_ids": [acl_id for acl_id, _ in kept],
        "sources": [source for _, source in kept],
        "documents": [total[0] for total in kept.values()],
        "chunks": [total[1] for total in kept.values()],
    }
