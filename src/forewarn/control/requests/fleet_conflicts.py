"""Check the changes of a fleet file against running work.

Whether a plan can be applied now depends on the current operations and hosts. A dry run
and an application both use these checks, so that they refuse the same files. This module
only reads.
"""

from collections.abc import Iterator

from forewarn.control.rules import campaign_gate
from forewarn.control.rules.remedies import way_out
from forewarn.fleet.merge import Change, MergePlan
from forewarn.fleet.model import Host, HostState, Scope, Vm, VmState
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.protocol.visits import ENTERED_VISITS, STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def check(reader: Reader, merged: MergePlan) -> None:
    """Raise RefusedError for the first change that cannot be made now."""
    for _, error in find(reader, merged):
        raise error


def find(reader: Reader, merged: MergePlan) -> Iterator[tuple[Change, RefusedError]]:
    """Yield the changes that cannot be made now, with their errors.

    Hosts and VMs that the file adds are in no operation yet.
    """
    good: set[str] = set()
    """Hosts that passed the check. Most changes of a file are about few hosts."""
    for change in merged.writes():
        try:
            _check(reader, change, good)
        except RefusedError as error:
            yield change, error


def _check(reader: Reader, change: Change, good: set[str]) -> None:
    before, after = change.before, change.after
    if isinstance(before, Scope) and isinstance(after, Scope):
        check_scope(reader, before, after)
    elif isinstance(before, Host) and after is None:
        check_removal(reader, before)
    elif isinstance(before, Vm) and after is None:
        check_vm_removal(reader, before)
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
    """Raise RefusedError if the VM cannot be placed on a host now."""
    if host.state is HostState.DOWN:
        raise RefusedError(
            f"cannot put VM {vm.name} on host {host.name}: the host is down",
            hint=f"Run `forewarn restore {host.name}` first, or use another host.",
        )
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        # The VMs of a Planned host are read when it is announced.
        if operation.is_host_bound and operation.state is not OperationState.PLANNED:
            raise RefusedError(
                f"cannot put VM {vm.name} on host {host.name}: operation "
                f"{operation.operation_id} is under way there, and the VM would get no "
                "notice",
                hint=f"{way_out(operation)} Or use another host.",
            )


def check_not_in_hand(reader: Reader, vm: Vm) -> None:
    """Raise RefusedError if a driver call works on a moved VM, or a visit on its host."""
    if (operation := _operation_in_hand(reader, vm)) is not None:
        raise RefusedError(
            f"cannot move VM {vm.name}: operation {operation.operation_id} is running "
            "on it",
            hint="Apply the file again after the operation ends.",
        )


def _operation_in_hand(reader: Reader, vm: Vm) -> Operation | None:
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        is_impacting = operation.state is OperationState.IMPACTING
        is_called = operation.call_state is not CallState.NONE
        if is_impacting and (is_called or operation.visit):
            return operation
    return None


def check_names(reader: Reader, before: Vm, after: Vm) -> None:
    """Raise RefusedError if a VM with open operations changes its scope or wire name."""
    if (before.scope, before.wire_name) == (after.scope, after.wire_name):
        return
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_VM, before.name):
        raise RefusedError(
            f"cannot change the scope or wire name of VM {before.name} while operation "
            f"{operation.operation_id} is open",
            hint=way_out(operation),
        )


def check_scope(reader: Reader, before: Scope, after: Scope) -> None:
    """Raise RefusedError if a scope with open operations changes its tenant."""
    if before.tenant == after.tenant:
        return
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_SCOPE, before.name):
        raise RefusedError(
            f"cannot change the tenant of scope {before.name} while operation "
            f"{operation.operation_id} is open",
            hint=way_out(operation),
        )


def check_removal(reader: Reader, host: Host) -> None:
    """Raise RefusedError if a visit, or a driver call, works on a removed host."""
    if (visit := _entered_visit(reader, host.name)) is not None:
        raise RefusedError(
            f"cannot remove host {host.name}: visit {visit.visit_id} works on it "
            f"({visit.state.value})",
            hint=_way_out_of(reader, visit),
        )
    for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name):
        if operation.state is OperationState.IMPACTING and (
            operation.verb is not Verb.FAIL
        ):
            raise RefusedError(
                f"cannot remove host {host.name}: operation {operation.operation_id} is "
                "running on its VMs",
                hint="Apply the file again after the operation ends.",
            )


def check_vm_removal(reader: Reader, vm: Vm) -> None:
    """Raise RefusedError if a driver call works on a removed VM, or a visit on its host.

    A visit can have stopped the VM, and starts it again.
    """
    if vm.state is VmState.DELETED:
        return
    if (operation := _operation_in_hand(reader, vm)) is not None:
        raise RefusedError(
            f"cannot remove VM {vm.name}: operation {operation.operation_id} is running "
            "on it",
            hint="Apply the file again after the operation ends.",
        )
    if (visit := _entered_visit(reader, vm.host)) is not None:
        raise RefusedError(
            f"cannot remove VM {vm.name}: visit {visit.visit_id} works on host {vm.host} "
            f"({visit.state.value})",
            hint=_way_out_of(reader, visit),
        )


def _entered_visit(reader: Reader, host: str) -> Visit | None:
    """Return the visit that works on a host."""
    for visit in reader.select(kinds.OPEN_VISITS_OF_HOST, host, limit=1):
        if visit.state in ENTERED_VISITS:
            return visit
    return None


def _way_out_of(reader: Reader, visit: Visit) -> str:
    if visit.state in STUCK_VISITS:
        skip = campaign_gate.skip_command(reader, visit)
        return f"Run `{skip}`, then apply the file again."
    return "Apply the file again after the visit ends."
