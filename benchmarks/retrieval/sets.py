"""Judged sets: those of the data folder, and the layouts in which the public originals come."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from context_engine import PUBLIC, Document
from context_engine.ingest.plan import plan_document
from context_engine.settings import IngestSettings
from context_engine.text.clean import clean_text

JUDGED: Final = (
    "2wikimultihopqa", "musique", "multihoprag-news", "scifact", "cs-forum-duplicates",
    "cisi", "medline", "cacm", "npl-vaswani",
)  # fmt: skip
FUZZY: Final = "debian-fuzzy"
_CORPORA: Final = {FUZZY: "debian-packages"}
ONE_CHUNK: Final = IngestSettings(chunk_tokens=4096)

Vectors = NDArray[np.float32]
Half = Literal["tune", "held"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query; `kind` sorts the queries of a set, and is empty where it does not."""

    id: str
    text: str
    half: Half
    kind: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A corpus, its queries, and how relevant which document is to which query.

    Attributes:
        judgments: gain by query id and document id; above 0 is relevant.
        document_vectors: float32, (documents, dim), unit-normalised; None where the default model embeds.
        query_vectors: the same of the queries.
    """

    name: str
    documents: Sequence[Document]
    queries: Sequence[Query]
    judgments: Mapping[str, Mapping[str, float]]
    document_vectors: Vectors | None = field(default=None, repr=False)
    query_vectors: Vectors | None = field(default=None, repr=False)

    def chosen(self, final: bool, limit: int | None) -> JudgedSet:
        """Take the half for tuning, or with `final` all queries; of them the first `limit`."""
        rows = [row for row, query in enumerate(self.queries) if final or query.half == "tune"][:limit]
        vectors = None if self.query_vectors is None else self.query_vectors[rows]
        return replace(self, queries=[self.queries[row] for row in rows], query_vectors=vectors)


class StoredVectors:
    """An embedder that looks up the stored vectors of one set, by the text that is indexed."""

    def __init__(self, judged: JudgedSet) -> None:
        assert judged.document_vectors is not None
        assert judged.query_vectors is not None
        self.name = "stored-minilm"
        self.dim = int(judged.document_vectors.shape[1])
        self._documents = judged.document_vectors
        self._queries = judged.query_vectors
        self._rows: dict[str, int] = {}
        for row, document in enumerate(judged.documents):
            plan = plan_document(document, ONE_CHUNK)
            self._rows |= {plan.indexed_text(piece): row for piece in plan.chunks}
        self._query_rows = {clean_text(query.text)[0]: row for row, query in enumerate(judged.queries)}

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._documents[[self._rows[text] for text in texts]]

    def embed_query(self, text: str) -> Vectors:
        return self._queries[self._query_rows[text]]


def half_of(name: str, query: str) -> Half:
    """Put a query into one half or the other, by a hash."""
    digest = hashlib.blake2b(f"{name}\n{query}".encode(), digest_size=8).digest()
    return "held" if digest[0] & 1 else "tune"


def load(folder: Path, name: str) -> JudgedSet:
    """Read a set of the data folder, with its stored vectors."""
    corpus = folder / _CORPORA.get(name, name)
    documents = [_document(row["id"], row["title"], row["text"]) for row in _lines(corpus / "corpus.jsonl.gz")]
    rows = list(_lines(folder / name / "queries.jsonl.gz"))
    queries = [Query(row["id"], row["text"], half_of(name, row["id"]), row.get("kind", "")) for row in rows]
    return JudgedSet(
        name,
        documents,
        queries,
        _judgments(folder / name / "qrels.tsv"),
        _vectors(corpus / "corpus.minilm.f16.npy"),
        _vectors(folder / name / "queries.minilm.f16.npy"),
    )


def load_beir(folder: Path, split: str = "test") -> JudgedSet:
    """Read a folder in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/<split>.tsv."""
    name = folder.name
    documents = [
        _document(row["_id"], row.get("title", ""), row["text"])
        for row in _lines(_plain_or_gz(folder / "corpus.jsonl"))
    ]
    judgments = _judgments(folder / "qrels" / f"{split}.tsv")
    queries = [
        Query(row["_id"], row["text"], half_of(name, row["_id"]))
        for row in _lines(_plain_or_gz(folder / "queries.jsonl"))
        if row["_id"] in judgments
    ]
    return JudgedSet(name, documents, queries, judgments)


def load_multihop(folder: Path) -> JudgedSet:
    """Read a multi-hop collection.

    Two layouts are known. MultiHop-RAG: corpus.json (title, body) and MultiHopRAG.json (query, evidence_list with
    titles). HippoRAG's: <folder>_corpus.json (title, text) and <folder>.json with `paragraphs` (title,
    paragraph_text, is_supporting) or with `context` and `supporting_facts`.
    """
    name = folder.name
    if (folder / "MultiHopRAG.json").is_file():
        articles = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        ids = {row["title"]: str(place) for place, row in enumerate(articles)}
        documents = [_document(ids[row["title"]], row["title"], row["body"]) for row in articles]
        asked = json.loads((folder / "MultiHopRAG.json").read_text(encoding="utf-8"))
        wanted = [{ids[item["title"]] for item in row["evidence_list"] if item["title"] in ids} for row in asked]
        texts = [row["query"] for row in asked]
    else:
        passages = json.loads((folder / f"{name}_corpus.json").read_text(encoding="utf-8"))
        places = {(row["title"], row["text"]): str(place) for place, row in enumerate(passages)}
        documents = [_document(key, title, text) for (title, text), key in places.items()]
        asked = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        wanted = [{places[pair] for pair in _supporting(row) if pair in places} for row in asked]
        texts = [row["question"] for row in asked]
    judged = [(str(place), text, found) for place, (text, found) in enumerate(zip(texts, wanted, strict=True)) if found]
    queries = [Query(key, text, half_of(name, key)) for key, text, _ in judged]
    return JudgedSet(name, documents, queries, {key: dict.fromkeys(found, 1.0) for key, _, found in judged})


def _supporting(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "paragraphs" in row:
        yield from ((item["title"], item["paragraph_text"]) for item in row["paragraphs"] if item["is_supporting"])
        return
    titles = {title for title, _ in row["supporting_facts"]}
    yield from ((title, "".join(sentences)) for title, sentences in row["context"] if title in titles)


def _document(key: str, title: str, text: str) -> Document:
    return Document(external_id=key, name=title, text=text, acl=PUBLIC)


def _plain_or_gz(path: Path) -> Path:
    return path if path.is_file() else path.with_name(path.name + ".gz")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _judgments(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8") as lines:
        rows: Iterable[list[str]] = csv.reader(lines, delimiter="\t")
        for query, document, gain in rows:
            if gain != "score" and float(gain) > 0:
                found.setdefault(query, {})[document] = float(gain)
    return found


def _vectors(path: Path) -> Vectors:
    found = np.load(path).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
