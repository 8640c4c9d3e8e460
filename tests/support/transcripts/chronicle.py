"""The audit log as a story: a line for each entry that a reader needs.

The trail is read after each commit, so that the text about a step has the state at
that time, and the changes of one transaction can be printed together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from forewarn.control.rules import obstacles
from forewarn.instants import Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import Operation, OperationState, RequestState, Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.wording import operators
from tests.support.transcripts import moments
from tests.support.transcripts.names import Names

_PLANNED = frozenset({AuditKind.OPERATION_PLANNED, AuditKind.HOSTS_PLANNED})

_UNTOLD = _PLANNED | {
    AuditKind.REQUEST_CLOSED,
    AuditKind.FLEET_APPLIED,
    *(
        AuditKind[f"{kind}_{done}"]
        for kind in ("TENANT", "SCOPE", "HOST", "VM")
        for done in ("ADD", "CHANGE", "REMOVE")
    ),
}
"""Steps that another line reports already."""

_ORDERED = frozenset(AuditKind[f"{verb.name}_ORDERED"] for verb in Verb)

_ENDS = {
    AuditKind.OPERATION_DONE: OperationState.DONE,
    AuditKind.OPERATION_CANCELLED: OperationState.CANCELLED,
    AuditKind.OPERATION_FAILED: OperationState.FAILED,
}

_STEPS = frozenset(_ENDS) | {
    AuditKind.OPERATION_ANNOUNCED,
    AuditKind.OPERATION_READY,
    AuditKind.OPERATION_HELD,
    AuditKind.OPERATION_IMPACTING,
    AuditKind.OPERATION_RECOVERING,
}

_STATUSES = {
    AuditKind.EVENT_SCHEDULED: EventStatus.SCHEDULED,
    AuditKind.EVENT_STARTED: EventStatus.STARTED,
    AuditKind.EVENT_REMOVED: EventStatus.REMOVED,
}


class Chronicle:
    """Tells the trail, entry by entry."""

    def __init__(self, names: Names, tell: Callable[[str], None]) -> None:
        """Call things by `names`; give each line to `tell`."""
        self._names = names
        self._tell = tell
        self._last = ""
        self._entries: Sequence[AuditEntry] = ()

    def catch_up(self, reader: Reader, *, now: Micros) -> None:
        """Tell what was written since the last time."""
        self._entries = list(_entries_behind(reader, self._last))
        if self._entries:
            self._last = self._entries[-1].entry_id
        self._meet_all(reader)
        for entry in self._entries:
            for line in self._lines(reader, entry, now):
                self._tell(line)

    def _meet_all(self, reader: Reader) -> None:
        """Name what the entries are about; events by their operation and scope."""
        events: dict[str, Event] = {}
        for entry in self._entries:
            for kind in ("request", "operation"):
                for identifier in _subjects(entry, kind):
                    self._names.meet(identifier)
            for identifier in _subjects(entry, "event"):
                event = reader.get(Event, identifier)
                assert event is not None, entry
                events[identifier] = event
        for event in sorted(
            events.values(),
            key=lambda event: (self._names.place(event.operation), event.scope),
        ):
            self._names.meet(event.event_id)

    def _lines(self, reader: Reader, entry: AuditEntry, now: Micros) -> Iterator[str]:
        if entry.kind in _UNTOLD:
            return
        if entry.kind in _ORDERED:
            yield from self._ordered(entry)
        elif entry.kind is AuditKind.REQUEST_CANCELLED:
            yield f"{self._name(entry, 'request')} {RequestState.CANCELLED.value}"
        elif entry.kind is AuditKind.REQUEST_STOPPED:
            yield f"{self._name(entry, 'request')} {RequestState.STOPPED.value}"
        elif entry.kind in _STATUSES:
            yield from self._event(reader, entry)
        else:
            yield from self._operation(reader, entry, now)

    def _ordered(self, entry: AuditEntry) -> Iterator[str]:
        operations = [
            self._names.meet(identifier)
            for planned in self._entries
            if planned.kind in _PLANNED
            for identifier in _subjects(planned, "operation")
        ]
        if len(operations) > 1:
            yield f"{self._name(entry, 'request')} {entry.what}: {', '.join(operations)}"

    def _operation(
        self, reader: Reader, entry: AuditEntry, now: Micros
    ) -> Iterator[str]:
        if entry.kind not in _STEPS:
            yield from self._other(entry)
            return
        operation = reader.get(Operation, _subject(entry, "operation"))
        assert operation is not None, entry
        name = self._names.meet(operation.operation_id)
        at_once = self._has(operation, AuditKind.OPERATION_ANNOUNCED)
        starts = self._has(operation, AuditKind.OPERATION_IMPACTING)
        match entry.kind:
            case AuditKind.OPERATION_ANNOUNCED if starts:
                yield f"{name} Impacting at once: {operators.task(operation)}"
            case AuditKind.OPERATION_ANNOUNCED:
                when = moments.told(operation.not_before)
                yield f"{name} Announced: {operators.task(operation)}, from {when}"
            case AuditKind.OPERATION_READY if not starts:
                blockers = obstacles.why_waiting(reader, operation, now=now)
                reasons = [f"  {reason}" for reason in operators.reasons(blockers)]
                yield "\n".join([f"{name} Ready, but held:", *reasons])
            case AuditKind.OPERATION_IMPACTING if not at_once:
                yield f"{name} Impacting"
            case AuditKind.OPERATION_RECOVERING:
                yield f"{name} Recovering until {moments.told(operation.due_at)}"
            case _ if entry.kind in _ENDS:
                note = operators.note(entry.facts.note)
                why = f": {note}" if note else ""
                yield f"{name} {_ENDS[entry.kind].value}{why}"
            case _:
                pass

    def _has(self, operation: Operation, kind: AuditKind) -> bool:
        """Return whether this transaction took the operation through a step."""
        return any(
            entry.kind is kind and entry.operation == operation.operation_id
            for entry in self._entries
        )

    def _event(self, reader: Reader, entry: AuditEntry) -> Iterator[str]:
        event = reader.get(Event, _subject(entry, "event"))
        assert event is not None, entry
        if not is_heard(reader, event):
            text = summary(event, _STATUSES[entry.kind])
            name = self._name(entry, "event")
            yield f"{name} {text} (nobody of {event.scope} listens)"

    def _other(self, entry: AuditEntry) -> Iterator[str]:
        subject = entry.subjects[0].partition(":")[2]
        text = operators.detail_of(entry)
        match entry.kind:
            case AuditKind.EVENT_APPROVED:
                yield f"{self._name(entry, 'event')} approved {text}"
            case AuditKind.EVENT_SHRUNK:
                name = self._name(entry, "event")
                yield f"{name} no longer names {_subject(entry, 'vm')}"
            case AuditKind.DRIVER_DONE:
                yield f"driver: {self._name(entry, 'operation')} is done"
            case (
                AuditKind.DRIVER_FAILED
                | AuditKind.DRIVER_OUTCOME_UNKNOWN
                | AuditKind.OPERATION_RESOLVED
            ):
                yield f"{self._name(entry, 'operation')} {_step(entry.kind)}: {text}"
            case AuditKind.SCOPE_ENABLED:
                facts = entry.facts
                yield f"{facts.enabling} enabled, by the first request of vm {facts.vm}"
            case AuditKind.SCOPE_DISABLED:
                yield f"{entry.facts.enabling} disabled"
            case AuditKind.VM_MOVED:
                for move in entry.facts.moves:
                    yield f"{move.vm} moved {operators.moved(move)}"
            case _:
                detail = f": {text}" if text else ""
                yield f"{subject} {_step(entry.kind)}{detail}"

    def _name(self, entry: AuditEntry, kind: str) -> str:
        return self._names.meet(_subject(entry, kind))


def is_heard(reader: Reader, event: Event) -> bool:
    """Return whether anybody of the event's scope listens."""
    return any(
        view.is_enabled for view in every(reader, kinds.VIEWS_OF_SCOPE, event.scope)
    )


def summary(event: Event, status: EventStatus) -> str:
    """Return an event in few words: `Scheduled Freeze [web_0]`."""
    names = ", ".join(resource.name for resource in event.resources)
    return f"{status.value} {event.event_type.value} [{names}]"


def _entries_behind(reader: Reader, last: str) -> Iterable[AuditEntry]:
    """Yield what was written after the entry with the key `last`."""
    return reader.select(kinds.ALL_AUDIT, after=last, limit=1_000_000)


def _step(kind: AuditKind) -> str:
    """Return what happened, without what it happened to: `moved`."""
    return " ".join(kind.name.lower().split("_")[1:])


def _subjects(entry: AuditEntry, kind: str) -> Iterator[str]:
    for subject in entry.subjects:
        found, _, name = subject.partition(":")
        if found == kind:
            yield name


def _subject(entry: AuditEntry, kind: str) -> str:
    return next(_subjects(entry, kind))
