"""What a VM may read of its own events beyond Azure's document: an extension.

For each event of its document, what it still waits for; for what ended lately, how
it ended and how long the VM was down. Nothing here names a host, another tenant or
an operation; another VM is named only if the document names it. Values and their
JSON; pure.
"""

from __future__ import annotations

import enum
import json

from forewarn.instants import SECOND, Micros, format_http_date
from forewarn.protocol.events import EventStatus, EventType, Outcome
from forewarn.protocol.frozen import frozen_dataclass

VERSIONS = ("2026-11-01",)
"""Its api-versions, which are not Azure's."""


class WaitsFor(enum.Enum):
    """What an event waits for; programs read this, people the sentence."""

    OWN_APPROVAL = "OwnApproval"
    """Nobody who sees the event has approved it."""
    OTHER_VM = "OtherVm"
    """Another event of the same document, which goes with it, is not approved."""
    OTHER_SCOPE = "OtherScope"
    """The same, of another scope of the same tenant."""
    OTHER_TENANT = "OtherTenant"
    NOT_BEFORE = "NotBefore"
    GUARD = "Guard"
    """Another fault domain is down, or another migration is under way."""
    ROOM = "Room"
    DRIVER = "Driver"
    OPERATOR = "Operator"
    RECOVERY = "Recovery"


@frozen_dataclass
class Waiting:
    """One thing that an event waits for."""

    waits_for: WaitsFor
    sentence: str
    at: Micros = 0
    """When it is over by itself; 0: that is not known."""
    vms: tuple[str, ...] = ()
    """Wire names of the VMs of another event in the document."""


@frozen_dataclass
class OwnEvent:
    """A live event of the VM's document."""

    event_id: str
    event_type: EventType
    status: EventStatus
    is_affected: bool
    """The VM that asks is among its resources."""
    is_approved: bool
    """By whomever it may be; nobody approves a failure."""
    waiting: tuple[Waiting, ...]


@frozen_dataclass
class EndedEvent:
    """An event that named the VM and is over."""

    event_id: str
    event_type: EventType
    outcome: Outcome
    ended_at: Micros
    down: Micros
    """How long the VM that asks did not run because of it; whole seconds."""
    is_exact: bool
    """False: it was no longer than that."""


@frozen_dataclass
class OwnEvents:
    """The whole answer."""

    live: tuple[OwnEvent, ...]
    ended: tuple[EndedEvent, ...]
    """The latest first."""


def render(told: OwnEvents) -> bytes:
    """Return the answer's body."""
    body = {
        "Events": [_live(event) for event in told.live],
        "Ended": [_ended(event) for event in told.ended],
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def _live(event: OwnEvent) -> dict[str, object]:
    return {
        "EventId": event.event_id,
        "EventType": event.event_type.value,
        "EventStatus": event.status.value,
        "Affected": event.is_affected,
        "Approved": event.is_approved,
        "WaitsFor": [_waiting(each) for each in event.waiting],
    }


def _waiting(waiting: Waiting) -> dict[str, object]:
    members: dict[str, object] = {"For": waiting.waits_for.value}
    if waiting.at:
        members["At"] = format_http_date(waiting.at)
    if waiting.vms:
        members["Resources"] = list(waiting.vms)
    return members | {"Sentence": waiting.sentence}


def _ended(event: EndedEvent) -> dict[str, object]:
    return {
        "EventId": event.event_id,
        "EventType": event.event_type.value,
        "Outcome": event.outcome.value,
        "EndedAt": format_http_date(event.ended_at),
        "DownSeconds": event.down // SECOND,
        "AtMost": not event.is_exact,
    }
