"""Verbs for VMs, from users and operators.

Reboot and redeploy (5.3), eviction (5.6), deletion (5.7), OS images (5.8).
"""

from collections.abc import Sequence

from forewarn.control.requests import admission
from forewarn.control.requests.admission import Change, Draft
from forewarn.control.requests.verbs.order import (
    OrderOptions,
    adapted,
    check_targets,
    not_before_of,
)
from forewarn.control.rules.remedies import way_out
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import HostState, ScopeKind, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventSource, EventType
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

DELETING_VERBS = frozenset({Verb.EVICT, Verb.TERMINATE})
IMAGE_VERBS = frozenset({Verb.UPGRADE_OS, Verb.REIMAGE})


CHANGES = {
    Verb.REBOOT: Change(
        action=Action.REBOOT,
        event_type=EventType.REBOOT,
        description="Virtual machine is going to be restarted as requested by "
        "authorized user.",
    ),
    Verb.REDEPLOY: Change(
        action=Action.REDEPLOY,
        event_type=EventType.REDEPLOY,
        description="Virtual machine is going to be redeployed as requested by "
        "authorized user.",
    ),
    Verb.EVICT: Change(
        action=Action.DELETE,
        event_type=EventType.PREEMPT,
        source=EventSource.PLATFORM,
    ),
    Verb.TERMINATE: Change(action=Action.DELETE, event_type=EventType.TERMINATE),
    Verb.UPGRADE_OS: Change(
        action=Action.REIMAGE, event_type=EventType.REBOOT, routine=True
    ),
    Verb.REIMAGE: Change(
        action=Action.REIMAGE, event_type=EventType.REBOOT, routine=True
    ),
}


def change_vms(
    work: Work, vms: Sequence[str], verb: Verb, wishes: OrderOptions
) -> Request:
    """Carry out a verb of `CHANGES`: one request with one operation per VM.

    VMs that a user deletes start together, with one NotBefore (3.6). The table of verbs
    has the refusals.
    """
    check_targets(vms, "vm")
    change = CHANGES[verb]
    members = work.parts.each(vms, lambda name: _member(work, name, verb))
    notice = max(_notice(work, vm, verb) for vm in members)
    not_before = not_before_of(work, wishes, notice, change.event_type)
    request = admission.open_request(
        work, verb, together=verb is Verb.TERMINATE, is_rollout=change.routine
    )
    admission.admit(
        work,
        request,
        [draft_for(vm, verb, change, not_before, wishes) for vm in members],
    )
    return request


def _notice(work: Work, vm: Vm, verb: Verb) -> Micros:
    """Return the minimum notice of a VM; 0: no event."""
    scope = work.scope(vm.scope)
    if verb is Verb.EVICT:
        return work.policy.preempt_notice
    if verb not in {Verb.TERMINATE, *IMAGE_VERBS}:
        return work.policy.notice_for(CHANGES[verb].event_type)
    if not admission.is_announced(verb, scope, vm):
        return 0
    if verb is Verb.TERMINATE:
        return work.policy.terminate_notice_of(scope.terminate_notice or 0)
    return work.policy.notice_of(scope.os_image_notice or 0)


def _member(work: Work, name: str, verb: Verb) -> Vm:
    """Return a VM that the verb can change; raises RefusedError."""
    vm = work.vm(name)
    if verb in IMAGE_VERBS:
        scope = work.scope(vm.scope)
        if scope.kind is not ScopeKind.SCALE_SET:
            raise RefusedError(
                f"VM {vm.name} is not a scale-set instance: scope {scope.name} is of "
                f"kind {scope.kind.value}"
            )
    _check_free(work, vm, verb)
    if verb in IMAGE_VERBS and vm.state is VmState.DOWN:
        raise RefusedError(f"VM {vm.name} is down")
    if verb is Verb.REBOOT and work.host(vm.host).state is HostState.DOWN:
        raise RefusedError(
            f"cannot restart VM {name}: its host {vm.host} is down",
            hint=f"Run `forewarn redeploy {name}` to move it to another host.",
        )
    if verb is Verb.EVICT and not vm.spot:
        raise RefusedError(
            f"VM {name} is not a Spot VM",
            hint=f"Run `forewarn terminate {name}` to delete it with notice.",
        )
    return vm


def draft_for(
    vm: Vm, verb: Verb, change: Change, not_before: Micros, wishes: OrderOptions
) -> Draft:
    """Return the draft of an operation on one VM, with the options of the request."""
    return admission.draft(
        verb,
        adapted(change, wishes),
        (vm,),
        target_kind=TargetKind.VM,
        target=vm.name,
        host=vm.host,
        not_before=not_before,
        is_timed=wishes.not_before is not None,
    )


def _check_free(work: Work, vm: Vm, verb: Verb) -> None:
    """Refuse a VM with the same request, a deletion, or a running driver call."""
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        same = operation.verb is verb and operation.state in WAITING_STATES
        if same or operation.verb in DELETING_VERBS:
            raise RefusedError(
                f"VM {vm.name} already has operation {work.called(operation.operation_id)} "
                f"({operation.verb.value}, {operation.state.value})",
                hint=way_out(operation, work.called),
            )
        if (
            operation.state is OperationState.IMPACTING
            and operation.action is not Action.NONE
        ):
            raise RefusedError(
                f"VM {vm.name} is busy: operation "
                f"{work.called(operation.operation_id)} "
                f"({operation.verb.value}) is running on it",
                hint="Try again after the operation ends.",
            )
