"""One spelling for words that people take for the same: width, case, accents, invisible characters."""

import hashlib
import unicodedata

from context_engine.text._pattern import compile_pattern

MAX_LEXEME_CHARS = 128
_MAX_LEXEME_BYTES = 500
_KEPT_CHARS = 100

# Symbols go before NFKC, which would turn "Debian™" into "DebianTM".
_NOT_WORD = compile_pattern(
    r"[^\p{L}\p{N}\p{M}\p{Default_Ignorable_Code_Point}\x00-\x7f\uff01-\uff5e‘’‐‑–]"
)
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
    text = _ACCENTS.sub("", text).translate(_LETTERS)
    return unicodedata.normalize("NFKC", text)


def bounded(token: str) -> str:
    """Return the token, or the start of a very long one with a hash of the whole."""
    size = len(token)
    if size <= MAX_LEXEME_CHARS and (size * 4 <= _MAX_LEXEME_BYTES or _fits(token)):
        return token
    digest = hashlib.blake2b(token.encode(), digest_size=8).hexdigest()
    return f"{token[:_KEPT_CHARS]}~{digest}"


def _fits(token: str) -> bool:
    return len(token.encode()) <= _MAX_LEXEME_BYTES
