"""The corpus and the questions: the stored sets together, a folder in the BEIR layout, or made up."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.latency import data
from benchmarks.retrieval.sets import FUZZY, JUDGED
from numpy.typing import NDArray

from context_engine import Document
from context_engine.ingest.plan import plan_document
from context_engine.models.embedder import as_embedder, embed_documents, embed_query
from context_engine.models.local import minilm
from context_engine.settings import IngestSettings
from context_engine.text.clean import clean_text

Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]

SEED: Final = 20240717
OWNED: Final = "debian-packages"
SECTIONS: Final = "k8s-docs-owners"
"""Has owners but no stored vectors: what is missing to the wanted number is embedded from it."""
INGEST: Final = IngestSettings(chunk_tokens=4096)
"""The stored vectors are of whole documents: nearly every document is one chunk."""
_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Item:
    """A document; `owners` are those who may read it in the owned layout."""

    source: str
    id: str
    name: str
    text: str
    owners: tuple[str, ...]

    def document(self, acl: Any) -> Document:
        return Document(text=self.text, name=self.name, external_id=self.id, source=self.source, acl=acl)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; `kind` tells where it comes from."""

    id: str
    kind: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """What is stored and asked.

    Attributes:
        vectors: float32, (documents, dim), unit-normalised; row i belongs to document i.
        asked: the same of the questions.
        persons: the principals that each person holds, where the data tell.
        owned: whether the owners are real.
    """

    name: str
    items: tuple[Item, ...]
    vectors: Vectors
    questions: tuple[Question, ...]
    asked: Vectors
    persons: Mapping[str, tuple[str, ...]]
    owned: bool

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def chunks(self) -> Chunks:
        return Chunks.of(self.items)

    @cached_property
    def embedder(self) -> StoredVectors:
        return StoredVectors(self)


@dataclass(frozen=True, slots=True)
class Chunks:
    """The documents as they will be cut: ids, and the row of the document that each chunk is of."""

    document_ids: Ints
    ids: Ints
    rows: Ints
    texts: tuple[str, ...]

    @classmethod
    def of(cls, items: Iterable[Item]) -> Chunks:
        documents: list[int] = []
        ids: list[int] = []
        rows: list[int] = []
        texts: list[str] = []
        for row, item in enumerate(items):
            plan = plan_document(item.document([]), INGEST)
            documents.append(plan.id)
            for piece in plan.chunks:
                ids.append(piece.id)
                rows.append(row)
                texts.append(plan.indexed_text(piece))
        return cls(np.array(documents), np.array(ids), np.array(rows), tuple(texts))


class StoredVectors:
    """An embedder that looks vectors up: nothing is embedded while anything is timed."""

    def __init__(self, corpus: Corpus) -> None:
        self.name = "stored-vectors"
        self.dim = int(corpus.vectors.shape[1])
        self._documents, self._questions = corpus.vectors, corpus.asked
        self._rows = dict(zip(corpus.chunks.texts, corpus.chunks.rows.tolist(), strict=True))
        self._places = {clean_text(question.text)[0]: place for place, question in enumerate(corpus.questions)}

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._documents[[self._rows[text] for text in texts]]

    def embed_query(self, text: str) -> Vectors:
        return self._questions[self._places[text]]


def plain(query: str) -> str:
    """Leave out what is an operator: quotes, a leading minus, and the word "or"."""
    words = (word.lstrip("-") for word in query.replace('"', " ").split())
    return " ".join(word for word in words if word and word.casefold() != "or")


def load(folder: Path, chunks: int, questions: int, work: Path, progress: Progress) -> Corpus:
    """Read the judged sets and the sets with real owners together, `chunks` documents of them.

    Where they are fewer, sections of the Kubernetes documents are embedded until they are as many; where they are
    more, as many are taken evenly. Half of the questions are those of the judged sets, as many of each, half the
    short ones on the Debian packages: names, codes and misspellings.
    """
    if not (folder / OWNED).is_dir():
        raise SystemExit(f"no {OWNED} in {folder}: name the folder with --data, or use --synthetic or --beir")
    sets = [OWNED, *(name for name in JUDGED if (folder / name).is_dir())]
    items: list[Item] = []
    parts: list[Vectors] = []
    for name in sets:
        items += _items(folder, name)
        parts.append(np.load(folder / name / "corpus.minilm.f16.npy").astype(np.float32))
    if chunks > len(items):
        more = _items(folder, SECTIONS)
        chosen = [more[row] for row in _spread(len(more), chunks - len(items))]
        items += chosen
        parts.append(_embedded(chosen, work / f"{SECTIONS}-{len(chosen)}.npy", progress))
    vectors = np.concatenate(parts)
    rows = _spread(len(items), chunks)
    persons = {row["user"]: tuple(row["groups"]) for row in _lines(folder / OWNED / "principals.jsonl.gz")}
    asked, of_asked = _asked(folder, sets[1:], questions)
    name = f"{', '.join(sets)}, {SECTIONS}"
    return Corpus(name, tuple(items[row] for row in rows), _unit(vectors[rows]), asked, of_asked, persons, True)


