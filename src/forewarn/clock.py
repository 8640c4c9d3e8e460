"""The only reader of machine time.

There are two times. *Model time* is what the service decides by: microseconds
since 1970 in UTC, an `int`, passed as an argument to everything that needs it.
*I/O time* is a monotonic count of seconds for rate limits and socket time-outs.
A `VirtualClock` turns the first and leaves no trace of the second, so a test of
fifteen minutes takes none.

This module must not know what the times are used for.
"""

from __future__ import annotations

import time
from typing import Protocol

from forewarn.instants import SECOND, Micros


class Clock(Protocol):
    """Where instants come from."""

    def now(self) -> Micros:
        """Return the model time: microseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Return I/O time: seconds that never go back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Micros:
        """Return the machine's UTC time in microseconds."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()


class VirtualClock:
    """A clock that moves only when it is told to.

    Both times advance together, so that a rate limit measured in seconds sees the
    seconds that a story lets pass. A step sets the model time alone, as an operator or
    a time service does to a machine.
    """

    def __init__(self, start: Micros) -> None:
        """Start at the instant `start`."""
        self._start = start
        self._now = start

    def now(self) -> Micros:
        """Return the instant that was set."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return (self._now - self._start) / SECOND

    def step(self, by: Micros) -> None:
        """Set the model time forward, or back; no monotonic time passes."""
        self._now += by
        self._start += by

    def advance_to(self, instant: Micros) -> None:
        """Move forward to `instant`; raises ValueError for the past."""
        if instant < self._now:
            raise ValueError("a clock does not go back")
        self._now = instant
