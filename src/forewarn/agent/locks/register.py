"""A lock whose holders are a list in a string that the agents change one at a time.

The text is JSON: `{"holders": {"web_1": {"since": "…Z", "until": "…Z"}}}`. Each write names
the version that the agent has read, and fails if the text has changed since. So the list
never has more holders than slots. All times are those of the server that stores the text,
so the agents' clocks do not matter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Protocol

from forewarn.agent.foreign import members, told
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.locks.port import Grant, LockError
from forewarn.agent.settings_model import LockSettings
from forewarn.agent.wire.answers import Answer
from forewarn.clock import Clock
from forewarn.instants import Micros, format_instant, parse_http_date, parse_instant
from forewarn.protocol.frozen import frozen_dataclass

TRIES = 8
"""Maximum number of write conflicts in a row before the request fails."""

PAUSE_SECONDS = 0.05
"""Minimum pause after a write conflict, in seconds; the maximum is five times that."""

TEXT_CHARACTERS_MAX = 256 * 1024
"""Maximum length of the text, in characters: a thousand holders need 90,000."""

SHOWN_MAX = 5
"""Maximum number of holders that a message names."""

NAME_CHARACTERS = 100
"""Maximum length of a holder's name in a message, in characters."""


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

    def read(self, context: RunContext, /) -> Page:
        """Return the current text; raises ForewarnError."""
        ...

    def write(self, text: str, page: Page, context: RunContext, /) -> bool:
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
            page, roster = self._read(context)
            fresh = taken(
                roster, holder, slots=self._slots, ttl=self._ttl, now=page.now
            )
            if fresh is None:
                who = described(roster, now=page.now)
                slots = f"all {self._slots} slots are " if self._slots > 1 else ""
                return Grant(is_held=False, detail=f"{slots}held by {who}")
            if self._register.write(text_of(fresh), page, context):
                # Counted from before the read, so that the agent does not rely on it too long.
                return Grant(is_held=True, until=began + self._ttl)
            self._wait(context)
        return Grant(is_held=False, detail="other agents requested it at the same time")

    def release(self, holder: str, context: RunContext) -> None:
        """Release a slot; raises ForewarnError."""
        for _ in range(TRIES):
            page, roster = self._read(context)
            fresh = without(roster, holder)
            if fresh == roster:
                return
            if self._register.write(text_of(fresh), page, context):
                return
            self._wait(context)
        raise LockError(
            f"other agents changed the list of holders {TRIES} times in the meantime"
        )

    def describe(self, context: RunContext) -> str:
        """Return who holds the lock; raises ForewarnError."""
        page, roster = self._read(context)
        who = described(roster, now=page.now)
        return f"held by {who}" if who else "the lock is free"

    def _read(self, context: RunContext) -> tuple[Page, Roster]:
        page = self._register.read(context)
        try:
            return page, parse(page.text)
        except ValueError as error:
            raise LockError(
                f"cannot read the list of holders: {error}",
                hint="Remove the list when no VM holds the lock.",
            ) from error

    def _wait(self, context: RunContext) -> None:
        # Agents that collide once should not collide again.
        if not context.sleep(PAUSE_SECONDS * (1 + os.urandom(1)[0] / 64)):
            raise context.ended(" while other agents changed the list of holders")


# The list of holders


@frozen_dataclass
class Holder:
    """A VM that holds the lock."""

    name: str
    since: Micros
    until: Micros
    """When the holder's slot expires, unless it is confirmed before."""


Roster = tuple[Holder, ...]


def parse(text: str) -> Roster:
    """Return the holders of a string; an empty text has none.

    Raises ValueError with a sentence if the text is not valid.
    """
    if not text.strip():
        return ()
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"it has more than {TEXT_CHARACTERS_MAX} characters")
    try:
        members_read: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    holders: Any = members(members_read).get("holders")
    if not isinstance(holders, dict):
        raise ValueError("it has no object `holders`")  # noqa: TRY004
    return tuple(
        _holder(name, entry) for name, entry in members(members_read["holders"]).items()
    )


def _holder(name: str, value: object) -> Holder:
    times = members(value)
    try:
        return Holder(
            name=name,
            since=parse_instant(str(times["since"])),
            until=parse_instant(str(times["until"])),
        )
    except (KeyError, ValueError):
        shown = told(name, NAME_CHARACTERS)
        raise ValueError(f"the times of the holder {shown!r} are not valid") from None


def text_of(roster: Roster) -> str:
    """Return the text of a roster."""
    holders = {
        holder.name: {
            "since": format_instant(holder.since),
            "until": format_instant(holder.until),
        }
        for holder in roster
    }
    return json.dumps({"holders": holders})


def taken(
    roster: Roster, name: str, *, slots: int, ttl: Micros, now: Micros
) -> Roster | None:
    """Return the roster in which `name` holds the lock; None: all slots are taken.

    A holder keeps its slot even if the number of slots was reduced. Expired holders are
    removed.
    """
    others = [holder for holder in roster if holder.name != name and now < holder.until]
    own = [holder for holder in roster if holder.name == name and now < holder.until]
    if not own and len(others) >= slots:
        return None
    since = own[0].since if own else now
    return (*others, Holder(name=name, since=since, until=now + ttl))


def without(roster: Roster, name: str) -> Roster:
    """Return the roster without `name`."""
    return tuple(holder for holder in roster if holder.name != name)


def described(roster: Sequence[Holder], *, now: Micros) -> str:
    """Return the holders of the lock for a message; empty: it is free."""
    valid = [holder for holder in roster if now < holder.until]
    shown = ", ".join(
        f"{told(holder.name, NAME_CHARACTERS)} since {format_instant(holder.since // 1_000_000 * 1_000_000)}"
        for holder in valid[:SHOWN_MAX]
    )
    more = len(valid) - SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
