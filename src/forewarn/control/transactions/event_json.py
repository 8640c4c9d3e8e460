"""An event as JSON: for operators, and for receivers of webhooks."""

import json
from typing import Any

from forewarn.control.transactions.aliases import Aliases
from forewarn.instants import (
    cut_to_second,
    format_http_date,
    format_instant,
    instant_or_none,
    parse_instant,
)
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


def told_to_tenant(body: str, aliases: Aliases) -> str:
    """Return a report that was kept for a webhook, as the tenant may know it."""
    report: dict[str, Any] = json.loads(body)
    report["operation"] = aliases.of(report["operation"])
    for name in _INSTANTS:
        if report[name]:
            report[name] = format_instant(cut_to_second(parse_instant(report[name])))
    return json.dumps(report, separators=(",", ":"))


_INSTANTS = ("approved", "created", "started", "removed")
"""Members of a report that are instants."""
