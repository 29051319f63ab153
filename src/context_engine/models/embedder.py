"""What an embedder is, and how the engine calls one, whether it is sync or async.

The adapters come in pairs of equal signatures: the sync engine is generated from the async one.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from context_engine.errors import ConfigError, ContextEngineError, ProviderError
from context_engine.models._background import BACKGROUND
from context_engine.models.vectors import Vectors, as_rows, as_vector

_WHAT_IT_IS = (
    "an embedder has name (str), dim (int), embed_documents(texts) -> float32 (n, dim) "
    "and embed_query(text) -> float32 (dim,); the methods may be async"
)

Row = NDArray[Any] | Sequence[float]
Rows = NDArray[Any] | Sequence[Row | None]


class Embedder(Protocol):
    """Turns texts into vectors. Both methods may be `async def`.

    Attributes:
        name: which model this is; stored with the vectors, so that two models never mix.
        dim: length of every vector.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def dim(self) -> int: ...  # noqa: D102 - described above

    def embed_documents(self, texts: Sequence[str], /) -> Rows | Awaitable[Rows]:
        """Embed texts to be found.

        Returns:
            float32, (n, dim), in the order of the texts; None or NaN for a text that has no vector.
        """
        ...

    def embed_query(self, text: str, /) -> Row | Awaitable[Row]:
        """Embed a question: float32, (dim,)."""
        ...


def as_embedder(candidate: object) -> Embedder:
    """Return the object as an embedder.

    Raises:
        ConfigError: it lacks an attribute, which the message names.
    """
    name, dim = getattr(candidate, "name", None), getattr(candidate, "dim", None)
    methods = ("embed_documents", "embed_query")
    checks = (
        ("name", "a non-empty str", isinstance(name, str) and name.strip()),
        ("dim", "a positive int", isinstance(dim, int) and dim is not True and dim > 0),
        *((method, "a method", callable(getattr(candidate, method, None))) for method in methods),
    )
    for attribute, wanted, passed in checks:
        if not passed:
            kind = type(candidate).__name__
            raise ConfigError(f"{kind} is not an embedder: {attribute} must be {wanted}; {_WHAT_IT_IS}")
    return cast(Embedder, candidate)


async def async_embed_documents(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed texts; a sync embedder runs in a thread.

    Returns:
        float32, (n, dim); a row that holds NaN or infinity, or is all zero, is not usable.

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    if not len(texts):
        return np.empty((0, embedder.dim), dtype=np.float32)
    with _failures_of(embedder.name):
        answer = await _call_async(embedder.name, embedder.embed_documents, texts)
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Do the same as `async_embed_documents`; an async embedder runs on the background loop."""
    if not len(texts):
        return np.empty((0, embedder.dim), dtype=np.float32)
    with _failures_of(embedder.name):
        answer = _call_sync(embedder.name, embedder.embed_documents, texts)
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


async def async_embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed a question; a sync embedder runs in a thread.

    Returns:
        float32, (dim,).

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    with _failures_of(embedder.name):
        answer = await _call_async(embedder.name, embedder.embed_query, text)
        return as_vector(answer, embedder.dim, name=embedder.name)


def embed_query(embedder: Embedder, text: str) -> Vectors:
    """Do the same as `async_embed_query`; an async embedder runs on the background loop."""
    with _failures_of(embedder.name):
        answer = _call_sync(embedder.name, embedder.embed_query, text)
        return as_vector(answer, embedder.dim, name=embedder.name)


async def _call_async(name: str, method: Callable[[Any], object], argument: object) -> object:
    if inspect.iscoroutinefunction(method):
        return await method(argument)
    answer = await asyncio.to_thread(_call, name, method, argument)
    return await answer if inspect.isawaitable(answer) else answer


def _call_sync(name: str, method: Callable[[Any], Any], argument: object) -> object:
    if inspect.iscoroutinefunction(method):
        return BACKGROUND.run(lambda: method(argument))
    answer = _call(name, method, argument)
    return BACKGROUND.run(lambda: answer) if inspect.isawaitable(answer) else answer


def _call(name: str, method: Callable[[Any], object], argument: object) -> object:
    # Failures are wrapped here, in the thread: a StopIteration cannot cross into a future.
    with _failures_of(name):
        answer = method(argument)
        # A generator does its work when it is read, and that must not happen on the event loop.
        return list(cast(Iterator[Any], answer)) if isinstance(answer, Iterator) else answer


@contextmanager
def _failures_of(name: str) -> Generator[None]:
    try:
        yield
    except ContextEngineError:
        raise
    except Exception as error:
        # The type only: an error's text can hold a key or an address.
        raise ProviderError(
            f"embedder {name!r} failed: {type(error).__name__}",
            retryable=isinstance(error, (TimeoutError, ConnectionError)),
        ) from error