def _items(folder: Path, name: str) -> list[Item]:
    return [
        Item(name, row["id"], row["title"], row["text"], tuple(row.get("acl") or (f"corpus:{name}",)))
        for row in _lines(folder / name / "corpus.jsonl.gz")
    ]


def _asked(folder: Path, judged: Sequence[str], count: int) -> tuple[tuple[Question, ...], Vectors]:
    """Take half from the short questions, evenly over their kinds, and the rest evenly from the judged sets."""
    wanted = {FUZZY: count // 2}
    for place, name in enumerate(judged):
        left = count - sum(wanted.values())
        wanted[name] = -(-left // (len(judged) - place))
    found: dict[str, tuple[Question, Any]] = {}
    for name, number in wanted.items():
        vectors = np.load(folder / name / "queries.minilm.f16.npy")
        rows = list(_lines(folder / name / "queries.jsonl.gz"))
        for row in _spread(len(rows), number):
            text = plain(rows[row]["text"])
            kind = str(rows[row].get("kind") or name)
            found.setdefault(clean_text(text)[0], (Question(f"{name}/{rows[row]['id']}", kind, text), vectors[row]))
    questions = tuple(question for question, _ in found.values())
    return questions, _unit(np.array([vector for _, vector in found.values()], dtype=np.float32))


def beir(folder: Path, chunks: int, questions: int, work: Path, progress: Progress) -> Corpus:
    """Read a folder in the BEIR layout, such as HotpotQA's: what is relevant to the questions, and others evenly.

    The corpus is read twice, line by line, and never held whole. The default model embeds what is taken; vectors are
    kept in the work folder as they come, so that this goes on where it was stopped.
    """
    judged: dict[str, set[str]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as lines:
        for query, document, gain in (line.rstrip("\n").split("\t") for line in lines):
            if gain != "score" and float(gain) > 0:
                judged.setdefault(query, set()).add(document)
    asked = [row for row in _lines(_plain_or_gz(folder / "queries.jsonl")) if row["_id"] in judged]
    asked = [asked[row] for row in _spread(len(asked), questions)]
    relevant = {document for row in asked for document in judged[row["_id"]]}
    path = _plain_or_gz(folder / "corpus.jsonl")
    total = sum(1 for _ in _lines(path))
    others = set(_spread(total - len(relevant), max(0, chunks - len(relevant))))
    source = f"beir-{folder.name}"
    items: list[Item] = []
    passed = 0
    for row in _lines(path):
        if row["_id"] in relevant or passed in others:
            items.append(Item(source, row["_id"], row.get("title", ""), row["text"], (f"corpus:{source}",)))
        passed += row["_id"] not in relevant
    items = [items[row] for row in _spread(len(items), chunks)]
    vectors = _embedded(items, work / f"{source}-{len(items)}.npy", progress)
    found = {plain(row["text"]): Question(row["_id"], source, plain(row["text"])) for row in asked}
    model = as_embedder(minilm())
    of_asked = np.array([embed_query(model, text) for text in found], dtype=np.float32)
    return Corpus(source, tuple(items), _unit(vectors), tuple(found.values()), _unit(of_asked), {}, False)


def synthetic(chunks: int, questions: int) -> Corpus:
    """Make up a corpus: words by Zipf's law, vectors in clusters, owners as uneven as real ones."""
    made = data.synthetic(chunks, -(-questions // 2))
    items = tuple(
        Item(f"source-{row % 4}", item.id, item.name, item.text, item.acl) for row, item in enumerate(made.documents)
    )
    asked = {plain(question.text): question for question in made.questions}
    kept = tuple(Question(question.id, question.kind, text) for text, question in asked.items())
    vectors = np.array([question.vector for question in asked.values()])
    persons = {name: (name,) for item in items for name in item.owners if name.startswith("person-")}
    return Corpus("made up", items, made.vectors, kept, _unit(vectors), persons, True)


def _embedded(items: Sequence[Item], file: Path, progress: Progress) -> Vectors:
    """Embed documents with the default model; batches are kept in a file as they come."""
    texts = Chunks.of(items)
    first = [texts.texts[place] for place in np.unique(texts.rows, return_index=True)[1]]
    digest = hashlib.blake2b("\0".join(first).encode(), digest_size=8).hexdigest()
    file = file.with_stem(f"{file.stem}-{digest}")
    done: Vectors = np.load(file) if file.is_file() else np.empty((0, 0), dtype=np.float32)
    model = as_embedder(minilm())
    while len(done) < len(first):
        progress(len(done), len(first))
        more = embed_documents(model, first[len(done) : len(done) + _BATCH])
        done = np.concatenate([done, more]) if len(done) else more
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, done)
    progress(len(done), len(first))
    return done


def _spread(total: int, wanted: int) -> list[int]:
    count = min(wanted, total)
    return [number * total // count for number in range(count)]


def _unit(vectors: Vectors) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _plain_or_gz(path: Path) -> Path:
    return path if path.is_file() else path.with_name(path.name + ".gz")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
