"""Recheck the called waiters in small groups, with one timer.

Called waiters are rechecked in later iterations of the loop, one group at a time. A
change that affects ten thousand waiters therefore does not delay other connections.
"""

import asyncio

from forewarn.clock import Clock
from forewarn.metadata import limits
from forewarn.metadata.reader import Received
from forewarn.metadata.waiting import Wait, Waiter, WaitingClient, Waits


class Wakeups:
    """The shell of `Waits`, used on one event loop."""

    def __init__(self, waits: Waits, clock: Clock) -> None:
        """Recheck the waiters of `waits`, by the I/O time of `clock`."""
        self._waits = waits
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._is_scheduled = False
        waits.on_called = self._schedule

    def enter(
        self, client: WaitingClient, received: Received, wait: Wait
    ) -> Waiter | None:
        """Register a waiting request; None: there are too many."""
        monotonic = self._clock.monotonic()
        waiter = self._waits.enter(client, received, wait, monotonic=monotonic)
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

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
