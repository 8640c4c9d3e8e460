"""VMs that leave a host, an operation or the fleet.

A VM that leaves an operation is removed from the `Resources` of its events. An event
without VMs is removed, and an operation without VMs ends. A VM that leaves a host leaves
the operations that are bound to that host. Only this module changes the `Resources` of
published events.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.execution import calls, downtime, drains, ending, view_assignment
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.lifecycle import EventInput
from forewarn.protocol.notes import AnyNote, Change, vm_changed
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    CallState,
    Operation,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind, Facts, VmMove


def move_vm(
    work: Work, vm: Vm, host: Host, *, besides: str = "", is_observed: bool = False
) -> Vm:
    """Move a VM to another host; it leaves operations that are bound to the old host.

    `besides` is the operation that moves the VM; the VM does not leave that operation.
    `is_observed`: the driver observed it there, where forewarn did not place it.
    """
    note_moves(work, [(vm, host.name)], besides=besides)
    return put_on(work, vm, host, besides=besides, is_observed=is_observed)


def note_moves(
    work: Work, moves: Sequence[tuple[Vm, str]], *, besides: str = ""
) -> None:
    """Store one history entry for the moves of several VMs.

    The VMs of a call share one entry, so that the maintenance of a host does not write an
    entry per VM.
    """
    subjects = [
        subject
        for vm, to_host in moves
        for subject in (
            f"vm:{vm.name}",
            f"host:{vm.host}",
            f"host:{to_host}",
            f"scope:{vm.scope}",
        )
    ]
    work.note(
        AuditKind.VM_MOVED,
        [*subjects, *([f"operation:{besides}"] if besides else [])],
        Facts(
            moves=tuple(
                VmMove(vm=vm.name, from_host=vm.host, to_host=to_host)
                for vm, to_host in moves
            )
        ),
        operation=besides,
    )


def put_on(
    work: Work, vm: Vm, host: Host, *, besides: str = "", is_observed: bool = False
) -> Vm:
    """Move a VM to another host, after its history entry; see `move_vm`."""
    old_host = vm.host
    moved = work.save_vm(
        vm, replace(vm, host=host.name, moving_to="", is_observed=is_observed)
    )
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name)):
        if operation.operation_id == besides or not (
            operation.state in WAITING_STATES or ending.is_failure(operation)
        ):
            continue
        if not operation.is_host_bound:
            work.save_operation(operation, replace(operation, host=host.name))
        elif operation.host == old_host:
            leave(
                work,
                operation,
                vm.name,
                note=vm_changed(Change.LEFT, vm.name, host=old_host),
            )
    work.free([vm.scope], [vm.name])
    work.free_room(host.name)
    # A rollout can wait for the host that it left.
    work.free_host(old_host)
    if vm.moving_to not in {"", host.name}:
        # The VM moved to another host than the one that reserved capacity for it.
        work.free_host(vm.moving_to)
    assigned = view_assignment.assign_view(
        work,
        work.vm(moved.name),
        work.scope(vm.scope),
        alone=view_assignment.is_alone(vm.view),
    )
    if assigned.view != vm.view:
        view_assignment.drop_empty_views(work, vm.scope)
    return assigned


def vm_runs_again(work: Work, vm: Vm, *, note: AnyNote | None = None) -> Vm:
    """Record that a VM runs again; it leaves its failure events (5.5)."""
    note = note or vm_changed(Change.RUNS_AGAIN, vm.name)
    running = work.save_vm(
        vm, replace(vm, state=VmState.RUNNING, is_off=False, down_for="")
    )
    downtime.runs_again(work, running)
    work.note(AuditKind.VM_RUNS_AGAIN, (f"vm:{vm.name}", f"scope:{vm.scope}"))
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name)):
        if ending.is_failure(operation):
            leave(work, operation, vm.name, note=note)
    work.free([vm.scope], [vm.name])
    return work.vm(vm.name)


def delete_vm(work: Work, vm: Vm, *, besides: str = "") -> None:
    """Mark a VM as deleted: it leaves all operations and gets no more documents."""
    leave_all(work, vm, besides=besides, note=vm_changed(Change.DELETED, vm.name))
    current = work.vm(vm.name)
    work.save_vm(
        current,
        replace(
            current, state=VmState.DELETED, moving_to="", is_off=False, down_for=""
        ),
    )
    work.forget_guest(vm.name)
    downtime.vanish(work, vm.name)
    work.note(
        AuditKind.VM_DELETED,
        (
            f"vm:{vm.name}",
            f"scope:{vm.scope}",
            f"host:{vm.host}",
            *([f"operation:{besides}"] if besides else []),
        ),
        operation=besides,
    )
    view_assignment.drop_empty_views(work, vm.scope)
    work.free([vm.scope])
    work.free_room(vm.host)


def leave_all(work: Work, vm: Vm, *, besides: str = "", note: AnyNote) -> None:
    """Remove a VM from all open operations except `besides`."""
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name)):
        if operation.operation_id != besides:
            leave(work, operation, vm.name, note=note)


def leave(work: Work, operation: Operation, vm: str, *, note: AnyNote) -> None:
    """Remove a VM from an operation and its events."""
    for event in work.events_of(operation):
        if event.names(vm):
            _shrink_event(work, event, vm)
    in_hand = vm in {move.vm for move in calls.current_moves(operation)}
    rest = tuple(move for move in operation.moves if move.vm != vm)
    shrunk = work.save_operation(
        operation, replace(operation, moves=rest, left_vms=(*operation.left_vms, vm))
    )
    ending.take_off(work, operation, vm)
    if not rest:
        if operation.state in WAITING_STATES:
            ending.cancel(work, shrunk, note=note)
        else:
            work.abort(shrunk)
            ending.finish(work, shrunk, note=note)
    elif (
        in_hand
        and operation.action is Action.LIVE_MIGRATE
        and operation.call_state is not CallState.NONE
    ):
        # The VMs of the operation move one after the other, and the current one has
        # left.
        work.abort(shrunk)
        drains.move_next(work, shrunk)
    elif operation.state in WAITING_STATES:
        work.revisit(operation.operation_id)


def _shrink_event(work: Work, event: Event, vm: str) -> None:
    """Remove a VM from an event; remove the event if it has no other VM."""
    rest = tuple(resource for resource in event.resources if resource.vm != vm)
    if rest:
        work.save_event(event, replace(event, resources=rest))
        work.note(
            AuditKind.EVENT_SHRUNK,
            (f"event:{event.event_id}", f"vm:{vm}", f"operation:{event.operation}"),
            Facts(vm=vm),
            operation=event.operation,
        )
    elif event.status is EventStatus.STARTED:
        work.step_event(event, EventInput.FINISH, outcome=Outcome.COMPLETED)
    elif event.status is EventStatus.SCHEDULED:
        work.step_event(event, EventInput.CANCEL, outcome=Outcome.CANCELLED)


def scopes_of_vm(work: Work, vm: Vm) -> set[str]:
    """Return the scopes whose safety rows a change of the VM must lock."""
    scopes = {vm.scope}
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
        scopes.update(operation.scopes)
    return scopes
