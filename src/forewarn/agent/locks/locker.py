"""Request the lock in a thread, without knowing its purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from forewarn.agent.asker import Asker
from forewarn.agent.core.lock import LockAnswer, LockSaid, ReleaseLock, TakeLock
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.locks.port import Lock
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros

Asked = Union[TakeLock, ReleaseLock]


class Locker(Asker[Lock, Asked, LockSaid]):
    """Request one lock, and report the answers."""

    name = "lock"

    def __init__(
        self,
        make: Callable[[], Lock],
        *,
        tell: Callable[[LockSaid], None],
        timeout: Micros,
        clock: Clock,
    ) -> None:
        """Send nothing yet; the thread calls `make`, and any thread calls `tell`."""
        super().__init__(make, tell)
        self._timeout = timeout
        self._clock = clock

    def _answer(self, target: Lock, asked: Asked) -> LockSaid:
        context = context_for(self._timeout / SECOND, self._clock)
        if isinstance(asked, ReleaseLock):
            target.release(asked.holder, context)
            return LockSaid(number=asked.number, answer=LockAnswer.RELEASED)
        grant = target.take(asked.holder, context)
        return LockSaid(
            number=asked.number,
            answer=LockAnswer.TAKEN if grant.is_held else LockAnswer.REFUSED,
            until=grant.until,
            detail=grant.detail,
        )

    def _trouble(self, asked: Asked, detail: str) -> LockSaid:
        return LockSaid(number=asked.number, answer=LockAnswer.TROUBLE, detail=detail)
