"""The end of a world: what must end with it, also where nobody has asked for it."""

import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from forewarn.sim.loop import LoopThread
from forewarn.testing.kit.shared_loop import SHARED_LOOP


class Ending:
    """What is ended with one world. It knows no handle of the world."""

    def __init__(self, last: Callable[[], Awaitable[None]]) -> None:
        """End what will be named, and then `last`."""
        self.told = "a world"
        self.process = os.getpid()
        self.has_ended = False
        self.first: list[Callable[[], Awaitable[None]]] = []
        """What ends before the rest, the newest first."""
        self._last = last
        self._running: set[Future[Any]] = set()

    @property
    def is_forked(self) -> bool:
        """Tell whether the world is that of a process which this one is a fork of."""
        return os.getpid() != self.process

    def add(self, running: Future[Any]) -> None:
        """Cancel what runs when the world ends."""
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def begin(self) -> None:
        """Take nothing more, and cancel what runs."""
        self.has_ended = True
        for running in [*self._running]:
            running.cancel()

    async def run(self) -> None:
        """End everything, on the loop."""
        for end in reversed(self.first):
            await end()
        await self._last()

    def forsake(self, loop: LoopThread) -> None:
        """End a world that nobody holds any more and nobody has closed.

        It is called by the garbage collector in whatever thread, so it waits for
        nothing. A fork leaves the world to its own process.
        """
        if self.is_forked:
            return
        self.begin()
        loop.submit(self._run_forsaken())
        warnings.warn(f"unclosed {self.told}", ResourceWarning, stacklevel=2)

    async def _run_forsaken(self) -> None:
        try:
            await self.run()
        finally:
            # It may be the last lease, whose end the loop's own thread cannot wait for.
            threading.Thread(target=SHARED_LOOP.give_back, daemon=True).start()
