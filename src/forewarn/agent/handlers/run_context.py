"""How long a run may go on: it knows its deadlines, and hears when it is to stop.

The deadlines are instants; once a run has begun they are counted on the monotonic
clock, so that a step of the machine's clock ends no preparation.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator, Iterator

from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError

PAUSE_FIRST_SECONDS = 0.25
PAUSE_MOST_SECONDS = 5.0
"""Before something is tried again whose target was away."""

LOOK_SECONDS_MAX = 2.0
LOOK_SECONDS_MIN = 0.1
"""Between two looks. Each may ask the controller of a whole cluster several times."""

LOOKS = 100
"""About so many looks fit into a run, within these bounds."""


class HandlerError(ForewarnError):
    """The work was not done; the message says why."""


class OverError(ForewarnError):
    """The run is to end: nothing more may be tried.

    It is no HandlerError, so that what goes on after a failure does not catch it.
    """


class TimeUpError(OverError):
    """The work was not done in its time."""


class StoppedError(OverError):
    """The work was ended since its event went; no fault of its own."""


class LostError(HandlerError):
    """Nobody knows how the work ended."""


class RunContext:
    """Held by a run on one end, and by the runner on the other."""

    def __init__(self, *, stop_at: Micros, kill_at: Micros, clock: Clock) -> None:
        """Count from now on."""
        self._clock = clock
        now, monotonic = clock.now(), clock.monotonic()
        self._stop = monotonic + (stop_at - now) / SECOND
        self._kill = monotonic + (kill_at - now) / SECOND
        self._is_stopped = False
        self._doing = ""
        self._over = threading.Event()
        """It is to end now: it was asked to, or its shortened time is up."""
        self._lock = threading.Lock()
        self._on_stop: list[Callable[[], None]] = []

    # The runner's end

    def stop(self, kill_at: Micros) -> None:
        """Ask the run to end now, and by force at that instant at the latest."""
        left = (kill_at - self._clock.now()) / SECOND
        with self._lock:
            self._kill = min(self._kill, self._clock.monotonic() + left)
            self._is_stopped = True
        self._end()

    def shorten(self, stop_at: Micros, kill_at: Micros) -> None:
        """Shorten it; the run is not asked to end before its time is up."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        with self._lock:
            self._stop = min(self._stop, monotonic + (stop_at - now) / SECOND)
            self._kill = min(self._kill, monotonic + (kill_at - now) / SECOND)
        # The run may be in the midst of a wait that was to last longer. Without a
        # thread it hears of it when that is over.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._ring, name="run-context", daemon=True).start()

    def _ring(self) -> None:
        """Wait until its time is up, and end what it waits for."""
        while (left := self.remaining()) > 0:
            self._over.wait(left)
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._over.set()
            called = tuple(self._on_stop)
        for wake in called:
            wake()

    # The run's end

    @property
    def is_stopped(self) -> bool:
        """Tell whether somebody has asked it to end before its time."""
        return self._is_stopped

    def remaining(self) -> float:
        """Return how long it may go on; 0 once it is to end."""
        if self._over.is_set():
            return 0.0
        return max(0.0, self._stop - self._clock.monotonic())

    def grace_remaining(self) -> float:
        """Return how long it may take to end, once it is to end."""
        return max(0.0, self._kill - self._clock.monotonic())

    def timer(self, seconds: float) -> Callable[[], float]:
        """Return what tells how much is left of so many seconds, from now on."""
        end = self._clock.monotonic() + seconds
        return lambda: end - self._clock.monotonic()

    def sleep(self, seconds: float) -> bool:
        """Wait so long, or until it is to end; tell whether it may go on."""
        self._over.wait(min(seconds, self.remaining()))
        return self.remaining() > 0

    def over(self, doing: str, *, said: str = "") -> OverError:
        """Return the error of a run that has no time left: `waiting for 3 sessions`.

        Within `doing`, the error says that instead. `said` is what a target that was
        away said last.
        """
        doing = self._doing or doing
        return self.ended(f" while it was {doing}{f': {said}' if said else ''}")

    def ended(self, how: str) -> OverError:
        """Return the error of a run that has no time left; `how` goes on from there."""
        if self._is_stopped:
            return StoppedError(f"its event has gone{how}")
        return TimeUpError(f"its time was up{how}")

    def pause(self, seconds: float, doing: str) -> None:
        """Wait so long; raises OverError with this if it is to end."""
        if not self.sleep(seconds):
            raise self.over(doing)

    @contextlib.contextmanager
    def doing(self, what: str) -> Generator[None]:
        """Have the end of the run say what the outermost block was for."""
        before = self._doing
        self._doing = before or what
        try:
            yield
        finally:
            self._doing = before

    def recheck(self, awaited: str, *, looks: int = 1, seconds: float = 0) -> None:
        """Wait until it is time to look again; raises OverError.

        From now on, the end of the run says that it was waiting for this. `seconds` are
        between two looks; 0: as many as fit into the run about a hundred times.
        """
        self._doing = f"waiting {awaited}"
        usual = max(LOOK_SECONDS_MIN, min(LOOK_SECONDS_MAX, self.remaining() / LOOKS))
        self.pause(looks * (seconds or usual), self._doing)

    @contextlib.contextmanager
    def on_stop(self, wake: Callable[[], None]) -> Generator[None]:
        """Have `wake` called when the run is to end early, at once if it is."""
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
    """Return one that lasts so long, for what nobody stops: a check."""
    end = clock.now() + round(seconds * SECOND)
    return RunContext(stop_at=end, kill_at=end, clock=clock)


def doubling(first: float, most: float) -> Iterator[float]:
    """Yield pauses in seconds, for ever: each is twice the last one, up to `most`."""
    while True:
        yield first
        first = min(2 * first, most)


class Bell:
    """A file descriptor that becomes readable when it is rung: for `select`."""

    def __init__(self) -> None:
        """Make the pipe; raises OSError."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return what to wait for."""
        return self._read

    def ring(self) -> None:
        """Make it readable, for good."""
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def close(self) -> None:
        """Let go of the pipe; only after it can no longer be rung."""
        os.close(self._read)
        os.close(self._write)
