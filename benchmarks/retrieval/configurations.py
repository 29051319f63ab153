"""The configurations that are compared, by name. `hybrid` is what is shipped; each other says what it changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from context_engine import Settings

from .sets import ONE_CHUNK

BASE: Final = "dense"
SHIPPED: Final = "hybrid"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is changed of the defaults, and the weights of the call where it gives some."""

    name: str
    changes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    weights: dict[str, float] | None = None

    def settings(self, schema: str) -> Settings:
        """Make the settings for the schema that holds the set."""
        ingest = {**ONE_CHUNK.model_dump(), **self.changes.get("ingest", {})}
        rest = {section: values for section, values in self.changes.items() if section != "ingest"}
        return Settings(storage={"schema_name": schema}, ingest=ingest, **rest)


def _alone(name: str, leg: str) -> Configuration:
    return Configuration(name, weights={other: float(other == leg) for other in ("fts", "trgm", "ann")})


def _hybrid(name: str, **sections: dict[str, Any]) -> Configuration:
    return Configuration(name, sections)


_BEFORE: Final = {"fts": 1.0, "trgm": 0.4, "ann": 1.0}


def _fixed(method: str, k: int = 20, **weights: float) -> dict[str, Any]:
    return {"method": method, "k": k, "adaptive": False, "weights": {**_BEFORE, **weights}}


CONFIGURATIONS: Final = {
    configuration.name: configuration
    for configuration in (
        _alone("dense", "ann"),
        _alone("lexical", "fts"),
        _alone("fuzzy", "trgm"),
        _hybrid("hybrid"),
        _hybrid("rrf-20", fusion=_fixed("rrf")),
        _hybrid("rrf-60", fusion=_fixed("rrf", 60)),
        _hybrid("minmax-fixed", fusion=_fixed("minmax", fts=0.5, trgm=0.5)),
        _hybrid("rrf-adaptive", fusion={"method": "rrf"}),
        _hybrid("text-less", fusion={"weights": {"fts": 0.5, "trgm": 0.5}}),
        _hybrid("text-more", fusion={"weights": {"fts": 1.0, "trgm": 1.0}}),
        _hybrid("words-once", search={"repeated_words": "once"}),
        _hybrid("words-counted", search={"repeated_words": "count"}),
        _hybrid("name-once", analyser={"name_weight": 1.0}),
        _hybrid("no-stems", analyser={"language": "simple"}),
    )
}
