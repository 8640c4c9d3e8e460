"""Driver calls as rows: the next call of an operation, and its destinations.

A call is identified by (operation ID, generation). Raising the generation makes the
reports of all earlier calls void. The call is made after the commit. The VMs of a host
that is emptied keep their reserved destinations from the announcement until the move
ends, and other moving VMs from Started. `destinations` finds them; an unsuitable one is
replaced at Started and before a later call. If the driver chooses the destinations, none
is reserved, and its report names the host of each VM.
"""

from collections.abc import Collection
from dataclasses import replace

from forewarn.control.execution import downtime
from forewarn.control.rules import destinations
from forewarn.control.rules.avoided import with_avoided
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Call, CallVm
from forewarn.fleet.model import Vm
from forewarn.protocol.blockers import AnyBlocker, bounded
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import AnyNote, Hindered
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    CallPart,
    CallState,
    Move,
    Operation,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind, Facts


def keep_places(
    work: Work, operation: Operation, places: destinations.Destinations
) -> Operation:
    """Reserve the destinations, in the operation and its VMs."""
    for name, host in places.hosts.items():
        vm = work.vm(name)
        if vm.moving_to:
            _take_over(work, operation, vm)
        work.save_vm(vm, replace(vm, moving_to=host))
        # Capacity depends on several rows: writing the host row makes writers conflict.
        keeper = work.host(host)
        work.tx.replace(keeper, keeper)
    return _save(work, operation, places.hosts)


def reserve_places(work: Work, operation: Operation) -> Operation:
    """Reserve the destinations of a host that is announced, all or none.

    None if a VM has no destination: the operation is then held at its start. A VM that
    another operation moves now keeps the destination of that move.
    """
    moving = {name for name in operation.vms if work.vm(name).moving_to}
    staying = replace(
        operation,
        moves=tuple(move for move in operation.moves if move.vm not in moving),
    )
    places = destinations.find_places(work.tx, staying)
    return operation if places.blockers else keep_places(work, operation, places)


def renew_chooser(work: Work, operation: Operation) -> Operation:
    """Apply the present setting of who chooses the destinations to an operation.

    The setting may have changed since the announcement or the last call. If the driver
    chooses now, reserved places are given back.
    """
    renewed = work.policy.with_chooser(operation)
    if renewed is operation:
        return operation
    saved = work.save_operation(operation, renewed)
    kept_vms = [move.vm for move in saved.moves if move.to_host and not move.done]
    return (
        _give_back(work, saved, kept_vms)
        if saved.driver_chooses and kept_vms
        else saved
    )


def give_up_places(work: Work, operation: Operation) -> None:
    """Reserve other places for the VMs that would move to a host that is announced."""
    if not operation.is_host_bound:
        return
    for operation_id, vms in destinations.reservations(work.tx, operation.host).items():
        if operation_id != operation.operation_id:
            renew_places(work, work.operation(operation_id), vms)


def _take_over(work: Work, operation: Operation, vm: Vm) -> None:
    """Replace the reservation of a VM that another operation holds.

    The other operation finds another destination at its start.
    """
    work.free_host(vm.moving_to)
    for other in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_VM, vm.name)):
        if other.operation_id != operation.operation_id:
            _save(work, other, {vm.name: ""})


def renew_places(
    work: Work, operation: Operation, vms: Collection[str]
) -> tuple[Operation, tuple[AnyBlocker, ...]]:
    """Replace destinations of these VMs that are no longer suitable.

    Return the operation, and why a VM has no destination. In that case no new destination
    is reserved. The history gets one entry.
    """
    lost = destinations.unfit(work.tx, operation, vms, is_open=True)
    if lost:
        operation = _give_back(work, operation, lost)
    has_all = all(move.to_host for move in operation.moves if move.vm in vms)
    if has_all and not operation.driver_chooses:
        return operation, ()
    places = destinations.find_places(work.tx, operation)
    if not places.blockers:
        return keep_places(work, operation, places), ()
    if lost:
        held = Facts(blockers=bounded(places.blockers))
        work.note_operation(AuditKind.OPERATION_HELD, operation, held)
    return operation, places.blockers


