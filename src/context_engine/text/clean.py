"""Text and metadata without what no database can hold."""

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, cast

from context_engine.errors import InputError
from context_engine.text._pattern import compile_pattern

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MAX_DEPTH = 100
_MAX_INT_BITS = 4096


_MARKS: Final = compile_pattern(r"[\p{M}--\u034f]{64}(?=[\p{M}--\u034f])")


def clean_text(text: str) -> tuple[str, int]:
    """Make a text storable: NFC, lines ended by LF, U+0000 and lone surrogates replaced by U+FFFD.

    Returns:
        The text and how many characters were replaced. A surrogate pair is joined, which loses nothing.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and "\x00" not in text:
        return text, 0
    replaced = 0
    if _UNSTORABLE.search(text):
        text = _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        text, replaced = _UNSTORABLE.subn("\ufffd", text)
    # Sorting a long run of marks takes time by its square; a joiner ends it (Unicode's stream-safe format).
    return unicodedata.normalize("NFC", _MARKS.sub("\\g<0>\u034f", text)), replaced


def clean_json(value: Any) -> tuple[Any, int]:
    """Clean every string and key of a JSON value.

    Returns:
        A value of the same shape, and how many characters were replaced.

    Raises:
        InputError: the value is not JSON: a type that JSON does not know, NaN or Infinity, a key that is
            no string, two keys that become one, or nesting without end. The message names the place.
    """
    cleaner = _JsonCleaner()
    return cleaner.clean(value, "$", 0), cleaner.replaced


def require_storable(text: str, what: str) -> str:
    """Return the NFC form of an identifier or a principal, in which nothing may be replaced.

    Raises:
        InputError: the text is empty or holds U+0000 or a surrogate.
    """
    if not text:
        raise InputError(f"{what} must not be empty")
    if found := _UNSTORABLE.search(text):
        raise InputError(f"{what} has U+{ord(found[0]):04X} at position {found.start()}, which cannot be stored")
    return unicodedata.normalize("NFC", text)


class _JsonCleaner:
    def __init__(self) -> None:
        self.replaced = 0

    def clean(self, value: object, path: str, depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise InputError(f"{path[:200]}: nested deeper than {_MAX_DEPTH} levels")
        match value:
            case str():
                return self._text(value)
            case int() if value.bit_length() > _MAX_INT_BITS:
                raise InputError(f"{path}: a number of more than {_MAX_INT_BITS} bits")
            case float() if not math.isfinite(value):
                raise InputError(f"{path}: {value} is not a JSON number")
            case None | int() | float():
                return value
            case Mapping():
                return self._mapping(cast(Mapping[object, object], value), path, depth)
            case list() | tuple():
                items = enumerate(cast(list[object], value))
                cleaned = [self.clean(item, f"{path}[{at}]", depth + 1) for at, item in items]
                return cleaned if isinstance(value, list) else tuple(cleaned)
            case _:
                raise InputError(f"{path}: {type(value).__name__} is not a JSON type")

    def _text(self, text: str) -> str:
        cleaned, replaced = clean_text(text)
        self.replaced += replaced
        return cleaned

    def _mapping(self, mapping: Mapping[object, object], path: str, depth: int) -> dict[str, object]:
        cleaned: dict[str, object] = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                raise InputError(f"{path}: key {key!r} is not a string")
            name = self._text(key)
            if name in cleaned:
                raise InputError(f"{path}: two keys become {name!r} when cleaned")
            cleaned[name] = self.clean(item, f"{path}.{name}", depth + 1)
        return cleaned
