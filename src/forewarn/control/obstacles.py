"""Every reason why an operation has not started, from what the store holds.

The same function serves the start itself and `explain`, so that what is said is
what decides. It reads; it changes nothing.
"""

from collections.abc import Mapping

from forewarn.control import consent, room
from forewarn.control.blockers import (
    Blocker,
    DriverRetry,
    OutcomeUnknown,
    StillDown,
    VmBusy,
    VmDown,
)
from forewarn.control.guard import Cause, Unsteady, guard
from forewarn.control.work import describe
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    WAITING_STATES,
    Action,
    CallState,
    Operation,
    OperationState,
    Request,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def counting_events(reader: Reader, operation: Operation) -> list[Event]:
    """Return the events whose approval lets the operation go.

    They are its own, or those of its whole request where its operations go
    together (clause 3.6). An event that was removed because its VMs have gone is
    not waited for: nobody could approve it.
    """
    request = reader.get(Request, operation.request)
    if request is None or not request.together:
        return _events_left(reader, operation)
    return [
        event
        for sibling in every(reader, kinds.OPERATIONS_OF_REQUEST, operation.request)
        if sibling.state in WAITING_STATES
        for event in _events_left(reader, sibling)
    ]


def _events_left(reader: Reader, operation: Operation) -> list[Event]:
    return [
        event
        for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
        if event.status is not EventStatus.REMOVED
    ]


def why_waiting(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[Blocker, ...]:
    """Return every reason that holds the operation now (`explain`)."""
    if operation.state in WAITING_STATES:
        return _missing_consent(reader, operation, now=now) + why_not_start(
            reader, operation
        )
    if operation.state is not OperationState.IMPACTING:
        return ()
    if operation.verb is Verb.FAIL:
        return (
            StillDown(target_kind=operation.target_kind.value, target=operation.target),
        )
    if operation.call_state is CallState.RETRY:
        return (
            DriverRetry(remaining=max(0, operation.due_at - now), note=operation.note),
        )
    if operation.call_state is CallState.UNKNOWN:
        return (OutcomeUnknown(operation=operation.operation_id, note=operation.note),)
    return ()


def why_not_start(reader: Reader, operation: Operation) -> tuple[Blocker, ...]:
    """Return what keeps an operation from starting that has been let go.

    The caller that starts holds the safety rows of the operation's scopes. A
    failure is kept by nothing: it has happened.
    """
    if operation.action is Action.NONE:
        return ()
    vms = [vm for name in operation.vms if (vm := reader.get(Vm, name)) is not None]
    own: dict[str, set[int]] = {}
    for vm in vms:
        own.setdefault(vm.scope, set()).add(vm.fault_domain)
    blockers = guard(
        operation,
        own={scope: frozenset(domains) for scope, domains in own.items()},
        unsteady=_unsteady(reader, own) if operation.routine else {},
    )
    blockers += _busy(reader, operation, vms)
    if operation.action in MOVING_ACTIONS:
        blockers += room.find_places(reader, operation).blockers
    return blockers


def _missing_consent(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[Blocker, ...]:
    if operation.state is not OperationState.NOTICED:
        return ()
    events = counting_events(reader, operation)
    listening: dict[str, bool] = {}
    for event in events:
        if event.operation == operation.operation_id:
            listening[event.scope] = any(
                view.is_enabled
                for view in every(reader, kinds.VIEWS_OF_SCOPE, event.scope)
            )
    targets = {
        event.operation: found.target
        for event in events
        if (found := reader.get(Operation, event.operation)) is not None
    }
    return consent.waiting_for(
        operation, events, now=now, listening=listening, targets=targets
    )


def _unsteady(
    reader: Reader, scopes: Mapping[str, object]
) -> dict[str, list[Unsteady]]:
    known: dict[str, Cause] = {}
    found: dict[str, list[Unsteady]] = {}
    for scope in scopes:
        found[scope] = [
            Unsteady(
                vm=vm.name,
                fault_domain=vm.fault_domain,
                causes=tuple(
                    known.get(operation_id)
                    or known.setdefault(operation_id, _cause(reader, operation_id))
                    for operation_id in vm.started
                )
                or (Cause(operation="", action=Action.NONE, because="it is down"),),
            )
            for vm in every(reader, kinds.VMS_UNSTEADY_IN_SCOPE, scope)
        ]
    return found


def _cause(reader: Reader, operation_id: str) -> Cause:
    operation = reader.get(Operation, operation_id)
    assert operation is not None, f"{operation_id} has started and is not stored"
    if operation.verb is Verb.FAIL:
        because = f"{operation.target_kind.value} {operation.target} failed"
    else:
        because = f"{operation_id} has started: {describe(operation)}"
    return Cause(operation=operation_id, action=operation.action, because=because)


def _busy(reader: Reader, operation: Operation, vms: list[Vm]) -> tuple[Blocker, ...]:
    """Return who else works on the VMs: two driver calls never meet on one."""
    blockers: list[Blocker] = []
    for vm in vms:
        for other_id in vm.started:
            other = reader.get(Operation, other_id)
            if (
                other is not None
                and other_id != operation.operation_id
                and other.state is OperationState.IMPACTING
                and other.action is not Action.NONE
            ):
                blockers.append(VmBusy(vm=vm.name, operation=other_id))
        if vm.state is VmState.DOWN and operation.action in {
            Action.REBOOT,
            Action.REIMAGE,
        }:
            host = reader.get(Host, vm.host)
            if host is not None and host.state is HostState.DOWN:
                blockers.append(VmDown(vm=vm.name))
    return tuple(blockers)
