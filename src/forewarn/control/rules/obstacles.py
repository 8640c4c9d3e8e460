"""Every reason why an operation has not started, from what the store holds.

The same function serves the start itself and `explain`, so that what is said is
what decides. It reads; it changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from forewarn.control.rules import consent, destinations, rolling
from forewarn.control.rules.guard import Unsteady, guard
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.blockers import (
    AnyBlocker,
    CallEnd,
    Cause,
    DriverAsked,
    DriverRetry,
    OutcomeUnknown,
    StillDown,
    VmBusy,
    VmDown,
)
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ASKED_STATES,
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

UNSTEADY_MAX = 100
"""VMs of a scope that are read from each end of the order of fault domains. A sentence
names few of them, and a large scope may have thousands."""


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
) -> tuple[AnyBlocker, ...]:
    """Return every reason that holds the operation now (`explain`)."""
    if operation.state in WAITING_STATES:
        return _missing_consent(reader, operation, now=now) + why_not_start(
            reader, operation
        )
    if operation.state is OperationState.PLANNED:
        return rolling.why_planned(reader, operation)
    if operation.state is not OperationState.IMPACTING:
        return ()
    if operation.verb is Verb.FAIL:
        return (
            StillDown(target_kind=operation.target_kind.value, target=operation.target),
        )
    if operation.call_state is CallState.RETRY:
        return _why_retry(reader, operation, now=now)
    if operation.call_state in ASKED_STATES:
        return (DriverAsked(generation=operation.generation),)
    if operation.call_state is CallState.UNKNOWN:
        return (
            OutcomeUnknown(operation=operation.operation_id, end=_end_of(operation)),
        )
    return ()


def _why_retry(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return what a call that is to be made again waits for."""
    remaining = max(0, operation.due_at - now)
    is_moving = operation.action in MOVING_ACTIONS
    if is_moving and not all(move.to_host or move.done for move in operation.moves):
        no_room = destinations.find_places(reader, operation).blockers
        return (*no_room, DriverRetry(remaining=remaining))
    return (DriverRetry(remaining=remaining, end=_end_of(operation)),)


def _end_of(operation: Operation) -> CallEnd:
    """Return how the last call ended."""
    return operation.note if isinstance(operation.note, CallEnd) else CallEnd()


def why_not_start(reader: Reader, operation: Operation) -> tuple[AnyBlocker, ...]:
    """Return what keeps an operation from starting that has been let go.

    The caller that starts holds the safety rows of the operation's scopes. A
    failure is kept by nothing: it has happened.
    """
    if operation.action is Action.NONE:
        return ()
    vms = [vm for name in operation.vms if (vm := reader.get(Vm, name)) is not None]
    own = _domains_of(vms)
    blockers = guard(
        operation,
        own=own,
        unsteady=_unsteady(reader, operation, own) if operation.routine else {},
    )
    blockers += _busy(reader, operation, vms)
    if operation.action in MOVING_ACTIONS:
        blockers += destinations.find_places(reader, operation).blockers
    return blockers


def own_domains(reader: Reader, operation: Operation) -> dict[str, frozenset[int]]:
    """Return the fault domains that the operation takes down, by scope."""
    vms = (reader.get(Vm, name) for name in operation.vms)
    return _domains_of([vm for vm in vms if vm is not None])


def _domains_of(vms: Sequence[Vm]) -> dict[str, frozenset[int]]:
    own: dict[str, set[int]] = {}
    for vm in vms:
        own.setdefault(vm.scope, set()).add(vm.fault_domain)
    return {scope: frozenset(domains) for scope, domains in own.items()}


def _missing_consent(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    # NotBefore may come again for a held operation: after a step of the clock back.
    is_ready = operation.state is OperationState.READY
    if operation.state is not OperationState.ANNOUNCED and not (
        is_ready and now < operation.not_before
    ):
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
    reader: Reader, operation: Operation, own: Mapping[str, frozenset[int]]
) -> dict[str, list[Unsteady]]:
    known: dict[str, Cause] = {}
    found: dict[str, list[Unsteady]] = {}
    for scope, domains in own.items():
        found[scope] = [
            Unsteady(
                vm=vm.name,
                fault_domain=vm.fault_domain,
                causes=tuple(
                    known.get(operation_id)
                    or known.setdefault(operation_id, _cause(reader, operation_id))
                    for operation_id in vm.started
                )
                or (Cause(),),
            )
            for vm in _unsteady_vms(reader, operation, scope, domains)
        ]
    return found


def _unsteady_vms(
    reader: Reader, operation: Operation, scope: str, domains: frozenset[int]
) -> Iterable[Vm]:
    """Return the unsteady VMs of a scope that may hold the operation.

    Where only its own fault domain is down, as in a rollout over many hosts, two looks
    tell that nothing holds it. A live migration waits for others of its own domain too.
    """
    if operation.action is not Action.LIVE_MIGRATE and len(domains) == 1:
        ends = (
            *reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1),
            *reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=True),
        )
        if {vm.fault_domain for vm in ends} <= domains:
            return ()
        # The ends of the order have other domains, if there are any.
        highest = reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=UNSTEADY_MAX)
        lowest = reader.ranked(
            kinds.UNSTEADY_DOMAINS, scope, limit=UNSTEADY_MAX, lowest=True
        )
        found = {vm.name: vm for vm in (*lowest, *highest)}
        return [found[name] for name in sorted(found)]
    return every(reader, kinds.VMS_UNSTEADY_IN_SCOPE, scope)


def _cause(reader: Reader, operation_id: str) -> Cause:
    operation = reader.get(Operation, operation_id)
    assert operation is not None, f"{operation_id} has started and is not stored"
    return Cause(
        operation=operation_id,
        verb=operation.verb,
        action=operation.action,
        target_kind=operation.target_kind,
        target=operation.target,
    )


def _busy(
    reader: Reader, operation: Operation, vms: list[Vm]
) -> tuple[AnyBlocker, ...]:
    """Return who else works on the VMs: two driver calls never meet on one."""
    blockers: list[AnyBlocker] = []
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
