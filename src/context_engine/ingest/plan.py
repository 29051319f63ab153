"""What a document will look like once stored. Pure: no database, no model."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_engine.access import AccessRule, normalise_acl, normalise_name
from context_engine.errors import InputError
from context_engine.model import STORED, Document, Policy, chunk_id, document_id
from context_engine.settings import IngestSettings
from context_engine.text.chunk import chunk
from context_engine.text.clean import clean_json, clean_text, require_storable

MAX_EXTERNAL_ID_CHARS: Final = 4_000
MAX_NAME_CHARS: Final = 2_000
MAX_METADATA_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """A chunk to be.

    Attributes:
        id: content-derived id.
        position: place in the document, from 0.
        text: the chunk's own text; the chunks of a document add up to its text.
        content_hash: of everything that is indexed: two chunks with one hash have one embedding.
    """

    id: int
    position: int
    text: str
    content_hash: bytes


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """A document to be.

    Attributes:
        acl: who may read it, or None to keep what is stored.
        content_hash: of everything but the ACL.
    """

    id: int
    source: str
    external_id: str
    name: str
    metadata: str
    acl: AccessRule | Policy | None
    content_hash: bytes
    chunks: tuple[PlannedChunk, ...]
    warnings: tuple[str, ...]

    def indexed_text(self, planned: PlannedChunk) -> str:
        """Return what is analysed and embedded for a chunk: the document's name, then the text."""
        return f"{self.name}\n{planned.text}" if self.name else planned.text


def _hash(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _external_id(document: Document) -> str:
    value = document.name if document.external_id is None else document.external_id
    if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("a document needs an external_id, or a name to take its place")
    if len(value) > MAX_EXTERNAL_ID_CHARS:
        raise InputError(f"external_id has {len(value)} characters; at most {MAX_EXTERNAL_ID_CHARS} are allowed")
    return require_storable(value, "external_id")


def identify(document: Document) -> tuple[str, str]:
    """Return the (source, external_id) of a document.

    Raises:
        InputError: when either is missing or cannot be stored.
    """
    return normalise_name(document.source, "a source"), _external_id(document)


def _metadata(value: Mapping[str, Any]) -> tuple[str, int]:
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("metadata must be a mapping")
    cleaned, replaced = clean_json(dict(value))
    text = json.dumps(cleaned, ensure_ascii=False, allow_nan=False, sort_keys=True)
    if len(text.encode()) > MAX_METADATA_BYTES:
        raise InputError(f"metadata is over {MAX_METADATA_BYTES} bytes")
    return text, replaced


def _without_blank(pieces: Sequence[str]) -> list[str]:
    """Join pieces of white space to the piece before, so that none is indexed by itself."""
    kept: list[str] = []
    blank = ""
    for piece in pieces:
        if kept and not piece.strip():
            kept[-1] += piece
        elif piece.strip():
            kept.append(blank + piece)
            blank = ""
        else:
            blank += piece
    return kept


def plan_document(document: Document, settings: IngestSettings) -> DocumentPlan:
    """Clean, cut and hash a document.

    Raises:
        InputError: when it cannot be stored, saying why.
    """
    source, external_id = identify(document)
    if not isinstance(document.text, str) or not isinstance(document.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError("text and name must be strings")
    if len(document.name) > MAX_NAME_CHARS:
        raise InputError(f"name has {len(document.name)} characters; at most {MAX_NAME_CHARS} are allowed")
    text, replaced = clean_text(document.text)
    name, replaced_in_name = clean_text(document.name)
    metadata, replaced_in_metadata = _metadata(document.metadata)
    pieces = _without_blank(chunk(text, settings.chunk_tokens))
    if not pieces:
        if not name.strip():
            raise InputError("nothing to index: text and name are empty")
        pieces = [""]
    key = document_id(source, external_id)
    bad = replaced + replaced_in_name + replaced_in_metadata
    return DocumentPlan(
        id=key,
        source=source,
        external_id=external_id,
        name=name,
        metadata=metadata,
        acl=None if document.acl is STORED else normalise_acl(document.acl),
        content_hash=_hash(name, text, metadata, str(settings.chunk_tokens)),
        chunks=tuple(
            PlannedChunk(chunk_id(key, position), position, piece, _hash(name, piece))
            for position, piece in enumerate(pieces)
        ),
        warnings=(f"{bad} characters that cannot be stored were replaced by U+FFFD",) if bad else (),
    )
