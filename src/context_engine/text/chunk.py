"""Cut a text into chunks that together are the text again."""

import math
from collections.abc import Callable, Iterator

from context_engine.errors import InputError
from context_engine.text._pattern import compile_pattern

_AHEAD = 8
# Where a chunk may end, best first, and from which share of its size on. No place stands before a
# combining mark, and each pattern takes time linear in the text, whatever the text.
_PLACES = (
    (compile_pattern(r"\n (?=\#{1,6}[\ \t])"), 0.5),
    (compile_pattern(r"\n (?:[^\S\n]*\n)++"), 0.5),
    (compile_pattern(r"""(?<=[.!?…。！？:][]"'”’)」』]?) \n"""), 0.5),
    (
        compile_pattern(r"""(?<![.!?…]) [.!?…]++ []"'”’)»]*+ \s++ (?=[^\p{Ll}\p{M}]) | [。！？｡]++ [」』”’）]*+"""),
        0.4,
    ),
    (compile_pattern(r"\n"), 0.4),
    (compile_pattern(r"\s++ (?!\p{M})"), 0.0),
)
_CHARACTERS = compile_pattern(r"[\ud800-\udbff][\udc00-\udfff] | \X")


def approximate_tokens(text: str) -> int:
    """Count a token for every four bytes of UTF-8."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // 4)


def chunk(text: str, max_tokens: int, count: Callable[[str], int] = approximate_tokens) -> list[str]:
    """Cut a text, at the best places there are, into chunks of about the same size.

    A chunk ends before a Markdown heading, else after a paragraph, a line, a sentence, a word, and within a
    word only when the word alone is too long. No chunk exceeds `max_tokens`, unless a single character does.
    `count` measures a text; a longer text must not measure less. Joined, the chunks give the text; a text of
    nothing but whitespace has none.

    Raises:
        InputError: `max_tokens` is less than 1.
    """
    if max_tokens < 1:
        raise InputError(f"max_tokens must be at least 1, not {max_tokens}")
    if not text or text.isspace():
        return []
    return [text] if count(text) <= max_tokens else list(_cut(text, max_tokens, count))


def _cut(text: str, max_tokens: int, count: Callable[[str], int]) -> Iterator[str]:
    start = 0
    size = 4 * max_tokens
    while start < len(text):
        most = _fitting(text, start, size, max_tokens, count)
        size = most - start
        # Even shares: the last chunk is not a scrap.
        left = len(text) - start
        ideal = start + math.ceil(left / math.ceil(left / size))
        end = most if most == len(text) else _place(text, start, ideal, most)
        yield text[start:end]
        start = end


def _fitting(text: str, start: int, guess: int, max_tokens: int, count: Callable[[str], int]) -> int:
    """Find about the furthest end of a chunk, by doubling and halving from a guess of its length."""
    fits, over = start + 1, min(start + guess, len(text))
    while count(text[start:over]) <= max_tokens:
        if over == len(text):
            return over
        fits, over = over, min(over + (over - start), len(text))
    while over - fits > 1 + (fits - start) // 64:
        middle = (fits + over) // 2
        if count(text[start:middle]) <= max_tokens:
            fits = middle
        else:
            over = middle
    return fits


def _place(text: str, start: int, ideal: int, most: int) -> int:
    stop = min(len(text), most + _AHEAD)
    for pattern, share in _PLACES:
        first = start + int((ideal - start) * share)
        fitting = [end for match in pattern.finditer(text, first, stop) if (end := match.end()) <= most]
        if fitting:
            return min(fitting, key=lambda end: (abs(end - ideal), -end))
    if text[start : most + 1].isascii() and text[most - 1 : most + 1] != "\r\n":
        return most
    ends = (match.end() for match in _CHARACTERS.finditer(text, start, stop))
    return max((end for end in ends if end <= most), default=most)
