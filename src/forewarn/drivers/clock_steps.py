"""Find steps of the wall clock between two calls of a driver."""

from forewarn.clock import Clock
from forewarn.instants import CLOCK_STEP_MIN, SECOND, Micros


class ClockSteps:
    """Compares the wall clock with the monotonic clock."""

    def __init__(self, clock: Clock | None) -> None:
        """Compare with the monotonic time of `clock`; None: there are no steps."""
        self._clock = clock
        self._skew: Micros | None = None
        """Wall clock minus monotonic clock, at the first reading or the last step."""

    def since_last(self, now: Micros) -> Micros:
        """Return by how much the wall clock was set before `now`; 0: it was not."""
        if self._clock is None:
            return 0
        skew = now - round(self._clock.monotonic() * SECOND)
        if self._skew is None:
            self._skew = skew
        step = skew - self._skew
        if abs(step) < CLOCK_STEP_MIN:
            return 0
        self._skew = skew
        return step
