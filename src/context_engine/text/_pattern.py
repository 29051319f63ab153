"""The `regex` module, which ships no types, behind a typed door."""

import re
from typing import Any, cast

import regex

_untyped: Any = regex


def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile with Unicode properties (`\p{L}`), set operations (`[a--b]`), and free spacing."""
    return cast(re.Pattern[str], _untyped.compile(pattern, _untyped.V1 | _untyped.VERBOSE))
