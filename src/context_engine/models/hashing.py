"""An embedder for tests and demonstrations: no model, no dependency, the same vectors everywhere."""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from context_engine.errors import ConfigError
from context_engine.models.vectors import Vectors, normalise

# Whole numbers: their sums are exact, so the order of the words cannot change a bit.
_WORD_WEIGHT = 2
_TRIGRAM_WEIGHT = 1
_CONSTANT_FEATURE = 0


class HashingEmbedder:
    """Signed feature hashing of words and their character trigrams: related spellings are near.

    Attributes:
        dim: length of the vectors.
        name: `hashing-{dim}`.
    """

    def __init__(self, dim: int = 64) -> None:
        if dim < 1:
            raise ConfigError(f"dim must be at least 1, not {dim}")
        self.dim = dim
        self.name = f"hashing-{dim}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found.

        Returns:
            float32, (n, dim), unit-normalised.
        """
        sums = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(sums, texts, strict=True):
            for word in re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()):
                for feature, weight in _features(word):
                    row[feature % self.dim] += weight
            if not row.any():
                row[_CONSTANT_FEATURE] = 1
        return normalise(sums)[0]

    def embed_query(self, text: str) -> Vectors:
        """Embed a question; the same as embedding it as a document.

        Returns:
            float32, (dim,), unit-normalised.
        """
        return self.embed_documents([text])[0]


@functools.lru_cache(maxsize=1 << 16)
def _features(word: str) -> tuple[tuple[int, int], ...]:
    padded = f" {word} "
    trigrams = (padded[start : start + 3] for start in range(len(padded) - 2))
    weighted = [(f"w{word}", _WORD_WEIGHT), *((f"t{part}", _TRIGRAM_WEIGHT) for part in trigrams)]
    return tuple(_signed(text, weight) for text, weight in weighted)


def _signed(text: str, weight: int) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return number >> 1, weight if number & 1 else -weight
