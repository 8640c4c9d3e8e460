"""The events of a recording as it shows them, with the approvals of clients.

Clients cannot change a recording. Their approvals are stored here, by the rules of the
protocol: an approval counts while the event is shown as Scheduled (clause 3.2). Time is an
argument.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.instants import Micros, cut_to_second
from forewarn.protocol.actors import vm_actor
from forewarn.protocol.decoder import UnreadableError, decode
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Outcome,
    Resource,
)
from forewarn.protocol.notices import Notice
from forewarn.protocol.versions import ApiVersion

_TYPES = {event_type.value: event_type for event_type in EventType}


class RecordedEvents:
    """The events so far, for one replay of a recording."""

    def __init__(self, version: ApiVersion) -> None:
        """Start without events, for a recording with the api-version `version`."""
        self._version = version
        self._events: dict[str, Event] = {}
        self._known: set[str] = set()

    def take(self, body: bytes, *, at: Micros) -> None:
        """Process the document that is shown from `at` on; other bodies are ignored."""
        try:
            reading = decode(body, underscored=self._version.underscore)
        except UnreadableError:
            return
        shown = {notice.event_id: notice for notice in reading.notices}
        self._known |= shown.keys()
        for event_id, notice in shown.items():
            event = self._events.get(event_id) or _new(notice, at=at)
            # An event of an unknown type cannot be judged.
            if event is not None:
                self._events[event_id] = _as_shown(event, notice, at=at)
        for event_id, event in self._events.items():
            if event_id not in shown and event.is_live:
                self._events[event_id] = _removed(event, at=at)

    def approve(self, vm: str, event_ids: Sequence[str], *, at: Micros) -> str | None:
        """Store an approval of a VM; return the reason of a refusal, or None (3.3)."""
        for event_id in event_ids:
            if event_id not in self._known:
                return f"EventId {event_id} is not in this VM's document"
        for event_id in event_ids:
            event = self._events.get(event_id)
            if event is not None and event.awaits_approval:
                self._events[event_id] = replace(
                    event, approver=vm_actor(vm), approved_at=at
                )
        return None

    def find(self, event_id: str) -> Event | None:
        """Return an event by its ID in upper case, even if it was removed."""
        return self._events.get(event_id)

    @property
    def all(self) -> Sequence[Event]:
        """Return all events so far, in the order of their first appearance."""
        return [*self._events.values()]

    @property
    def live(self) -> Sequence[Event]:
        """Return the events of the current document, the oldest first."""
        return [event for event in self._events.values() if event.is_live]


def _new(notice: Notice, *, at: Micros) -> Event | None:
    event_type = _TYPES.get(notice.event_type)
    if event_type is None:
        return None
    is_user = notice.source == EventSource.USER.value
    return Event(
        event_id=notice.event_id,
        operation="",
        scope="",
        tenant="",
        status=EventStatus.SCHEDULED,
        event_type=event_type,
        source=EventSource.USER if is_user else EventSource.PLATFORM,
        resources=(),
        not_before=0,
        description="",
        duration_seconds=notice.duration_seconds,
        created=at,
    )


def _as_shown(event: Event, notice: Notice, *, at: Micros) -> Event:
    """Return an event with the values of its notice."""
    has_started = notice.has_started
    return replace(
        event,
        status=EventStatus.STARTED if has_started else EventStatus.SCHEDULED,
        resources=tuple(
            Resource(vm=name, name=name, fault_domain=0) for name in notice.resources
        ),
        # A started event has no NotBefore (2.7).
        not_before=notice.not_before or event.not_before or cut_to_second(at),
        description=notice.description,
        duration_seconds=notice.duration_seconds,
        started_at=(event.started_at or at) if has_started else 0,
        removed_at=0,
        outcome=None,
    )


def _removed(event: Event, *, at: Micros) -> Event:
    """Return an event that is no longer in the document.

    If it was removed before its NotBefore and was never shown as Started, it was
    cancelled.
    """
    is_cancelled = not event.started_at and at < event.not_before
    return replace(
        event,
        status=EventStatus.REMOVED,
        removed_at=at,
        outcome=Outcome.CANCELLED if is_cancelled else Outcome.COMPLETED,
    )
