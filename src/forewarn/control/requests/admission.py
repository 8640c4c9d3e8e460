"""From an order to operations and events: the first step of every verb.

A verb describes each operation as a `Draft`; this module makes the request, the
operations and one event for each scope, publishes them, and lets go at once what
nobody has to wait for (clauses 4.1, 5.3, 7.4). All in the caller's transaction.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.control.entries import task_of
from forewarn.control.execution import release
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
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.lifecycle import EventInput, OperationInput
from forewarn.protocol.operations import (
    Action,
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
from forewarn.store import sequence
from forewarn.store.audit import AuditKind

MAINTENANCE_EVENTS = {
    Action.FREEZE: EventType.FREEZE,
    Action.LIVE_MIGRATE: EventType.FREEZE,
    Action.REBOOT: EventType.REBOOT,
    Action.REDEPLOY: EventType.REDEPLOY,
}
"""What is announced for each impact that maintenance of a host can have (5.9)."""

USER_VERBS = frozenset({Verb.REBOOT, Verb.REDEPLOY, Verb.TERMINATE})
"""What a user starts, so that it goes at once where nobody listens (7.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An operation as a verb wants it, before it has an id."""

    verb: Verb
    action: Action
    target_kind: TargetKind
    target: str
    host: str
    vms: tuple[Vm, ...]
    event_type: EventType
    source: EventSource
    description: str
    duration_seconds: int
    routine: bool
    not_before: Micros
    """The end of the notice. It is rounded up to its whole second when the operation
    is made."""
    is_timed: bool = False
    """Whether `not_before` was given by hand."""


def open_request(
    work: Work,
    verb: Verb,
    *,
    together: bool = False,
    is_rollout: bool = False,
    at_once: int = 0,
    hosts: int = 0,
) -> Request:
    """Store a new request; what it causes is found by its id."""
    prefix = "ro" if is_rollout else "rq"
    # Among all requests: what it makes sorts by it.
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
    )
    work.note(AuditKind[f"{verb.name}_ORDERED"], (f"request:{request.request_id}",))
    return work.tx.add(request)


def admit(work: Work, request: Request, drafts: Sequence[Draft]) -> list[Operation]:
    """Make the operations of a request, publish their events, let go what may.

    Operations that go together (3.6) are all made before any is let go.
    """
    check_actions(work, [draft.action for draft in drafts])
    work.lock_scopes(vm.scope for draft in drafts for vm in draft.vms)
    # What is due at the same time is done in the order of the ids: of requests as they
    # were made, and of one request as its operations were named.
    operation_ids = work.ids.shorts(
        "op", len(drafts), place=place_in(request.request_id)
    )
    event_ids = _event_ids(work, drafts)
    made = [
        _make(work, request, draft, operation_id, event_ids)
        for draft, operation_id in zip(drafts, operation_ids, strict=True)
    ]
    for operation in made:
        release.start_if_ready(work, operation.operation_id)
    for operation in made:
        _publish(work, operation)
    return [work.operation(operation.operation_id) for operation in made]


def _event_ids(work: Work, drafts: Sequence[Draft]) -> dict[str, Iterator[str]]:
    """Return the EventIds of an order, by tenant.

    They begin alike within a tenant only: from equal digits, two tenants could tell
    that they share a host.
    """
    tenants = Counter(
        tenant
        for draft in drafts
        for tenant, _scope in dict.fromkeys((vm.tenant, vm.scope) for vm in draft.vms)
    )
    return {tenant: iter(work.ids.events(n)) for tenant, n in tenants.items()}


def check_actions(work: Work, actions: Iterable[Action]) -> None:
    """Refuse what the driver cannot do."""
    for action in dict.fromkeys(actions):
        if action not in {Action.NONE, *work.actions}:
            raise RefusedError(
                f"the driver of this service cannot {action.value}",
                hint="choose another impact, or configure the driver for it",
            )


def announce(work: Work, planned: Operation, draft: Draft) -> None:
    """Tell those whom a Planned operation concerns; let it go if nobody is waited for.

    The caller holds the safety rows of the VMs' scopes.
    """
    operation = work.save_operation(
        planned,
        replace(
            planned,
            not_before=work.not_before(planned.operation_id, draft.not_before),
            moves=tuple(Move(vm=vm.name) for vm in draft.vms),
            scopes=tuple(sorted({vm.scope for vm in draft.vms})),
            created=work.now,
            is_timed=draft.is_timed,
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
    planned = Operation(
        operation_id=operation_id,
        request=request.request_id,
        verb=draft.verb,
        action=draft.action,
        target_kind=draft.target_kind,
        target=draft.target,
        host=draft.host,
        state=OperationState.PLANNED,
        routine=draft.routine,
        not_before=work.not_before(operation_id, draft.not_before),
        moves=tuple(Move(vm=vm.name) for vm in draft.vms),
        scopes=tuple(sorted({vm.scope for vm in draft.vms})),
        duration_seconds=draft.duration_seconds,
        description=draft.description,
        created=work.now,
        is_timed=draft.is_timed,
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
    """Take a Planned operation to Announced, with an event for each scope."""
    work.count_in_flight(planned.request, 1)
    noticed = work.step(planned, OperationInput.NOTICE)
    operation = work.save_operation(
        noticed, replace(noticed, due_at=noticed.not_before)
    )
    by_scope: dict[str, list[Vm]] = {}
    for vm in draft.vms:
        by_scope.setdefault(vm.scope, []).append(vm)
    for name, members in by_scope.items():
        scope = work.scope(name)
        named = [vm for vm in members if is_announced(draft.verb, scope, vm)]
        if named:
            event_id = next(event_ids[scope.tenant])
            work.add_event(_event(work, draft, operation, scope, named, event_id))
    return operation


def _event(
    work: Work,
    draft: Draft,
    operation: Operation,
    scope: Scope,
    vms: Sequence[Vm],
    event_id: str,
) -> Event:
    # A time that was given by hand holds also where nobody is asked.
    approver = (
        None if draft.is_timed else _approved_already(work, draft.verb, scope, vms)
    )
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
        description=draft.description,
        duration_seconds=draft.duration_seconds,
        created=work.now,
        approver=approver,
        approved_at=work.now if approver else 0,
        is_planned_work=draft.verb in PLANNED_VERBS,
    )


def is_announced(verb: Verb, scope: Scope, vm: Vm) -> bool:
    """Tell whether what a verb does to the VM is an event (4.7, 5.7, 5.8)."""
    if verb is Verb.TERMINATE:
        return scope.terminate_notice is not None and not vm.spot
    if verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return scope.os_image_notice is not None and vm.memory_preserving
    return True


def _approved_already(
    work: Work, verb: Verb, scope: Scope, vms: Sequence[Vm]
) -> Actor | None:
    """Return the rule that approves in place of a VM, or None."""
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
    """Tell whether the VM's view is enabled."""
    view = work.tx.get(View, vm.view)
    return view is not None and view.is_enabled


def _publish(work: Work, operation: Operation) -> None:
    """Publish the events that the operation's start has not published yet."""
    for event in work.events_of(operation):
        if event.status is EventStatus.NEW:
            work.step_event(event, EventInput.PUBLISH)
