"""Asks for the lock in a thread, one request at a time.

Requests are carried out in their order, also where one of them hangs; of several that
wait, only the last is of use. It must not know why the lock is wanted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Union

from forewarn.agent.core.lock import LockAnswer, LockSaid, ReleaseLock, TakeLock
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.locks.port import Lock
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent.lock")

Asked = Union[TakeLock, ReleaseLock]


class Locker:
    """Asks one lock, and tells what came of it."""

    def __init__(
        self,
        make: Callable[[], Lock],
        *,
        tell: Callable[[LockSaid], None],
        timeout: Micros,
        clock: Clock,
    ) -> None:
        """Ask nothing yet; `make` is called by the thread, `tell` by any thread."""
        self._make = make
        self._tell = tell
        self._timeout = timeout
        self._clock = clock
        self._lock: Lock | None = None
        self._guard = threading.Lock()
        self._next: Asked | None = None
        self._is_busy = False

    def ask(self, asked: Asked) -> None:
        """Make a request; never waits."""
        with self._guard:
            self._next = asked
            if self._is_busy:
                return
            self._is_busy = True
        try:
            threading.Thread(target=self._run, name="lock", daemon=True).start()
        except RuntimeError as error:
            with self._guard:
                self._is_busy, self._next = False, None
            self._tell(_trouble(asked, f"no thread could be started: {error}"))

    def _run(self) -> None:
        """Make requests until none waits."""
        while True:
            with self._guard:
                asked, self._next = self._next, None
                if asked is None:
                    self._is_busy = False
                    return
            self._tell(self._answer(asked))

    def _answer(self, asked: Asked) -> LockSaid:
        context = context_for(self._timeout / SECOND, self._clock)
        try:
            if self._lock is None:
                self._lock = self._make()
            if isinstance(asked, ReleaseLock):
                self._lock.release(asked.holder, context)
                return LockSaid(number=asked.number, answer=LockAnswer.RELEASED)
            grant = self._lock.take(asked.holder, context)
        except ForewarnError as error:
            return _trouble(asked, error.message)
        except Exception:
            logger.exception("asking for the lock failed by a fault of the agent")
            return _trouble(asked, "a fault of the agent: see its log")
        return LockSaid(
            number=asked.number,
            answer=LockAnswer.TAKEN if grant.is_held else LockAnswer.REFUSED,
            until=grant.until,
            detail=grant.detail,
        )


def _trouble(asked: Asked, detail: str) -> LockSaid:
    return LockSaid(number=asked.number, answer=LockAnswer.TROUBLE, detail=detail)
