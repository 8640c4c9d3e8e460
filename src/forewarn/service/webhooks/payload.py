"""What is posted: one event in the envelope that Azure Event Grid made usual.

docs/webhooks.md shows one, and a test compares it.
"""

import json
from typing import Any

from forewarn.control.admission import DOWN_ALREADY, NO_NOTICE, NOBODY_LISTENS, POLICY
from forewarn.control.share import PLATFORM, speaker
from forewarn.instants import Micros, format_instant
from forewarn.store.outbox import EventChange, OutboxMessage

FAMILY = "Forewarn.ScheduledEvents"

EVENT_TYPES = {
    change: f"{FAMILY}.Event{change.value.title()}" for change in EventChange
}
"""The `eventType` of each change: `Forewarn.ScheduledEvents.EventScheduled`."""

PING = f"{FAMILY}.Ping"
"""The `eventType` of what `forewarn webhook test` sends."""

DATA_VERSION = "1"
"""Raised when a member of `data` changes its meaning or goes; new ones may come."""

_POLICIES = frozenset({POLICY, NOBODY_LISTENS, DOWN_ALREADY, NO_NOTICE})


def told(message: OutboxMessage, *, tenant: str) -> bytes:
    """Return what is posted of a message to a receiver of `tenant`; empty: to an
    operator's."""
    data = json.loads(message.body)
    if tenant and data["approved_by"]:
        data["approved_by"] = _approver(data["approved_by"], tenant)
    return _posted(
        {
            "id": message.public_id,
            "topic": f"/tenants/{data['tenant']}",
            "subject": f"/scopes/{data['scope']}/events/{data['EventId']}",
            "eventType": EVENT_TYPES[message.change],
            "eventTime": format_instant(message.at),
            "data": data,
        }
    )


def _approver(by: str, tenant: str) -> str:
    """Return who approved as the tenant may know it, as the API would tell it: its
    own VMs and tokens and what rules say, but no operator's name."""
    own = by.startswith(f"({speaker(tenant, '')}") or by in _POLICIES
    return by if own or not by.startswith("(") else f"({PLATFORM})"


def ping(public_id: str, *, receiver: str, tenant: str, now: Micros) -> bytes:
    """Return what is posted to try a receiver."""
    return _posted(
        {
            "id": public_id,
            "topic": f"/tenants/{tenant}" if tenant else "/",
            "subject": f"/webhooks/{receiver}",
            "eventType": PING,
            "eventTime": format_instant(now),
            "data": {"webhook": receiver},
        }
    )


def _posted(event: dict[str, Any]) -> bytes:
    whole = {**event, "dataVersion": DATA_VERSION, "metadataVersion": "1"}
    return json.dumps([whole], separators=(",", ":")).encode("ascii")
