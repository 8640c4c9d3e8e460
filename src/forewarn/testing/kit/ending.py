"""The loop thread that all worlds of a process share, and the end of each world.

The thread starts with the first world and ends with the last one, so no thread or socket
outlives the tests. Code that creates many worlds in sequence holds a lease during that
time, as the pytest plugin does. A world ends even if the test never closed it.
"""

import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from forewarn.service import open_files
from forewarn.sim.loop import LoopThread

OPEN_FILES = 65_536
"""Limit of open files for a process with worlds: enough for twenty thousand worlds of
three VMs. It is not the maximum of the system, because programs of a test inherit it.
Some programs close every descriptor up to the limit at their start."""


class SharedLoop:
    """A loop thread that runs while it has at least one lease."""

    def __init__(self) -> None:
        """Begin without a thread."""
        self._lock = threading.Lock()
        self._leases = 0
        self._loop: LoopThread | None = None
        self._parents: LoopThread | None = None
        """The loop of the parent process, in a fork. It is kept, because its collection
        would close descriptors that the parent uses."""

    def lease(self) -> LoopThread:
        """Add a lease and return the running loop."""
        with self._lock:
            if self._loop is None:
                open_files.allow(OPEN_FILES)
                self._loop = LoopThread(name="forewarn-testing")
            self._leases += 1
            return self._loop

    def give_back(self) -> None:
        """Return a lease; the last one ends the loop."""
        with self._lock:
            self._leases = max(self._leases - 1, 0)
            if self._leases == 0 and self._loop is not None:
                self._loop.close()
                self._loop = None

    def forget(self) -> None:
        """Reset the state in a forked process, which has only the forking thread.

        This does not close the loop: its descriptors belong to the parent.
        """
        self._parents = self._loop
        self._lock = threading.Lock()
        self._leases = 0
        self._loop = None


SHARED_LOOP = SharedLoop()
"""The shared loop of this process. Worlds on it do not affect each other."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_LOOP.forget)


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
        """Return whether this process is a fork of the world's process."""
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
