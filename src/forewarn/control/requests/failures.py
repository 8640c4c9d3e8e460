"""Failures and restores: no approval, but events for all affected VMs (clause 5.5).

A failure is an operation whose impact has already happened. It starts in the transaction
that reports it, is never held, holds other operations, and lasts until its VMs run again.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.execution import (
    campaign_losses,
    downtime,
    ending,
    leaving,
)
from forewarn.control.requests import admission, brake, campaign_turns, rollouts
from forewarn.control.rules import maintenance
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventSource
from forewarn.protocol.notes import (
    AnyNote,
    Change,
    HostWentDown,
    host_changed,
    vm_changed,
)
from forewarn.protocol.operations import (
    STARTED_STATES,
    UNSTARTED_STATES,
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    Request,
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind

DESCRIPTION = "Virtual machine has encountered a failure."

_STATES_HINT = "Run `forewarn fleet show --all` to see the state of each host and VM."


def fail_host(work: Work, name: str, request: Request | None = None) -> Operation:
    """Record the failure of a host (table 5.9, `fail`).

    In the same transaction, the host's scheduled operations are cancelled, except
    deletions, and its started operations fail. A campaign considers the host again when it
    is restored. The new operation belongs to `request`
    or to a new request. Raises RefusedError if the host is already down.
    """
    host = work.host(name)
    if host.state is HostState.DOWN:
        raise RefusedError(
            f"host {name} is already down",
            hint=f"Run `forewarn restore {name}` when it is up again.",
        )
    rollouts.complete(work, [name])
    vms = list(every(work.tx, kinds.VMS_ON_HOST, name))
    operations = list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name))
    work.lock_scopes(
        {vm.scope for vm in vms}.union(*(operation.scopes for operation in operations))
    )
    work.tx.replace(host, replace(host, state=HostState.DOWN))
    work.rooms.change_host(name)
    work.note(AuditKind.HOST_FAILED, (f"host:{name}",))
    here = {vm.name for vm in vms}
    # A VM with its own failure keeps it; that failure can outlast the host's.
    vms = [vm for vm in vms if not _own_failure(work, vm)]
    for operation in operations:
        if ending.is_failure(operation) and operation.target_kind is TargetKind.VM:
            continue
        if not _waits_for_host(work, operation):
            note = host_changed(Change.FAILED, name)
            _overtake(work, operation.operation_id, here, note)
    return _begin(work, TargetKind.HOST, name, name, vms, request)


def fail_vm(work: Work, name: str, request: Request | None = None) -> Operation:
    """Record the failure of one VM; raises RefusedError if it is already down."""
    vm = work.vm(name)
    if vm.state is VmState.DOWN:
        raise RefusedError(
            f"VM {name} is already down",
            hint=f"Run `forewarn restore {name}` when it runs again.",
        )
    operations = [
        operation
        for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, name)
        if operation.target_kind is TargetKind.VM
        # The predicted failure of the VM's host stays announced: the host will still
        # fail.
        and not (operation.is_host_bound and operation.state in WAITING_STATES)
    ]
    work.lock_scopes(leaving.scopes_of_vm(work, vm))
    for operation in operations:
        _overtake(work, operation.operation_id, {name}, vm_changed(Change.FAILED, name))
    return _begin(work, TargetKind.VM, name, vm.host, [work.vm(name)], request)


def fail_after_call(work: Work, vms: Sequence[str]) -> None:
    """Record failures of VMs that a failed driver call left down.

    This includes VMs that were down before: they can have left the failure of their host.
    """
    for name in vms:
        vm = work.tx.get(Vm, name)
        if vm is None or vm.state is VmState.DELETED:
            continue
        others = every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, name)
        if not any(ending.is_failure(operation) for operation in others):
            _begin(work, TargetKind.VM, name, vm.host, [vm])


def restore_host(work: Work, name: str) -> Host:
    """Record that a host is up again, and the VMs that its failure took down.

    A VM with its own failure stays down, because it can have failed before its host.
    Raises RefusedError if the host is not down.
    """
    host = work.host(name)
    if host.state is HostState.UP:
        raise RefusedError(f"host {name} is not down", hint=_STATES_HINT)
    vms = list(every(work.tx, kinds.VMS_ON_HOST, name))
    work.lock_scopes(scope for vm in vms for scope in leaving.scopes_of_vm(work, vm))
    restored = work.tx.replace(host, replace(host, state=HostState.UP))
    work.rooms.change_host(name)
    work.note(AuditKind.HOST_RESTORED, (f"host:{name}",))
    work.free_room(name)
    for vm in vms:
        current = work.vm(vm.name)
        if current.state is VmState.DOWN and not _own_failure(work, current):
            leaving.vm_runs_again(
                work, current, note=host_changed(Change.RESTORED, name)
            )
        elif current.state is VmState.DOWN:
            # A reboot can run it again, now that its host is up.
            work.free((), [vm.name])
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name)):
        if ending.is_failure(operation) and operation.target_kind is TargetKind.HOST:
            ending.finish(work, operation, note=host_changed(Change.RESTORED, name))
    return restored


def restore_vm(work: Work, name: str) -> Vm:
    """Record that a VM runs again; raises RefusedError if that is impossible."""
    vm = work.vm(name)
    if vm.state is VmState.RUNNING:
        raise RefusedError(f"VM {name} is not down", hint=_STATES_HINT)
    if work.host(vm.host).state is HostState.DOWN:
        raise RefusedError(
            f"VM {name} cannot run: its host {vm.host} is down",
            hint=f"Run `forewarn restore {vm.host}`, or run `forewarn redeploy {name}` "
            "to move the VM to another host.",
        )
    work.lock_scopes(leaving.scopes_of_vm(work, vm))
    return leaving.vm_runs_again(work, vm)


def _own_failure(work: Work, vm: Vm) -> bool:
    """Return whether the VM has its own failure, apart from that of its host."""
    return any(
        ending.is_failure(operation) and operation.target_kind is TargetKind.VM
        for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name)
    )


def _waits_for_host(work: Work, operation: Operation) -> bool:
    """Return whether a failed host stays in its campaign, until it is restored.

    Its announcement is withdrawn, and the step `needed` runs again later.
    """
    operation = work.operation(operation.operation_id)
    request = work.request(operation.request)
    if not request.campaign or operation.state not in UNSTARTED_STATES:
        return False
    if operation.state is not OperationState.PLANNED or operation.visit:
        why = HostWentDown(host=operation.host)
        campaign_turns.plan_again(work, request, operation, why)
    return True


def _overtake(work: Work, operation_id: str, vms: set[str], note: AnyNote) -> None:
    """End an operation because of a failure; deletions continue."""
    operation = work.operation(operation_id)
    if operation.state in UNSTARTED_STATES:
        if operation.action is not Action.DELETE:
            ending.cancel(work, operation, note=note)
    elif ending.is_failure(operation):
        for name in operation.vms:
            if name in vms:
                leaving.leave(work, work.operation(operation_id), name, note=note)
    elif operation.state in STARTED_STATES and any(
        move.vm in vms and not (move.done and move.to_host) for move in operation.moves
    ):
        work.abort(operation)
        ending.fail(work, operation, note=note, down=vms)


def _begin(
    work: Work,
    kind: TargetKind,
    target: str,
    host: str,
    vms: Sequence[Vm],
    request: Request | None = None,
) -> Operation:
    request = request or admission.open_request(work, Verb.FAIL)
    current = [work.vm(vm.name) for vm in vms]
    lost = [vm.name for vm in current if vm.state is VmState.RUNNING]
    down = tuple(
        work.save_vm(vm, replace(vm, state=VmState.DOWN, is_off=False))
        if vm.state is VmState.RUNNING
        else vm
        for vm in current
    )
    change = maintenance.Change(
        action=Action.NONE,
        event_type=work.policy.failure_event,
        source=EventSource.PLATFORM,
        description=DESCRIPTION,
    )
    draft = admission.draft(
        Verb.FAIL,
        change,
        down,
        target_kind=kind,
        target=target,
        host=host,
        not_before=work.now,
    )
    failure = admission.admit(work, request, [draft])[0]
    downtime.failed(work, failure)
    # Held operations in these scopes have a new reason, which the history must show.
    work.free(failure.scopes)
    is_host = kind is TargetKind.HOST
    campaign_losses.after_loss(work, host, lost)
    brake.after_loss(work, work.host(target) if is_host else None, lost)
    return failure
