"""The end of a world, even if the test never closed it."""

import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from forewarn.sim.loop import LoopThread
from forewarn.testing.kit.shared_loop import SHARED_LOOP


class Ending:
    """Everything that must end with one world.

    It holds no reference to the world, so that the world can be collected.
    """

    def __init__(self, last: Callable[[], Awaitable[None]]) -> None:
        """Run `last` at the end, after everything in `first`."""
        self.world_text = "a world"
        self.process = os.getpid()
        self.has_ended = False
        self.first: list[Callable[[], Awaitable[None]]] = []
        """Functions to call before `last`, the newest first."""
        self._last = last
        self._running: set[Future[Any]] = set()

    @property
    def is_forked(self) -> bool:
        """Tell whether this process is a fork of the world's process."""
        return os.getpid() != self.process

    def add(self, running: Future[Any]) -> None:
        """Cancel `running` when the world ends."""
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def begin(self) -> None:
        """Accept no more calls, and cancel everything that is running."""
        self.has_ended = True
        for running in [*self._running]:
            running.cancel()

    async def run(self) -> None:
        """End the world; call it on the loop."""
        for end in reversed(self.first):
            await end()
        await self._last()

    def abandon(self, loop: LoopThread) -> None:
        """End a world that was collected without having been closed.

        The garbage collector calls it in any thread, so it waits for nothing. In a
        forked process it does nothing: the world belongs to its parent.
        """
        if self.is_forked:
            return
        self.begin()
        loop.submit(self._run_abandoned())
        warnings.warn(f"unclosed {self.world_text}", ResourceWarning, stacklevel=2)

    async def _run_abandoned(self) -> None:
        try:
            await self.run()
        finally:
            # The last lease ends the loop, which the loop's thread cannot wait for.
            threading.Thread(target=SHARED_LOOP.give_back, daemon=True).start()
