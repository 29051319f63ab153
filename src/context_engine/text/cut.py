"""Where words begin and end: compounds and their parts, camelCase, scripts without spaces."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from context_engine.text._pattern import compile_pattern
from context_engine.text.fold import fold

Kind = Literal["word", "hangul", "run"]

# Scripts that put no spaces between words; ー is shared by both kana.
_SPACELESS = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
    r"&&[\p{L}\p{N}]]"
)
_HANGUL = r"[\p{Hangul}&&\p{L}]"
_LETTER = rf"[[\p{{L}}\p{{N}}]--{_SPACELESS}--{_HANGUL}]"
_INNER = rf"[{_LETTER}\p{{M}}]"
_PIECE = rf"""(?:
    (?<!{_INNER}) \p{{Latin}} \# (?![\p{{L}}\p{{N}}])
  | {_LETTER} {_INNER}* (?: ' {_LETTER} {_INNER}* )* (?: (?<=\p{{L}}) \+\+ (?![\p{{L}}+]) )?
)"""
_SEPARATOR = r"(?: [/\\._:@+&\#=~-] | (?<=\p{N}),(?=\p{N}) )"

_TOKEN = compile_pattern(rf"""
    (?P<word> {_PIECE} (?: {_SEPARATOR} {_PIECE} )* )
  | (?P<hangul> {_HANGUL} [{_HANGUL}\p{{M}}]* )
  | (?P<run> {_SPACELESS} [{_SPACELESS}\p{{M}}]* )
""")
_PIECES = compile_pattern(_PIECE)
# aB | HTTPResponse, but not URLs | Phone12Pro, but not K8M800
_HUMP = compile_pattern(r"""
    (?<=\p{Ll}\p{M}*) (?=\p{Lu})
  | (?<=\p{Lu}\p{M}*) (?=\p{Lu}\p{M}*\p{Ll}) (?! \p{Lu}s (?![\p{L}\p{N}]) )
  | (?<=\p{N}) (?=\p{Lu}\p{M}*\p{Ll})
""")
_BETWEEN_STEPS = "/\\:@="
_POSSESSIVE = re.compile(r"'[sS]$")
_UNITS = compile_pattern(r"\X")
_MAY_CLUSTER = compile_pattern(r"[\p{M}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")

_WHOLE_PARTS = 8
_WHOLE_CHARS = 64


class Compound(NamedTuple):
    """A word as it stands between spaces.

    Attributes:
        surface: the whole word, folded and joined without its separators.
        parts: folded, one position each.
        wholes: what joined parts give, with the position of the first of them: the whole word first, then
            each step of a path and each camelCase name. Empty for a simple word.
    """

    surface: str
    parts: list[str]
    wholes: list[tuple[str, int]]


def tokens(text: str) -> Iterator[tuple[Kind, str]]:
    """Find the tokens of a normalised text."""
    for match in _TOKEN.finditer(text):
        yield cast(Kind, match.lastgroup), match[0]


def compound(token: str, *, possessive: bool, elision: bool) -> Compound:
    """Take a word apart.

    Args:
        token: a token of kind `word`.
        possessive: whether a final 's is dropped.
        elision: whether an apostrophe joins two words (l'avion) or belongs to one (don't).
    """
    if token.islower() and token.isalnum():
        simple = fold(token)
        return Compound(simple, [simple], [])
    parts: list[str] = []
    joined: list[str] = []
    wholes: list[tuple[str, int]] = []
    step = 0
    for match in _PIECES.finditer(token):
        if step < len(joined) and token[match.start() - 1] in _BETWEEN_STEPS:
            wholes += _whole(parts, joined, step)
            step = len(joined)
        piece = match[0].rstrip("+#")
        suffix = match[0][len(piece) :]
        new = [fold(hump) for hump in _humps(piece, possessive=possessive, elision=elision)]
        first = len(joined)
        joined += new
        if first and joined[first - 1][-1].isdigit() and new[0][0].isdigit():
            joined[first] = "." + new[0]
        joined[-1] += suffix
        parts += joined[first:] if suffix and len(piece) == 1 else new
        wholes += _whole(parts, joined, first)
    wholes += _whole(parts, joined, step)
    return Compound("".join(joined), parts, _whole(parts, joined, 0) + wholes)


def units(run: str) -> list[str]:
    """Split a run into what its reader takes for one character."""
    return _UNITS.findall(run) if _MAY_CLUSTER.search(run) else list(run)


def _humps(piece: str, *, possessive: bool, elision: bool) -> list[str]:
    if "'" in piece:
        if possessive:
            piece = _POSSESSIVE.sub("", piece)
        if elision:
            return [hump for word in piece.split("'") for hump in _camel(word)]
        piece = piece.replace("'", "")
    return _camel(piece)


def _camel(word: str) -> list[str]:
    return [word] if word.islower() or word.isnumeric() else _HUMP.split(word)


def _whole(parts: list[str], joined: list[str], start: int) -> list[tuple[str, int]]:
    """Join from a part to the last, of a very long path only the last two; nothing to join gives nothing."""
    text = "".join(joined[start:]).removeprefix(".")
    if len(joined) - start > _WHOLE_PARTS and len(text) > _WHOLE_CHARS:
        start = len(joined) - 2
        text = "".join(joined[start:]).removeprefix(".")
    return [] if text == parts[start] else [(text, start)]
