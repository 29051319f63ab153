"""One event loop for the process, on a thread of its own: where sync code runs an async embedder."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """An event loop on a daemon thread, started at first use.

    It is never replaced while its thread lives, so a client that is bound to one loop keeps working.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call on the loop, wait for the result, and return it.

        Raises:
            RuntimeError: called from the loop's own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("an async embedder must not call the sync engine: use the async one")

        async def awaited() -> T:
            return await call()

        future = asyncio.run_coroutine_threadsafe(awaited(), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            # Threads do not survive a fork: the child finds a dead one and starts its own.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="context-engine-embedder", daemon=True
                )
                self._thread.start()
            return self._loop


BACKGROUND = BackgroundLoop()
