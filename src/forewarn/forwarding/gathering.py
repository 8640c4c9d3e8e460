"""Requests of VMs that go to the service together.

Those that come while a request is on its way are the next request.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from forewarn.forwarding import limits
from forewarn.protocol.errors import ForewarnError

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine as a task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueuedRequest:
    """The request of a VM that waits for its result."""

    vm: str
    event_ids: tuple[str, ...] = ()
    size: int
    """Its bytes in the body of a request."""
    result: "asyncio.Future[Any]"

    def answer(self, value: str | None) -> None:
        """Set the result, if the VM still waits."""
        if not self.result.done():
            self.result.set_result(value)

    def fail(self, error: ForewarnError) -> None:
        """Set an error as the result, if the VM still waits."""
        if not self.result.done():
            self.result.set_exception(error)
            # If the VM has left, the exception is never read, and asyncio would log that.
            self.result.exception()


class Gathering:
    """The requests of one kind that wait."""

    def __init__(
        self,
        send: Callable[[Sequence[QueuedRequest]], Awaitable[None]],
        *,
        together_max: int,
        spawn: Spawn,
    ) -> None:
        """Give at most `together_max` of them to each call of `send`."""
        self._send = send
        self._together_max = together_max
        self._spawn = spawn
        self._waiting: deque[QueuedRequest] = deque()
        self._is_sending = False

    def add(self, request: QueuedRequest) -> None:
        """Send a request as soon as its turn comes."""
        self._waiting.append(request)
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        """Send those that wait together, until none waits."""
        # Those that arrive in this iteration of the loop go together.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                if some := self._next():
                    await self._send(some)
        finally:
            self._is_sending = False

    def _next(self) -> list[QueuedRequest]:
        """Take those of the next request, within the limits of the service."""
        some: list[QueuedRequest] = []
        events = size = 0
        while self._waiting and len(some) < self._together_max:
            first = self._waiting[0]
            events += len(first.event_ids)
            size += first.size
            is_full = (
                events > limits.EVENTS_TOGETHER_MAX or size > limits.BODY_BYTES_MAX
            )
            if some and is_full:
                break
            self._waiting.popleft()
            # A VM that does not wait any longer asks again.
            if first.result.done():
                events -= len(first.event_ids)
                size -= first.size
            else:
                some.append(first)
        return some
