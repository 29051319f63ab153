"""The analyser: how a text becomes lexemes with positions. Documents and queries go the same way.

A word stands for its stem. A compound (`AX-4410-B`, `state-of-the-art`, `parseHTTPResponse`, `10.1.2.3`)
stands for its parts, one position each, and at the first part's position for the whole, joined without its
separators, so that `AX4410B`, `AX-4410-B` and `ax_4410_b` find each other. Text without spaces between words
becomes overlapping pairs of characters.
"""

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Self, TypeVar

import Stemmer

from context_engine.errors import ConfigError
from context_engine.settings import AnalyserSettings
from context_engine.text._pattern import compile_pattern
from context_engine.text.cut import Kind, bounded, compound, fold, normalise, tokens, units
from context_engine.text.stopwords import STOPWORDS

ANALYSER_VERSION: Final = 3
"""Raised with every change that gives a text other lexemes, or a lexeme other keys: they must be made again."""

_snowball: Any = Stemmer
_SHORTEST_STEMMED = 3
_MEMO_ENTRIES = 200_000
_MEMO_WORDS = 20_000
_MEMO_CHARS = 64
_ALPHABETIC = compile_pattern(r"[\p{L}\p{M}]+")
_HAN = compile_pattern(r"\p{Han}")
_OFFSET = itemgetter(1)

_T = TypeVar("_T")

