"""What work under way forbids of a fleet file's changes: asked before, and as they are made.

A plan says what a file changes; whether it can be done now depends on the operations
and hosts of the moment. So that a dry run refuses what an application would refuse,
both ask here. Reads, and writes nothing.
"""

from forewarn.control.transactions.work import way_out
from forewarn.fleet.merge import Change, MergePlan
from forewarn.fleet.model import Host, HostState, Scope, Vm, VmState
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    CallState,
    OperationState,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def check(reader: Reader, merged: MergePlan) -> None:
    """Raise RefusedError, of the first change that cannot be made now.

    Hosts and VMs that the file adds are in no operation yet.
    """
    good: set[str] = set()
    """Hosts to which VMs can come: most changes of a file are to few hosts."""
    for change in merged.writes():
        before, after = change.before, change.after
        if isinstance(before, Scope) and isinstance(after, Scope):
            check_scope(reader, before, after)
        elif isinstance(before, Host) and after is None:
            check_removal(reader, before)
        elif isinstance(after, Vm):
            _check_vm(reader, change, good)


def _check_vm(reader: Reader, change: Change, good: set[str]) -> None:
    before, after = change.before, change.after
    assert before is None or isinstance(before, Vm), change
    assert isinstance(after, Vm), change
    if after.state is VmState.DELETED:
        return
    is_moved = before is None or before.host != after.host
    if before is not None and is_moved:
        check_not_in_hand(reader, before)
    if is_moved and after.host not in good:
        if (host := reader.get(Host, after.host)) is not None:
            check_destination(reader, after, host)
        good.add(after.host)
    if before is not None:
        check_names(reader, before, after)


def check_destination(reader: Reader, vm: Vm, host: Host) -> None:
    """Raise RefusedError if the VM cannot be put on a host now."""
    if host.state is HostState.DOWN:
        raise RefusedError(
            f"vm {vm.name} cannot be put on host {host.name}, which is down",
            hint=f"`forewarn restore {host.name}` first, or choose another host",
        )
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        # A host whose turn has not come reads its VMs when it is announced.
        if operation.is_host_bound and operation.state is not OperationState.PLANNED:
            raise RefusedError(
                f"vm {vm.name} cannot be put on host {host.name}, which has "
                f"{operation.operation_id} under way: it would get no notice",
                hint=f"{way_out(operation)}, or choose another host",
            )


def check_not_in_hand(reader: Reader, vm: Vm) -> None:
    """Raise RefusedError if a driver call has the VM in hand."""
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        is_impacting = operation.state is OperationState.IMPACTING
        if is_impacting and operation.call_state is not CallState.NONE:
            raise RefusedError(
                f"vm {vm.name} cannot be moved: {operation.operation_id} has it in "
                "hand",
                hint="apply again when it has finished",
            )


def check_names(reader: Reader, before: Vm, after: Vm) -> None:
    """Raise RefusedError if a VM with open operations changes its scope or wire name."""
    if (before.scope, before.wire_name) == (after.scope, after.wire_name):
        return
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_VM, before.name):
        raise RefusedError(
            f"vm {before.name} cannot change its scope or wire name while "
            f"{operation.operation_id} is open",
            hint=way_out(operation),
        )


def check_scope(reader: Reader, before: Scope, after: Scope) -> None:
    """Raise RefusedError if a scope with open operations changes its tenant."""
    if before.tenant == after.tenant:
        return
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_SCOPE, before.name):
        raise RefusedError(
            f"scope {before.name} cannot change its tenant while "
            f"{operation.operation_id} is open",
            hint=way_out(operation),
        )


def check_removal(reader: Reader, host: Host) -> None:
    """Raise RefusedError if a driver call has VMs of a host in hand that goes."""
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        if operation.state is OperationState.IMPACTING and (
            operation.verb is not Verb.FAIL
        ):
            raise RefusedError(
                f"host {host.name} cannot be removed: {operation.operation_id} "
                "has its VMs in hand",
                hint="apply again when it has finished",
            )
