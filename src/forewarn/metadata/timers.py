"""Timers that serve any number of requests or connections.

A timer for each would cost more than the work it waits for: 3 µs to set and to cancel,
as much as the response to a single request. A request that is being received has a
separate timeout (`flow.Watchdog`).
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Protocol

from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.metadata import limits
from forewarn.metadata.reader import Received
from forewarn.metadata.waiting import Wait, Waiter, WaitingClient, Waits


class _Timed:
    """An object with one timer."""

    _timer: asyncio.Handle | None = None

    def _cancel(self) -> None:
        """Cancel the timer, if it is set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Deadlines(_Timed):
    """Futures that are cancelled after a timeout.

    All have the same timeout, so the first in the queue is due first.
    """

    def __init__(self, seconds: float) -> None:
        """Set the timeout of each future."""
        self._seconds = seconds
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()

    def watch(self, future: "asyncio.Future[Any]") -> None:
        """Cancel `future` unless it is done in time."""
        loop = asyncio.get_running_loop()
        self._drop(before=0)
        self._waiting.append((loop.time() + self._seconds, future))
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        self._drop(before=loop.time())
        if self._waiting:
            due, _ = self._waiting[0]
            self._timer = loop.call_at(due, self._check)

    def _drop(self, *, before: float) -> None:
        """Remove the futures at the front that are done, and cancel those that are due."""
        waiting = self._waiting
        while waiting and (waiting[0][1].done() or waiting[0][0] <= before):
            waiting.popleft()[1].cancel()


class DelayedResponses(_Timed):
    """The responses that are delayed until a model time (7.1), earliest first.

    Model time may stop, run fast or jump, so the event loop cannot schedule by it. While
    a response is delayed, one timer checks the clock periodically.
    """

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._heap: list[tuple[Micros, int, asyncio.Future[None]]] = []
        self._count = 0

    def hold(self, instant: Micros) -> asyncio.Future[None]:
        """Return a future that is done when the clock reaches `instant`, or at `release`.

        A caller that no longer waits cancels the future.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._heap, (instant, self._count, future))
        self.wake()
        return future

    def wake(self) -> None:
        """Check the clock now, because it may have jumped."""
        self._cancel()
        now = self._clock.now()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done()):
            self._finish(self._heap)
        if self._heap:
            delay = min(limits.HOLD_CHECK_SECONDS, (self._heap[0][0] - now) / SECOND)
            self._timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def end(self, instants: Collection[Micros]) -> None:
        """Finish the futures of these instants early, because their delays have ended.

        After a step of the clock, the instants may be hours away.
        """
        now = self._clock.now()
        early = {instant for instant in instants if instant > now}
        for instant, _, future in self._heap if early else ():
            if instant in early and not future.done():
                future.set_result(None)

    def release(self) -> None:
        """Finish all futures, because the server stops."""
        while self._heap:
            self._finish(self._heap)
        self._cancel()

    @staticmethod
    def _finish(heap: list[tuple[Micros, int, asyncio.Future[None]]]) -> None:
        _, _, future = heapq.heappop(heap)
        # A client that left has cancelled its future.
        if not future.done():
            future.set_result(None)


TOGETHER_MAX = 1_000
"""Maximum number of connections that are checked in one iteration of the event loop: a
fraction of a millisecond."""


class Sweepable(Protocol):
    """A connection that may be idle."""

    def check_idle(self) -> None:
        """Check whether the connection is idle, once in each sweep."""
        ...


class IdleSweep(_Timed):
    """Checks all connections periodically, as long as there are any."""

    def __init__(self, connections: Collection[Sweepable], *, seconds: float) -> None:
        """Do not start yet; a sweep begins every so many seconds."""
        self._connections = connections
        self._seconds = seconds

    def begin(self) -> None:
        """Start the sweeps, unless they are running."""
        if self._timer is None:
            self._pause()

    def end(self) -> None:
        """Stop the sweeps."""
        self._cancel()

    def _pause(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        if self._connections:
            self._check(iter([*self._connections]))

    def _check(self, left: Iterator[Sweepable]) -> None:
        together = [*itertools.islice(left, TOGETHER_MAX)]
        for connection in together:
            connection.check_idle()
        if together:
            self._timer = asyncio.get_running_loop().call_soon(self._check, left)
        else:
            self._pause()


class Wakeups(_Timed):
    """Rechecks called waiters: the shell of `Waits`, used on one event loop.

    They are rechecked in later iterations of the loop, one group at a time. A change that
    affects ten thousand waiters therefore does not delay other connections.
    """

    def __init__(self, waits: Waits, clock: Clock) -> None:
        """Recheck the waiters of `waits`, by the I/O time of `clock`."""
        self._waits = waits
        self._clock = clock
        self._timer_due = 0.0
        self._is_scheduled = False
        waits.on_called = self._schedule

    def enter(
        self, client: WaitingClient, received: Received, wait: Wait
    ) -> Waiter | None:
        """Register a waiting request; None: there are too many."""
        waiter = self._waits.enter(
            client, received, wait, monotonic=self._clock.monotonic()
        )
        self._arm()
        return waiter

    def wake(self) -> None:
        """Check the clock now, because a deadline may have passed."""
        self._cancel()
        self._waits.call_due(monotonic=self._clock.monotonic())
        self._arm()

    def release(self) -> None:
        """Recheck all waiters, because the server stops."""
        self._waits.call_all()
        self._cancel()

    def _arm(self) -> None:
        due = self._waits.next_due()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        self._cancel()
        self._timer_due = due
        delay = max(0.0, due - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._recheck)

    def _recheck(self) -> None:
        self._is_scheduled = False
        for waiter in self._waits.take(limits.WAITERS_TOGETHER_MAX):
            waiter.client.recheck(waiter)
        # `on_called` is not called while the queue is not empty, so handle the rest here.
        if self._waits.has_called:
            self._schedule()
