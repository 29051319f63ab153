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
        self._loop = asyncio.AbstractEventLoop()
        self._thread = threading.Thread()

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call on the loop, and wait for the result; RuntimeError on the loop's own thread."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("an async embedder must not call the sync engine: use the async one")

        async def awaited() -> T:
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


BACKGROUND = BackgroundLoop()
