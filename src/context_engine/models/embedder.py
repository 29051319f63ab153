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
        """Embed a question.

        Returns:
            float32, (dim,).
        """
        ...


def as_embedder(candidate: object) -> Embedder:
    """Return the object as an embedder.

    Raises:
        ConfigError: it lacks an attribute, which the message names.
    """
    name = getattr(candidate, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise _not_an_embedder(candidate, "name", "a non-empty str")
    dim = getattr(candidate, "dim", None)
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 1:
        raise _not_an_embedder(candidate, "dim", "a positive int")
    for method in ("embed_documents", "embed_query"):
        if not callable(getattr(candidate, method, None)):
            raise _not_an_embedder(candidate, method, "a method")
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
    answer = await _call_async(embedder.name, embedder.embed_documents, texts)
    with _failures_of(embedder.name):
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed texts; an async embedder runs on the background loop.

    Returns:
        float32, (n, dim); a row that holds NaN or infinity, or is all zero, is not usable.

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    if not len(texts):
        return np.empty((0, embedder.dim), dtype=np.float32)
    answer = _call_sync(embedder.name, embedder.embed_documents, texts)
    with _failures_of(embedder.name):
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


async def async_embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed a question; a sync embedder runs in a thread.

    Returns:
        float32, (dim,).

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    answer = await _call_async(embedder.name, embedder.embed_query, text)
    with _failures_of(embedder.name):
        return as_vector(answer, embedder.dim, name=embedder.name)


def embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed a question; an async embedder runs on the background loop.

    Returns:
        float32, (dim,).

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    answer = _call_sync(embedder.name, embedder.embed_query, text)
    with _failures_of(embedder.name):
        return as_vector(answer, embedder.dim, name=embedder.name)


async def _call_async(name: str, method: Callable[[Any], object], argument: object) -> object:
    if inspect.iscoroutinefunction(method):
        answer = _call(name, method, argument)
    else:
        answer = await asyncio.to_thread(_call, name, method, argument)
    if not inspect.isawaitable(answer):
        return answer
    with _failures_of(name):
        return await answer


def _call_sync(name: str, method: Callable[[Any], object], argument: object) -> object:
    async def call() -> object:
        answer = method(argument)
        return await answer if inspect.isawaitable(answer) else answer

    if inspect.iscoroutinefunction(method):
        with _failures_of(name):
            return BACKGROUND.run(call)
    answer = _call(name, method, argument)
    if not inspect.isawaitable(answer):
        return answer
    with _failures_of(name):
        return BACKGROUND.run(lambda: answer)


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


def _not_an_embedder(candidate: object, attribute: str, wanted: str) -> ConfigError:
    return ConfigError(f"{type(candidate).__name__} is not an embedder: {attribute} must be {wanted}; {_WHAT_IT_IS}")
