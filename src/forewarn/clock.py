"""The only module that reads the machine's clock.

There are two kinds of time. Decisions use *model time*: microseconds since 1970 in UTC,
an `int` that is passed as an argument. Rate limits and socket timeouts use *I/O time*: a
monotonic count of seconds. A `VirtualClock` moves only when a test moves it, so a story
of fifteen minutes takes no time.

This module does not know what the times are used for.
"""

from __future__ import annotations

import time
from typing import Protocol

from forewarn.instants import SECOND, Micros


class Clock(Protocol):
    """A source of model time and I/O time."""

    def now(self) -> Micros:
        """Return the model time: microseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Return I/O time: seconds that never decrease."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Micros:
        """Return the machine's UTC time in microseconds."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()


class VirtualClock:
    """A clock that moves only when its methods are called.

    Both times advance together, so that rate limits see the seconds that pass in a
    story. `step` changes only the model time, as when an operator or a time service
    sets the clock of a machine.
    """

    def __init__(self, start: Micros) -> None:
        """Start at the instant `start`."""
        self._start = start
        self._now = start

    def now(self) -> Micros:
        """Return the current model time."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return (self._now - self._start) / SECOND

    def step(self, by: Micros) -> None:
        """Set the model time forward or back; the monotonic time does not change."""
        self._now += by
        self._start += by

    def advance_to(self, instant: Micros) -> None:
        """Advance to `instant`; raises ValueError if it is in the past."""
        if instant < self._now:
            raise ValueError("the clock cannot go back")
        self._now = instant
