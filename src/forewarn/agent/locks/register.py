"""A lock whose holders are a list in a text, which agents change one at a time.

Who writes says which version it has read; a write on an older version fails, whoever
was faster. So there are never more holders than slots, and no agent needs another's
clock: times are those of whoever keeps the text.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.locks import roster
from forewarn.agent.locks.port import Grant, LockError
from forewarn.agent.wire.answers import Answer
from forewarn.clock import Clock
from forewarn.instants import Micros, parse_http_date
from forewarn.protocol.frozen import frozen_dataclass

TRIES = 8
"""Writes that others may be faster with, one after the other, before it gives up."""

PAUSE_SECONDS = 0.05
"""Before it reads again after somebody was faster, at least; at most five times that."""


@frozen_dataclass
class Page:
    """A text as it was read."""

    text: str
    """Empty: there is none yet."""
    version: Any
    """What names this state of it; only the register knows what it is."""
    now: Micros
    """What time it was for whoever keeps the text."""


def server_time(answer: Answer, otherwise: Micros) -> Micros:
    """Return what the `Date` of an answer says; `otherwise`: that cannot be read."""
    try:
        return parse_http_date(answer.header("date") or "")
    except ValueError:
        return otherwise


class Register(Protocol):
    """A text that several agents share."""

    def read(self, context: RunContext) -> Page:
        """Return the text as it is; raises ForewarnError."""
        ...

    def write(self, text: str, page: Page, context: RunContext) -> bool:
        """Write a text in the place of the one that was read; raises ForewarnError.

        False: it is another one by now, and was left as it is.
        """
        ...


class RegisterLock:
    """A lock in a register."""

    def __init__(
        self, register: Register, *, slots: int, ttl: Micros, clock: Clock
    ) -> None:
        """Ask nothing yet."""
        self._register = register
        self._slots = slots
        self._ttl = ttl
        self._clock = clock

    def take(self, holder: str, context: RunContext) -> Grant:
        """Take a slot, or confirm it; raises ForewarnError."""
        for _ in range(TRIES):
            began = self._clock.now()
            page, found = self._read(context)
            fresh = roster.taken(
                found, holder, slots=self._slots, ttl=self._ttl, now=page.now
            )
            if fresh is None:
                who = roster.described(found, now=page.now)
                slots = f"all {self._slots} slots are " if self._slots > 1 else ""
                return Grant(is_held=False, detail=f"{slots}held by {who}")
            if self._register.write(roster.text_of(fresh), page, context):
                # From before it was read, so that nobody counts on it for too long.
                return Grant(is_held=True, until=began + self._ttl)
            self._wait(context)
        return Grant(is_held=False, detail="others asked for it at the same time")

    def release(self, holder: str, context: RunContext) -> None:
        """Give a slot back; raises ForewarnError."""
        for _ in range(TRIES):
            page, found = self._read(context)
            fresh = roster.without(found, holder)
            if fresh == found:
                return
            if self._register.write(roster.text_of(fresh), page, context):
                return
            self._wait(context)
        raise LockError(f"others changed the list of holders {TRIES} times meanwhile")

    def look(self, context: RunContext) -> str:
        """Return who holds it; raises ForewarnError."""
        page, found = self._read(context)
        who = roster.described(found, now=page.now)
        return f"held by {who}" if who else "nobody holds it"

    def _read(self, context: RunContext) -> tuple[Page, roster.Roster]:
        page = self._register.read(context)
        try:
            return page, roster.parse(page.text)
        except ValueError as error:
            raise LockError(
                f"the list of holders cannot be read: {error}",
                hint="Remove it when no VM holds the lock.",
            ) from error

    def _wait(self, context: RunContext) -> None:
        # Those that meet once must not meet again.
        if not context.sleep(PAUSE_SECONDS * (1 + os.urandom(1)[0] / 64)):
            raise context.ended(" while others changed the list of holders")
