"""What a VM is told of its own events: an extension of the protocol (`own_events`)."""

import json

from forewarn.instants import SECOND, format_http_date
from forewarn.protocol.own_events import (
    EndedEvent,
    OwnEvent,
    OwnEvents,
    Wait,
    Waiting,
)

_SENTENCES = {
    Wait.OWN_APPROVAL: "Nobody who sees it has approved it: POST its EventId.",
    Wait.OTHER_VM: "It goes together with other events of this document, which are not "
    "approved.",
    Wait.OTHER_SCOPE: "Other VMs of your tenant, which see events of their own, have "
    "not approved.",
    Wait.OTHER_TENANT: "Another tenant has not approved.",
    Wait.NOT_BEFORE: "It starts at NotBefore, if not everybody approves sooner.",
    Wait.OWN_GUARD: "It is held while another part of your scope is down or being "
    "moved.",
    Wait.GUARD: "It is held to keep others available who are concerned too.",
    Wait.ROOM: "There is no other place for it yet.",
    Wait.DRIVER_BUSY: "The platform is still at something before it.",
    Wait.DRIVER_AT_WORK: "The platform is carrying it out.",
    Wait.OPERATOR: "The platform's operators must act first.",
    Wait.RECOVERY: "Its impact is over; it is shown for a while longer.",
}


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
    members: dict[str, object] = {"Reason": waiting.what.reason}
    if waiting.at:
        members["At"] = format_http_date(waiting.at)
    if waiting.vms:
        members["Resources"] = list(waiting.vms)
    return members | {"Message": _SENTENCES[waiting.what]}


def _ended(event: EndedEvent) -> dict[str, object]:
    return {
        "EventId": event.event_id,
        "EventType": event.event_type.value,
        "Outcome": event.outcome.value,
        "EndedAt": format_http_date(event.ended_at),
        "DownSeconds": event.down // SECOND,
        "IsUpperBound": not event.is_exact,
    }
