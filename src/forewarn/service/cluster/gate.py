"""The gate of driver calls of one term: which commits have reached all replicas.

The control thread asks it; the keeper's thread tells it the positions of the replicas.
"""

import threading
from collections.abc import Callable

from forewarn.clock import Clock
from forewarn.cluster.calls import Commit, Positions, Wait, is_read, why_wait
from forewarn.cluster.times import Times


class ReplicaGate:
    """Knows the commits with calls that wait, in the order of their numbers."""

    is_shared = True

    def __init__(
        self,
        may_call: Callable[[], bool],
        clock: Clock,
        times: Times,
        key: str,
        *,
        takeover: Commit | None,
        wanted: Callable[[], None],
    ) -> None:
        """Begin a term: calls of earlier terms wait for the takeover.

        `may_call` says whether calls of this term may begin, and `wanted` is called when
        positions are needed. Without a takeover, there is no term, and no call begins.
        """
        self._may_call, self._clock, self._times = may_call, clock, times
        self._key, self._wanted = key, wanted
        self._lock = threading.Lock()
        number = 0 if takeover is None else takeover.number
        self._commits = {} if takeover is None else {number: takeover}
        self._positions: Positions | None = None
        self._number: Callable[[], int] = lambda: number
        self._unread: dict[int, Commit] = {}
        """Commits of approvals that other replicas may not serve yet."""
        self._told = -1
        """The highest number that `take` has reported as open."""

    def use(self, number: Callable[[], int]) -> None:
        """Take the number of the last commit from the store of the term."""
        with self._lock:
            self._number = number

    @property
    def number(self) -> int:
        """Return the number of the last commit of the term, even when it has ended."""
        with self._lock:
            return self._number()

    def end(self) -> None:
        """Wait for no replica any more: the term has ended."""
        with self._lock:
            self._commits, self._unread = {}, {}

    def place(self) -> int:
        """Return the number of the last commit, which waits from now on."""
        with self._lock:
            number = self._add_last(self._commits)
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

    def approved(self) -> int:
        """Return the number of the last commit, whose readers are waited for from now on."""
        with self._lock:
            number = self._add_last(self._unread)
        self._wanted()
        return number

    def _add_last(self, commits: dict[int, Commit]) -> int:
        """Add the last commit, if it is not there; return its number."""
        number = self._number()
        if number not in commits:
            now = self._clock.monotonic()
            commits[number] = Commit(number=number, at=now)
        return number

    def is_read(self, place: int) -> bool:
        """Return whether all replicas that give signs of life serve an approval's commit."""
        with self._lock:
            return place not in self._unread

    def forget(self, place: int) -> None:
        """Wait no more for the readers of commits up to this number."""
        with self._lock:
            self._forget(place)

    def _forget(self, place: int) -> bool:
        before = len(self._unread)
        self._unread = {n: read for n, read in self._unread.items() if n > place}
        return len(self._unread) < before

    def may_act(self) -> bool:
        """Return whether this replica may begin calls now."""
        return self._may_call()

    def why_wait(self, place: int) -> Wait | None:
        """Return why the calls of a commit wait; None if all replicas have it."""
        with self._lock:
            return self._why(place)

    @property
    def waits(self) -> bool:
        """Return whether a commit waits for replicas, for its calls or its answer."""
        with self._lock:
            is_held = any(self._why(number) is not None for number in self._commits)
            return is_held or bool(self._unread)

    @property
    def until(self) -> float | None:
        """Return when the first commit that waits may begin in any case."""
        with self._lock:
            waits = [self._why(number) for number in self._commits]
            return min((wait.until for wait in waits if wait), default=None)

    def take(self, positions: Positions) -> bool:
        """Take positions; return whether another commit is open or read now."""
        with self._lock:
            self._positions = positions
            read = [
                number
                for number, commit in self._unread.items()
                if is_read(commit, positions, key=self._key)
            ]
            is_new = self._forget(max(read, default=-1))
            free = [number for number in self._commits if self._why(number) is None]
            last, self._told = self._told, max([self._told, *free])
            return is_new or self._told > last

    def _why(self, place: int) -> Wait | None:
        # Documents with a later commit include this one. A commit of no known time is new.
        later = min((number for number in self._commits if number >= place), default=-1)
        commit = self._commits.get(later)
        now = self._clock.monotonic()
        if commit is None:
            commit = self._commits[place] = Commit(number=place, at=now)
        return why_wait(commit, self._positions, self._times, key=self._key, now=now)
