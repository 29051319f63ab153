"""How words are spelled, and where they begin and end: case, accents, compounds, scripts without spaces."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, cast

from context_engine.text._pattern import compile_pattern

Kind = Literal["word", "hangul", "run"]

# Scripts that put no spaces between words; ー is shared by both kana.
_SPACELESS = r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{N}]]"
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
_ELISION = frozenset({"catalan", "french", "irish", "italian"})

_MAX_CHARS = 128
_MAX_BYTES = 500
_KEPT_CHARS = 100

# Symbols go before NFKC, which would turn "Debian™" into "DebianTM".
_NOT_WORD = compile_pattern(r"[^\p{L}\p{N}\p{M}\p{Default_Ignorable_Code_Point}\x00-\x7f\uff01-\uff5e‘’‐‑–]")
_IGNORABLE = compile_pattern(r"\p{Default_Ignorable_Code_Point}+")
_ACCENTS = compile_pattern(r"[\u0300-\u036f\u20d0-\u20f0]+")
_SEPARATORS = str.maketrans("‘’ʼʻ‐–", "''''--")
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i"})


def normalise(text: str) -> str:
    """Bring letters to NFKC and typographic apostrophes and hyphens to ASCII; keep case and accents."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _NOT_WORD.sub(" ", text))
    return _IGNORABLE.sub("", text).translate(_SEPARATORS)


def fold(text: str) -> str:
    """Fold case and accents of a normalised text.

    Only marks of the Latin, Greek and Cyrillic kind are dropped: a Thai or Indic vowel sign is part of its
    word. The Cyrillic й stays, since the Russian stemmer needs it and nobody writes и for it.
    """
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFD", text.casefold()).replace("и\u0306", "й")
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", text).translate(_LETTERS))


def bounded(token: str) -> str:
    """Return the token, or the start of a very long one with a hash of the whole."""
    if len(token) <= _MAX_CHARS and (token.isascii() or len(token.encode()) <= _MAX_BYTES):
        return token
    return f"{token[:_KEPT_CHARS]}~{hashlib.blake2b(token.encode(), digest_size=8).hexdigest()}"


def tokens(text: str) -> Iterator[tuple[Kind, str]]:
    """Find the tokens of a normalised text."""
    for match in _TOKEN.finditer(text):
        yield cast(Kind, match.lastgroup), match[0]


def compound(token: str, language: str) -> tuple[str, list[str], list[tuple[str, int]]]:
    """Take a token of kind `word` apart, and fold it.

    Returns:
        The whole word, joined without its separators; its parts, one position each; and what joined parts
        give, with the position of the first of them: the whole word, then each step of a path and each
        camelCase name, and nothing for a simple word.
    """
    if token.islower() and token.isalnum():
        simple = fold(token)
        return simple, [simple], []
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
        new = [fold(hump) for hump in _humps(piece, language)]
        first = len(joined)
        joined += new
        if first and joined[first - 1][-1].isdigit() and new[0][0].isdigit():
            joined[first] = "." + new[0]
        joined[-1] += suffix
        parts += joined[first:] if suffix and len(piece) == 1 else new
        wholes += _whole(parts, joined, first)
    wholes += _whole(parts, joined, step)
    return "".join(joined), parts, _whole(parts, joined, 0) + wholes


def units(run: str) -> list[str]:
    """Split a run into what its reader takes for one character."""
    return _UNITS.findall(run) if _MAY_CLUSTER.search(run) else list(run)


def _humps(piece: str, language: str) -> list[str]:
    if language == "english":
        piece = _POSSESSIVE.sub("", piece)
    humps: list[str] = []
    # With elision an apostrophe joins two words: l'avion, not don't.
    for word in piece.split("'") if language in _ELISION else [piece.replace("'", "")]:
        humps += [word] if word.islower() or word.isnumeric() else _HUMP.split(word)
    return humps


def _whole(parts: list[str], joined: list[str], start: int) -> list[tuple[str, int]]:
    """Join from a part to the last, of a very long path only the last two; nothing to join gives nothing."""
    text = "".join(joined[start:]).removeprefix(".")
    if len(joined) - start > _WHOLE_PARTS and len(text) > _WHOLE_CHARS:
        start = len(joined) - 2
        text = "".join(joined[start:]).removeprefix(".")
    return [] if text == parts[start] else [(text, start)]
