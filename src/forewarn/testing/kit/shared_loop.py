"""The loop thread that all worlds of a process share.

It starts with the first world and ends with the last one, so no thread or socket outlives
the tests. Code that creates many worlds in sequence holds a lease during that time, as
the pytest plugin does.
"""

import os
import threading

from forewarn.service import open_files
from forewarn.sim.loop import LoopThread

OPEN_FILES = 65_536
"""Limit of open files for a process with worlds: enough for twenty thousand worlds of
three VMs. It is not the maximum of the system, because programs of a test inherit it, and
some of them close every descriptor up to the limit at their start."""


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
