"""From an order to operations and events: the first step of every verb.

A verb describes each operation as a `Draft`; this module makes the request, the
operations and one event for each scope, publishes them, and lets go at once what
nobody has to wait for (clauses 4.1, 5.3, 7.4). All in the caller's transaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from forewarn.control import release
from forewarn.control.work import Work, describe, subjects_of
from forewarn.fleet.model import Scope, Vm, VmState
from forewarn.instants import Micros, round_up_to_second
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
from forewarn.protocol.views import View

POLICY = "(policy)"
"""Who approved, where the scope's policy did (clause 5.3)."""
NOBODY_LISTENS = "(nobody listens)"
"""Who approved, where the scope is disabled and a user asked (clause 7.4)."""
DOWN_ALREADY = "(down already)"
"""Who approved, where the VM does not run and so nobody can prepare."""
NO_NOTICE = "(failure)"
"""Who approved a failure: nobody was asked (clause 5.5)."""

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
    """Rounded up to its whole second when the operation is made."""


def open_request(
    work: Work, verb: Verb, *, together: bool = False, is_rollout: bool = False
) -> Request:
    """Store a new request; what it causes is found by its id."""
    prefix = "ro" if is_rollout else "rq"
    request = Request(
        request_id=work.ids.short(prefix),
        verb=verb,
        actor=work.who.actor,
        reason=work.who.reason,
        state=RequestState.OPEN,
        together=together,
        is_rollout=is_rollout,
        created=work.now,
    )
    work.note(f"{verb.value} ordered", (f"request:{request.request_id}",))
    return work.tx.add(request)


def admit(work: Work, request: Request, drafts: Sequence[Draft]) -> list[Operation]:
    """Make the operations of a request, publish their events, let go what may.

    Operations that go together (3.6) are all made before any is let go.
    """
    for draft in drafts:
        if draft.action not in {Action.NONE, *work.actions}:
            raise RefusedError(
                f"the driver of this service cannot {draft.action.value}",
                hint="choose another impact, or configure the driver for it",
            )
    work.secure(vm.scope for draft in drafts for vm in draft.vms)
    # Ids are random, and things are shown and woken in the order of their ids. So
    # they are drawn sorted before: what was named first then comes first. It also
    # lies first in the store, and near the others that are approved about then.
    operation_ids = work.ids.shorts("op", len(drafts))
    event_ids = iter(
        work.ids.events(sum(len({vm.scope for vm in draft.vms}) for draft in drafts))
    )
    made = [
        _make(work, request, draft, operation_id, event_ids)
        for draft, operation_id in zip(drafts, operation_ids, strict=True)
    ]
    for operation in made:
        release.let_go(work, operation.operation_id)
    for operation in made:
        _publish(work, operation)
    return [work.operation(operation.operation_id) for operation in made]


def _make(
    work: Work,
    request: Request,
    draft: Draft,
    operation_id: str,
    event_ids: Iterator[str],
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
        not_before=round_up_to_second(draft.not_before),
        moves=tuple(Move(vm=vm.name) for vm in draft.vms),
        scopes=tuple(sorted({vm.scope for vm in draft.vms})),
        duration_seconds=draft.duration_seconds,
        description=draft.description,
        created=work.now,
    )
    stored = work.add_operation(planned)
    work.note("operation planned", subjects_of(stored), describe(stored))
    noticed = work.step(stored, OperationInput.NOTICE)
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
            event_id = next(event_ids)
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
    approved_by = _approved_already(work, draft.verb, scope, vms)
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
        approved_by=approved_by,
        approved_at=work.now if approved_by else 0,
    )


def is_announced(verb: Verb, scope: Scope, vm: Vm) -> bool:
    """Tell whether what a verb does to the VM is an event (4.7, 5.7, 5.8)."""
    if verb is Verb.TERMINATE:
        return scope.terminate_notice is not None and not vm.spot
    if verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return scope.os_image_notice is not None and vm.memory_preserving
    return True


def _approved_already(work: Work, verb: Verb, scope: Scope, vms: Sequence[Vm]) -> str:
    """Return who approves in place of a VM, or an empty text."""
    if verb is Verb.FAIL:
        return NO_NOTICE
    if verb not in USER_VERBS:
        return ""
    if verb is Verb.REBOOT and scope.approve_user_reboot:
        return POLICY
    if verb is Verb.REDEPLOY and scope.approve_user_redeploy:
        return POLICY
    if verb is not Verb.TERMINATE and all(vm.state is VmState.DOWN for vm in vms):
        return DOWN_ALREADY
    if not any(is_listening(work, vm) for vm in vms):
        return NOBODY_LISTENS
    return ""


def is_listening(work: Work, vm: Vm) -> bool:
    """Tell whether the VM's view is enabled."""
    view = work.tx.get(View, vm.view)
    return view is not None and view.is_enabled


def _publish(work: Work, operation: Operation) -> None:
    """Publish the events that the operation's start has not published yet."""
    for event in work.events_of(operation):
        if event.status is EventStatus.NEW:
            work.step_event(event, EventInput.PUBLISH)
