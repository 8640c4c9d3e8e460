"""The posted bodies: one event in the envelope of Azure Event Grid.

docs/how-to/operate/webhooks.md shows one; a test compares it.
"""

import json
from typing import Any

from forewarn.control.redaction.redact import actor_for
from forewarn.instants import Micros, format_instant
from forewarn.store.records import EventChange, OutboxMessage

FAMILY = "Forewarn.ScheduledEvents"

EVENT_TYPES = {
    change: f"{FAMILY}.Event{change.value.title()}" for change in EventChange
}
"""The `eventType` of each change: `Forewarn.ScheduledEvents.EventScheduled`."""

PING = f"{FAMILY}.Ping"
"""The `eventType` of the ping that `forewarn webhook test` sends."""

DATA_VERSION = "1"
"""Increased if a member of `data` changes its meaning or is removed; new members can be
added without that."""


def told(message: OutboxMessage, *, tenant: str) -> bytes:
    """Return the body for a message to a receiver of `tenant`, or of operators if
    `tenant` is empty."""
    data = json.loads(message.body)
    if tenant and message.approver is not None:
        # The event belongs to the tenant, and so does each VM that sees the event.
        data["approved_by"] = actor_for(
            message.approver, tenant, had_vm=lambda _vm: True
        ).as_approver
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


def ping(public_id: str, *, receiver: str, tenant: str, now: Micros) -> bytes:
    """Return the body of a ping."""
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
