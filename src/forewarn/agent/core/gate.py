"""The gate on active alerts, as values: the last answer of the alert server.

While alerts fire, no event is approved early. One request serves all events of this
VM. This module makes no decisions. The journal does not store the gate: a new agent
asks again. Pure.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass


class GateAnswer(enum.Enum):
    """The answer to one request to the alert server; the value is a metric label."""

    CLEAR = "clear"
    """No alert that counts fires."""
    ALERTS = "alerts"
    TROUBLE = "trouble"
    """There was no usable answer."""


@frozen_dataclass
class Gate:
    """This agent's knowledge of the gate."""

    label: str = ""
    """Identifies the alert server, for a person."""
    number: int = 0
    """The number of the last request, which its answer repeats."""
    asked: Micros = 0
    """When the last request was sent."""
    is_asking: bool = False
    """Whether the last request has no answer yet."""
    answered: Micros = 0
    """When the last request was answered or timed out; 0: never."""
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
    """Ask the alert server which alerts fire; see `GateSaid`."""

    number: int


@frozen_dataclass
class GateSaid:
    """The answer of the alert server."""

    number: int
    """The number of the request. An answer to an older request is ignored."""
    answer: GateAnswer
    alerts: int = 0
    detail: str = ""
    """The firing alerts or the problem, for a person; the length is bounded."""