def _give_back(work: Work, operation: Operation, vms: Collection[str]) -> Operation:
    reserved = {move.vm: move.to_host for move in operation.moves}
    for name in vms:
        vm = work.vm(name)
        if vm.moving_to == reserved[name]:
            work.free_host(vm.moving_to)
            work.save_vm(vm, replace(vm, moving_to=""))
    work.free_room()
    return _save(work, operation, dict.fromkeys(vms, ""))


def _save(work: Work, operation: Operation, hosts: dict[str, str]) -> Operation:
    """Store the destinations of VMs that have not moved yet."""
    moves = tuple(
        move if move.done else replace(move, to_host=hosts.get(move.vm, move.to_host))
        for move in operation.moves
    )
    if moves == operation.moves:
        return operation
    return work.save_operation(operation, replace(operation, moves=moves))


def current_moves(operation: Operation) -> tuple[Move, ...]:
    """Return the moves of the current call: all, or one for a live migration.

    The VMs of a live migration move one after the other (clause 6.3).
    """
    todo = tuple(move for move in operation.moves if not move.done)
    return todo[:1] if operation.action is Action.LIVE_MIGRATE else todo


def call_of(operation: Operation) -> Call:
    """Return the driver call of the generation of the operation, to ask about it."""
    return Call(
        operation_id=operation.operation_id,
        generation=operation.generation,
        action=operation.call_action,
        host=operation.host,
        vms=tuple(
            CallVm(vm=move.vm, to_host=move.to_host)
            for move in current_moves(operation)
        ),
        duration_seconds=operation.duration_seconds,
    )


def call_to_make(work: Work, operation: Operation) -> Call:
    """Return the call of the generation of the operation, as it is made now."""
    return with_avoided(work.tx, operation, call_of(operation))


def issue_first(work: Work, operation: Operation) -> None:
    """Make the first driver call durable; its destinations were just chosen."""
    _issue(work, operation, attempts=1)


def take_down(work: Work, operation: Operation) -> None:
    """Make the first half of an action durable, which pauses or stops the VMs."""
    halved = work.save_operation(operation, changed(operation, part=CallPart.DOWN))
    _issue(work, halved, attempts=1)


def bring_up(work: Work, operation: Operation, *, note: AnyNote | None) -> None:
    """Make the second half durable, for all VMs: some may be down after a failure.

    `note` is kept until the operation ends.
    """
    moves = tuple(replace(move, done=False) for move in operation.moves)
    halved = work.save_operation(
        operation, changed(operation, part=CallPart.UP, moves=moves, note=note)
    )
    _issue(work, halved, attempts=1)


def issue(work: Work, operation: Operation, *, attempts: int) -> bool:
    """Make the next driver call durable; it is made after the commit.

    Unsuitable destinations are replaced first. If a VM has no destination, the call waits
    like a failed one, and the result is False.
    """
    if operation.action in MOVING_ACTIONS:
        operation = renew_chooser(work, operation)
        vms = {move.vm for move in current_moves(operation)}
        operation, blockers = renew_places(work, operation, vms)
        if blockers:
            work.save_operation(
                operation,
                changed(
                    operation,
                    call_state=CallState.RETRY,
                    attempts=attempts,
                    due_at=work.now + work.policy.retry_delay,
                    note=Hindered(why=blockers[0]),
                ),
            )
            return False
    _issue(work, operation, attempts=attempts)
    return True


def _issue(work: Work, operation: Operation, *, attempts: int) -> None:
    issued = work.save_operation(
        operation,
        changed(
            operation,
            moves=tuple(_forgetful(move) for move in operation.moves),
            generation=operation.generation + 1,
            attempts=attempts,
            call_state=CallState.ISSUED,
            driver=work.driver,
            driver_memory=work.memory,
            due_at=work.now + work.policy.driver_timeout,
        ),
    )
    downtime.impact_begins(
        work, issued, tuple(move.vm for move in current_moves(issued))
    )
    work.call(call_to_make(work, issued))


def _forgetful(move: Move) -> Move:
    """Return the move without the results of the previous call."""
    if not move.has_failed:
        return move
    return changed(move, has_failed=False, is_down=False)
