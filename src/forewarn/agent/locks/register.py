"""A lock whose holders are a list in a text that the agents change one at a time.

Each write names the version that the agent has read, and fails if the text has changed
since. So the list never has more holders than slots. All times are those of the server
that stores the text, so the agents' clocks do not matter.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.locks import roster
from forewarn.agent.locks.port import Grant, LockError
from forewarn.agent.settings_model import LockSettings
from forewarn.agent.wire.answers import Answer
from forewarn.clock import Clock
from forewarn.instants import Micros, parse_http_date
from forewarn.protocol.frozen import frozen_dataclass

TRIES = 8
"""Maximum number of write conflicts in a row before the request fails."""

PAUSE_SECONDS = 0.05
"""Minimum pause after a write conflict, in seconds; the maximum is five times that."""


@frozen_dataclass
class Page:
    """A text that was read, with its version."""

    text: str
    """Empty: the text does not exist yet."""
    version: Any
    """The version of the text, in a form that only the register understands."""
    now: Micros
    """The time of the server when the text was read."""


def server_time(answer: Answer, otherwise: Micros) -> Micros:
    """Return the time of a response's `Date` header; `otherwise` if it is not valid."""
    try:
        return parse_http_date(answer.header("date") or "")
    except ValueError:
        return otherwise


class Register(Protocol):
    """A text that several agents share."""

    def read(self, context: RunContext) -> Page:
        """Return the current text; raises ForewarnError."""
        ...

    def write(self, text: str, page: Page, context: RunContext) -> bool:
        """Replace the text that was read; raises ForewarnError.

        Return False, and change nothing, if the text has changed since it was read.
        """
        ...


class RegisterLock:
    """A lock in a register."""

    def __init__(
        self, register: Register, settings: LockSettings, *, clock: Clock
    ) -> None:
        """Send nothing yet."""
        self._register = register
        self._slots, self._ttl = settings.holders, settings.ttl
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
                # Counted from before the read, so that the agent does not rely on it too long.
                return Grant(is_held=True, until=began + self._ttl)
            self._wait(context)
        return Grant(is_held=False, detail="other agents requested it at the same time")

    def release(self, holder: str, context: RunContext) -> None:
        """Release a slot; raises ForewarnError."""
        for _ in range(TRIES):
            page, found = self._read(context)
            fresh = roster.without(found, holder)
            if fresh == found:
                return
            if self._register.write(roster.text_of(fresh), page, context):
                return
            self._wait(context)
        raise LockError(
            f"other agents changed the list of holders {TRIES} times in the meantime"
        )

    def look(self, context: RunContext) -> str:
        """Return who holds the lock; raises ForewarnError."""
        page, found = self._read(context)
        who = roster.described(found, now=page.now)
        return f"held by {who}" if who else "the lock is free"

    def _read(self, context: RunContext) -> tuple[Page, roster.Roster]:
        page = self._register.read(context)
        try:
            return page, roster.parse(page.text)
        except ValueError as error:
            raise LockError(
                f"cannot read the list of holders: {error}",
                hint="Remove the list when no VM holds the lock.",
            ) from error

    def _wait(self, context: RunContext) -> None:
        # Agents that collide once should not collide again.
        if not context.sleep(PAUSE_SECONDS * (1 + os.urandom(1)[0] / 64)):
            raise context.ended(" while other agents changed the list of holders")
