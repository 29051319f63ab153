"""The corpus, the callers and the questions: read from the data folder, or made up with `synthetic`."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from context_engine import Document

Vectors = NDArray[np.float32]
QuestionClass = Literal["long", "short"]
CLASSES: Final[tuple[QuestionClass, ...]] = ("long", "short")

SEED: Final = 20240602
TARGETS: Final = (0.001, 0.01, 0.1)
HALF: Final = 0.5
NAME_KINDS: Final = ("name-exact", "name-typo", "name-variant", "name-prefix")
LONG_WORDS: Final = (16, 20)
_LEAST_WORDS: Final = 30
_EDGES: Final = "\"'“”‘’()[]{}<>,;:.!?*-_=/|&"


@dataclass(frozen=True, slots=True)
class Item:
    """A document of the corpus; `name` is unique and stands for it."""

    id: str
    name: str
    text: str
    acl: tuple[str, ...]
    section: str

    @property
    def indexed(self) -> str:
        return f"{self.name}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `principals` is None for the caller without limits."""

    label: str
    principals: tuple[str, ...] | None
    visible: int
    share: float
    how: str


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    kind: QuestionClass
    text: str
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Benchmark:
    """All that a run needs.

    Attributes:
        vectors: float32, (documents, dim), unit-normalised; row i belongs to document i.
    """

    name: str
    documents: tuple[Item, ...]
    vectors: Vectors
    callers: tuple[Caller, ...]
    questions: tuple[Question, ...]

    def of_class(self, kind: QuestionClass) -> list[Question]:
        return [question for question in self.questions if question.kind == kind]


class StoredVectors:
    """An embedder that looks vectors up: documents by their name, which is the first line, questions by text."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.name = "stored-vectors"
        self.dim = int(benchmark.vectors.shape[1])
        self._vectors = benchmark.vectors
        self._rows = {item.name: row for row, item in enumerate(benchmark.documents)}
        self._questions = {question.text: question.vector for question in benchmark.questions}

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._rows[text.partition("\n")[0]] for text in texts]]

    def embed_query(self, text: str) -> Vectors:
        return self._questions[text]


def as_documents(items: Iterable[Item]) -> list[Document]:
    return [Document(text=item.text, name=item.name, external_id=item.id, acl=list(item.acl)) for item in items]


def load(folder: Path, documents: int | None, questions: int) -> Benchmark:
    """Read debian-packages and debian-fuzzy.

    Args:
        documents: how many to take, evenly spread over the sorted corpus; all when None.
        questions: how many of each class.
    """
    packages, fuzzy = folder / "debian-packages", folder / "debian-fuzzy"
    every = [_item(row) for row in _rows(packages / "corpus.jsonl.gz")]
    stored = np.load(packages / "corpus.minilm.f16.npy", mmap_mode="r")
    chosen = _spread(len(every), documents)
    items = tuple(every[row] for row in chosen)
    vectors = _unit(np.asarray(stored[chosen], dtype=np.float32))
    persons = {row["user"]: tuple(row["groups"]) for row in _rows(packages / "principals.jsonl.gz")}
    long = long_questions(items, vectors, questions)
    short = _short_questions(fuzzy, questions)
    return Benchmark("debian-packages", items, vectors, callers(items, persons), (*long, *short))


def synthetic(documents: int, questions: int, dim: int = 64) -> Benchmark:
    """Make up a corpus: words by Zipf's law, owners as uneven as real ones, vectors in clusters."""
    rng = random.Random(SEED)
    words = [_word(rng) for _ in range(4_000)]
    weights = [1 / (rank + 5) for rank in range(len(words))]
    teams = [f"team-{number}" for number in range(40)]
    team_weights = [1 / (rank + 1) for rank in range(len(teams))]
    persons = {f"person-{number}": (f"person-{number}", *rng.sample(teams, number % 4)) for number in range(400)}
    names = list(persons)
    items: list[Item] = []
    for number in range(documents):
        title = rng.choices(words, weights, k=4)
        owners = {rng.choices(teams, team_weights)[0], *rng.sample(names, rng.randint(0, 3))}
        text = " ".join(rng.choices(words, weights, k=rng.randint(20, 90)))
        key = f"{title[0]}-{title[1]}-{number}"
        items.append(Item(key, f"{key}: {' '.join(title)}", text, tuple(sorted(owners)), title[0][0]))
    noise = np.random.default_rng(SEED)
    centres = noise.standard_normal((30, dim))
    rows = centres[noise.integers(0, 30, documents)] + noise.standard_normal((documents, dim))
    vectors = _unit(rows.astype(np.float32))
    long = long_questions(items, vectors, questions)
    chosen = rng.sample(range(documents), questions)
    short = [Question(f"name-{row}", "short", items[row].id.rpartition("-")[0], vectors[row]) for row in chosen]
    return Benchmark("synthetic", tuple(items), vectors, callers(items, persons), (*long, *_distinct(short)))


