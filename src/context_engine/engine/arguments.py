"""Check what a caller hands over."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from context_engine.access import check_document_id
from context_engine.errors import InputError, ProviderError
from context_engine.models.embedder import Embedder
from context_engine.models.local import minilm
from context_engine.models.vectors import normalise
from context_engine.names import LEGS, LegName
from context_engine.settings import Settings
from context_engine.text.clean import clean_text

MAX_TOP_K: Final = 10_000
MAX_DOCUMENT_IDS: Final = 100_000
MAX_POSITION: Final = (1 << 31) - 1


class SearchOptions(TypedDict, total=False):
    """The arguments of a search that may be left out."""

    top_k: int
    sources: Sequence[str] | None
    documents: Sequence[int] | None
    metadata: Mapping[str, Any] | None
    exact: bool
    weights: Mapping[LegName, float] | None


class Server(Protocol):
    """A database server that this process started or joined."""

    def close(self) -> None:
        """Let go of it."""
        ...


def default_embedder() -> Embedder:
    """Return the local model; it is loaded at its first use."""
    return minilm()


def facts(embedder: Embedder, settings: Settings, analyser: str) -> dict[str, dict[str, Any]]:
    """Describe what fills the database, to be recorded and compared."""
    bm25 = settings.analyser
    vector_type = settings.storage.vector_type
    return {
        "embedder": {
            "name": embedder.name,
            "dim": embedder.dim,
            **({} if vector_type == "halfvec" else {"vector_type": vector_type}),
        },
        "analyser": {"name": analyser},
        "bm25": {
            "k1": bm25.k1,
            "b": bm25.b,
            "length_pivot": bm25.length_pivot,
            "name_weight": bm25.name_weight,
        },
    }


def check_query(query: object, max_chars: int) -> str:
    """Check a question and clean it."""
    if not isinstance(query, str):
        raise InputError(f"a query must be a string, not {type(query).__name__}")
    if len(query) > max_chars:
        raise InputError(
            f"the query has {len(query)} characters; at most {max_chars} are allowed (search.max_query_chars)"
        )
    text, _ = clean_text(query)
    return text


def check_top_k(top_k: object) -> None:
    """Check how many hits are asked for."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise InputError(f"top_k must be a whole number from 1 to {MAX_TOP_K}")


def window(position: object, before: object, after: object) -> dict[str, int]:
    """Check a place in a document and how far to look around; returns the first and the last position."""
    for name, value, most in (("position", position, MAX_POSITION), ("before", before, 1000), ("after", after, 1000)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise InputError(f"{name} must be a whole number from 0 to {most}")
    assert isinstance(position, int) and isinstance(before, int) and isinstance(after, int)
    return {"first": max(position - before, 0), "last": min(position + after, MAX_POSITION)}


def merge_weights(defaults: Mapping[LegName, float], given: Mapping[LegName, float] | None) -> dict[LegName, float]:
    """Lay a call's weights over the settings'."""
    merged: dict[LegName, float] = {leg: defaults.get(leg, 0.0) for leg in LEGS if leg != "graph"}
    for leg, weight in (given or {}).items():
        if leg not in LEGS:
            raise InputError(f"no leg is named {leg!r}; there are {', '.join(LEGS)}")
        if (
            isinstance(weight, bool)
            or not isinstance(weight, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
            or not 0 <= weight < float("inf")
        ):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the weight of {leg} must be a number of at least 0")
        if leg in merged:
            merged[leg] = float(weight)
        elif weight > 0:
            raise InputError("the graph leg is not available")
    if not any(merged.values()):
        raise InputError("every leg has weight 0: nothing would be searched")
    return merged


def vector_literal(vector: NDArray[np.float32]) -> str:
    """Write a question's vector, float32 (dim,), as a unit-length literal of either type.

    Raises:
        ProviderError: when the model returned no usable vector.
    """
    unit, usable = normalise(vector.reshape(1, -1))
    if not usable[0]:
        raise ProviderError("the embedding model returned no usable vector for the query")
    return "[" + ",".join(f"{value:.9g}" for value in unit[0].tolist()) + "]"


def document_ids(value: int | Sequence[int] | set[int] | frozenset[int]) -> list[int]:
    """Check one document id or a list of them; returns them sorted, without duplicates."""
    if not isinstance(value, int | list | tuple | set | frozenset):
        raise InputError("documents must be a document id or a list of them")
    items: list[object] = [value] if isinstance(value, int) else list(value)
    if len(items) > MAX_DOCUMENT_IDS:
        raise InputError(f"{len(items)} document ids; at most {MAX_DOCUMENT_IDS} are allowed")
    return sorted({check_document_id(item) for item in items})
