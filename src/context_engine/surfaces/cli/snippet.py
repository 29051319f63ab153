"""The part of a chunk that answers the question, with the question's words marked."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from rich.text import Text

from context_engine.surfaces.cli.output import printable
from context_engine.text.analyse import Analyser

_WORD: Final = re.compile(r"\w+(?:['’./_-]\w+)*")
_BEFORE: Final = 40


class _Match(NamedTuple):
    start: int
    end: int
    lexemes: frozenset[str]


def snippet(text: str, terms: Iterable[str], analyser: Analyser, width: int = 240) -> Text:
    """Cut the stretch that holds the most of the terms, and mark every word that stands for one.

    Args:
        text: the chunk's text.
        terms: the question's lexemes.
        analyser: the one that made them.
        width: characters to show at most.
    """
    line = printable(text)
    matches = _matches(line, frozenset(terms), analyser)
    start = _best_start(matches, width) if len(line) > width else 0
    end = min(len(line), start + width)
    if start:
        start = line.find(" ", start, end) + 1 or start
    if end < len(line):
        end = max(line.rfind(" ", start, end), start + width // 2)
    shown = Text(line[start:end])
    for match in matches:
        if start <= match.start and match.end <= end:
            shown.stylize("bold yellow", match.start - start, match.end - start)
    return Text.assemble("…" if start else "", shown, "…" if end < len(line) else "")


def _matches(line: str, terms: frozenset[str], analyser: Analyser) -> list[_Match]:
    found: list[_Match] = []
    for word in _WORD.finditer(line):
        lexemes = {lexeme for part in analyser.words(word[0]) for lexeme, _ in part.lexemes}
        common = terms & lexemes
        if common:
            found.append(_Match(word.start(), word.end(), common))
    return found


def _best_start(matches: list[_Match], width: int) -> int:
    """Start where the most different terms follow within the width; the earliest such place."""
    best, start = 0, 0
    for index, match in enumerate(matches):
        seen: set[str] = set()
        for other in matches[index:]:
            if other.end > match.start - _BEFORE + width:
                break
            seen |= other.lexemes
        if len(seen) > best:
            best, start = len(seen), match.start - _BEFORE
    return max(start, 0)
