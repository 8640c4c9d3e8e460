"""Driver calls as rows: the next call of an operation, and its destinations.

A call is identified by (operation ID, generation). Raising the generation makes the
reports of all earlier calls void. The call is made after the commit. The VMs of a moving
operation keep their reserved destinations from Started until the move ends.
`destinations` finds them; an unsuitable one is replaced before a later call.
"""

from collections.abc import Collection
from dataclasses import replace

from forewarn.control.execution import downtime
from forewarn.control.rules import destinations
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Call, CallVm
from forewarn.protocol.blockers import AnyBlocker, bounded
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import Hindered
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    CallState,
    Move,
    Operation,
)
from forewarn.store.records import AuditKind, Facts


def keep_places(
    work: Work, operation: Operation, places: destinations.Destinations
) -> Operation:
    """Reserve the destinations, in the operation and its VMs."""
    for name, host in places.hosts.items():
        vm = work.vm(name)
        work.save_vm(vm, replace(vm, moving_to=host))
        # Capacity depends on several rows: writing the host row makes writers conflict.
        keeper = work.host(host)
        work.tx.replace(keeper, keeper)
    return _save(work, operation, places.hosts)


def renew_places(
    work: Work, operation: Operation, vms: Collection[str]
) -> tuple[Operation, tuple[AnyBlocker, ...]]:
    """Replace destinations of these VMs that are no longer suitable.

    Return the operation, and why a VM has no destination. In that case no new destination
    is reserved. The history gets one entry.
    """
    lost = destinations.unfit(work.tx, operation, vms)
    if lost:
        operation = _give_back(work, operation, lost)
    if all(move.to_host for move in operation.moves if move.vm in vms):
        return operation, ()
    places = destinations.find_places(work.tx, operation)
    if not places.blockers:
        return keep_places(work, operation, places), ()
    if lost:
        held = Facts(blockers=bounded(places.blockers))
        work.note_operation(AuditKind.OPERATION_HELD, operation, held)
    return operation, places.blockers


def _give_back(work: Work, operation: Operation, vms: Collection[str]) -> Operation:
    for name in vms:
        vm = work.vm(name)
        work.free_host(vm.moving_to)
        work.save_vm(vm, replace(vm, moving_to=""))
    work.free_room()
    return _save(work, operation, dict.fromkeys(vms, ""))


def _save(work: Work, operation: Operation, hosts: dict[str, str]) -> Operation:
    return work.save_operation(
        operation,
        replace(
            operation,
            moves=tuple(
                replace(move, to_host=hosts.get(move.vm, move.to_host))
                for move in operation.moves
            ),
        ),
    )


def current_moves(operation: Operation) -> tuple[Move, ...]:
    """Return the moves of the current call: all, or one for a live migration.

    The VMs of a live migration move one after the other (clause 6.3).
    """
    todo = tuple(move for move in operation.moves if not move.done)
    return todo[:1] if operation.action is Action.LIVE_MIGRATE else todo


def call_of(operation: Operation) -> Call:
    """Return the driver call of the generation of the operation."""
    return Call(
        operation_id=operation.operation_id,
        generation=operation.generation,
        action=operation.action,
        host=operation.host,
        vms=tuple(
            CallVm(vm=move.vm, to_host=move.to_host)
            for move in current_moves(operation)
        ),
        duration_seconds=operation.duration_seconds,
    )


def issue_first(work: Work, operation: Operation) -> None:
    """Make the first driver call durable; its destinations were just chosen."""
    _issue(work, operation, attempts=1)


def issue(work: Work, operation: Operation, *, attempts: int) -> bool:
    """Make the next driver call durable; it is made after the commit.

    Unsuitable destinations are replaced first. If a VM has no destination, the call waits
    like a failed one, and the result is False.
    """
    if operation.action in MOVING_ACTIONS:
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
    work.call(call_of(issued))


def _forgetful(move: Move) -> Move:
    """Return the move without the results of the previous call."""
    if not move.has_failed:
        return move
    return changed(move, has_failed=False, is_down=False)
