"""Admission: create the request, operations and events of a verb.

A verb describes each operation as a `Draft`. This module creates the request, the
operations and one event per scope, publishes them, and starts operations that do not
have to wait (clauses 4.1, 5.3, 7.4). It also announces operations again that were held
for too long. Everything runs in the transaction of the caller.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.control.execution import calls, release
from forewarn.control.rules import abilities
from forewarn.control.rules.brake import why_braked
from forewarn.control.rules.maintenance import Change
from forewarn.control.transactions.about import task_of
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Scope, Vm, VmState
from forewarn.ids import place_in, place_of
from forewarn.instants import Micros
from forewarn.protocol.actors import (
    DOWN_ALREADY,
    NO_NOTICE,
    NOBODY_LISTENS,
    POLICY,
    Actor,
)
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.lifecycle import EventInput, OperationInput
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Move,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.protocol.views import View
from forewarn.store import kinds, sequence
from forewarn.store.port import none_yet
from forewarn.store.records import AuditKind

USER_VERBS = frozenset({Verb.REBOOT, Verb.REDEPLOY, Verb.TERMINATE})
"""Verbs of users. They start at once if Scheduled Events are not enabled (7.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An operation to create, and its event."""

    operation: Operation
    """The operation without an ID. Its NotBefore is the end of the notice; it is rounded
    up to a whole second when the operation is created."""
    vms: tuple[Vm, ...]
    event_type: EventType
    source: EventSource


def draft(
    verb: Verb,
    change: Change,
    vms: Sequence[Vm],
    *,
    target_kind: TargetKind,
    target: str,
    host: str,
    not_before: Micros,
    is_timed: bool = False,
) -> Draft:
    """Return the draft of an operation; `is_timed`: the caller gave `not_before`."""
    operation = Operation(
        operation_id="",
        request="",
        verb=verb,
        action=change.action,
        target_kind=target_kind,
        target=target,
        host=host,
        state=OperationState.PLANNED,
        routine=change.routine,
        not_before=not_before,
        moves=tuple(Move(vm=vm.name) for vm in vms),
        scopes=tuple(sorted({vm.scope for vm in vms})),
        duration_seconds=change.duration_seconds,
        description=change.description,
        created=0,
        is_timed=is_timed,
        is_emergency=change.is_emergency,
    )
    return Draft(
        operation=operation,
        vms=tuple(vms),
        event_type=change.event_type,
        source=change.source,
    )


def draft_like(
    operation: Operation,
    vms: Sequence[Vm],
    *,
    event_type: EventType,
    source: EventSource,
    not_before: Micros,
) -> Draft:
    """Return the draft of an operation that does the same as another one, to `vms`."""
    change = Change(
        action=operation.action,
        event_type=event_type,
        source=source,
        description=operation.description,
        duration_seconds=operation.duration_seconds,
        routine=operation.routine,
        is_emergency=operation.is_emergency,
    )
    return draft(
        operation.verb,
        change,
        vms,
        target_kind=operation.target_kind,
        target=operation.target,
        host=operation.host,
        not_before=not_before,
        is_timed=operation.is_timed,
    )


def open_request(
    work: Work,
    verb: Verb,
    *,
    together: bool = False,
    is_rollout: bool = False,
    at_once: int = 0,
    hosts: int = 0,
    steps: tuple[HostStep, ...] = (),
) -> Request:
    """Store a new request."""
    if braked := why_braked(work.tx, verb):
        raise HinderedError(
            "no planned work is announced now",
            because=braked,
            hint="Run `forewarn brake off` if it can begin.",
        )
    prefix = "ro" if is_rollout else "rq"
    # The place orders the request among all requests, and its operations sort by it.
    place = place_of(*sequence.parts_of(work.next_key()))
    request = Request(
        request_id=work.ids.short(prefix, place=place),
        verb=verb,
        actor=work.who.actor,
        reason=work.who.reason,
        state=RequestState.OPEN,
        together=together,
        is_rollout=is_rollout,
        created=work.now,
        at_once=at_once,
        hosts=hosts,
        steps=steps,
        shared_most=work.policy.campaigns_in_flight if hosts > 1 else 0,
    )
    work.note(AuditKind[f"{verb.name}_ORDERED"], (f"request:{request.request_id}",))
    none_yet(work.tx, kinds.OPEN_OPERATIONS_OF_REQUEST, request.request_id)
    return work.tx.add(request)


def admit(work: Work, request: Request, drafts: Sequence[Draft]) -> list[Operation]:
    """Create the operations of a request, publish their events, and start what may start.

    Operations that start together (3.6) are all created before any starts.
    """
    abilities.check_actions(
        work.abilities, [draft.operation.action for draft in drafts]
    )
    work.lock_scopes(vm.scope for draft in drafts for vm in draft.vms)
    # Work that is due at the same time is done in the order of the IDs: requests in the
    # order of their creation, operations of a request in the order of their targets.
    operation_ids = work.ids.shorts(
        "op", len(drafts), place=place_in(request.request_id)
    )
    event_ids = _event_ids(work, drafts)
    operations = [
        _make(work, request, draft, operation_id, event_ids)
        for draft, operation_id in zip(drafts, operation_ids, strict=True)
    ]
    for operation in operations:
        release.start_if_ready(work, operation.operation_id)
    for operation in operations:
        _publish(work, operation)
    return [work.operation(operation.operation_id) for operation in operations]


def _event_ids(work: Work, drafts: Sequence[Draft]) -> dict[str, Iterator[str]]:
    """Return the EventIds of a request, by tenant.

    The IDs start with the same digits within a tenant only. From equal digits, two
    tenants could see that they share a host.
    """
    tenants = Counter(
        tenant
        for draft in drafts
        for tenant, _scope in dict.fromkeys((vm.tenant, vm.scope) for vm in draft.vms)
    )
    return {tenant: iter(work.ids.events(n)) for tenant, n in tenants.items()}


def announce(work: Work, planned: Operation, draft: Draft) -> None:
    """Announce a Planned operation, and start it if it does not have to wait.

    The caller holds the safety rows of the scopes of the VMs.
    """
    wanted = draft.operation
    operation = work.save_operation(
        planned,
        replace(
            planned,
            not_before=work.not_before(planned.operation_id, wanted.not_before),
            moves=wanted.moves,
            scopes=wanted.scopes,
            created=work.now,
            is_timed=wanted.is_timed,
        ),
    )
    noticed = _notice(work, operation, draft, _event_ids(work, [draft]))
    release.start_if_ready(work, noticed.operation_id)
    _publish(work, noticed)


def _make(
    work: Work,
    request: Request,
    draft: Draft,
    operation_id: str,
    event_ids: Mapping[str, Iterator[str]],
) -> Operation:
    planned = replace(
        draft.operation,
        operation_id=operation_id,
        request=request.request_id,
        not_before=work.not_before(operation_id, draft.operation.not_before),
        created=work.now,
    )
    stored = work.add_operation(planned)
    work.note_operation(AuditKind.OPERATION_PLANNED, stored, task_of(stored))
    return _notice(work, stored, draft, event_ids)


def _notice(
    work: Work,
    planned: Operation,
    draft: Draft,
    event_ids: Mapping[str, Iterator[str]],
) -> Operation:
    """Take a Planned operation to Announced, with one event per scope.

    The destinations of all VMs of a host are reserved first.
    """
    if not planned.visit:
        # A visit counts its host itself.
        work.count_in_flight(planned.request, 1)
    noticed = work.step(planned, OperationInput.NOTICE)
    operation = work.save_operation(
        noticed, replace(noticed, due_at=noticed.not_before)
    )
    calls.give_up_places(work, operation)
    if operation.action in MOVING_ACTIONS and operation.target_kind is TargetKind.HOST:
        # Two hosts that are emptied must not count on the same capacity.
        operation = calls.reserve_places(work, operation)
    by_scope: dict[str, list[Vm]] = {}
    for vm in draft.vms:
        by_scope.setdefault(vm.scope, []).append(vm)
    for name, members in by_scope.items():
        scope = work.scope(name)
        named = [vm for vm in members if is_announced(operation.verb, scope, vm)]
        if named:
            event_id = next(event_ids[scope.tenant])
            work.tx.add(_event(work, draft, operation, scope, named, event_id))
    return operation


def _event(
    work: Work,
    draft: Draft,
    operation: Operation,
    scope: Scope,
    vms: Sequence[Vm],
    event_id: str,
) -> Event:
    # A time from the caller applies even if no approval is needed.
    verb = operation.verb
    approver = None if operation.is_timed else _approved_already(work, verb, scope, vms)
    return Event(
        event_id=event_id,
        operation=operation.operation_id,
        scope=scope.name,
        tenant=scope.tenant,
        status=EventStatus.NEW,
        event_type=draft.event_type,
        source=draft.source,
        resources=tuple(
            Resource(vm=vm.name, name=vm.wire_name, fault_domain=vm.fault_domain)
            for vm in vms
        ),
        not_before=operation.not_before,
        description=operation.description,
        duration_seconds=operation.duration_seconds,
        created=work.now,
        approver=approver,
        approved_at=work.now if approver else 0,
        is_planned_work=verb in PLANNED_VERBS,
    )


def is_announced(verb: Verb, scope: Scope, vm: Vm) -> bool:
    """Return whether a verb creates an event for the VM (4.7, 5.7, 5.8)."""
    if verb is Verb.TERMINATE:
        return scope.terminate_notice is not None and not vm.spot
    if verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return scope.os_image_notice is not None and vm.memory_preserving
    return True


def _approved_already(
    work: Work, verb: Verb, scope: Scope, vms: Sequence[Vm]
) -> Actor | None:
    """Return the policy that approves instead of a VM, or None."""
    if verb is Verb.FAIL:
        return NO_NOTICE
    if verb not in USER_VERBS:
        return None
    if verb is Verb.REBOOT and scope.approve_user_reboot:
        return POLICY
    if verb is Verb.REDEPLOY and scope.approve_user_redeploy:
        return POLICY
    if verb is not Verb.TERMINATE and all(vm.state is VmState.DOWN for vm in vms):
        return DOWN_ALREADY
    if not any(is_listening(work, vm) for vm in vms):
        return NOBODY_LISTENS
    return None


def is_listening(work: Work, vm: Vm) -> bool:
    """Return whether the view of the VM is enabled."""
    view = work.tx.get(View, vm.view)
    return view is not None and view.is_enabled


def _publish(work: Work, operation: Operation) -> None:
    """Publish the events of the operation that its start has not published."""
    for event in work.events_of(operation):
        if event.status is EventStatus.NEW:
            work.step_event(event, EventInput.PUBLISH)
