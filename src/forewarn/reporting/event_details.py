"""The details of its events that a VM can read (protocol.own_events).

The reasons are those of `explain`, limited to what the VM may know. Other VMs and
tenants are named only if the VM's document names them.
"""

from collections.abc import Iterator

from forewarn.control.rules import obstacles
from forewarn.control.transactions.publishing import events_for
from forewarn.fleet.model import Span, Vm, VmState
from forewarn.instants import DAY, Micros, cut_to_second, sortable
from forewarn.protocol import views
from forewarn.protocol.blockers import (
    Blocker,
    Deferred,
    DriverAsked,
    DriverRetry,
    DriverUnable,
    FaultDomainDown,
    MigrationUnderWay,
    NoCapacity,
    NoCommonWindow,
    NotDue,
    NoticeRuns,
    OutcomeUnknown,
    RelaySilent,
    SharedHost,
    StillDown,
    VmBusy,
    VmDown,
    WindowClosed,
)
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
)
from forewarn.protocol.own_events import (
    EndedEvent,
    OwnEvent,
    OwnEvents,
    Wait,
    Waiting,
)
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import Reader, every

ENDED_MAX = 20
"""Maximum ended events in an answer: enough for an agent that missed some, not a
history."""

ENDED_AGE_MAX: Micros = DAY
"""Maximum age of an ended event in an answer: the time for which a silent view stays
enabled."""

OUTAGE_AGE_MAX: Micros = 7 * DAY
"""Maximum time since the start of an interruption whose end is reported: a VM's
interruptions are found by their start."""


def own_events(reader: Reader, name: str, *, now: Micros) -> OwnEvents | None:
    """Return the details of a VM's events; None if the VM does not exist."""
    vm = reader.get(Vm, name)
    if vm is None or vm.state is VmState.DELETED:
        return None
    view = reader.get(View, vm.view)
    assert view is not None, f"VM {name} has a view that does not exist"
    return OwnEvents(
        live=tuple(
            _live(reader, vm, view, event, now=now)
            for event in events_for(reader, view)
        ),
        ended=tuple(_ended(reader, vm, now=now)),
    )


def _live(reader: Reader, vm: Vm, view: View, event: Event, *, now: Micros) -> OwnEvent:
    operation = reader.get(Operation, event.operation)
    assert operation is not None, "a live event has its operation"
    return OwnEvent(
        event_id=event.event_id,
        event_type=event.event_type,
        status=event.status,
        is_affected=event.names(vm.name),
        # A failure counts as approved from the start, without an approver.
        is_approved=event.is_approved and event.needs_approval,
        waiting=tuple(_waiting(reader, vm, view, event, operation, now=now)),
    )


def _waiting(
    reader: Reader,
    vm: Vm,
    view: View,
    event: Event,
    operation: Operation,
    *,
    now: Micros,
) -> Iterator[Waiting]:
    reasons = obstacles.why_waiting(reader, operation, now=now)
    if operation.state is OperationState.ANNOUNCED and now < max(
        operation.not_before, operation.due_at
    ):
        yield from _approvals(
            vm, view, event, obstacles.counting_events(reader, operation)
        )
    reported: set[str] = set()
    for reason in reasons:
        waiting = _of_reason(vm, operation, reason)
        if waiting is not None and waiting.what.reason not in reported:
            reported.add(waiting.what.reason)
            yield waiting
    if operation.state is OperationState.IMPACTING and not reasons:
        if operation.call_state is CallState.ISSUED or operation.holds_vms:
            yield Waiting(what=Wait.DRIVER_AT_WORK)
    elif operation.state is OperationState.RECOVERING:
        yield Waiting(
            what=Wait.RECOVERY,
            at=operation.due_at,
        )


def _approvals(
    vm: Vm, view: View, event: Event, counting: list[Event]
) -> Iterator[Waiting]:
    """Yield the missing approvals; those of other tenants count as one."""
    missing = [counted for counted in counting if not counted.is_approved]
    if any(counted.event_id == event.event_id for counted in missing):
        yield Waiting(
            what=Wait.OWN_APPROVAL,
        )
    others = [counted for counted in missing if counted.event_id != event.event_id]
    visible = [counted for counted in others if views.sees(view, counted)]
    if visible:
        yield Waiting(
            what=Wait.OTHER_VM,
            vms=tuple(
                resource.name for counted in visible for resource in counted.resources
            ),
        )
    unseen = [counted for counted in others if not views.sees(view, counted)]
    if any(counted.tenant == vm.tenant for counted in unseen):
        yield Waiting(
            what=Wait.OTHER_SCOPE,
        )
    if any(counted.tenant != vm.tenant for counted in unseen):
        yield Waiting(what=Wait.OTHER_TENANT)


