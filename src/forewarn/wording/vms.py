"""Texts for a VM about its events: an extension of the protocol (`own_events`)."""

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
    Wait.OWN_APPROVAL: "No VM that sees it has approved it: POST its EventId.",
    Wait.OTHER_VM: "It starts together with other events of this document, which are not "
    "approved.",
    Wait.OTHER_SCOPE: "Other VMs of your tenant have not approved their events.",
    Wait.OTHER_TENANT: "Another tenant has not approved.",
    Wait.NOT_BEFORE: "It starts at NotBefore, or earlier if all approve.",
    Wait.WINDOW: "It can start only when maintenance is allowed.",
    Wait.OWN_GUARD: "It is held while another part of your scope is down or being "
    "moved.",
    Wait.GUARD: "It is held to keep other affected VMs available.",
    Wait.ROOM: "No host has capacity for it yet.",
    Wait.DRIVER_BUSY: "The platform has not finished an earlier action.",
    Wait.DRIVER_AT_WORK: "The platform is executing it.",
    Wait.OPERATOR: "The platform's operators must act first.",
    Wait.RECOVERY: "Its impact is over; it will be removed soon.",
}


def render(events: OwnEvents) -> bytes:
    """Return the answer's body."""
    body = {
        "Events": [_live(event) for event in events.live],
        "Ended": [_ended(event) for event in events.ended],
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def _live(event: OwnEvent) -> dict[str, object]:
    return {
        "EventId": event.event_id,
        "EventType": event.event_type.value,
        "EventStatus": event.status.value,
        "Affected": event.is_affected,
        "Approved": event.is_approved,
        "WaitsFor": [_waiting(wait) for wait in event.waiting],
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
