"""Work that may wait for a hypervisor that hangs: a bounded number at once.

The threads are daemons. A thread that hangs for ever neither keeps the process
from ending, nor counts against the bound once its caller has given it up.
"""

import threading
from collections import deque
from collections.abc import Callable

GIVEN_UP_MAX = 64
"""Maximum number of threads that were given up and still hang; each costs some tens
of KiB. With more, nothing new is begun until one of them returns."""


class Errand:
    """One piece of work."""

    __slots__ = ("act", "began", "is_given_up")

    def __init__(self, act: Callable[[], None]) -> None:
        """Do nothing yet."""
        self.act = act
        self.began: float | None = None
        """When it began, on the monotonic clock; None: it waits for its turn."""
        self.is_given_up = False


class Errands:
    """Runs work in threads of its own; used by any thread."""

    def __init__(
        self, *, at_once: int, name: str, monotonic: Callable[[], float]
    ) -> None:
        """Run at most `at_once` at a time, those that were given up excepted."""
        self._at_once = at_once
        self._name = name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[Errand] = deque()
        self._running = 0
        self._given_up = 0

    def run(self, act: Callable[[], None]) -> Errand:
        """Have `act`, which raises nothing, run when it is its turn."""
        errand = Errand(act)
        with self._lock:
            self._waiting.append(errand)
            self._begin_some()
        return errand

    def give_up(self, errand: Errand) -> None:
        """Count an errand that has begun and hangs no more; another may begin."""
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
