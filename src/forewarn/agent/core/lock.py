"""The lock that limits how many VMs are approved at once, as values.

A server that several agents use keeps it, whatever kind it is. This agent has one place
in it, whatever the number of its events. Nothing here decides. Pure.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass


class LockState(enum.Enum):
    """How far the lock is that limits approvals; only `table` changes it."""

    UNKNOWN = "unknown"
    """Nobody knows whether an earlier agent of this VM has it still."""
    FREE = "free"
    """This VM does not have it."""
    WANTED = "wanted"
    """It is asked for, again and again; the server may have given it already."""
    HELD = "held"
    PAUSING = "pausing"
    """Held, and no longer needed: others wait until the pause is over."""
    RELEASING = "releasing"
    """It is given back, again and again, until the server confirms it."""


class LockAnswer(enum.Enum):
    """What came of one request about the lock; the value is a metric's label."""

    TAKEN = "taken"
    """This VM has it."""
    REFUSED = "refused"
    """Others have all its places."""
    RELEASED = "released"
    """This VM does not have it any longer."""
    TROUBLE = "trouble"
    """No usable answer came: it may have been done all the same."""


@frozen_dataclass
class Lock:
    """The lock that limits approvals, as far as this agent knows."""

    state: LockState = LockState.UNKNOWN
    since: Micros = 0
    """When it came into its state."""
    label: str = ""
    """Which lock it is, for a person: another text is another lock."""
    holder: str = ""
    """The ID under which it was asked for; empty: it was not asked for."""
    number: int = 0
    """Of the last request: its answer carries it."""
    asked: Micros = 0
    """When the last request was made."""
    is_asking: bool = False
    """The last request has no answer yet."""
    is_release: bool = False
    """The last request was to give it back."""
    answered: Micros = 0
    """When the last answer came; 0: none has come since the agent began."""
    rest_until: Micros = 0
    """Before this, nothing more is asked; 0: there is no such time."""
    tries: int = 0
    """Requests in a row that did not do what they were for."""
    until: Micros = 0
    """When it expires, unless it is confirmed before; 0: never."""
    last: LockAnswer | None = None
    """The answer to the last request."""
    refusal: str = ""
    """Why it was not had at the last request, such as who has it; for a person."""
    trouble: str = ""
    """Why there is no usable answer; empty: there is."""
    has_complained: bool = False
    """The trouble was told since it came into its state."""
    take_late: Micros = 0
    """Until when a request for it that got no answer may still be carried out."""
    release_late: Micros = 0
    """The same for a request to give it back."""

    @property
    def is_held(self) -> bool:
        """Tell whether the server has said that this VM has it."""
        return self.answered > 0 and self.state in {LockState.HELD, LockState.PAUSING}


NO_LOCK = Lock()
"""That of a memory which never had one."""


@frozen_dataclass
class TakeLock:
    """Take the lock, or confirm that this VM has it; see `LockSaid`."""

    number: int
    holder: str


@frozen_dataclass
class ReleaseLock:
    """Give the lock back; see `LockSaid`."""

    number: int
    holder: str


@frozen_dataclass
class LockSaid:
    """What became of a request about the lock."""

    number: int
    """Of the request; an answer to an older one means nothing any more."""
    answer: LockAnswer
    until: Micros = 0
    """When the lock expires, where it was TAKEN; 0: never."""
    detail: str = ""
    """Who has it, or what went wrong, for a person."""
