"""Settings: arguments first, then `CONTEXT_ENGINE_…` variables, then a TOML file, then these defaults.

A variable names its section with two underscores: `CONTEXT_ENGINE_STORAGE__ANN_EXACT_THRESHOLD=20000`.
The TOML file is `context-engine.toml` in the working directory, or the one `CONTEXT_ENGINE_CONFIG` names.
"""

import os
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from context_engine.errors import ConfigError
from context_engine.names import TEXT_LEGS, LegName, VectorType

DEFAULT_WEIGHTS: Final[dict[LegName, float]] = {"fts": 0.75, "trgm": 0.75, "ann": 1.0, "graph": 1.0}

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageSettings(_Section):
    """Where and how rows are kept."""

    schema_name: str = Field(default="context_engine", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    ann_exact_threshold: int = Field(default=50_000, ge=0)
    """The vector leg is exact for a caller who sees at most this many chunks."""
    vector_type: VectorType = "halfvec"
    """Two bytes a dimension and at most 4,000, or four and at most 2,000; set when a database is first filled."""
    pool_size: int = Field(default=4, ge=1, le=1000)
    statement_timeout_s: float = Field(default=30.0, gt=0)
    connect_timeout_s: float = Field(default=10.0, gt=0)


class SearchSettings(_Section):
    """How a question becomes candidates."""

    candidates: int = Field(default=100, ge=1, le=10_000)
    """Rows a leg gives to fusion; `top_k` where that is more, so a larger `top_k` can change the order of the first."""
    lexical_candidates: int | None = Field(default=None, ge=1, le=10_000)
    """The same for the two text legs, where it is to be another number."""
    max_query_chars: int = Field(default=8_000, ge=1, le=100_000)
    max_query_terms: int = Field(default=256, ge=1, le=1024)
    """Distinct lexemes of a question that are scored, in the order they stand; the rest is reported."""
    lexical_match: Literal["any", "all"] = "any"
    lexical_rank: Literal["bm25", "ts_rank_cd", "ts_rank"] = "bm25"
    ann_rows: int = Field(default=20_000, ge=100)
    """Above `storage.ann_exact_threshold`: visible rows that are ranked, from the lists nearest to the question."""
    ann_share: float = Field(default=0.1, ge=0, le=1)
    """The same as a share of the root of visible rows times all rows, where that is more: of all, for who sees all."""
    legs_at_once: bool = True
    """Run the vector leg beside the text legs on a second connection, where one to the same server is idle."""
    repeated_words: Literal["once", "sqrt", "count"] = "sqrt"
    """What a word counts that a question says n times: once, the square root of n, or n."""
    trgm_max_query_words: int | None = Field(default=16, ge=0)
    """At most this many words of a question are expanded, the rarest first; None means all."""
    trgm_expand_below: int = Field(default=1, ge=1)
    """A word that fewer visible chunks hold is looked for in other spellings."""
    trgm_max_expansions: int = Field(default=20, ge=1, le=200)
    """Spellings kept for one word."""

    def limit(self, leg: LegName, top_k: int) -> int:
        """Return how many rows a leg gives to fusion at most."""
        text = self.lexical_candidates if leg in TEXT_LEGS else None
        return max(text or self.candidates, top_k)


class FusionSettings(_Section):
    """How the legs' ranks become one."""

    method: Literal["rrf", "minmax"] = "minmax"
    k: int = Field(default=20, ge=1)
    """The constant of `rrf`."""
    adaptive: bool = True
    """Fit the weights to the question: text legs count by how rare its rarest word is, and for a name or a code the
    fuzzy leg leads. A call that gives weights has them taken as they are."""
    lookup_factor: float = Field(default=0.2, ge=0, le=1)
    """What the weights of the other legs are multiplied by where the question is a name or a code."""
    weights: dict[LegName, Weight] = Field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    """A leg's weight; 0 switches it off, one left out keeps its default."""

    @field_validator("weights")
    @classmethod
    def _over_defaults(cls, given: dict[LegName, float]) -> dict[LegName, float]:
        return {**DEFAULT_WEIGHTS, **given}


class IngestSettings(_Section):
    """How documents are cut and written."""

    chunk_tokens: int = Field(default=256, ge=16, le=4096)
    """A chunk's size, counted as UTF-8 bytes over four."""
    batch_documents: int = Field(default=512, ge=1, le=10_000)
    embed_batch: int = Field(default=256, ge=1)


class AnalyserSettings(_Section):
    """How text becomes lexemes. Recorded in the database; changing them needs a reindex."""

    language: str = "english"
    """A Snowball language, or `simple` for no stemming."""
    stopwords: Literal["language", "none"] | list[str] = "language"
    """Words that are not searched for: the language's own, none, or these."""
    k1: float = Field(default=1.2, gt=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)
    length_pivot: float = Field(default=100.0, gt=0)
    """The length, in words, at which a chunk is neither favoured nor held back."""
    name_weight: float = Field(default=3.0, ge=1, le=100)
    """How many occurrences of a word one in the document's name counts for."""


class AuditSettings(_Section):
    """Whether, and how, it is kept who asked what and was given what."""

    enabled: bool = False
    query: Literal["text", "hash", "none"] = "text"
    """How a question is kept: as it is, as its HMAC-SHA256 under `hash_key`, or not at all."""
    hash_key: SecretStr | None = Field(default=None, min_length=16)
    queue_size: int = Field(default=10_000, ge=1)
    """Records that may wait to be written."""
    when_full: Literal["drop", "refuse"] = "drop"
    """What happens to a call whose record finds no place: the record is dropped and counted, or the call fails."""
    retention_days: float | None = Field(default=None, gt=0, le=36_500)
    """Records that are older are deleted, at the first call and once an hour; unset keeps them."""

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if self.query == "hash" and self.hash_key is None:
            raise ValueError("audit.query is hash, so audit.hash_key is needed")
        return self


class Settings(BaseSettings):
    """All settings, by section."""

    model_config = SettingsConfigDict(
        env_prefix="CONTEXT_ENGINE_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    database_url: str | None = None
    data_dir: Path | None = None
    storage: StorageSettings = StorageSettings()
    search: SearchSettings = SearchSettings()
    fusion: FusionSettings = FusionSettings()
    ingest: IngestSettings = IngestSettings()
    analyser: AnalyserSettings = AnalyserSettings()
    audit: AuditSettings = AuditSettings()

    @field_validator("database_url", "data_dir", mode="before")
    @classmethod
    def _empty_is_unset(cls, given: object) -> object:
        return None if given == "" else given

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            places = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise ConfigError(f"invalid settings: {places}") from error
        except SettingsError as error:
            raise ConfigError(f"settings cannot be read: {error}") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments, then variables, then the TOML file."""
        named = os.environ.get("CONTEXT_ENGINE_CONFIG")
        path = Path(named or "context-engine.toml")
        if named and not path.is_file():
            raise ConfigError(f"CONTEXT_ENGINE_CONFIG names {named}, which is not a file")
        try:
            return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path))
        except TOMLDecodeError as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
