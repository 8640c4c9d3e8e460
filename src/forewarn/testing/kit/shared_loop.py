"""The one loop thread that all worlds of a process share.

It starts with the first world and ends with the last, so that neither a thread nor
a socket outlives the tests. Whoever makes many worlds one after the other keeps a
lease of its own meanwhile, as the pytest plugin does.
"""

import os
import threading

from forewarn.service import open_files
from forewarn.sim.loop import LoopThread

OPEN_FILES = 65_536
"""That a process with worlds may have open: some twenty thousand worlds of three VMs.
Not all that a system allows, since programs that a test starts inherit it, and there
are some that close every number up to their limit before they begin."""


class SharedLoop:
    """A loop thread that lives as long as anybody has it leased."""

    def __init__(self) -> None:
        """Run nothing yet."""
        self._lock = threading.Lock()
        self._leases = 0
        self._loop: LoopThread | None = None
        self._parents: LoopThread | None = None
        """The loop of the process that this one is a fork of. It is kept, since to
        drop it would free what the parent uses."""

    def lease(self) -> LoopThread:
        """Return the running loop, which stays until it is given back."""
        with self._lock:
            if self._loop is None:
                open_files.allow(OPEN_FILES)
                self._loop = LoopThread(name="forewarn-testing")
            self._leases += 1
            return self._loop

    def give_back(self) -> None:
        """Need it no more; the last one to say so ends it."""
        with self._lock:
            self._leases = max(self._leases - 1, 0)
            if self._leases == 0 and self._loop is not None:
                self._loop.close()
                self._loop = None

    def forget(self) -> None:
        """Begin anew in a fork, which has no thread but the one that made it.

        The loop is not closed here: its descriptors are those of the parent.
        """
        self._parents = self._loop
        self._lock = threading.Lock()
        self._leases = 0
        self._loop = None


SHARED_LOOP = SharedLoop()
"""The process's own. A loop has no state but its thread: worlds never meet on it."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_LOOP.forget)
