"""The verbs for VMs: what users and operators order for one or many of them.

Reboot and redeploy (5.3), eviction (5.6), deletion (5.7), OS images (5.8).
"""

from collections.abc import Sequence

from forewarn.control.requests import admission
from forewarn.control.requests.admission import Draft
from forewarn.control.requests.verbs.order import (
    OrderOptions,
    check_targets,
    either,
    not_before_of,
)
from forewarn.control.transactions.work import Work, way_out
from forewarn.fleet.model import HostState, ScopeKind, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    OperationState,
    Request,
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every

RESTARTING = "Virtual machine is going to be restarted as requested by authorized user."
REDEPLOYING = (
    "Virtual machine is going to be redeployed as requested by authorized user."
)

DELETING_VERBS = frozenset({Verb.EVICT, Verb.TERMINATE})


def restart(
    work: Work, vms: Sequence[str], verb: Verb, wishes: OrderOptions
) -> Request:
    """Restart or redeploy VMs on a user's order (5.3): one operation for each.

    Refused: an unknown VM; a restart of a VM whose host is down; a VM that
    another operation has in hand, or that has the same order waiting.
    """
    check_targets(vms, "vm")
    is_reboot = verb is Verb.REBOOT
    event_type = EventType.REBOOT if is_reboot else EventType.REDEPLOY
    not_before = not_before_of(
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
            draft_for(
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


def evict(work: Work, vms: Sequence[str], wishes: OrderOptions) -> Request:
    """Evict Spot VMs (5.6): they are deleted after a Preempt's notice.

    Refused: an unknown VM, one that is not a Spot VM, one with an eviction or
    deletion under way.
    """
    check_targets(vms, "vm")
    not_before = not_before_of(
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
            draft_for(
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


def terminate(work: Work, vms: Sequence[str], wishes: OrderOptions) -> Request:
    """Delete VMs on a user's order (5.7): one request, one NotBefore (3.6).

    VMs whose scope has terminate notification off, and Spot VMs, get no event.
    Refused: an unknown VM, one with an eviction or deletion under way.
    """
    check_targets(vms, "vm")
    members = [work.vm(name) for name in vms]
    notice = 0
    for vm in members:
        _check_vm(work, vm, Verb.TERMINATE)
        wanted = work.scope(vm.scope).terminate_notice
        if wanted is not None and not vm.spot:
            notice = max(notice, work.policy.terminate_notice_of(wanted))
    not_before = not_before_of(work, wishes, notice, EventType.TERMINATE)
    request = admission.open_request(work, Verb.TERMINATE, together=True)
    admission.admit(
        work,
        request,
        [
            draft_for(
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


def renew_image(
    work: Work, vms: Sequence[str], verb: Verb, wishes: OrderOptions
) -> Request:
    """Upgrade the guest OS of scale-set instances, or reimage them (5.8).

    Without the OS-image profile, and for sizes that do not keep memory, there is
    no event, but the guard applies: it is routine (6.3). One rollout.
    Refused: an unknown VM, one that is no scale-set instance or does not run.
    """
    check_targets(vms, "vm")
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
            notice = max(notice, work.policy.notice_of(scope.os_image_notice or 0))
    not_before = not_before_of(work, wishes, notice, EventType.REBOOT)
    request = admission.open_request(work, verb, is_rollout=True)
    drafts = [
        draft_for(
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


def draft_for(
    vm: Vm,
    verb: Verb,
    *,
    action: Action,
    event_type: EventType,
    source: EventSource,
    description: str,
    not_before: Micros,
    wishes: OrderOptions,
    routine: bool = False,
) -> Draft:
    """Return the draft of an operation on one VM, with the operator's wishes."""
    return Draft(
        verb=verb,
        action=action,
        target_kind=TargetKind.VM,
        target=vm.name,
        host=vm.host,
        vms=(vm,),
        event_type=event_type,
        source=source,
        description=either(wishes.description, description),
        duration_seconds=either(wishes.duration_seconds, DURATION_UNKNOWN),
        routine=routine,
        not_before=not_before,
        is_timed=wishes.not_before is not None,
    )


def _check_vm(work: Work, vm: Vm, verb: Verb) -> None:
    """Refuse what would meet the same order, a deletion, or a driver at work."""
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        same = operation.verb is verb and operation.state in WAITING_STATES
        if same or operation.verb in DELETING_VERBS:
            raise RefusedError(
                f"vm {vm.name} has {work.called(operation.operation_id)} "
                f"({operation.verb.value}, {operation.state.value}) under way",
                hint=way_out(operation, work.called),
            )
        if (
            operation.state is OperationState.IMPACTING
            and operation.action is not Action.NONE
        ):
            raise RefusedError(
                f"vm {vm.name} is in the hands of "
                f"{work.called(operation.operation_id)} "
                f"({operation.verb.value})",
                hint="try again when it has finished",
            )
