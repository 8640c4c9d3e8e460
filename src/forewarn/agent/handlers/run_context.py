"""The deadlines and the stop signal of one handler run.

The deadlines are given as instants. After the start of a run they are counted on the
monotonic clock, so a step of the machine's clock does not end a preparation.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator

from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError

PAUSE_FIRST_SECONDS = 0.25
PAUSE_SECONDS_MAX = 5.0
"""Pauses before the next attempt while the target is unavailable."""

LOOK_SECONDS_MAX = 2.0
LOOK_SECONDS_MIN = 0.1
"""Pause between two checks. Each can send several requests to a cluster's controller."""

LOOKS = 100
"""Approximate number of checks in one run, within these bounds."""


class HandlerError(ForewarnError):
    """The work failed; the message says why."""


class RunEndedError(ForewarnError):
    """The run must end and must not try anything else.

    This class is not a HandlerError, so code that continues after a failure does not
    catch it.
    """


class TimeUpError(RunEndedError):
    """The run reached its deadline."""


class StoppedError(RunEndedError):
    """The run was stopped because its event was removed."""


class LostError(HandlerError):
    """The outcome of the run is unknown."""


class DeliveryError(ForewarnError):
    """A request or a notification was not accepted."""

    def __init__(
        self,
        message: str,
        *,
        may_pass: bool = True,
        status: int = 0,
        wait: Micros = 0,
    ) -> None:
        """Store the reason, and whether another attempt can succeed.

        `status` is that of an HTTP response, and `wait` the pause that the receiver
        wants; 0: none.
        """
        super().__init__(message)
        self.may_pass = may_pass
        self.status = status
        self.wait = wait


class RunContext:
    """Shared by a run, which asks it, and by the runner, which stops it."""

    def __init__(self, *, stop_at: Micros, kill_at: Micros, clock: Clock) -> None:
        """Start to count."""
        self._clock = clock
        now, monotonic = clock.now(), clock.monotonic()
        self._stop = monotonic + (stop_at - now) / SECOND
        self._kill = monotonic + (kill_at - now) / SECOND
        self._is_stopped = False
        self._doing = ""
        self._over = threading.Event()
        """Set when the run must end: it was stopped, or its shortened time has elapsed."""
        self._lock = threading.Lock()
        self._on_stop: list[Callable[[], None]] = []

    # Called by the runner

    def stop(self, kill_at: Micros) -> None:
        """Request that the run ends now, and is killed at `kill_at` at the latest."""
        left = (kill_at - self._clock.now()) / SECOND
        with self._lock:
            self._kill = min(self._kill, self._clock.monotonic() + left)
            self._is_stopped = True
        self._end()

    def shorten(self, stop_at: Micros, kill_at: Micros) -> None:
        """Move the deadlines forward; the run does not have to end before them."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        with self._lock:
            self._stop = min(self._stop, monotonic + (stop_at - now) / SECOND)
            self._kill = min(self._kill, monotonic + (kill_at - now) / SECOND)
        # The run may be in a wait that lasts longer. If no thread can be started, it
        # notices the new deadline after that wait.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._ring, name="run-context", daemon=True).start()

    def _ring(self) -> None:
        """Wait for the deadline, then wake the run."""
        while (left := self.remaining()) > 0:
            self._over.wait(left)
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._over.set()
            called = tuple(self._on_stop)
        for wake in called:
            wake()

    # Called by the run

    def remaining(self) -> float:
        """Return the seconds until the deadline; 0 when the run must end."""
        if self._over.is_set():
            return 0.0
        return max(0.0, self._stop - self._clock.monotonic())

    def grace_remaining(self) -> float:
        """Return the seconds that the run may take to end after its deadline."""
        return max(0.0, self._kill - self._clock.monotonic())

    def timer(self, seconds: float) -> Callable[[], float]:
        """Return a function that returns the seconds left of `seconds`, counted from now."""
        end = self._clock.monotonic() + seconds
        return lambda: end - self._clock.monotonic()

    def sleep(self, seconds: float) -> bool:
        """Wait, and return whether the run may continue; return early when it must end."""
        self._over.wait(min(seconds, self.remaining()))
        return self.remaining() > 0

    def over(self, doing: str, *, error: str = "") -> RunEndedError:
        """Return the error of a run that has no time left, for raising.

        `doing` is an activity such as `waiting for 3 sessions`. In a block of `doing`,
        the error names the activity of that block. `error` is the last error of a
        target that was unavailable.
        """
        doing = self._doing or doing
        return self.ended(f" while {doing}{f': {error}' if error else ''}")

    def ended(self, how: str) -> RunEndedError:
        """Return the error of a run that has no time left; `how` ends the sentence."""
        if self._is_stopped:
            return StoppedError(f"the event was removed{how}")
        return TimeUpError(f"timed out{how}")

    def pause(self, seconds: float, doing: str) -> None:
        """Wait; raise RunEndedError, which names the activity, if the run must end."""
        if not self.sleep(seconds):
            raise self.over(doing)

    @contextlib.contextmanager
    def doing(self, activity: str) -> Generator[None]:
        """Name the activity of the block in an RunEndedError; the outermost block wins."""
        before = self._doing
        self._doing = before or activity
        try:
            yield
        finally:
            self._doing = before

    def recheck(self, awaited: str, *, looks: int = 1, seconds: float = 0) -> None:
        """Wait for the next check; raise RunEndedError if the run must end.

        From now on, an RunEndedError says that the run was waiting for `awaited`.
        `seconds` is the pause between two checks. Default: about a hundredth of the
        run.
        """
        self._doing = f"waiting {awaited}"
        usual = max(LOOK_SECONDS_MIN, min(LOOK_SECONDS_MAX, self.remaining() / LOOKS))
        self.pause(looks * (seconds or usual), self._doing)

    @contextlib.contextmanager
    def on_stop(self, wake: Callable[[], None]) -> Generator[None]:
        """Call `wake` when the run must end early, or now if it already must."""
        with self._lock:
            self._on_stop.append(wake)
            is_over = self._over.is_set()
        if is_over:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._on_stop.remove(wake)


def context_for(seconds: float, clock: Clock) -> RunContext:
    """Return a context of this length for a task that is never stopped, such as a check."""
    end = clock.now() + round(seconds * SECOND)
    return RunContext(stop_at=end, kill_at=end, clock=clock)


def doubling(first: float, pause_max: float) -> Iterator[float]:
    """Yield pauses in seconds without end, each twice the last one, up to `pause_max`."""
    while True:
        yield first
        first = min(2 * first, pause_max)
