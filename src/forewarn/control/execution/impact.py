"""The impact: from Started until the operation ends.

Order of effects, and the state after a crash:

1. `start` makes Started durable, with the generation of the driver call. A crash before
   it leaves a Ready operation, which starts later.
2. The endpoint serves Started; then the driver is called. A crash before the call leaves
   the call state `issued`. The next start of the service probes the driver and makes the
   call if it was not made.
3. The report of the driver is made durable. A crash before it leaves the call state
   `issued`, and the probe returns the outcome.
4. The recovery is a timer in the row; overdue timers fire at the next start.
"""

from collections.abc import Iterable, Mapping

from forewarn.control.execution import calls, downtime, drains, ending, leaving
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.events import EventStatus
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import EventInput, OperationInput
from forewarn.protocol.notes import (
    DrainStopped,
    DriverGaveUp,
    NothingToDo,
    OperatorSaysFailed,
)
from forewarn.protocol.operations import (
    KEEPING_ACTIONS,
    MOVING_ACTIONS,
    Action,
    CallPart,
    CallState,
    Move,
    Operation,
)
from forewarn.store import kinds
from forewarn.store.port import every

_NO_WORK = (DriverGaveUp, OperatorSaysFailed, DrainStopped)
"""Notes why VMs run again without any work on their host."""


def start(work: Work, operation: Operation) -> None:
    """Start a Ready operation, with its events and its driver call."""
    if operation.action in MOVING_ACTIONS:
        operation, blockers = calls.renew_places(work, operation, operation.vms)
        assert not blockers, "the caller must check for blockers first"
    for name in operation.vms:
        vm = work.vm(name)
        work.save_vm(vm, changed(vm, started=(*vm.started, operation.operation_id)))
    started = work.step(operation, OperationInput.START)
    for event in work.events_of(started):
        # An event whose VMs all left was removed before and stays removed (4.3).
        if event.status is not EventStatus.REMOVED:
            work.step_event(event, EventInput.START)
    if started.visit:
        # The visit enters the host first, in a step of its own.
        work.save_operation(started, changed(started, due_at=0))
        work.take_visit(started.visit)
    elif started.action is Action.NONE:
        work.save_operation(started, changed(started, due_at=0))
    elif not started.moves:
        ending.impact_over(work, started, note=NothingToDo())
    else:
        calls.issue_first(work, started)


def call_done(
    work: Work, operation: Operation, *, paused: Mapping[str, Micros] | None = None
) -> None:
    """Record the success of a call, and continue with the remaining VMs.

    `paused` has the length of the pause of VMs, if the driver measured it. The caller
    holds the safety rows of the scopes of the operation.
    """
    operation = take_done(
        work, operation, calls.current_moves(operation), paused=paused
    )
    if operation.part is CallPart.DOWN:
        # The VMs stay as they are until the work of the visit has ended.
        work.save_operation(
            operation,
            changed(
                operation, call_state=CallState.NONE, attempts=0, due_at=0, note=None
            ),
        )
        work.take_visit(operation.visit)
        return
    # The second half keeps the reason why there was no work.
    note = operation.note if isinstance(operation.note, _NO_WORK) else None
    operation = work.save_operation(
        operation,
        changed(operation, call_state=CallState.NONE, attempts=0, note=note),
    )
    drains.move_next(work, operation)


def take_done(
    work: Work,
    operation: Operation,
    moves: tuple[Move, ...],
    *,
    paused: Mapping[str, Micros] | None = None,
) -> Operation:
    """Record the success of a call for some of its VMs.

    The other VMs are unchanged: the next attempt is only for them.
    """
    arrived = _arrivals(work, operation, moves)
    if arrived:
        leaving.note_moves(
            work,
            [(vm, host.name) for vm, host in arrived],
            besides=operation.operation_id,
        )
    for vm, host in arrived:
        leaving.put_on(
            work,
            work.vm(vm.name),
            host,
            besides=operation.operation_id,
            is_observed=operation.driver_chooses and _is_odd(work, vm, host),
        )
    for move in moves if operation.part is not CallPart.DOWN else ():
        _vm_done(work, operation, move)
        if (vm := work.tx.get(Vm, move.vm)) is not None:
            downtime.impact_over(work, vm, paused=(paused or {}).get(move.vm))
    finished = {move.vm for move in moves}
    operation = work.operation(operation.operation_id)
    return work.save_operation(
        operation,
        changed(
            operation,
            moves=tuple(
                changed(move, done=move.done or move.vm in finished)
                for move in operation.moves
            ),
        ),
    )


def _arrivals(
    work: Work, operation: Operation, moves: Iterable[Move]
) -> list[tuple[Vm, Host]]:
    """Return the VMs that a call moved, with their new hosts."""
    if operation.action not in MOVING_ACTIONS:
        return []
    arrivals: list[tuple[Vm, Host]] = []
    for move in moves:
        vm = work.tx.get(Vm, move.vm)
        host = work.tx.get(Host, move.to_host) if move.to_host else None
        if vm is not None and vm.state is not VmState.DELETED and host is not None:
            arrivals.append((vm, host))
    return arrivals


def _is_odd(work: Work, vm: Vm, host: Host) -> bool:
    """Return whether the driver chose a host in another pool, or one with another fault
    domain of the scope."""
    old = work.tx.get(Host, vm.host)
    if old is None or old.pool != host.pool:
        return True
    return any(
        other.scope == vm.scope and other.fault_domain != vm.fault_domain
        for other in every(work.tx, kinds.VMS_ON_HOST, host.name)
    )


def _vm_done(work: Work, operation: Operation, move: Move) -> None:
    vm = work.tx.get(Vm, move.vm)
    if vm is None or vm.state is VmState.DELETED:
        return
    if operation.action is Action.DELETE:
        leaving.delete_vm(work, vm, besides=operation.operation_id)
        return
    host = work.tx.get(Host, vm.host)
    if (
        vm.state is VmState.DOWN
        and operation.action not in KEEPING_ACTIONS
        # The host can have failed during the move of the VM.
        and (host is None or host.state is HostState.UP)
    ):
        leaving.vm_runs_again(work, vm)
