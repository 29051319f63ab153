"""What a database was filled with, compared with what would fill it now."""

from collections.abc import Mapping
from typing import Any, Final

from context_engine.errors import ConfigError, ModelMismatch
from context_engine.names import VectorType

MAX_DIMENSION: Final[Mapping[VectorType, int]] = {"halfvec": 4_000, "vector": 2_000}
"""The most that fits one page without TOAST."""

_REINDEX: Final = "run `context-engine reindex` with these settings"
_WAY_OUT: Final[dict[str, str]] = {"analyser": _REINDEX, "bm25": _REINDEX}


def check_dimension(dimension: int, vector_type: VectorType) -> None:
    """Refuse a dimension that the embedding table cannot hold in one page."""
    most = MAX_DIMENSION[vector_type]
    if not 1 <= dimension <= most:
        halved = " or storage.vector_type halfvec" if dimension <= MAX_DIMENSION["halfvec"] else ""
        raise ConfigError(
            f"the embedding model has {dimension} dimensions; 1 to {most} can be stored and indexed as {vector_type}. "
            f"Use a smaller model{halved}, or ask the provider for shortened vectors"
        )


def check_facts(stored: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the facts that are not recorded yet.

    Raises:
        ModelMismatch: when a recorded fact differs, naming both.
    """
    for name, facts in wanted.items():
        if name in stored and dict(stored[name]) != dict(facts):
            raise ModelMismatch(
                f"this database was filled with {name} {_describe(stored[name])}, not {_describe(facts)}: "
                f"open it with the same one, or {_WAY_OUT.get(name, 'fill a new database')}"
            )
    return [name for name in wanted if name not in stored]


def _describe(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())
