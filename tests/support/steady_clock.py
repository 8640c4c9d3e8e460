"""A clock for tests on the machine's time: what a machine stood still does not count.

A client that polls on time is late where its process gets no processor for a while,
and so is everything around it. On this clock such a while is short for all of them.
"""

from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros

STALL_SECONDS = 0.05
"""Maximum time that passes between two looks at the clock, in seconds. A running
scenario looks every 0.02 s, so that only a stall makes it longer."""


class SteadyClock:
    """The machine's clock without the stalls of this process."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._began = self._clock.now()
        self._last = self._clock.monotonic()
        self._passed = 0.0

    def now(self) -> Micros:
        return self._began + round(self.monotonic() * SECOND)

    def monotonic(self) -> float:
        present = self._clock.monotonic()
        self._passed += min(present - self._last, STALL_SECONDS)
        self._last = present
        return self._passed
