"""Reasons why operations wait, as values with their sentences.

They are the same in explanations, in lists of operations and in the stream.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from forewarn.control.rules.remedies import remedy_of
from forewarn.instants import Micros, format_instant
from forewarn.protocol.blockers import (
    AnyBlocker,
    DriverRetry,
    NotApproved,
    NotDue,
    NoticeRuns,
)
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]


def blocker_reports(
    reader: Reader,
    operation: Operation,
    blockers: Iterable[AnyBlocker],
    *,
    now: Micros,
) -> list[Json]:
    """Return the reasons of an operation, each with its sentence and subjects."""
    all_blockers = tuple(blockers)
    is_missing = any(isinstance(blocker, NotApproved) for blocker in all_blockers)
    events = every(reader, kinds.EVENTS_OF_OPERATION, operation.key)
    return reports_with(operation, events if is_missing else (), all_blockers, now=now)


def reports_with(
    operation: Operation,
    events: Iterable[Event],
    blockers: Iterable[AnyBlocker],
    *,
    now: Micros,
) -> list[Json]:
    """Return the same, with the operation's events, which were read already."""
    ids = {event.scope: event.event_id for event in events}
    return [
        blocker_report(blocker, now=now, not_before=operation.not_before, events=ids)
        for blocker in blockers
    ]


def blocker_report(
    blocker: AnyBlocker,
    *,
    now: Micros,
    not_before: Micros = 0,
    events: Mapping[str, str] | None = None,
) -> Json:
    """Return a reason as values; `not_before` and `events` are those of its operation."""
    match blocker:
        case NotApproved():
            event, until = (events or {}).get(blocker.scope), not_before
        case NotDue() | NoticeRuns() | DriverRetry():
            event, until = None, now + blocker.remaining
        case _:
            event, until = None, 0

    def named(field: str) -> str | None:
        return str(getattr(blocker, field, "")) or None

    return {
        "kind": blocker.kind,
        "text": operators.reason(blocker),
        "remedy": remedy_of(blocker).value,
        "tenant": named("tenant"),
        "scope": named("scope"),
        "event": event,
        "vm": named("vm"),
        "host": named("host"),
        "operation": named("operation"),
        "until": format_instant(until) if until else None,
    }
