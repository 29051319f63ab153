"""BM25 over three judged sets, against scores worked out from the texts: same ids, same order, scores within 1e-5.

Nothing is shared with the engine but how a text is cut into chunks and into lexemes, and that by another analyser.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from context_engine import TRUSTED, Document, Engine
from context_engine.ingest.plan import plan_document
from context_engine.model import Principals
from context_engine.models.hashing import HashingEmbedder
from context_engine.settings import AnalyserSettings, IngestSettings
from context_engine.text.analyse import Analyser

DATA = Path(os.environ.get("CONTEXT_ENGINE_DATA", Path(__file__).parents[3] / "shared" / "data"))
SETS = {"scifact": 70, "cacm": 52, "npl-vaswani": 60}
CALLERS: list[Principals] = [["one in a hundred"], ["one in ten"], TRUSTED]
PAIRS = sum(SETS.values()) * len(CALLERS)
SHOWN = 50
TIE = 1e-6


@dataclass(frozen=True)
class Chunk:
    id: int
    acl: Sequence[str]
    counts: Counter[str]
    length: int


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def documents_of(name: str) -> list[Document]:
    return [
        Document(
            external_id=row["id"],
            name=row["title"],
            text=row["text"],
            acl=[*(["one in ten"] if number % 10 == 3 else []), *(["one in a hundred"] if number % 100 == 7 else [])],
        )
        for number, row in enumerate(rows(DATA / name / "corpus.jsonl.gz"))
    ]


def chunks_of(documents: Sequence[Document], analyser: Analyser, name_weight: float) -> list[Chunk]:
    found: list[Chunk] = []
    for document in documents:
        plan = plan_document(document, IngestSettings())
        in_name = analyser.analyse(document.name).positions
        for piece in plan.chunks:
            analysis = analyser.analyse(f"{document.name}\n{piece.text}")
            counts: Counter[str] = Counter({word: len(places) for word, places in analysis.positions.items()})
            for word, places in in_name.items():
                counts[word] += (name_weight - 1) * len(places)  # type: ignore[assignment]
            found.append(Chunk(piece.id, document.acl, counts, analysis.length))  # type: ignore[arg-type]
    return found


def expected(query: str, chunks: Sequence[Chunk], holders: dict[str, list[Chunk]], settings: AnalyserSettings,
             analyser: Analyser) -> dict[int, float]:  # fmt: skip
    said = Counter(lexeme for word in analyser.words(query) for lexeme, _ in word.lexemes)
    scores: dict[int, float] = {}
    for lexeme, times in said.items():
        holding = holders.get(lexeme, [])
        idf = math.log(1 + (len(chunks) - len(holding) + 0.5) / (len(holding) + 0.5))
        for chunk in holding:
            count = chunk.counts[lexeme]
            norm = settings.k1 * (1 - settings.b + settings.b * chunk.length / settings.length_pivot)
            gain = math.sqrt(times) * idf * count * (settings.k1 + 1) / (count + norm)
            scores[chunk.id] = scores.get(chunk.id, 0.0) + gain
    return scores


def plain(query: str) -> str:
    """Leave out what is an operator: this is about scores."""
    return " ".join(word for word in query.replace('"', " ").split() if word.casefold() != "or" and word[0] != "-")


@pytest.mark.skipif(not (DATA / "scifact").is_dir(), reason="the data folder is not here")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SETS)
def test_bm25_is_exact_and_visible_only(
    name: str, new_engine: Callable[..., Engine], record_property: Callable[[str, object], None]
) -> None:
    assert PAIRS >= 500
    documents = documents_of(name)
    engine = new_engine(embedder=HashingEmbedder(8))
    assert not engine.ingest(documents).failed
    settings = engine.settings.analyser
    analyser = Analyser(settings.language)
    every = chunks_of(documents, analyser, settings.name_weight)
    worst = 0.0
    for caller in CALLERS:
        seen = [chunk for chunk in every if caller is TRUSTED or not set(chunk.acl).isdisjoint(caller)]
        holders: dict[str, list[Chunk]] = {}
        for chunk in seen:
            for word in chunk.counts:
                holders.setdefault(word, []).append(chunk)
        for row in rows(DATA / name / "queries.jsonl.gz")[: SETS[name]]:
            query = plain(row["text"])
            scores = expected(query, seen, holders, settings, analyser)
            order = sorted(scores, key=lambda key: (-scores[key], key))
            found = engine.search(query, principals=caller, top_k=SHOWN, weights={"trgm": 0, "ann": 0}).hits
            assert len(found) == min(SHOWN, len(order)), (caller, query)
            for hit, key in zip(found, order, strict=False):
                score = hit.legs["fts"].score
                worst = max(worst, abs(score - scores[key]) / scores[key])
                assert score == pytest.approx(scores[hit.chunk_id], rel=1e-5), (caller, query)
                # Scores are sums in single precision: of two that are alike to a millionth either may come first.
                near = abs(scores[hit.chunk_id] - scores[key]) <= TIE * scores[key]
                assert hit.chunk_id == key or near, (caller, query)
    record_property("greatest relative difference", worst)
