"""Read a question: words, "phrases", -exclusions and `or`, as web search boxes do. Any text is a legal question."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from context_engine.text.analyse import Analyser, Word

_PIECE: Final = re.compile(r'(?<!\S)(-?)"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class Atom:
    """One thing asked for: a word, or a phrase of several."""

    words: tuple[Word, ...]
    phrase: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the text legs ask it.

    Attributes:
        terms: distinct lexemes that are scored, in the order they stand.
        repeats: how often the question says each of them.
        surfaces: of those that are simple words, how the question spells them, folded.
        words: the words of a question without phrases, exclusions or `or`, stop words too; else none.
        match: the tsquery that candidates match, or None when nothing is asked for.
        excluded: the tsquery that no candidate matches, or None.
        any_word: whether any one of the terms makes a candidate.
        only_excludes: whether the question has exclusions and nothing else.
        dropped_terms: how many lexemes were over the limit.
    """

    terms: tuple[str, ...]
    repeats: Mapping[str, int]
    surfaces: Mapping[str, str]
    words: tuple[Word, ...]
    match: str | None
    excluded: str | None
    any_word: bool
    only_excludes: bool
    dropped_terms: int


def quote_lexeme(lexeme: str) -> str:
    """Write a lexeme as a tsquery literal."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _any_of(parts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(parts))
    return unique[0] if len(unique) == 1 else "(" + " | ".join(unique) + ")"


def match_any(lexemes: Iterable[str], excluded: str | None = None) -> str | None:
    """Write a tsquery that any of the lexemes matches; None for no lexeme."""
    parts = [quote_lexeme(lexeme) for lexeme in lexemes]
    return exclude(_any_of(parts), excluded) if parts else None


def exclude(match: str | None, excluded: str | None) -> str | None:
    """Narrow a tsquery by what must not match."""
    return f"({match}) & !({excluded})" if match and excluded else match


def _sequence(words: Iterable[Word]) -> str:
    """Write words as a tsquery phrase; a compound stands there joined, or as its parts in a row."""
    steps: list[str] = []
    gap = 1
    for word in words:
        parts = [(offset, quote_lexeme(lexeme)) for lexeme, offset in word.lexemes if lexeme not in word.joined]
        whole = [quote_lexeme(lexeme) for lexeme in word.joined[:1]]
        if not word.lexemes:
            gap += word.span
            continue
        first, last = (parts[0][0], parts[-1][0]) if parts else (0, word.span - 1)
        if steps:
            steps.append(f"<{gap + first}>")
        steps.append(_any_of([*whole, *([_row(parts)] if parts else [])]))
        gap = word.span - last
    return "(" + " ".join(steps) + ")" if len(steps) > 1 else "".join(steps)


def _row(parts: Sequence[tuple[int, str]]) -> str:
    """Write quoted lexemes, by ascending offset, as a tsquery phrase: at each position any that stand there."""
    steps: list[str] = []
    previous = 0
    for offset, group in groupby(parts, key=lambda part: part[0]):
        if steps:
            steps.append(f"<{offset - previous}>")
        steps.append(_any_of(lexeme for _, lexeme in group))
        previous = offset
    return "(" + " ".join(steps) + ")" if len(steps) > 1 else steps[0]


def _whole_or_parts(word: Word) -> str:
    """Write a word that must match: its joined form, or all of its parts."""
    parts = [quote_lexeme(lexeme) for lexeme, _ in word.lexemes if lexeme not in word.joined]
    every_part = "(" + " & ".join(dict.fromkeys(parts)) + ")" if parts else None
    whole = [quote_lexeme(lexeme) for lexeme in word.joined[:1]]
    return _any_of([*whole, *([every_part] if every_part else [])])


def _pieces(text: str, analyser: Analyser) -> Iterator[tuple[Literal["want", "exclude", "or"], list[Atom]]]:
    for found in _PIECE.finditer(text):
        minus, phrase, plain = found.groups()
        if plain is None:
            words = tuple(analyser.words(phrase))
            found = [Atom(words, phrase=True)] if any(word.lexemes for word in words) else []
            yield ("exclude" if minus else "want"), found
            continue
        if plain.casefold() == "or":
            yield "or", []
            continue
        exclude = len(plain) > 1 and plain[0] == "-" and (plain[1].isalnum() or plain[1] == "_")
        words = tuple(analyser.words(plain[1:] if exclude else plain))
        atoms = [Atom((word,), phrase=False) for word in words if word.lexemes]
        yield ("exclude" if exclude else "want"), atoms


def _groups(pieces: Iterable[tuple[str, list[Atom]]]) -> tuple[list[list[Atom]], list[Atom], bool]:
    """Sort atoms into groups of alternatives, and exclusions; and tell whether anything was to be excluded."""
    wanted: list[list[Atom]] = []
    excluded: list[Atom] = []
    joined = excludes = False
    for kind, atoms in pieces:
        if kind == "or":
            joined = bool(wanted)
            continue
        if kind == "exclude":
            excludes = True
            excluded.extend(atoms)
        elif joined and atoms:
            wanted[-1].extend(atoms)
        else:
            wanted.extend([atom] for atom in atoms)
        joined = joined and not atoms
    return wanted, excluded, excludes


def _match_any(groups: list[list[Atom]], terms: set[str]) -> str | None:
    required = [group for group in groups if any(atom.phrase for atom in group)]
    if required:
        return " & ".join(_any_of(_sequence(atom.words) for atom in group) for group in required)
    lexemes = [lexeme for group in groups for atom in group for word in atom.words for lexeme, _ in word.lexemes]
    return match_any(lexeme for lexeme in lexemes if lexeme in terms)


def _match_all(groups: list[list[Atom]]) -> str | None:
    written = [
        _any_of(_sequence(atom.words) if atom.phrase else _whole_or_parts(atom.words[0]) for atom in group)
        for group in groups
    ]
    return " & ".join(dict.fromkeys(written)) or None


def read_question(
    text: str, analyser: Analyser, match: Literal["any", "all"] = "any", max_terms: int = 256
) -> Question:
    """Read a question for the text legs.

    With `any`, a candidate holds at least one word, and every phrase where there is one; with `all`, every word and
    phrase. Exclusions always hold.
    """
    pieces = list(_pieces(text, analyser))
    groups, excluded, excludes = _groups(pieces)
    words = [word for group in groups for atom in group for word in atom.words]
    lexemes = Counter(lexeme for word in words for lexeme, _ in word.lexemes)
    terms = tuple(lexemes)[:max_terms]
    simple = (word for word in reversed(words) if len(word.lexemes) == word.span == 1)
    plain = all(kind == "want" and not any(atom.phrase for atom in atoms) for kind, atoms in pieces)
    matched = _match_any(groups, set(terms)) if match == "any" else _match_all(groups)
    unwanted = " | ".join(dict.fromkeys(_sequence(atom.words) for atom in excluded)) or None
    return Question(
        terms=terms,
        repeats={term: lexemes[term] for term in terms},
        surfaces={word.lexemes[0][0]: word.surface for word in simple},
        words=tuple(analyser.words(text)) if plain else (),
        match=exclude(matched, unwanted),
        excluded=unwanted,
        any_word=match == "any" and not any(atom.phrase for group in groups for atom in group),
        only_excludes=excludes and not groups,
        dropped_terms=len(lexemes) - len(terms),
    )
