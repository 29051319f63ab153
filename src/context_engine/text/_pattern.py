"""The `regex` and `Stemmer` modules, which ship no types, behind typed doors."""

import re
from typing import Any, Protocol, cast

import regex as _regex
import Stemmer as _stemmer

_untyped_regex: Any = _regex
_untyped_stemmer: Any = _stemmer


class Stem(Protocol):
    """A Snowball stemmer."""

    def stemWord(self, word: str, /) -> str:  # noqa: N802
        """Reduce a lower-case word to its stem."""
        ...


def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile with Unicode properties (`\p{L}`), set operations (`[a--b]`), and free spacing."""
    flags = _untyped_regex.V1 | _untyped_regex.VERBOSE
    return cast(re.Pattern[str], _untyped_regex.compile(pattern, flags))


def stemmer_version() -> str:
    """Name the release of the stemmer: another one can give other stems."""
    return cast(str, _untyped_stemmer.version())


def stemmer_languages() -> list[str]:
    """List the languages that have a stemmer."""
    return cast(list[str], _untyped_stemmer.algorithms())


def new_stemmer(language: str) -> Stem:
    """Make a stemmer without its own cache. It must not be called from two threads at once."""
    return cast(Stem, _untyped_stemmer.Stemmer(language, 0))
