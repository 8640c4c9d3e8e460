"""Timeouts of futures.

All futures have the same timeout, so the first in the queue is due first. A queue and
one timer therefore serve any number of futures. A timer for each would cost more
than the work it waits for.
"""

import asyncio
from collections import deque
from typing import Any


class Deadlines:
    """Futures that are cancelled after a timeout."""

    def __init__(self, seconds: float) -> None:
        """Set the timeout of each future."""
        self._seconds = seconds
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

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
