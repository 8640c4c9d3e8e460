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

from forewarn.instants import CLOCK_STEP_MIN, SECOND, Micros


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


class ClockSteps:
    """Finds steps of the wall clock: it moves against the monotonic clock.

    Both times of a reading must be taken together: between them, time passes, and this
    would be taken for a step.
    """

    def __init__(self) -> None:
        """Start without a reading."""
        self.skew: Micros | None = None
        """Wall clock minus monotonic clock, at the first reading or the last step."""

    def read(self, *, now: Micros, monotonic: float) -> Micros:
        """Take a reading of both clocks; return the size of a step, or 0.

        The step is returned again until `take` is called.
        """
        skew = now - round(monotonic * SECOND)
        if self.skew is None:
            self.skew = skew
        step = skew - self.skew
        return step if abs(step) >= CLOCK_STEP_MIN else 0

    def take(self, step: Micros) -> None:
        """Note that a step was handled."""
        assert self.skew is not None, "a step is between two readings"
        self.skew += step

    def since_last(self, clock: Clock) -> Micros:
        """Read both times of `clock` and take the step since the last call; 0: none.

        The time of a turn would be too old: a slow turn would be taken for a step.
        """
        step = self.read(now=clock.now(), monotonic=clock.monotonic())
        self.take(step)
        return step
