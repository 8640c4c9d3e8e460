"""Responses that are delayed until a model time (clause 7.1).

Model time may stop, run fast or jump, so the event loop cannot schedule by it. While a
response is delayed, one timer checks the clock periodically.
"""

import asyncio
import heapq
from collections.abc import Collection

from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.metadata.limits import HOLD_CHECK_SECONDS


class DelayedResponses:
    """The delayed responses, earliest first."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._heap: list[tuple[Micros, int, asyncio.Future[None]]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.now()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done()):
            self._finish(self._heap)
        if self._heap:
            delay = min(HOLD_CHECK_SECONDS, (self._heap[0][0] - now) / SECOND)
            self._timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def end(self, instants: Collection[Micros]) -> None:
        """Finish the futures of these instants early, because their delays are over.

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @staticmethod
    def _finish(heap: list[tuple[Micros, int, asyncio.Future[None]]]) -> None:
        _, _, future = heapq.heappop(heap)
        # A client that left has cancelled its future.
        if not future.done():
            future.set_result(None)
