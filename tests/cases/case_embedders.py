"""Small embedders that fail in one way each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from case_support import wait_for

from context_engine.models.hashing import HashingEmbedder

DIM = 16
_GOOD = HashingEmbedder(DIM)


class Faulty:
    """Gives texts that hold the word `faulty` a vector of the caller's making, and all others a good one."""

    name = "faulty"
    dim = DIM

    def __init__(self, fault: Callable[[], Any]) -> None:
        self._fault = fault

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        return self._fault() if "faulty" in text else _GOOD.embed_query(text)


class AsyncFaulty:
    """The same, as coroutines."""

    name = "faulty"
    dim = DIM

    def __init__(self, fault: Callable[[], Any]) -> None:
        self._inner = Faulty(fault)

    async def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        return self._inner.embed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        return self._inner.embed_query(text)


class Named:
    """A good embedder under another name."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self._inner = HashingEmbedder(dim)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        return self._inner.embed_query(text)


class Same(Named):
    """One vector for every text: cheap, and every chunk is as near as any other."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__("same", dim)
        self.embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.embedded += len(texts)
        return np.ones((len(texts), self.dim), dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return np.ones(self.dim, dtype=np.float32)


class Gated(Named):
    """Waits, at texts that hold the word `gated`, until the test opens the gate."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__(f"hashing-{dim}", dim)
        self.reached = threading.Event()
        self.opened = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> Any:
        if any("gated" in text for text in texts):
            self.reached.set()
            wait_for(self.opened)
        return super().embed_documents(texts)
