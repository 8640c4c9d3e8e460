"""One event loop in a thread of its own, for those who have none.

Tests and scripts are mostly synchronous, while a stage lives on a loop. Any number
of stages share one loop; what is asked of them runs there and nowhere else.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from forewarn.service.loops import new_loop

T = TypeVar("T")


class LoopThread:
    """A running loop; `close` ends it."""

    def __init__(self, *, name: str = "forewarn-sim") -> None:
        """Start the thread; return when the loop runs."""
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; return what its result will be found in."""
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
        """End the loop and its thread; what is still there is dropped."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
