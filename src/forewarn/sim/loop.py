"""An event loop in a separate thread, for synchronous callers.

Tests and scripts are mostly synchronous, while a simulated server runs on a loop. Any
number of servers share one loop, and all calls to them run there.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from forewarn.service.loops import new_loop

T = TypeVar("T")


class LoopThread:
    """A running event loop; `close` ends it."""

    def __init__(self, *, name: str = "forewarn-sim") -> None:
        """Start the thread, and return when the loop runs."""
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; return the future of its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; return its result or raise its exception."""
        return self.submit(work).result()

    def call(self, act: Callable[[], T]) -> T:
        """Run a function on the loop; return its result or raise its exception."""

        async def run() -> T:
            return act()

        return self.wait(run())

    def close(self) -> None:
        """End the loop and its thread, and drop unfinished work."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
