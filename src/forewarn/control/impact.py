"""The impact: from Started until the operation has ended.

Order of effects, with what a crash leaves behind:

1. `start` makes Started durable, with the call that will be made (its
   generation). A crash before leaves a Ready operation, which starts later.
2. The endpoint serves Started; then the driver is called. A crash before the
   call leaves call state `issued`: the next start of the service probes the
   driver and makes the call if it was not made.
3. The driver's report is made durable. A crash before leaves the call `issued`:
   the probe says what became of it.
4. Recovery is a timer in the row; overdue ones fire at the next start.
"""

from collections.abc import Mapping
from dataclasses import replace

from forewarn.control import calls, downtime, ending, leaving, room
from forewarn.control.work import Work
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.events import EventStatus
from forewarn.protocol.lifecycle import EventInput, OperationInput
from forewarn.protocol.operations import (
    KEEPING_ACTIONS,
    MOVING_ACTIONS,
    Action,
    CallState,
    Move,
    Operation,
)


def start(work: Work, operation: Operation) -> None:
    """Make a Ready operation Started, with its events and its driver call."""
    if operation.action in MOVING_ACTIONS:
        operation = _keep_places(work, operation)
    for name in operation.vms:
        vm = work.vm(name)
        work.save_vm(vm, replace(vm, started=(*vm.started, operation.operation_id)))
    started = work.step(operation, OperationInput.START)
    for event in work.events_of(started):
        # One whose VMs have all gone was removed before, and stays so (4.3).
        if event.status is not EventStatus.REMOVED:
            work.step_event(event, EventInput.START)
    if started.action is Action.NONE:
        work.save_operation(started, replace(started, due_at=0))
    elif not started.moves:
        ending.impact_over(work, started)
    else:
        calls.issue(work, started, attempts=1)


def _keep_places(work: Work, operation: Operation) -> Operation:
    places = room.find_places(work.tx, operation)
    assert not places.blockers, "the caller asked why it should not start"
    for name, host in places.hosts.items():
        vm = work.vm(name)
        work.save_vm(vm, replace(vm, moving_to=host))
        # Room is a rule over several rows: its host row makes writers meet.
        keeper = work.host(host)
        work.tx.replace(keeper, keeper)
    return work.save_operation(
        operation,
        replace(
            operation,
            moves=tuple(
                replace(move, to_host=places.hosts.get(move.vm, move.to_host))
                for move in operation.moves
            ),
        ),
    )


def call_done(
    work: Work, operation: Operation, *, paused: Mapping[str, Micros] | None = None
) -> None:
    """Take over what a successful call has done; go on with what is left.

    `paused` is how long VMs stood still, where the driver measured it. The caller
    holds the safety rows of the operation's scopes.
    """
    for move in calls.current_moves(operation):
        _vm_done(work, operation, move)
        if (vm := work.tx.get(Vm, move.vm)) is not None:
            downtime.impact_over(work, vm, paused=(paused or {}).get(move.vm))
    operation = work.operation(operation.operation_id)
    finished = {move.vm for move in calls.current_moves(operation)}
    operation = work.save_operation(
        operation,
        replace(
            operation,
            call_state=CallState.NONE,
            attempts=0,
            note="",
            moves=tuple(
                replace(move, done=move.done or move.vm in finished)
                for move in operation.moves
            ),
        ),
    )
    if calls.current_moves(operation):
        calls.issue(work, operation, attempts=1)
    else:
        ending.impact_over(work, operation)


def _vm_done(work: Work, operation: Operation, move: Move) -> None:
    vm = work.tx.get(Vm, move.vm)
    if vm is None or vm.state is VmState.DELETED:
        return
    if operation.action is Action.DELETE:
        leaving.delete_vm(work, vm, besides=operation.operation_id)
        return
    if operation.action in MOVING_ACTIONS and move.to_host:
        host = work.tx.get(Host, move.to_host)
        if host is not None:
            vm = leaving.move_vm(work, vm, host, besides=operation.operation_id)
    if vm.state is VmState.DOWN and operation.action not in KEEPING_ACTIONS:
        leaving.vm_runs_again(work, vm)
