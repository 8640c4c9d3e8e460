"""The permits for an approval, as values: the lock and the gate.

The lock limits how many VMs are approved at once. A server that several agents share
keeps it. This agent has one slot in it, for any number of events. While alerts fire,
the gate lets no event be approved early. One request to the alert server serves all
events of this VM. The journal does not store the gate: a new agent asks again. `locking`
and `gating` decide with these values. Pure.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass


class LockState(enum.Enum):
    """The state of the lock that limits approvals; only `table` changes it."""

    UNKNOWN = "unknown"
    """An earlier agent of this VM may still hold the lock."""
    FREE = "free"
    """This VM does not hold the lock."""
    WANTED = "wanted"
    """The agent asks for the lock repeatedly; the server may already have granted
    it."""
    HELD = "held"
    PAUSING = "pausing"
    """Held, but no longer needed: other VMs wait until the pause ends."""
    RELEASING = "releasing"
    """The agent sends the release repeatedly until the server confirms it."""


class LockAnswer(enum.Enum):
    """The answer to one request about the lock; the value is a metric label."""

    TAKEN = "taken"
    """This VM holds the lock."""
    REFUSED = "refused"
    """Other VMs hold all slots of the lock."""
    RELEASED = "released"
    """This VM no longer holds the lock."""
    TROUBLE = "trouble"
    """There was no usable answer. The request may still have taken effect."""


@frozen_dataclass
class PermitRequests:
    """The requests to the server of a permit."""

    label: str = ""
    """Identifies the server, for a person: a different text is a different server."""
    number: int = 0
    """The number of the last request, which its answer repeats."""
    asked: Micros = 0
    """When the last request was made."""
    is_asking: bool = False
    """Whether the last request has no answer yet."""
    answered: Micros = 0
    """When the last request was answered or timed out; 0: never."""


@frozen_dataclass
class Lock(PermitRequests):
    """This agent's knowledge of the lock that limits approvals.

    `answered` is 0 if no answer came since the agent started.
    """

    state: LockState = LockState.UNKNOWN
    since: Micros = 0
    """When the lock entered its state."""
    holder: str = ""
    """The ID under which the lock was requested; empty: it was not requested."""
    is_release: bool = False
    """Whether the last request was to release the lock."""
    rest_until: Micros = 0
    """No request is sent before this time; 0: there is no such time."""
    tries: int = 0
    """Failed requests in a row."""
    until: Micros = 0
    """When the lock expires unless it is confirmed; 0: never."""
    last: LockAnswer | None = None
    """The answer to the last request."""
    refusal: str = ""
    """Why the last request was refused, such as its holders; for a person."""
    trouble: str = ""
    """Why there is no usable answer; empty: there is one."""
    has_complained: bool = False
    """Whether the trouble was logged since the lock entered its state."""
    take_late: Micros = 0
    """Until when an unanswered request to take the lock may still take effect."""
    release_late: Micros = 0
    """Until when an unanswered request to release the lock may still take effect."""

    @property
    def is_held(self) -> bool:
        """Return whether the server has confirmed that this VM holds it."""
        return self.answered > 0 and self.state in {LockState.HELD, LockState.PAUSING}


NO_LOCK = Lock()
"""The lock of a memory that never had one."""


@frozen_dataclass
class TakeLock:
    """Take the lock, or confirm that this VM holds it; see `LockResponse`."""

    number: int
    holder: str


@frozen_dataclass
class ReleaseLock:
    """Release the lock; see `LockResponse`."""

    number: int
    holder: str


@frozen_dataclass
class LockResponse:
    """The answer to a request about the lock."""

    number: int
    """The number of the request. An answer to an older request is ignored."""
    answer: LockAnswer
    until: Micros = 0
    """When the lock expires, after TAKEN; 0: never."""
    detail: str = ""
    """The holders or the problem, for a person."""


class GateAnswer(enum.Enum):
    """The answer to one request to the alert server; the value is a metric label."""

    CLEAR = "clear"
    """No alert that counts fires."""
    ALERTS = "alerts"
    TROUBLE = "trouble"
    """There was no usable answer."""


@frozen_dataclass
class Gate(PermitRequests):
    """This agent's knowledge of the gate."""

    last: GateAnswer | None = None
    """The last answer."""
    since: Micros = 0
    """When the answers changed to the kind of the last one."""
    alerts: int = 0
    """The number of firing alerts that count."""
    detail: str = ""
    """The names of the alerts, or why there is no usable answer; for a person."""
    failures: int = 0
    """Requests in a row without a usable answer."""
    shut: Micros = 0
    """When the answer was last not CLEAR; 0: never."""
    is_wanted: bool = False
    """Whether an event is ready to be approved, apart from the lock."""
    events: tuple[str, ...] = ()
    """The events whose approval the gate holds back."""


NO_GATE = Gate()
"""The gate of an agent that has not asked."""


@frozen_dataclass
class AskGate:
    """Ask the alert server which alerts fire; see `GateResponse`."""

    number: int


@frozen_dataclass
class GateResponse:
    """The answer of the alert server."""

    number: int
    """The number of the request. An answer to an older request is ignored."""
    answer: GateAnswer
    alerts: int = 0
    detail: str = ""
    """The firing alerts or the problem, for a person; the length is bounded."""
