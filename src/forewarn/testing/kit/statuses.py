"""How far an event has come, and that somebody approved it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventStatus, Outcome

Status: TypeAlias = Literal["Scheduled", "Started", "Removed", "Cancelled"]
"""How far an event has come. `Cancelled`: gone without having started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """That somebody approved an event."""

    by: str
    """The VM; an operator or a policy stands in parentheses."""
    after: timedelta
    """Since the event was made, by the clock of the world."""


def has_come(stored: StoredEvent, status: Status) -> bool:
    """Tell whether it stands at `status`, or has gone through it."""
    if status == "Scheduled":
        return True
    if status == "Started":
        return stored.started_at != 0
    return status_of(stored) == status


def status_of(stored: StoredEvent) -> Status:
    """Return how far an event has come."""
    if stored.status is EventStatus.STARTED:
        return "Started"
    if stored.status is EventStatus.REMOVED:
        return "Cancelled" if stored.outcome is Outcome.CANCELLED else "Removed"
    return "Scheduled"
