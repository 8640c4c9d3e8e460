"""A bounded pool of threads for work that may hang with the hypervisor.

The threads are daemons, so a hanging thread does not keep the process from ending.
A thread whose caller has abandoned it does not count against the bound.
"""

import threading
from collections import deque
from collections.abc import Callable

GIVEN_UP_MAX = 64
"""Maximum number of abandoned threads that still hang; each costs some tens of KiB.
At this number, no new work begins until one of them returns."""


class Errand:
    """One piece of work."""

    __slots__ = ("act", "began", "is_given_up")

    def __init__(self, act: Callable[[], None]) -> None:
        """Do not start yet."""
        self.act = act
        self.began: float | None = None
        """Start time on the monotonic clock; None: it is queued."""
        self.is_given_up = False


class Errands:
    """Runs work in separate threads; any thread may use it."""

    def __init__(
        self, *, at_once: int, name: str, monotonic: Callable[[], float]
    ) -> None:
        """Run at most `at_once` at a time, not counting abandoned ones."""
        self._at_once = at_once
        self._name = name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[Errand] = deque()
        self._running = 0
        self._given_up = 0

    def run(self, act: Callable[[], None]) -> Errand:
        """Queue `act`, which raises nothing."""
        errand = Errand(act)
        with self._lock:
            self._waiting.append(errand)
            self._begin_some()
        return errand

    def give_up(self, errand: Errand) -> None:
        """Stop counting an errand that has begun and hangs; another can begin."""
        with self._lock:
            if not errand.is_given_up:
                errand.is_given_up = True
                self._running -= 1
                self._given_up += 1
                self._begin_some()

    def _begin_some(self) -> None:
        while (
            self._waiting
            and self._running < self._at_once
            and self._given_up < GIVEN_UP_MAX
        ):
            self._running += 1
            threading.Thread(
                target=self._work,
                args=(self._next(),),
                name=self._name,
                daemon=True,
            ).start()

    def _next(self) -> Errand:
        errand = self._waiting.popleft()
        errand.began = self._monotonic()
        return errand

    def _work(self, errand: Errand) -> None:
        while True:
            errand.act()
            with self._lock:
                if errand.is_given_up:
                    self._given_up -= 1
                    self._begin_some()
                    return
                if not self._waiting or self._running > self._at_once:
                    self._running -= 1
                    return
                errand = self._next()
