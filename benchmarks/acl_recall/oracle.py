"""Exact answers worked out in memory: vectors by brute force, words by BM25, spellings one by one.

No statement and no index of the engine is used, nor its numbers: what a chunk holds, how many visible chunks hold a
word, and every score are worked out here. Shared with the engine are how a text is cut into chunks and lexemes
(`plan_document`, `Analyser`), and the distance of two words (rapidfuzz; held against a distance of our own on some
pairs). How a question is read and what its words may stand for come from `context_engine.testing`, the second reading
of the rules that the tests hold the engine against, here over arrays, so that it can go over a hundred thousand chunks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from context_engine.settings import AnalyserSettings, SearchSettings
from context_engine.testing import words
from context_engine.testing.guesses import Guesser
from context_engine.text.analyse import Analyser
from context_engine.text.clean import clean_text

from .corpus import Corpus
from .layouts import Mask
from .ways import TOP_K, Answer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEGS: Final = ("ann", "fts any", "fts all", "trgm")
RELATIVE: Final = 1e-5
TIE: Final = 1e-6
"""The engine sums in single precision: scores may differ by `RELATIVE`, and of two within `TIE` either may be first."""
_LEAST: Final = 0.01
"""Scores nearer to zero are compared as if they were this large."""
_MOST_BEGUN: Final = 1_000
_CHECKED_PAIRS: Final = 20


@dataclass(frozen=True, slots=True)
class Postings:
    """Which chunks hold each lexeme, and how much it weighs there; the lexemes are sorted."""

    lexemes: tuple[str, ...]
    starts: Ints
    chunks: Ints
    weights: Floats

    @classmethod
    def of(cls, corpus: Corpus, settings: AnalyserSettings, progress: Callable[[int, int], None]) -> Postings:
        analyser = Analyser.of(settings)
        found: dict[str, tuple[list[int], list[float]]] = {}
        texts = corpus.chunks.texts
        for chunk, (text, row) in enumerate(zip(texts, corpus.chunks.rows.tolist(), strict=True)):
            if chunk % 2_000 == 0:
                progress(chunk, len(texts))
            analysis = analyser.analyse(text)
            named = analyser.analyse(clean_text(corpus.items[row].name)[0]).positions
            for lexeme, places in analysis.positions.items():
                in_name = len(named.get(lexeme, ()))
                count = len(places) - in_name + settings.name_weight * in_name
                weight = words.saturated(count, analysis.length, settings.k1, settings.b, settings.length_pivot)
                chunks, weights = found.setdefault(lexeme, ([], []))
                chunks.append(chunk)
                weights.append(weight)
        lexemes = tuple(sorted(found))
        sizes = [len(found[lexeme][0]) for lexeme in lexemes]
        return cls(
            lexemes,
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([found[lexeme][0] for lexeme in lexemes]).astype(np.int64),
            np.concatenate([found[lexeme][1] for lexeme in lexemes]),
        )

    @classmethod
    def kept(cls, file: Path, make: Callable[[], Postings]) -> Postings:
        """Read them from a file, or make them and write it."""
        if file.is_file():
            with np.load(file) as stored:
                lexemes = tuple(stored["lexemes"].tobytes().decode().split("\n"))
                return cls(lexemes, stored["starts"], stored["chunks"], stored["weights"])
        made = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        lexemes = np.frombuffer("\n".join(made.lexemes).encode(), dtype=np.uint8)
        np.savez(file, lexemes=lexemes, starts=made.starts, chunks=made.chunks, weights=made.weights)
        return made

    def frequencies(self, seen: Mask) -> Ints:
        """Count, for each lexeme, the visible chunks that hold it."""
        visible = np.concatenate([[0], np.cumsum(seen[self.chunks])])
        return visible[self.starts[1:]] - visible[self.starts[:-1]]

    def slice(self, lexeme: str) -> slice:
        place = bisect_left(self.lexemes, lexeme)
        if place == len(self.lexemes) or self.lexemes[place] != lexeme:
            return slice(0, 0)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def beginning(self, start: str) -> Ints:
        """List the chunks that hold a word which begins so, each once."""
        first = bisect_left(self.lexemes, start)
        last = first
        while last < len(self.lexemes) and self.lexemes[last].startswith(start):
            last += 1
        return np.unique(self.chunks[self.starts[first] : self.starts[last]])


class Neighbours:
    """Words of the whole corpus within a word's edits, with their similarities; kept, for they depend on no caller."""

    def __init__(self, lexemes: Sequence[str]) -> None:
        self._by_length: dict[int, list[str]] = {}
        for lexeme in lexemes:
            self._by_length.setdefault(len(lexeme), []).append(lexeme)
        self._known: dict[str, list[tuple[float, str]]] = {}

    def of(self, word: str) -> list[tuple[float, str]]:
        """Return (similarity by edits, word), in no order."""
        if word not in self._known:
            self._known[word] = list(self._look(word))
        return self._known[word]

    def _look(self, word: str) -> Iterator[tuple[float, str]]:
        most = words.allowed_edits(word)
        for length in range(len(word) - most, len(word) + most + 1):
            choices = self._by_length.get(length, [])
            found = process.extract(
                word, choices, scorer=OSA.distance, score_cutoff=most, limit=None, processor=None
            )  # fmt: skip
            for place, (other, distance, _) in enumerate(found):
                if place < _CHECKED_PAIRS and words.edits(word, other) != distance:
                    raise RuntimeError(f"{word}, {other}: two distances")
                if distance:
                    similarity = 1 - distance / max(len(word), len(other))
                    yield similarity, other


