"""One timer that checks all connections for idle ones.

A timer for each connection would cost 3 µs to set and to cancel, as much as the
response to a single request. A request that is being received has a separate
timeout (`watchdog`).
"""

import asyncio
import itertools
from collections.abc import Collection, Iterator
from typing import Protocol

TOGETHER_MAX = 1_000
"""Maximum number of connections that are checked in one iteration of the event loop: a
fraction of a millisecond."""


class Sweepable(Protocol):
    """A connection that may be idle."""

    def check_idle(self) -> None:
        """Check whether the connection is idle, once in each sweep."""
        ...


class IdleSweep:
    """Checks all connections periodically, as long as there are any."""

    def __init__(self, connections: Collection[Sweepable], *, seconds: float) -> None:
        """Do not start yet; a sweep begins every so many seconds."""
        self._connections = connections
        self._seconds = seconds
        self._timer: asyncio.Handle | None = None

    def begin(self) -> None:
        """Start the sweeps, unless they are running."""
        if self._timer is None:
            self._pause()

    def end(self) -> None:
        """Stop the sweeps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        if self._connections:
            self._check(iter([*self._connections]))

    def _check(self, left: Iterator[Sweepable]) -> None:
        together = [*itertools.islice(left, TOGETHER_MAX)]
        for each in together:
            each.check_idle()
        if together:
            self._timer = asyncio.get_running_loop().call_soon(self._check, left)
        else:
            self._pause()