def long_questions(items: Sequence[Item], vectors: Vectors, count: int) -> list[Question]:
    """Make questions of 16 to 20 words: how the long description of a document drawn at random begins.

    Quotes and other signs at a word's edges, and the word "or", are left out, so that every method reads plain
    words. The vector lies near that document and its like: twice its own and those of two documents of its section,
    added up and brought to unit length.
    """
    rng = random.Random(SEED)
    fit = [row for row, item in enumerate(items) if len(item.text.split()) >= _LEAST_WORDS]
    by_section: dict[str, list[int]] = {}
    for row, item in enumerate(items):
        by_section.setdefault(item.section, []).append(row)
    made: list[Question] = []
    for row in rng.sample(fit, min(count, len(fit))):
        wanted = rng.randint(*LONG_WORDS)
        text = " ".join(_plain_words(items[row].text)[:wanted])
        near = rng.choices(by_section[items[row].section], k=2)
        vector = _unit((2 * vectors[row] + vectors[near].sum(axis=0)).reshape(1, -1))[0]
        made.append(Question(f"long-{items[row].id}", "long", text, vector))
    return _distinct(made)


def callers(items: Sequence[Item], persons: Mapping[str, Sequence[str]]) -> tuple[Caller, ...]:
    """Choose the callers: persons nearest to 0.1, 1 and 10 %, the largest teams up to 50 %, and all."""
    owned: dict[str, set[int]] = {}
    for row, item in enumerate(items):
        for principal in item.acl:
            owned.setdefault(principal, set()).add(row)

    def seen(principals: Iterable[str]) -> int:
        return len(set[int]().union(*(owned.get(name, set()) for name in principals)))

    counts = {user: seen(groups) for user, groups in persons.items()}
    total = len(items)
    chosen: list[Caller] = []
    for target in TARGETS:
        user = min(counts, key=lambda name: (abs(counts[name] - target * total), name))
        how = f"{user} with its {len(persons[user]) - 1} teams"
        chosen.append(_caller(f"{target:.1%}", tuple(persons[user]), counts[user], total, how))
    half = _largest_teams(owned, total)
    how = f"the {len(half)} teams that own most"
    chosen.append(_caller(f"{HALF:.0%}", half, seen(half), total, how))
    everyone = tuple(sorted(owned))
    how = f"all {len(everyone)} principals"
    chosen.append(_caller("all principals", everyone, seen(everyone), total, how))
    chosen.append(_caller("unlimited", None, total, total, "TRUSTED; no condition in plain SQL"))
    return tuple(chosen)


def _caller(label: str, principals: tuple[str, ...] | None, visible: int, total: int, how: str) -> Caller:
    return Caller(label, principals, visible, visible / total, how)


def _largest_teams(owned: Mapping[str, set[int]], total: int) -> tuple[str, ...]:
    teams = sorted(
        (name for name in owned if not name.startswith("person-")),
        key=lambda name: (-len(owned[name]), name),
    )
    covered: set[int] = set()
    taken: list[str] = []
    for team in teams:
        if len(covered) >= HALF * total:
            break
        covered |= owned[team]
        taken.append(team)
    return tuple(taken)


def _short_questions(folder: Path, count: int) -> list[Question]:
    vectors = _unit(np.load(folder / "queries.minilm.f16.npy").astype(np.float32))
    taken: dict[str, int] = dict.fromkeys(NAME_KINDS, -(-count // len(NAME_KINDS)))
    made: list[Question] = []
    for row, query in enumerate(_rows(folder / "queries.jsonl.gz")):
        if taken.get(query["kind"], 0) > 0:
            taken[query["kind"]] -= 1
            made.append(Question(query["id"], "short", query["text"], vectors[row]))
    return _distinct(made)[:count]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _item(row: Mapping[str, Any]) -> Item:
    return Item(row["id"], row["title"], row["text"], tuple(row["acl"]), row["section"])


def _spread(total: int, wanted: int | None) -> list[int]:
    count = total if wanted is None else min(wanted, total)
    return [number * total // count for number in range(count)]


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _plain_words(text: str) -> list[str]:
    words = (word.strip(_EDGES) for word in text.replace('"', " ").split())
    return [word for word in words if word and word.casefold() != "or"]


def _distinct(questions: Iterable[Question]) -> list[Question]:
    return list({question.text: question for question in questions}.values())


def _word(rng: random.Random) -> str:
    syllables = rng.randint(2, 5)
    return "".join(rng.choice("bcdfglmnprstvz") + rng.choice("aeiou") for _ in range(syllables))
