"""Keys by which an index of words finds those that are a slip or two away: every one, and few others.

Two words one edit apart (a letter more, less, other, or two swapped) come out alike once a letter is left out of
either (symmetric deletion, by Garbe): short words have the hashes of what is then left as keys. Of a longer word, cut
into four pieces, two edits leave two pieces as they were (the pigeonhole principle of joins by similarity, as in Li,
Deng, Wang and Feng, "Pass-Join", VLDB 2012): each two of its pieces together are a key, and whoever looks for it tries
the places to which an edit may have moved them. Only two letters swapped across a cut spoil two pieces at once: for
that the question's word is tried with each such two swapped back.
"""

import zlib
from collections.abc import Iterator
from itertools import combinations
from typing import Final

LONGEST_SHORT: Final = 7
"""Words of up to so many letters may be one edit away, longer ones two."""
_SHORTEST: Final = 3
LONGEST_ASKED: Final = 100
"""No longer word is looked for."""
_PIECES: Final = 4
_PAIRS: Final = tuple(combinations(range(_PIECES), 2))
_EDITS: Final = 2
_MOVES: Final = range(-_EDITS, _EDITS + 1)
_MOVED: Final = {
    grown: [
        ((one, first), (other, second))
        for one, other in _PAIRS
        for first in _MOVES
        for second in _MOVES
        if abs(first) + abs(second - first) + abs(grown - second) <= _EDITS
    ]
    for grown in _MOVES
}
"""By how many letters a word is longer than a stored one: two pieces of that, each with how far edits have moved it."""


def max_edits(length: int) -> int:
    """Return how many edits away a spelling may be: one, from 8 letters two; a swap is one edit."""
    return 1 if length <= LONGEST_SHORT else _EDITS


def stored_keys(word: str) -> list[int]:
    """Return the keys that a word of the lexicon is found by."""
    keys: set[int] = set()
    if _SHORTEST <= len(word) <= LONGEST_SHORT + 1:
        keys |= _rests(word)
    if LONGEST_SHORT + 1 - _EDITS <= len(word) <= LONGEST_ASKED + _EDITS:
        cuts = _cuts(len(word))
        pieces = [word[first:last] for first, last in zip(cuts, cuts[1:], strict=False)]
        keys |= {_pair_key(len(word), one, other, pieces[one], pieces[other]) for one, other in _PAIRS}
    return sorted(keys)


def asked_keys(word: str) -> list[int]:
    """Return the keys to look for: a word within `max_edits` has at least one of them."""
    if len(word) <= LONGEST_SHORT:
        return sorted(_rests(word))
    keys = {key for length in _lengths(word, _EDITS) for key in _moved(word, length)}
    for length in _lengths(word, _EDITS - 1):
        keys.update(_swapped_back(word, length))
    return sorted(keys)


def _rests(word: str) -> set[int]:
    """Hash a word, and what is left of it without each of its letters."""
    return {_hash(word)} | {_hash(word[:place] + word[place + 1 :]) for place in range(len(word))}


def _lengths(word: str, edits: int) -> range:
    return range(len(word) - edits, len(word) + edits + 1)


def _moved(word: str, length: int) -> Iterator[int]:
    """Yield the keys of stored words of this length, wherever edits have moved their pieces within `word`."""
    cuts = _cuts(length)
    for one, other in _MOVED[len(word) - length]:
        yield from _key_at(word, cuts, one, other)


def _swapped_back(word: str, length: int) -> Iterator[int]:
    """Yield the keys of stored words of this length, two letters of which were swapped across a cut."""
    cuts = _cuts(length)
    grown = len(word) - length
    for piece, cut in enumerate(cuts[1:-1]):
        for move in range(1 - _EDITS, _EDITS):
            at = cut + move
            if abs(move) + abs(grown - move) >= _EDITS or not 0 < at < len(word) or word[at - 1] == word[at]:
                continue
            mended = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
            for one, other in [(piece, piece + 1)] if move or grown else _PAIRS:
                yield from _key_at(mended, cuts, (one, move), (other, move))


def _key_at(word: str, cuts: list[int], one: tuple[int, int], other: tuple[int, int]) -> Iterator[int]:
    """Yield the key of two pieces, each with how far it has moved; nothing where one would lie outside of `word`."""
    (left, left_moved), (right, right_moved) = one, other
    first, last = cuts[left] + left_moved, cuts[right + 1] + right_moved
    if first >= 0 and last <= len(word):
        left_piece = word[first : cuts[left + 1] + left_moved]
        yield _pair_key(cuts[-1], left, right, left_piece, word[cuts[right] + right_moved : last])


def _cuts(length: int) -> list[int]:
    """Return where a word is cut, its beginning and end among them."""
    return [length * piece // _PIECES for piece in range(_PIECES + 1)]


def _pair_key(length: int, one: int, other: int, piece: str, other_piece: str) -> int:
    return _hash(f"{length} {one} {other} {piece} {other_piece}")


def _hash(text: str) -> int:
    """Hash to an integer of PostgreSQL."""
    return zlib.crc32(text.encode()) - (1 << 31)
