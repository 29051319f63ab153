"""Answer the queries of a set under a configuration; what is ingested and answered is kept for the next run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import context_engine
from context_engine import TRUSTED, Engine
from context_engine.engine.arguments import default_embedder
from context_engine.models.embedder import as_embedder, embed_documents, embed_query

from .compare import DEPTH, MEASURES, measure
from .configurations import Configuration
from .sets import JudgedSet, StoredVectors

Progress = Callable[[int, int | None], None]
Scores = dict[str, dict[str, float]]

_PACKAGE: Final = Path(context_engine.__file__).parent
_STORED_BY: Final = ("text", "ingest", "sql/schema.sql", "retrieval/bm25.py", "engine/encode.py")
_ANALYSER: Final = ("language", "k1", "b", "length_pivot", "name_weight")


@cache
def _digest(*parts: str) -> str:
    """Hash source files of the package: all of it without `parts`."""
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE).as_posix()
        if path.suffix in {".py", ".sql"} and (not parts or name.startswith(parts)):
            found.update(name.encode() + path.read_bytes())
    return found.hexdigest()


def _short_hash(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where sets are kept and asked."""

    database_url: str
    folder: Path
    fresh: bool = False

    def answer(self, judged: JudgedSet, configuration: Configuration, progress: Progress) -> Scores:
        """Return each query's measures, by query id."""
        key = _short_hash(_digest(), judged.name, len(judged.documents), repr(configuration))
        path = self.folder / "answers" / f"{judged.name}-{configuration.name}-{key}.json"
        done: Scores = json.loads(path.read_text()) if path.is_file() and not self.fresh else {}
        missing = [query for query in judged.queries if query.id not in done]
        if missing:
            with self._engine(judged, configuration, progress) as engine:
                for place, query in enumerate(missing, 1):
                    result = engine.search(
                        query.text,
                        principals=TRUSTED,
                        top_k=DEPTH,
                        weights=configuration.weights,  # pyright: ignore[reportArgumentType]
                    )
                    ranked = list(dict.fromkeys(hit.document.external_id for hit in result.hits))
                    done[query.id] = measure(ranked, judged.judgments[query.id])
                    if place % 25 == 0:
                        progress(place, len(missing))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(done))
        return {query.id: done[query.id] for query in judged.queries}

    def _engine(self, judged: JudgedSet, configuration: Configuration, progress: Progress) -> Engine:
        """Open the set's schema, with its documents in it."""
        analyser = {key: configuration.changes.get("analyser", {}).get(key) for key in _ANALYSER}
        stored = _short_hash(_digest(*_STORED_BY), analyser, len(judged.documents))
        schema = f"{judged.name.replace('-', '_')}_{stored}"
        schema = schema if schema[0].isalpha() else f"s_{schema}"
        engine = Engine(self.database_url, embedder=self._embedder(judged), settings=configuration.settings(schema))
        if engine.count(principals=TRUSTED).documents != len(judged.documents):
            report = engine.ingest(judged.documents, progress)
            if report.failed:
                raise SystemExit(f"{judged.name}: {report.failed[0].external_id}: {report.failed[0].error}")
        return engine

    def _embedder(self, judged: JudgedSet) -> Any:
        if judged.document_vectors is not None:
            return StoredVectors(judged)
        return _Remembering(self.folder / "vectors" / f"{judged.name}.npz")


class _Remembering:
    """The default model; every vector is kept in a file, by a hash of its text."""

    def __init__(self, path: Path) -> None:
        self._model = as_embedder(default_embedder())
        self.name, self.dim = self._model.name, self._model.dim
        self._path = path
        self._known: dict[str, Any] = dict(np.load(path)) if path.is_file() else {}

    def embed_documents(self, texts: Sequence[str]) -> Any:
        keys = [_short_hash(text) for text in texts]
        unknown = [place for place, key in enumerate(keys) if key not in self._known]
        if unknown:
            vectors = embed_documents(self._model, [texts[place] for place in unknown])
            self._known |= {keys[place]: vector for place, vector in zip(unknown, vectors, strict=True)}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(self._path, **self._known)
        return np.stack([self._known[key] for key in keys])

    def embed_query(self, text: str) -> Any:
        return embed_query(self._model, text)


def mean(scores: Scores, name: str) -> float:
    """Average one measure over the queries."""
    assert name in MEASURES
    return float(np.mean([row[name] for row in scores.values()]))