class _Guesser(Guesser):
    """The second reading of what words may stand for, with its two walks over everything replaced by look-ups."""

    def __init__(self, view: View, reading: words.Reading) -> None:
        everything: Any = range(view.visible)
        super().__init__(reading, view.held, everything, view.oracle.analyser, view.oracle.search)
        self._view = view

    def _alike(self, term: str) -> dict[str, float]:
        return {word: similarity for similarity, word in self._view.oracle.neighbours.of(term) if self._held.get(word)}

    def _begun(self, own: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        start = self._reading.whole[0].surface if len(self._reading.whole) == 1 else ""
        if len(start) < 4:
            return
        postings, seen = self._view.oracle.postings, self._view.seen
        if int(seen[postings.beginning(start)].sum()) > _MOST_BEGUN:
            return
        known = [own[lexeme] for lexeme, _ in self._reading.whole[0].lexemes if lexeme in own]
        place = bisect_left(postings.lexemes, start)
        while place < len(postings.lexemes) and (word := postings.lexemes[place]).startswith(start):
            place += 1
            if self._held.get(word):
                rare = min([self.rare(word), max(known)]) if known else self.rare(word)
                yield word, 0.8 * rare * len(start) / len(word)


class Oracle:
    """Everything that depends on no caller."""

    def __init__(self, corpus: Corpus, postings: Postings) -> None:
        self.corpus = corpus
        self.postings = postings
        self.search = SearchSettings()
        self.analyser = Analyser.of(AnalyserSettings())
        self.neighbours = Neighbours(postings.lexemes)
        # A question is handed over in seven digits, read in single precision, and brought to half.
        digits = [[float(f"{value:.7g}") for value in row] for row in _unit(corpus.asked).tolist()]
        asked = np.array(digits, dtype=np.float32)
        stored = _unit(corpus.vectors).astype(np.float16).astype(np.float32)
        self.products = (asked.astype(np.float16).astype(np.float32) @ stored.T)[:, corpus.chunks.rows]
        self.readings = [
            words.read(clean_text(question.text)[0], self.analyser, self.search.max_query_terms)
            for question in corpus.questions
        ]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    exact = vectors.astype(np.float64)
    return (exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32)


class View:
    """What one caller sees, (chunks,), and the exact answers for them."""

    def __init__(self, oracle: Oracle, seen: Mask) -> None:
        self.oracle = oracle
        self.seen = seen
        self.visible = int(seen.sum())
        counts = oracle.postings.frequencies(seen)
        self.held = Counter({oracle.postings.lexemes[place]: int(counts[place]) for place in np.flatnonzero(counts)})

    def scores(self, leg: str, place: int) -> Floats:
        """Score every chunk, (chunks,); minus infinity where it is no candidate."""
        found = np.full(len(self.seen), -np.inf)
        if leg == "ann":
            found[self.seen] = self.oracle.products[place][self.seen]
            return found
        reading = self.oracle.readings[place]
        guesser = _Guesser(self, reading)
        if leg == "trgm":
            respelled = self._respelled(reading)
            weights = guesser.all_words(respelled)
        else:
            weights = guesser.words()
        total, held = self._sum(weights)
        if leg == "fts all":
            held = self._all(reading) if weights else np.zeros_like(held)
        chosen = held & self.seen
        found[chosen] = total[chosen]
        return found

    def _respelled(self, reading: words.Reading) -> list[str]:
        search = self.oracle.search
        rare = [
            term
            for term in reading.terms
            if self.held[term] < search.trgm_expand_below
            and 4 <= len(term) <= 100
            and not term.replace(".", "").isdigit()
        ]
        return sorted(rare, key=lambda term: self.held[term])[: search.trgm_max_query_words]

    def _sum(self, weights: Mapping[str, float]) -> tuple[Floats, Mask]:
        postings = self.oracle.postings
        total = np.zeros(len(self.seen))
        held = np.zeros(len(self.seen), dtype=bool)
        for lexeme, weight in weights.items():
            part = postings.slice(lexeme)
            total[postings.chunks[part]] += weight * postings.weights[part]
            held[postings.chunks[part]] = True
        return total, held

    def _all(self, reading: words.Reading) -> Mask:
        """Tell which chunks hold every word: a compound joined, or all of its parts."""
        every = np.ones(len(self.seen), dtype=bool)
        for group in reading.wanted:
            every &= reduce(np.logical_or, [self._word(asked.words[0]) for asked in group])
        return every if reading.wanted else ~every

    def _word(self, word: Any) -> Mask:
        parts = [lexeme for lexeme, _ in word.lexemes if lexeme not in word.joined]
        found = reduce(np.logical_and, map(self._holds, parts)) if parts else np.zeros(len(self.seen), dtype=bool)
        return found | self._holds(word.joined[0]) if word.joined else found

    def _holds(self, lexeme: str) -> Mask:
        found = np.zeros(len(self.seen), dtype=bool)
        found[self.oracle.postings.chunks[self.oracle.postings.slice(lexeme)]] = True
        return found

    def differs(
        self, leg: str, place: int, answer: Answer, rows: Mapping[int, int]
    ) -> tuple[str | None, float]:  # fmt: skip
        """Compare an answer of the engine's; returns what differs, in words, and how far scores are apart at most.

        Args:
            leg: the leg.
            place: of the question.
            answer: its first ten.
            rows: the place of each chunk by its id.
        """
        scores = self.scores(leg, place)
        candidates = np.flatnonzero(np.isfinite(scores))
        best = candidates[np.argsort(-scores[candidates], kind="stable")[:TOP_K]]
        if len(answer.ids) != len(best):
            return f"{len(answer.ids)} hits instead of {len(best)}", 0.0
        worst = 0.0
        for rank, (key, score) in enumerate(zip(answer.ids, answer.scores, strict=True)):
            exact, wanted = float(scores[rows[key]]), float(scores[best[rank]])
            if not np.isfinite(exact):
                return f"hit {rank + 1} is not a candidate", worst
            worst = max(worst, abs(score - exact) / max(abs(exact), _LEAST))
            if worst > RELATIVE:
                return f"hit {rank + 1} scores {score:.8g} instead of {exact:.8g}", worst
            if exact < wanted - TIE * max(abs(wanted), _LEAST):
                return f"hit {rank + 1} is not the best: {exact:.8g} instead of {wanted:.8g}", worst
        return None, worst