Lexemes = tuple[tuple[str, int], ...]
# Lexemes, span, length; a string alone stands for the common case: one lexeme, one position.
_Entry = str | tuple[Lexemes, int, int]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text as its reader sees it.

    Attributes:
        surface: folded, before stemming; of a compound the joined whole.
        lexemes: what the word is found by, each with its position relative to the word's first.
        span: how many positions the word takes.
        stop: whether it is a stop word, which has no lexemes.
        joined: those of the lexemes that say again what others say one by one: first the whole compound's,
            then its steps'.
    """

    surface: str
    lexemes: Lexemes
    span: int
    stop: bool
    joined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    """The lexemes of a text.

    Attributes:
        positions: for each lexeme where it stands, from 1, ascending.
        length: how many positions hold something that is searched for.
    """

    positions: dict[str, list[int]]
    length: int


class Analyser:
    """Turns text into lexemes. Safe to share between threads.

    Args:
        language: a Snowball language, or `simple` for no stemming.
        stopwords: the words to leave out; the language's own list, where it has one, when None.

    Raises:
        ConfigError: there is no such language.
    """

    def __init__(self, language: str = "english", stopwords: frozenset[str] | None = None) -> None:
        languages = ["simple", *_snowball.algorithms()]
        if language not in languages:
            raise ConfigError(f"no analyser for language {language!r}; one of: {', '.join(languages)}")
        self.language = language
        self._stopwords = _folded(STOPWORDS.get(language, ()) if stopwords is None else stopwords)
        # Without its own cache; not to be called from two threads at once.
        self._stemmer: Any = None if language == "simple" else _snowball.Stemmer(language, 0)
        self._stemmer_lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._words: dict[str, tuple[Word, ...]] = {}

    @classmethod
    def of(cls, settings: AnalyserSettings) -> Self:
        """Make the analyser that the settings ask for."""
        given = settings.stopwords
        own = None if given == "language" else frozenset[str]() if given == "none" else frozenset(given)
        return cls(settings.language, own)

    @property
    def fingerprint(self) -> str:
        """Name all that decides which lexemes a text has."""
        name = f"{ANALYSER_VERSION}:{self.language}:snowball-{_snowball.version()}"
        if self._stopwords == _folded(STOPWORDS.get(self.language, ())):
            return name
        own = "\n".join(sorted(self._stopwords))
        return f"{name}:stopwords-{hashlib.blake2b(own.encode(), digest_size=4).hexdigest()}"

    def analyse(self, text: str) -> Analysis:
        """Find the lexemes of a text and where they stand."""
        positions: dict[str, list[int]] = {}
        position = length = 0
        entries = self._entries
        for chunk in text.split():
            entry = entries.get(chunk)
            if entry is None:
                entry = self._learn(chunk)
            if isinstance(entry, str):
                position += 1
                length += 1
                if entry in positions:
                    positions[entry].append(position)
                else:
                    positions[entry] = [position]
            else:
                lexemes, span, searched = entry
                for lexeme, offset in lexemes:
                    positions.setdefault(lexeme, []).append(position + offset + 1)
                position += span
                length += searched
        return Analysis(positions, length)

    def words(self, text: str) -> list[Word]:
        """Take a text, most often a query, apart into words; stop words are flagged and take a position.

        Every lexeme of a word is in the analysis of the same text. The reverse does not hold: a document is
        found by each single Han character as well, but a query of several is not widened to them.
        """
        words: list[Word] = []
        for chunk in text.split():
            known = self._words.get(chunk)
            if known is None:
                known = tuple(self._word(kind, token)[0] for kind, token in tokens(normalise(chunk)))
                _remember(self._words, chunk, known, _MEMO_WORDS)
            words.extend(known)
        return words

    def lexeme(self, word: str) -> str:
        """Return what a simple word, already folded, is found by: its stem."""
        return self._lexeme(word)

    def lexemes(self, words: Sequence[str]) -> list[str]:
        """Return what each of several simple words, already folded, is found by; much faster than one by one."""
        joined = "".join(words)
        alphabetic = _ALPHABETIC.fullmatch(joined) and len(min(words, key=len)) >= _SHORTEST_STEMMED
        longest = {max(words, key=len)} if alphabetic and joined.isascii() else words
        if self._stemmer is None or not alphabetic or any(bounded(word) != word for word in longest):
            return [self._lexeme(word) for word in words]
        with self._stemmer_lock:
            stems: list[str] = self._stemmer.stemWords(list(words))
        return [stem or word for stem, word in zip(stems, words, strict=True)]

    def _learn(self, chunk: str) -> _Entry:
        entries = [
            self._entries.get(token) or _remember(self._entries, token, self._entry(kind, token), _MEMO_ENTRIES)
            for kind, token in tokens(normalise(chunk))
        ]
        return _remember(self._entries, chunk, _merge(entries), _MEMO_ENTRIES)

    def _entry(self, kind: Kind, token: str) -> _Entry:
        word, hidden, length = self._word(kind, token)
        if word.span == length == len(word.lexemes) == 1 and not hidden:
            return word.lexemes[0][0]
        return tuple(dict.fromkeys(sorted(word.lexemes + hidden, key=_OFFSET))), word.span, length

    def _word(self, kind: Kind, token: str) -> tuple[Word, Lexemes, int]:
        """Build a word, the lexemes that only documents have, and its count of searched positions."""
        if kind != "word":
            word, hidden = _pairs(fold(token), whole=kind == "hangul")
            return word, hidden, word.span
        surface, parts, wholes = compound(token, self.language)
        kept = [(self._lexeme(part), at) for at, part in enumerate(parts) if part not in self._stopwords]
        joined = [(self._lexeme(whole), at) for whole, at in wholes]
        lexemes = tuple(dict.fromkeys(sorted(kept + joined, key=_OFFSET)))
        again = tuple(dict.fromkeys(lexeme for lexeme, _ in joined))
        return Word(bounded(surface), lexemes, len(parts), not lexemes, again), (), len(kept)

    def _lexeme(self, folded: str) -> str:
        lexeme = bounded(folded)
        if self._stemmer is None or len(folded) < _SHORTEST_STEMMED or not _ALPHABETIC.fullmatch(lexeme):
            return lexeme
        with self._stemmer_lock:
            return self._stemmer.stemWord(lexeme) or lexeme


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(fold(normalise(word)).replace("'", "") for word in words)


def _remember(memo: dict[str, _T], key: str, value: _T, limit: int) -> _T:
    if len(key) <= _MEMO_CHARS:
        if len(memo) >= limit:
            memo.clear()
        memo[key] = value
    return value


def _merge(entries: list[_Entry]) -> _Entry:
    """Put the entries of one chunk between spaces after each other."""
    if len(entries) == 1:
        return entries[0]
    merged: list[tuple[str, int]] = []
    position = length = 0
    for entry in entries:
        lexemes, span, searched = (((entry, 0),), 1, 1) if isinstance(entry, str) else entry
        merged += [(lexeme, position + offset) for lexeme, offset in lexemes]
        position += span
        length += searched
    return tuple(merged), position, length


def _pairs(run: str, *, whole: bool) -> tuple[Word, Lexemes]:
    """Turn a run without spaces into overlapping pairs, and give the lexemes that only documents have."""
    single = units(run)
    surface = bounded(run)
    if len(single) == 1:
        return Word(surface, ((surface, 0),), 1, False), ()
    pairs = [(bounded(first + second), at) for at, (first, second) in enumerate(pairwise(single))]
    last = len(pairs) - 1
    joined = (surface,) if whole and last else ()
    hidden = tuple((bounded(unit), min(at, last)) for at, unit in enumerate(single) if _HAN.match(unit))
    return Word(surface, (*((lexeme, 0) for lexeme in joined), *pairs), last + 1, False, joined), hidden
