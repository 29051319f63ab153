"""What an embedder is, and how the engine calls one, whether it is sync or async.

The adapters come in pairs of equal signatures: the sync engine is generated from the async one.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from context_engine.errors import ConfigError, ContextEngineError, ProviderError
from context_engine.models.vectors import Vectors, as_rows, as_vector

_WHAT_IT_IS = (
    "an embedder has name (str), dim (int), embed_documents(texts) -> float32 (n, dim) "
    "and embed_query(text) -> float32 (dim,); the methods may be async"
)

Row = NDArray[Any] | Sequence[float]
Rows = NDArray[Any] | Sequence[Row | None]


class Embedder(Protocol):
    """Turns texts into vectors of length `dim`. Both methods may be `async def`.

    `name` is stored with the vectors, so that two models never mix.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above
    @property
    def dim(self) -> int: ...  # noqa: D102 - described above
    def embed_documents(self, texts: Sequence[str], /) -> Rows | Awaitable[Rows]:
        """Embed texts: float32, (n, dim), in their order; None or NaN for a text that has no vector."""
        ...

    def embed_query(self, text: str, /) -> Row | Awaitable[Row]:
        """Embed a question: float32, (dim,)."""
        ...


def as_embedder(candidate: object) -> Embedder:
    """Return the object as an embedder; ConfigError names the attribute that it lacks."""
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
    """Embed texts: float32, (n, dim), where `normalise` tells the usable rows; a sync embedder runs in a thread.

    Raises:
        ProviderError: the embedder failed, or what it returned has another shape.
    """
    with _failures_of(embedder.name):
        answer = await _call_async(embedder.name, embedder.embed_documents, texts) if len(texts) else ()
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Do the same as `async_embed_documents`; an async embedder runs on the background loop."""
    with _failures_of(embedder.name):
        answer = _call_sync(embedder.name, embedder.embed_documents, texts) if len(texts) else ()
        return as_rows(answer, len(texts), embedder.dim, name=embedder.name)


async def async_embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed a question: float32, (dim,); it runs and fails as `async_embed_documents` does."""
    with _failures_of(embedder.name):
        answer = await _call_async(embedder.name, embedder.embed_query, text)
        return as_vector(answer, embedder.dim, name=embedder.name)


def embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed a question: float32, (dim,); it runs and fails as `embed_documents` does."""
    with _failures_of(embedder.name):
        answer = _call_sync(embedder.name, embedder.embed_query, text)
        return as_vector(answer, embedder.dim, name=embedder.name)


class _Background:
    """An event loop on a daemon thread, started at first use: where sync code runs an async embedder.

    It is never replaced while its thread lives, so a client that is bound to one loop keeps working.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._thread = threading.Thread()

    def run(self, call: Callable[[], Awaitable[object]]) -> object:
        if threading.current_thread() is self._thread:
            raise RuntimeError("an async embedder must not call the sync engine: use the async one")

        async def awaited() -> object:
            return await call()

        with self._starting:
            # Threads do not survive a fork: the child finds a dead one and starts its own.
            if not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_BACKGROUND = _Background()


async def _call_async(name: str, method: Callable[[Any], object], argument: object) -> object:
    if inspect.iscoroutinefunction(method):
        return await method(argument)
    answer = await asyncio.to_thread(_call, name, method, argument)
    return await answer if inspect.isawaitable(answer) else answer


def _call_sync(name: str, method: Callable[[Any], Any], argument: object) -> object:
    if inspect.iscoroutinefunction(method):
        return _BACKGROUND.run(lambda: method(argument))
    answer = _call(name, method, argument)
    return _BACKGROUND.run(lambda: answer) if inspect.isawaitable(answer) else answer


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
        retryable = isinstance(error, (TimeoutError, ConnectionError))
        raise ProviderError(f"embedder {name!r} failed: {type(error).__name__}", retryable=retryable) from error
