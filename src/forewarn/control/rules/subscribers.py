"""Who is told of changes of events, as a value: which changes each wants.

What becomes of a message, and where it is sent, is not known here.
"""

from dataclasses import dataclass

from forewarn.protocol.events import Event, EventStatus, EventType, Outcome
from forewarn.store.outbox import EventChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A receiver, and what it may and wants to hear of."""

    name: str
    tenant: str = ""
    """Whose events it hears of; empty: everybody's."""
    types: frozenset[EventType] = frozenset(EventType)
    changes: frozenset[EventChange] = frozenset(EventChange)

    def wants(self, event: Event, change: EventChange) -> bool:
        """Tell whether a change of the event is told to it."""
        return (
            (not self.tenant or event.tenant == self.tenant)
            and event.event_type in self.types
            and change in self.changes
        )


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
    """Return what happened between two states of an event; None: nothing to tell."""
    if after.status is not before.status:
        if after.status is EventStatus.REMOVED:
            assert after.outcome is not None, after
            # What was never published was told to nobody.
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
