"""Collect the reasons why an operation has not started, from the store.

The start and `explain` use the same functions, so the explanation is always the reason
for the decision. This module only reads.
"""

from collections.abc import Iterable, Mapping, Sequence

from forewarn.control.rules import (
    apart,
    campaign_gate,
    consent,
    destinations,
    holds,
    relay_links,
    rolling,
)
from forewarn.control.rules.brake import why_braked
from forewarn.control.rules.guard import Unsteady, guard, shared_hosts
from forewarn.control.rules.holds import HeldTimes
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
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every

UNSTEADY_MAX = 100
"""Maximum VMs of a scope that are read from each end of the order of fault domains. A
reason names few of them, and a large scope can have thousands."""


def is_enabled(reader: Reader, scope: str) -> bool:
    """Return whether a VM of a scope has enabled Scheduled Events."""
    return any(view.is_enabled for view in every(reader, kinds.VIEWS_OF_SCOPE, scope))


def counting_events(reader: Reader, operation: Operation) -> list[Event]:
    """Return the events whose approval releases the operation.

    These are the events of the operation, or of the whole request if its operations
    start together (clause 3.6). Events that were removed because their VMs left do not
    count: no VM could approve them.
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
    """Return all reasons why the operation waits now (`explain`)."""
    if operation.state in WAITING_STATES:
        return missing_consent(reader, operation, now=now) + why_not_start(
            reader, operation, now=now
        )
    if operation.state is OperationState.PLANNED:
        return rolling.why_planned(reader, operation, now=now)
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
    """Return the reasons why a driver call waits for another attempt."""
    remaining = max(0, operation.due_at - now)
    is_moving = operation.action in MOVING_ACTIONS and not operation.driver_chooses
    if is_moving and not all(move.to_host or move.done for move in operation.moves):
        no_room = destinations.find_places(reader, operation).blockers
        return (*no_room, DriverRetry(remaining=remaining))
    return (DriverRetry(remaining=remaining, end=_end_of(operation)),)


def _end_of(operation: Operation) -> CallEnd:
    """Return the end of the last call."""
    return operation.note if isinstance(operation.note, CallEnd) else CallEnd()


def times_of(reader: Reader, operation: Operation, *, now: Micros) -> HeldTimes:
    """Return when the holds of a released operation allow it to start, from now on."""
    vms = vms_of(reader, operation)
    return HeldTimes(holds.holds_of(reader, operation, vms), now)


def vms_of(reader: Reader, operation: Operation) -> list[Vm]:
    """Return the VMs of a released operation that still exist."""
    return [vm for name in operation.vms if (vm := reader.get(Vm, name)) is not None]


def why_not_start(
    reader: Reader,
    operation: Operation,
    *,
    now: Micros,
    times: HeldTimes | None = None,
) -> tuple[AnyBlocker, ...]:
    """Return why a released operation cannot start now.

    `times` are those of its holds from now on, if the caller has them.

    A caller that starts it holds the safety rows of its scopes. A failure is never held,
    because it has already happened.
    """
    if operation.action is Action.NONE:
        return ()
    vms = vms_of(reader, operation)
    own = _domains_of(vms)
    blockers: tuple[AnyBlocker, ...] = why_braked(reader, operation.verb)
    times = times or times_of(reader, operation, now=now)
    blockers += apart.with_reason(reader, operation, times, times.why_held())
    blockers += campaign_gate.why_held(reader, operation, now=now)
    blockers += relay_links.why_silent(reader, operation, vms, now=now)
    blockers += shared_hosts(operation, _affected(reader, operation, vms))
    blockers += guard(
        operation,
        own=own,
        unsteady=_unsteady(reader, operation, own) if operation.routine else {},
    )
    blockers += _busy(reader, operation, vms)
    if operation.action in MOVING_ACTIONS:
        blockers += destinations.find_at_start(reader, operation).blockers
    return blockers


def _affected(reader: Reader, operation: Operation, vms: list[Vm]) -> Iterable[Vm]:
    """Return the VMs that the operation affects.

    A VM that came to a host after the announcement is not in the operation, but the
    maintenance of the host affects it.
    """
    if operation.target_kind is not TargetKind.HOST:
        return vms
    return every(reader, kinds.VMS_ON_HOST, operation.host)


def own_domains(reader: Reader, operation: Operation) -> dict[str, frozenset[int]]:
    """Return the fault domains that the operation takes down, by scope."""
    vms = (reader.get(Vm, name) for name in operation.vms)
    return _domains_of([vm for vm in vms if vm is not None])


def _domains_of(vms: Sequence[Vm]) -> dict[str, frozenset[int]]:
    own: dict[str, set[int]] = {}
    for vm in vms:
        own.setdefault(vm.scope, set()).add(vm.fault_domain)
    return {scope: frozenset(domains) for scope, domains in own.items()}


def missing_consent(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return the approvals and the time that an announced operation waits for."""
    # After a clock step back, NotBefore of a held operation can be in the future again.
    is_ready = operation.state is OperationState.READY
    if operation.state is not OperationState.ANNOUNCED and not (
        is_ready and now < operation.not_before
    ):
        return ()
    events = counting_events(reader, operation)
    listening: dict[str, bool] = {}
    for event in events:
        if event.operation == operation.operation_id:
            listening[event.scope] = is_enabled(reader, event.scope)
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
    by_scope: dict[str, list[Unsteady]] = {}
    for scope, domains in own.items():
        by_scope[scope] = [
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
    return by_scope


def _unsteady_vms(
    reader: Reader, operation: Operation, scope: str, domains: frozenset[int]
) -> Iterable[Vm]:
    """Return the unsteady VMs of a scope that can hold the operation.

    If only its own fault domain is down, as in a rollout over many hosts, two reads show
    that no VM holds it. A live migration also waits for others in its own domain.
    """
    if operation.action is not Action.LIVE_MIGRATE and len(domains) == 1:
        ends = (
            *reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1),
            *reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=True),
        )
        if {vm.fault_domain for vm in ends} <= domains:
            return ()
        # If there are other domains, the ends of the order include them.
        highest = reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=UNSTEADY_MAX)
        lowest = reader.ranked(
            kinds.UNSTEADY_DOMAINS, scope, limit=UNSTEADY_MAX, lowest=True
        )
        by_name = {vm.name: vm for vm in (*lowest, *highest)}
        return [by_name[name] for name in sorted(by_name)]
    return every(reader, kinds.VMS_UNSTEADY_IN_SCOPE, scope)


def _cause(reader: Reader, operation_id: str) -> Cause:
    operation = reader.get(Operation, operation_id)
    assert operation is not None, f"{operation_id} has started but is not stored"
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
    """Return the operations that work on the VMs: a VM is in one driver call at a time."""
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
                blockers.append(VmDown(vm=vm.name, host=vm.host))
    return tuple(blockers)
