"""The lock port: the interface of every kind of lock, and the thread that uses it.

Each kind keeps this contract:

* `take` by a holder that already has the lock succeeds and confirms it. `release` by a
  holder that does not have the lock succeeds, and no other holder loses it.
* The number of holders never exceeds the limit of the settings or of the server.
* A response that cannot be understood is a LockError, never a granted lock.
* A call ends when its run context ends. The request may have taken effect then.

A kind does not know events. One thread at a time uses it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol, Union

from forewarn.agent.asker import Asker
from forewarn.agent.core.permits import LockAnswer, LockResponse, ReleaseLock, TakeLock
from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass


class LockError(ForewarnError):
    """The server of the lock gave no usable answer; the message says why."""


@frozen_dataclass
class Grant:
    """The result of a request for the lock."""

    is_held: bool
    until: Micros = 0
    """When the lock expires, by the clock of this machine; 0: never."""
    detail: str = ""
    """The holders, for people, if the lock was not granted."""


class Lock(Protocol):
    """One lock."""

    def take(self, holder: str, context: RunContext) -> Grant:
        """Take the lock for a holder, or confirm it; raises ForewarnError."""
        ...

    def release(self, holder: str, context: RunContext) -> None:
        """Release the lock if that holder has it; raises ForewarnError."""
        ...

    def describe(self, context: RunContext) -> str:
        """Return a sentence about the holders; changes nothing; raises ForewarnError."""
        ...


def make_lock(
    settings: LockSettings, environment: Mapping[str, str], clock: Clock
) -> Lock:
    """Create the lock of the settings; raises ForewarnError.

    Each kind is a module with a function `make`. It is loaded when it is first used.
    """
    module = importlib.import_module(f"forewarn.agent.locks.{settings.kind}")
    return module.make(settings, environment=environment, clock=clock)


LockRequest = Union[TakeLock, ReleaseLock]


class Locker(Asker[Lock, LockRequest, LockResponse]):
    """Request one lock in a thread, without knowing its purpose, and report the answers."""

    name = "lock"

    def __init__(
        self,
        make: Callable[[], Lock],
        *,
        tell: Callable[[LockResponse], None],
        timeout: Micros,
        clock: Clock,
    ) -> None:
        """Send nothing yet; the thread calls `make`, and any thread calls `tell`."""
        super().__init__(make, tell)
        self._timeout = timeout
        self._clock = clock

    def _answer(self, target: Lock, request: LockRequest) -> LockResponse:
        context = context_for(self._timeout / SECOND, self._clock)
        if isinstance(request, ReleaseLock):
            target.release(request.holder, context)
            return LockResponse(number=request.number, answer=LockAnswer.RELEASED)
        grant = target.take(request.holder, context)
        return LockResponse(
            number=request.number,
            answer=LockAnswer.TAKEN if grant.is_held else LockAnswer.REFUSED,
            until=grant.until,
            detail=grant.detail,
        )

    def _failure(self, request: LockRequest, detail: str) -> LockResponse:
        return LockResponse(
            number=request.number, answer=LockAnswer.TROUBLE, detail=detail
        )
