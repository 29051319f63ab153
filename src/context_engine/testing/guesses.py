"""What a question may mean, worked out a second time: word by word over everything that is visible."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_engine.settings import SearchSettings
from context_engine.testing.words import Reading, edits, idf, other_spellings
from context_engine.text.analyse import Analyser, Word

Positions = Mapping[str, Sequence[int]]

_MOST_BEGUN: Final = 1_000
_LETTERS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
)


class Guesser:
    """Weighs the words of one question over some chunks.

    Args:
        reading: the question.
        held: by word the number of chunks that hold it.
        chunks: what each chunk holds.
        analyser: the engine's.
        settings: the engine's.
    """

    def __init__(
        self,
        reading: Reading,
        held: Mapping[str, int],
        chunks: Sequence[Positions],
        analyser: Analyser,
        settings: SearchSettings,
    ) -> None:
        self._reading = reading
        self._held = held
        self._chunks = chunks
        self._stem = analyser.lexeme
        self._settings = settings

    def said(self, term: str) -> float:
        """Weigh how often the question says a word."""
        count = self._reading.said[term]
        return {"once": 1.0, "sqrt": math.sqrt(count), "count": float(count)}[self._settings.repeated_words]

    def rare(self, word: str) -> float:
        """Weigh how rare a word is."""
        return idf(len(self._chunks), self._held[word])

    def words(self) -> dict[str, float]:
        """Weigh the question's own words."""
        return {term: self.said(term) * self.rare(term) for term in self._reading.terms if self._held.get(term)}

    def all_words(self, respelled: Sequence[str]) -> dict[str, float]:
        """Weigh the question's words and what they may stand for; `respelled` are looked for in other spellings."""
        own = self.words()
        found = [*own.items()]
        for term in respelled:
            spellings = self._spellings(term)
            if spellings:
                rare = min(map(self.rare, spellings))
                found += [(word, self.said(term) * near * rare) for word, near in spellings.items()]
            if not self._held.get(term):
                found += [(word, self.rare(word)) for word in self._parted(term, not spellings)]
        found += [(word, self.rare(word)) for word in self._joined() if self._held.get(word)]
        found += self._begun(own)
        weights: dict[str, float] = {}
        for word, weight in found:
            weights[word] = max(weights.get(word, 0.0), weight)
        return weights

    def looks_up(self) -> bool:
        """Tell whether the question is a name or a code."""
        words = self._reading.whole
        if not words or any(word.stop or (word.span > 1 and not word.joined) for word in words):
            return False
        if len(words) == 1 or self._held.get(self._whole() or ""):
            return True
        return len(words) <= 4 and any(self._is_odd(word) for word in words)

    def _is_odd(self, word: Word) -> bool:
        if any(map(str.isdigit, word.surface)):
            return True
        parts = {lexeme for lexeme, _ in word.lexemes}
        parts = parts.difference(word.joined) or parts
        return any(part in self._reading.terms and not self._held.get(part) for part in parts)

    def _alike(self, term: str) -> dict[str, float]:
        return {word: similarity for similarity, word in other_spellings(term, self._held)}

    def _spellings(self, term: str) -> dict[str, float]:
        near = self._alike(term)
        surface = self._reading.surfaces.get(term, "")
        for word in _slips(surface) if len(surface) >= 5 and surface.isalpha() else ():
            stem = self._stem(word)
            if stem not in (word, term) and self._held.get(stem):
                near[stem] = max(near.get(stem, 0.0), 1 - 1 / max(len(word), len(surface)))
        best = sorted(near, key=lambda word: (-near[word], word))[: self._settings.trgm_max_expansions]
        return {word: near[word] for word in best}

    def _parted(self, term: str, anywhere: bool) -> tuple[str, ...]:
        text = self._reading.surfaces.get(term, term)
        ways: list[tuple[bool, int, int]] = []
        for at in range(1, len(text)):
            between = text[at - 1].isdigit() is not text[at].isdigit()
            short = min(at, len(text) - at)
            parts = self._stem(text[:at]), self._stem(text[at:])
            if (between or (anywhere and short > 2)) and all(self._held.get(part) for part in parts):
                ways.append((between, short, -at))
        if not ways or not 4 <= len(text) <= 64:
            return ()
        at = -max(ways)[2]
        return self._stem(text[:at]), self._stem(text[at:])

    def _whole(self) -> str | None:
        words = self._reading.whole
        if not 2 <= len(words) <= 8 or any(word.stop for word in words):
            return None
        return self._stem("".join(word.surface for word in words))

    def _joined(self) -> Iterator[str]:
        words = self._reading.whole
        if whole := self._whole():
            yield whole
        for end in range(len(words) + 1):
            for run in (words[start:end] for start in range(max(0, end - 4), end - 1)):
                text = "".join(word.surface for word in run)
                if any(map(str.isdigit, text)) and not any(word.stop for word in run):
                    yield self._stem(text)

    def _begun(self, own: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        start = self._reading.whole[0].surface if len(self._reading.whole) == 1 else ""
        if len(start) < 4 or sum(any(word.startswith(start) for word in chunk) for chunk in self._chunks) > _MOST_BEGUN:
            return
        known = [own[lexeme] for lexeme, _ in self._reading.whole[0].lexemes if lexeme in own]
        for word in self._held:
            if word.startswith(start):
                rare = min([self.rare(word), max(known)]) if known else self.rare(word)
                yield word, 0.8 * rare * len(start) / len(word)


def _slips(surface: str) -> set[str]:
    """Return every word one edit away, the edit in the last six letters."""
    letters = next((letters for letters in _LETTERS if surface[-1] in letters), surface)
    kept = max(0, len(surface) - 6)
    found = {surface[:at] + surface[at + 1 :] for at in range(kept, len(surface))}
    found |= {surface[:at] + surface[at : at + 2][::-1] + surface[at + 2 :] for at in range(kept, len(surface) - 1)}
    for letter in letters:
        found |= {surface[:at] + letter + surface[at:] for at in range(kept, len(surface) + 1)}
        found |= {surface[:at] + letter + surface[at + 1 :] for at in range(kept, len(surface))}
    return {word for word in found if edits(word, surface) <= 1}
