"""What is posted: one event in the envelope that Azure Event Grid made usual.

docs/how-to/operate/webhooks.md shows one, and a test compares it.
"""

import json
from typing import Any

from forewarn.control.redaction.redact import actor_for
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


def told(message: OutboxMessage, *, tenant: str) -> bytes:
    """Return what is posted of a message to a receiver of `tenant`; empty: to an
    operator's."""
    data = json.loads(message.body)
    if tenant and message.approver is not None:
        # The event is the tenant's, and so is each VM that sees it.
        approver = actor_for(message.approver, tenant, had_vm=lambda _vm: True)
        data["approved_by"] = approver.as_approver
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
