"""The gate of driver calls: which commits have reached all replicas.

The control thread asks it; the keeper's thread tells it the positions of the replicas.
"""

import threading
from collections.abc import Callable

from forewarn.clock import Clock
from forewarn.cluster.calls import Commit, Positions, Wait, why_wait
from forewarn.cluster.times import Times


class ReplicaGate:
    """Knows the commits with calls that wait, in the order of their numbers."""

    def __init__(
        self,
        may_call: Callable[[], bool],
        clock: Clock,
        times: Times,
        key: str,
        *,
        wanted: Callable[[], None],
    ) -> None:
        """Start without a term. `wanted` is called when positions are needed."""
        self._may_call, self._clock, self._times = may_call, clock, times
        self._key, self._wanted = key, wanted
        self._lock = threading.Lock()
        self._commits: dict[int, Commit] = {}
        self._positions: Positions | None = None
        self._number: Callable[[], int] = lambda: 0
        self._told = -1
        """The highest number that `take` has reported as open."""

    def begin(self, takeover: Commit) -> None:
        """Begin a term: calls of earlier terms wait for the takeover."""
        with self._lock:
            self._commits = {takeover.number: takeover}
            self._positions, self._told = None, -1
            self._number = lambda: takeover.number

    def use(self, number: Callable[[], int]) -> None:
        """Take the number of the last commit from the store of the term."""
        with self._lock:
            self._number = number

    def end(self) -> None:
        """End the term."""
        with self._lock:
            self._commits = {}

    def place(self) -> int:
        """Return the number of the last commit, which waits from now on."""
        with self._lock:
            number = self._number()
            if number not in self._commits:
                now = self._clock.monotonic()
                self._commits[number] = Commit(number=number, at=now)
        self._wanted()
        return number

    def is_open(self, place: int) -> bool:
        """Return whether the calls of the commit with this number may begin now."""
        with self._lock:
            open_now = self._why(place) is None
            if open_now:
                # Those before it are open too: a position includes all of them.
                self._commits = {
                    number: commit
                    for number, commit in self._commits.items()
                    if number >= place
                }
        return open_now and self._may_call()

    def may_act(self) -> bool:
        """Return whether this replica may begin calls now."""
        return self._may_call()

    def why_wait(self, place: int) -> Wait | None:
        """Return why the calls of a commit wait; None if all replicas have it."""
        with self._lock:
            return self._why(place)

    @property
    def waits(self) -> bool:
        """Return whether a commit waits for replicas."""
        with self._lock:
            return any(self._why(number) is not None for number in self._commits)

    @property
    def until(self) -> float | None:
        """Return when the first commit that waits may begin in any case."""
        with self._lock:
            waits = [self._why(number) for number in self._commits]
            return min((wait.until for wait in waits if wait), default=None)

    def take(self, positions: Positions) -> bool:
        """Take positions; return whether another commit is open now."""
        with self._lock:
            self._positions = positions
            free = [number for number in self._commits if self._why(number) is None]
            last, self._told = self._told, max([self._told, *free])
            return self._told > last

    def _why(self, place: int) -> Wait | None:
        # Documents with a later commit include this one. A commit of no known time is new.
        later = min((number for number in self._commits if number >= place), default=-1)
        commit = self._commits.get(later)
        now = self._clock.monotonic()
        if commit is None:
            commit = self._commits[place] = Commit(number=place, at=now)
        return why_wait(commit, self._positions, self._times, key=self._key, now=now)
