"""The gate on active alerts, as values: what the alert server said last.

While alerts fire, no event is approved early. One question serves all events of this VM.
Nothing here decides, and no journal keeps it: an agent that begins asks again. Pure.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass


class GateAnswer(enum.Enum):
    """What came of one question to the alert server; the value is a metric's label."""

    CLEAR = "clear"
    """No alert fires that counts."""
    ALERTS = "alerts"
    TROUBLE = "trouble"
    """No usable answer came."""


@frozen_dataclass
class Gate:
    """The gate, as far as this agent knows."""

    label: str = ""
    """Which alert server it is, for a person."""
    number: int = 0
    """Of the last question: its answer carries it."""
    asked: Micros = 0
    """When the last question was put."""
    is_asking: bool = False
    """The last question has no answer yet."""
    answered: Micros = 0
    """When the last answer came, or was given up; 0: there was none."""
    last: GateAnswer | None = None
    """The last answer."""
    since: Micros = 0
    """Since when the answers are of that kind."""
    alerts: int = 0
    """How many alerts fired that count."""
    detail: str = ""
    """Which, or why there is no usable answer; for a person."""
    failures: int = 0
    """Questions in a row without a usable answer."""
    shut: Micros = 0
    """When it was last known not to be clear; 0: it was never."""
    is_wanted: bool = False
    """Some event is ready to be approved as far as everything else goes, but the lock."""
    events: tuple[str, ...] = ()
    """The events whose approval it holds back."""


NO_GATE = Gate()
"""That of an agent which has asked nothing."""


@frozen_dataclass
class AskGate:
    """Ask the alert server which alerts fire; see `GateSaid`."""

    number: int


@frozen_dataclass
class GateSaid:
    """What the alert server said."""

    number: int
    """Of the question; an answer to an older one means nothing any more."""
    answer: GateAnswer
    alerts: int = 0
    detail: str = ""
    """Which alerts fire, or what went wrong, for a person; its length is bounded."""
