"""An embedder for tests and demonstrations: no model, no dependency, the same vectors everywhere."""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from context_engine.errors import ConfigError
from context_engine.models.vectors import Vectors, normalise


class HashingEmbedder:
    """Signed feature hashing of words and their character trigrams: related spellings are near."""

    def __init__(self, dim: int = 64) -> None:
        if dim < 1:
            raise ConfigError(f"dim must be at least 1, not {dim}")
        self.dim = dim
        self.name = f"hashing-{dim}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: float32, (n, dim), unit-normalised."""
        sums = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(sums, texts, strict=True):
            for word in re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()):
                for feature, weight in _features(word):
                    row[feature % self.dim] += weight
            if not row.any():
                row[0] = 1
        return normalise(sums)[0]

    def embed_query(self, text: str) -> Vectors:
        """Embed a question as a document is: float32, (dim,), unit-normalised."""
        return self.embed_documents([text])[0]


@functools.lru_cache(maxsize=1 << 16)
def _features(word: str) -> tuple[tuple[int, int], ...]:
    padded = f" {word} "
    signed: list[tuple[int, int]] = []
    for text in (f"w{word}", *(f"t{padded[start : start + 3]}" for start in range(len(word)))):
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        # Whole numbers: their sums are exact, so the order of the words cannot change a bit.
        weight = 2 if text[0] == "w" else 1
        signed.append((number >> 1, weight if number & 1 else -weight))
    return tuple(signed)
