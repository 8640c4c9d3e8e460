"""An event as JSON: for operators, and for receivers of webhooks."""

from typing import Any

from forewarn.instants import format_http_date, format_instant, instant_or_none
from forewarn.protocol.events import Event, EventStatus


def event_report(event: Event) -> dict[str, Any]:
    """Return an event: the wire members under their names, and what is ours."""
    started = event.status is not EventStatus.SCHEDULED
    return {
        "EventId": event.event_id,
        "EventStatus": event.status.value,
        "EventType": event.event_type.value,
        "ResourceType": "VirtualMachine",
        "Resources": [resource.name for resource in event.resources],
        "NotBefore": "" if started else format_http_date(event.not_before),
        "Description": event.description,
        "EventSource": event.source.value,
        "DurationInSeconds": event.duration_seconds,
        "operation": event.operation,
        "scope": event.scope,
        "tenant": event.tenant,
        "vms": [resource.vm for resource in event.resources],
        "approved_by": event.approved_by or None,
        "approved": instant_or_none(event.approved_at),
        "created": format_instant(event.created),
        "started": instant_or_none(event.started_at),
        "removed": instant_or_none(event.removed_at),
        "outcome": event.outcome.value if event.outcome else None,
    }