def _of_reason(vm: Vm, operation: Operation, reason: Blocker) -> Waiting | None:
    """Return a reason as the VM may know it; None for a missing approval."""
    match reason:
        case NotDue() | NoticeRuns():
            return Waiting(
                what=Wait.NOT_BEFORE,
                at=operation.not_before,
            )
        case FaultDomainDown() | MigrationUnderWay():
            is_own_scope = reason.scope == vm.scope
            return Waiting(
                what=Wait.OWN_GUARD if is_own_scope else Wait.GUARD,
            )
        case WindowClosed():
            is_own_scope = reason.scope == vm.scope
            return Waiting(what=Wait.WINDOW, at=reason.opens if is_own_scope else 0)
        case NoCommonWindow() | Deferred():
            return Waiting(what=Wait.WINDOW)
        case SharedHost():
            # The VM does not learn that another VM of its scope is on its host.
            return Waiting(what=Wait.GUARD)
        case NoCapacity():
            return Waiting(what=Wait.ROOM)
        case VmBusy() | DriverRetry():
            return Waiting(
                what=Wait.DRIVER_BUSY,
            )
        case DriverAsked():
            return Waiting(what=Wait.DRIVER_AT_WORK)
        case OutcomeUnknown() | StillDown() | VmDown() | DriverUnable() | RelaySilent():
            return Waiting(
                what=Wait.OPERATOR,
            )
        case _:
            return None


def _ended(reader: Reader, vm: Vm, *, now: Micros) -> list[EndedEvent]:
    """Return the events of the VM that ended lately, the latest first."""
    outages: dict[str, list[Span]] = {}
    begin = f"{vm.name}/{sortable(max(0, now - OUTAGE_AGE_MAX))}"
    for span in every(reader, kinds.SPANS_OF_VM, vm.name):
        if span.key > begin and span.is_outage and _is_whose(span, vm):
            outages.setdefault(span.operation, []).append(span)
    operations = {
        operation.operation_id
        for operation in every(reader, kinds.OPERATIONS_OF_VM, vm.name)
        if not operation.ended_at or operation.ended_at >= now - ENDED_AGE_MAX
    }
    ended: list[EndedEvent] = []
    for name in operations | outages.keys() - {""}:
        spans = outages.get(name, [])
        ended += (
            _ended_event(event, spans, now=now)
            for event in every(reader, kinds.EVENTS_OF_OPERATION, name)
            if event.status is EventStatus.REMOVED
            and event.removed_at >= now - ENDED_AGE_MAX
            and _is_whose(event, vm)
            # An event named a VM that has left it, if the VM was down because of the
            # event.
            and (event.names(vm.name) or spans)
        )
    ended.sort(key=lambda event: (-event.ended_at, event.event_id))
    return ended[:ENDED_MAX]


def _is_whose(part: Span | Event, vm: Vm) -> bool:
    """Return whether an event belongs to the VM's scope and its current tenant."""
    return (part.scope, part.tenant) == (vm.scope, vm.tenant)


def _ended_event(event: Event, spans: list[Span], *, now: Micros) -> EndedEvent:
    assert event.outcome is not None, "a removed event has its outcome"
    return EndedEvent(
        event_id=event.event_id,
        event_type=event.event_type,
        outcome=event.outcome,
        ended_at=event.removed_at,
        down=sum(_whole_seconds(span, now=now) for span in spans),
        is_exact=all(span.is_exact for span in spans),
    )


def _whole_seconds(span: Span, *, now: Micros) -> Micros:
    """Return the length of a period between the whole seconds of its ends.

    VMs of two tenants on one host are down for the same microseconds. By comparing
    them, the tenants could prove that they share the host.
    """
    return cut_to_second(span.ended or now) - cut_to_second(span.began)
