"""The verbs: what an operator or user may order, and when it is refused.

Each is one transaction. What it shows is table 5.9; what it refuses is said in
`docs/verbs.md`, with the sentences that are raised here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.control import admission, ending
from forewarn.control.admission import Draft
from forewarn.control.work import Work, way_out
from forewarn.fleet.model import Host, HostState, ScopeKind, Vm, VmState
from forewarn.instants import SECOND, Micros, describe_duration, round_up_to_second
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
from forewarn.protocol.lifecycle import RequestInput
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every

T = TypeVar("T")

TARGETS_MAX = 1000
"""Hosts or VMs of one order: one transaction must stay short."""

UNDERGOING = "Host server is undergoing maintenance."
MIGRATING = (
    "Virtual machine is being paused because of a memory-preserving Live Migration "
    "operation."
)
REPAIRING = "Host server is undergoing an emergency repair."
RESTARTING = "Virtual machine is going to be restarted as requested by authorized user."
REDEPLOYING = (
    "Virtual machine is going to be redeployed as requested by authorized user."
)

FREEZE_SECONDS = 9
"""DurationInSeconds of a freeze, unless the operator says otherwise (5.9)."""
MIGRATION_SECONDS = 5
"""DurationInSeconds of a live migration (5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """How a host is maintained, and what table 5.9 says about it."""

    event_type: EventType
    duration_seconds: int
    description: str


MAINTENANCE = {
    Action.FREEZE: Maintenance(
        event_type=EventType.FREEZE,
        duration_seconds=FREEZE_SECONDS,
        description=UNDERGOING,
    ),
    Action.LIVE_MIGRATE: Maintenance(
        event_type=EventType.FREEZE,
        duration_seconds=MIGRATION_SECONDS,
        description=MIGRATING,
    ),
    Action.REBOOT: Maintenance(
        event_type=EventType.REBOOT,
        duration_seconds=DURATION_UNKNOWN,
        description=UNDERGOING,
    ),
    Action.REDEPLOY: Maintenance(
        event_type=EventType.REDEPLOY,
        duration_seconds=DURATION_UNKNOWN,
        description=UNDERGOING,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an operator may say otherwise about any order."""

    duration_seconds: int | None = None
    not_before: Micros | None = None
    """By hand: kept as it is, not divided by speed."""
    description: str | None = None
    emergency: bool = False
    """An emergency repair: table 5.9 has a text of its own for it."""


def maintain(
    work: Work, hosts: Sequence[str], action: Action, wishes: Wishes
) -> Request:
    """Maintain hosts: one operation for each, one rollout for all.

    Refused: an unknown host, one that is down, or under other maintenance; an
    impact that maintenance does not have; a NotBefore with less than the least
    notice (5.1).
    """
    _check_targets(hosts, "host")
    usual = MAINTENANCE.get(action)
    if usual is None:
        raise RefusedError(f"maintenance has no impact {action.value}")
    notice = work.policy.notice_for(usual.event_type)
    not_before = _not_before(work, wishes, notice, usual.event_type)
    request = admission.open_request(work, Verb.MAINTAIN, is_rollout=True)
    drafts: list[Draft] = []
    for name in hosts:
        host = work.host(name)
        _check_host(work, host)
        drafts.append(
            Draft(
                verb=Verb.MAINTAIN,
                action=action,
                target_kind=TargetKind.HOST,
                target=name,
                host=name,
                vms=tuple(every(work.tx, kinds.VMS_ON_HOST, name)),
                event_type=usual.event_type,
                source=EventSource.PLATFORM,
                description=_either(
                    wishes.description,
                    REPAIRING if wishes.emergency else usual.description,
                ),
                duration_seconds=_either(
                    wishes.duration_seconds, usual.duration_seconds
                ),
                routine=True,
                not_before=not_before,
            )
        )
    admission.admit(work, request, drafts)
    return request


def restart(work: Work, vms: Sequence[str], verb: Verb, wishes: Wishes) -> Request:
    """Restart or redeploy VMs on a user's order (5.3): one operation for each.

    Refused: an unknown VM; a restart of a VM whose host is down; a VM that
    another operation has in hand, or that has the same order waiting.
    """
    _check_targets(vms, "vm")
    is_reboot = verb is Verb.REBOOT
    event_type = EventType.REBOOT if is_reboot else EventType.REDEPLOY
    not_before = _not_before(
        work, wishes, work.policy.notice_for(event_type), event_type
    )
    request = admission.open_request(work, verb)
    drafts: list[Draft] = []
    for name in vms:
        vm = work.vm(name)
        _check_vm(work, vm, verb)
        if is_reboot and work.host(vm.host).state is HostState.DOWN:
            raise RefusedError(
                f"vm {name} cannot be restarted: its host {vm.host} is down",
                hint=f"`forewarn redeploy {name}` moves it to another host",
            )
        drafts.append(
            _vm_draft(
                vm,
                verb,
                action=Action.REBOOT if is_reboot else Action.REDEPLOY,
                event_type=event_type,
                source=EventSource.USER,
                description=RESTARTING if is_reboot else REDEPLOYING,
                not_before=not_before,
                wishes=wishes,
            )
        )
    admission.admit(work, request, drafts)
    return request


def evict(work: Work, vms: Sequence[str], wishes: Wishes) -> Request:
    """Evict Spot VMs (5.6): they are deleted after a Preempt's notice.

    Refused: an unknown VM, one that is not a Spot VM, one with an eviction or
    deletion under way.
    """
    _check_targets(vms, "vm")
    not_before = _not_before(
        work, wishes, work.policy.preempt_notice, EventType.PREEMPT
    )
    request = admission.open_request(work, Verb.EVICT)
    drafts: list[Draft] = []
    for name in vms:
        vm = work.vm(name)
        _check_vm(work, vm, Verb.EVICT)
        if not vm.spot:
            raise RefusedError(
                f"vm {name} is not a Spot VM",
                hint=f"`forewarn terminate {name}` deletes it with notice",
            )
        drafts.append(
            _vm_draft(
                vm,
                Verb.EVICT,
                action=Action.DELETE,
                event_type=EventType.PREEMPT,
                source=EventSource.PLATFORM,
                description="",
                not_before=not_before,
                wishes=wishes,
            )
        )
    admission.admit(work, request, drafts)
    return request


def terminate(work: Work, vms: Sequence[str], wishes: Wishes) -> Request:
    """Delete VMs on a user's order (5.7): one request, one NotBefore (3.6).

    VMs whose scope has terminate notification off, and Spot VMs, get no event.
    Refused: an unknown VM, one with an eviction or deletion under way.
    """
    _check_targets(vms, "vm")
    members = [work.vm(name) for name in vms]
    notice = 0
    for vm in members:
        _check_vm(work, vm, Verb.TERMINATE)
        wanted = work.scope(vm.scope).terminate_notice
        if wanted is not None and not vm.spot:
            notice = max(notice, work.policy.terminate_notice_of(wanted))
    not_before = _not_before(work, wishes, notice, EventType.TERMINATE)
    request = admission.open_request(work, Verb.TERMINATE, together=True)
    admission.admit(
        work,
        request,
        [
            _vm_draft(
                vm,
                Verb.TERMINATE,
                action=Action.DELETE,
                event_type=EventType.TERMINATE,
                source=EventSource.USER,
                description="",
                not_before=not_before,
                wishes=wishes,
            )
            for vm in members
        ],
    )
    return request


def renew_image(work: Work, vms: Sequence[str], verb: Verb, wishes: Wishes) -> Request:
    """Upgrade the guest OS of scale-set instances, or reimage them (5.8).

    Without the OS-image profile, and for sizes that do not keep memory, there is
    no event, but the guard applies: it is routine (6.3). One rollout.
    Refused: an unknown VM, one that is no scale-set instance or does not run.
    """
    _check_targets(vms, "vm")
    members = [work.vm(name) for name in vms]
    notice = 0
    for vm in members:
        scope = work.scope(vm.scope)
        if scope.kind is not ScopeKind.SCALE_SET:
            raise RefusedError(
                f"vm {vm.name} is not a scale-set instance: scope {scope.name} is of "
                f"kind {scope.kind.value}"
            )
        _check_vm(work, vm, verb)
        if vm.state is VmState.DOWN:
            raise RefusedError(f"vm {vm.name} is down")
        if admission.is_announced(verb, scope, vm):
            notice = max(notice, work.policy.sped_up(scope.os_image_notice or 0))
    not_before = _not_before(work, wishes, notice, EventType.REBOOT)
    request = admission.open_request(work, verb, is_rollout=True)
    drafts = [
        _vm_draft(
            vm,
            verb,
            action=Action.REIMAGE,
            event_type=EventType.REBOOT,
            source=EventSource.USER,
            description="",
            not_before=not_before,
            wishes=wishes,
            routine=True,
        )
        for vm in members
    ]
    admission.admit(work, request, drafts)
    return request


def predict_failure(work: Work, name: str, notice: Micros, wishes: Wishes) -> Request:
    """Announce that a host will fail (5.4): each of its VMs can go early.

    There is one operation for each VM, since each may move by itself: an
    approval, or a redeploy of the user's own, moves it at once. Refused: a host
    that is down, under maintenance or without VMs; less than a Redeploy's notice.
    """
    host = work.host(name)
    _check_host(work, host)
    vms = list(every(work.tx, kinds.VMS_ON_HOST, name))
    if not vms:
        raise RefusedError(f"host {name} has no VMs to be told")
    least = work.policy.redeploy_notice
    if notice < least:
        raise RefusedError(
            f"a Redeploy needs a notice of at least {describe_duration(least)} (5.1)"
        )
    request = admission.open_request(work, Verb.PREDICT_FAILURE)
    drafts = [
        _vm_draft(
            vm,
            Verb.PREDICT_FAILURE,
            action=Action.REDEPLOY,
            event_type=EventType.REDEPLOY,
            source=EventSource.PLATFORM,
            description=REPAIRING,
            not_before=work.now + notice,
            wishes=wishes,
            routine=True,
        )
        for vm in vms
    ]
    admission.admit(work, request, drafts)
    return request


def cancel(work: Work, name: str, *, note: str) -> list[Operation]:
    """Cancel an operation, or what has not started of a request.

    Return the operations that were cancelled. Refused: unknown; past the point
    of no return, which is Started; ended.
    """
    request = work.tx.get(Request, name)
    if request is None:
        operation = work.operation(name)
        if operation.state not in WAITING_STATES:
            raise RefusedError(_too_late(operation))
        work.secure(operation.scopes)
        ending.cancel(work, operation, note=note)
        return [work.operation(name)]
    siblings = list(every(work.tx, kinds.OPERATIONS_OF_REQUEST, name))
    waiting = [op for op in siblings if op.state in WAITING_STATES]
    if not waiting:
        raise RefusedError(
            f"nothing of {name} can be cancelled: "
            + "; ".join(_too_late(operation) for operation in siblings)
        )
    work.secure(scope for operation in waiting for scope in operation.scopes)
    if request.state is RequestState.OPEN:
        work.step_request(request, RequestInput.CANCEL)
    for operation in waiting:
        ending.cancel(work, work.operation(operation.operation_id), note=note)
    return [work.operation(operation.operation_id) for operation in waiting]


def _too_late(operation: Operation) -> str:
    if operation.state in {OperationState.IMPACTING, OperationState.RECOVERING}:
        return f"{operation.operation_id} has started, which is its point of no return"
    return f"{operation.operation_id} is {operation.state.value} already"


def _vm_draft(
    vm: Vm,
    verb: Verb,
    *,
    action: Action,
    event_type: EventType,
    source: EventSource,
    description: str,
    not_before: Micros,
    wishes: Wishes,
    routine: bool = False,
) -> Draft:
    return Draft(
        verb=verb,
        action=action,
        target_kind=TargetKind.VM,
        target=vm.name,
        host=vm.host,
        vms=(vm,),
        event_type=event_type,
        source=source,
        description=_either(wishes.description, description),
        duration_seconds=_either(wishes.duration_seconds, DURATION_UNKNOWN),
        routine=routine,
        not_before=not_before,
    )


def _either(said: T | None, usual: T) -> T:
    return usual if said is None else said


def _not_before(
    work: Work, wishes: Wishes, notice: Micros, event_type: EventType
) -> Micros:
    earliest = round_up_to_second(work.now + notice)
    if wishes.not_before is None:
        return earliest
    # A wish for the very second of the least notice is fine, though the clock may
    # have passed its beginning: it becomes the first second with enough notice.
    if wishes.not_before < work.now + notice - SECOND:
        raise RefusedError(
            f"{event_type.value} needs a notice of at least "
            f"{describe_duration(notice)} (5.1)",
            hint="give a later time, or none",
        )
    return max(earliest, round_up_to_second(wishes.not_before))


def _check_targets(names: Sequence[str], what: str) -> None:
    if not names:
        raise RefusedError(f"name at least one {what}")
    if len(names) > TARGETS_MAX:
        raise RefusedError(f"one order takes at most {TARGETS_MAX} {what}s")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefusedError(f"{what} {twice[0]} is named twice")


def _check_host(work: Work, host: Host) -> None:
    if host.state is HostState.DOWN:
        raise RefusedError(
            f"host {host.name} is down", hint=f"`forewarn restore {host.name}` first"
        )
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        if operation.is_host_bound:
            raise RefusedError(
                f"host {host.name} has {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value}) under way",
                hint=way_out(operation),
            )
    for vm in every(work.tx, kinds.VMS_MOVING_TO, host.name):
        raise RefusedError(
            f"vm {vm.name} is on its way to host {host.name}: it would get no notice",
            hint="order it again when the VM has arrived",
        )


DELETING_VERBS = frozenset({Verb.EVICT, Verb.TERMINATE})


def _check_vm(work: Work, vm: Vm, verb: Verb) -> None:
    """Refuse what would meet the same order, a deletion, or a driver at work."""
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        same = operation.verb is verb and operation.state in WAITING_STATES
        if same or operation.verb in DELETING_VERBS:
            raise RefusedError(
                f"vm {vm.name} has {operation.operation_id} "
                f"({operation.verb.value}, {operation.state.value}) under way",
                hint=way_out(operation),
            )
        if (
            operation.state is OperationState.IMPACTING
            and operation.action is not Action.NONE
        ):
            raise RefusedError(
                f"vm {vm.name} is in the hands of {operation.operation_id} "
                f"({operation.verb.value})",
                hint="try again when it has finished",
            )
