"""Events as JSON, for operators and for messages to webhook receivers."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from forewarn.control.transactions.aliases import Aliases
from forewarn.instants import (
    cut_to_second,
    format_http_date,
    format_instant,
    instant_or_none,
    parse_instant,
)
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.store.records import EventChange


def event_report(event: Event) -> dict[str, Any]:
    """Return an event with its wire members and forewarn's members."""
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
        "needs_approval": event.needs_approval,
        "approved_by": event.approved_by or None,
        "approved": instant_or_none(event.approved_at),
        "created": format_instant(event.created),
        "started": instant_or_none(event.started_at),
        "removed": instant_or_none(event.removed_at),
        "outcome": event.outcome.value if event.outcome else None,
    }


def told_to_tenant(body: str, aliases: Aliases) -> str:
    """Return the body of a webhook message, redacted for the tenant."""
    report: dict[str, Any] = json.loads(body)
    shown = {
        name: _TO_TENANT[name](value, aliases)
        for name, value in report.items()
        if name in _TO_TENANT
    }
    return json.dumps(shown, separators=(",", ":"))


def _same(value: Any, _aliases: Aliases) -> Any:
    return value


def _second(value: str | None, _aliases: Aliases) -> str | None:
    return format_instant(cut_to_second(parse_instant(value))) if value else value


_TO_TENANT: Mapping[str, Callable[[Any, Aliases], Any]] = {
    "EventId": _same,
    "EventStatus": _same,
    "EventType": _same,
    "ResourceType": _same,
    "Resources": _same,
    "NotBefore": _same,
    "Description": _same,
    "EventSource": _same,
    "DurationInSeconds": _same,
    "operation": lambda value, aliases: aliases.of(value),
    "scope": _same,
    "tenant": _same,
    "vms": _same,
    "needs_approval": _same,
    # The sender replaces it by the redacted actor of the message.
    "approved_by": _same,
    "approved": _second,
    "created": _second,
    "started": _second,
    "removed": _second,
    "outcome": _same,
}
"""The members that a tenant's message has, and how each is shown. A member that is not
listed here does not exist for a tenant."""


_BY_STATUS = {
    EventStatus.SCHEDULED: EventChange.SCHEDULED,
    EventStatus.STARTED: EventChange.STARTED,
}
_BY_OUTCOME = {
    Outcome.COMPLETED: EventChange.COMPLETED,
    Outcome.CANCELLED: EventChange.CANCELLED,
    Outcome.FAILED: EventChange.FAILED,
}


def change_of(before: Event, after: Event) -> EventChange | None:
    """Return the change between two versions of an event; None: no visible change."""
    if after.status is not before.status:
        if after.status is EventStatus.REMOVED:
            assert after.outcome is not None, after
            # An event that was never published has no messages.
            return _BY_OUTCOME[after.outcome] if before.is_live else None
        return _BY_STATUS[after.status]
    if not after.is_live:
        return None
    if after.is_approved and not before.is_approved:
        return EventChange.APPROVED
    return None if _shown(before) == _shown(after) else EventChange.CHANGED


def _shown(event: Event) -> tuple[object, ...]:
    return (
        event.resources,
        event.not_before,
        event.description,
        event.duration_seconds,
    )
