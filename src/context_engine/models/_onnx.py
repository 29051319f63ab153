"""Run one text through an ONNX sentence-embedding model."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from context_engine.errors import ConfigError
from context_engine.models._extras import load_extra
from context_engine.models.vectors import Vectors, normalise

Pooling = Literal["mean", "cls"]

_EXTRA = "local"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_LOG_FATAL_ONLY = 4


class _Encoding(Protocol):
    ids: list[int]
    type_ids: list[int]


class _Tokenizer(Protocol):
    def encode(self, sequence: str, /) -> _Encoding: ...
    def no_padding(self) -> None: ...
    def enable_truncation(self, max_length: int) -> None: ...


class _Node(Protocol):
    name: str
    shape: list[int | str | None]


class _Session(Protocol):
    def get_inputs(self) -> list[_Node]: ...
    def get_outputs(self) -> list[_Node]: ...
    def run(self, outputs: list[str], feeds: dict[str, NDArray[np.int64]], /) -> list[NDArray[np.float32]]: ...


@dataclass(frozen=True)
class OnnxModel:
    """A loaded model and its tokenizer. Threads may share it."""

    tokenizer: _Tokenizer
    session: _Session
    inputs: tuple[str, ...]
    output: str
    dim: int
    pooling: Pooling

    def embed(self, text: str) -> Vectors:
        """Embed one text.

        Returns:
            float32, (dim,), unit-normalised.
        """
        encoding = self.tokenizer.encode(text)
        ids = np.array([encoding.ids], dtype=np.int64)
        values = (ids, np.ones_like(ids), np.array([encoding.type_ids], dtype=np.int64))
        known: dict[str, NDArray[np.int64]] = dict(zip(_INPUTS, values, strict=True))
        feeds = {name: known[name] for name in self.inputs}
        (tokens,) = self.session.run([self.output], feeds)
        # One text, no padding: the attention mask is all ones, and the mean is over every token.
        pooled = tokens[0, 0] if self.pooling == "cls" else tokens[0].mean(axis=0, dtype=np.float64)
        return normalise(pooled[np.newaxis])[0][0]


def load_model(model: Path, tokenizer: Path, *, sha256: str | None, max_tokens: int, pooling: Pooling) -> OnnxModel:
    """Load a model and its tokenizer.

    Raises:
        ConfigError: an extra is missing, or a file is not what it should be.
    """
    if sha256 is not None:
        _check(model, sha256)
    session = _session(model)
    unknown = [node.name for node in session.get_inputs() if node.name not in _INPUTS]
    if unknown:
        raise ConfigError(f"{model}: unknown model inputs {', '.join(unknown)}")
    for node in session.get_outputs():
        width = node.shape[-1] if len(node.shape) == 3 else None
        if isinstance(width, int):
            return OnnxModel(
                _tokenizer(tokenizer, max_tokens),
                session,
                tuple(node.name for node in session.get_inputs()),
                node.name,
                width,
                pooling,
            )
    raise ConfigError(f"{model}: no output of shape (batch, tokens, a fixed dimension)")


def _check(model: Path, sha256: str) -> None:
    with model.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ConfigError(f"{model} has SHA-256 {found}, expected {sha256}: install it again")


def _session(model: Path) -> _Session:
    runtime = load_extra("onnxruntime", _EXTRA)
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.log_severity_level = _LOG_FATAL_ONLY
    # One thread a run: the sums then run in one order whatever the machine's cores are.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The higher levels fuse residual and layer norm into a kernel that is slower here (23 to 21 ms a text).
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Every length is another shape: a memory plan for each would only be kept, never met again.
    options.enable_mem_pattern = False
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"{model} cannot be loaded as an ONNX model") from error


def _tokenizer(path: Path, max_tokens: int) -> _Tokenizer:
    library = load_extra("tokenizers", _EXTRA)
    try:
        tokenizer: _Tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:
        raise ConfigError(f"{path} cannot be loaded as a tokenizer") from error
    # A file often fixes both to the lengths of its own export.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=max_tokens)
    return tokenizer
