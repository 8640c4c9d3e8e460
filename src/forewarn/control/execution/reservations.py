"""The places that VMs of a moving operation keep, from Started until the move is over.

`room` finds a place; this module keeps it, and plans it again when the destination is
no longer fit before a later call.
"""

from collections.abc import Collection
from dataclasses import replace

from forewarn.control.rules import destinations
from forewarn.control.transactions.work import Work
from forewarn.protocol.blockers import AnyBlocker, bounded
from forewarn.protocol.operations import Operation
from forewarn.store.audit import AuditKind, Facts


def keep(
    work: Work, operation: Operation, places: destinations.Destinations
) -> Operation:
    """Keep the places that were found, in the operation and its VMs."""
    for name, host in places.hosts.items():
        vm = work.vm(name)
        work.save_vm(vm, replace(vm, moving_to=host))
        # Room is a rule over several rows: its host row makes writers meet.
        keeper = work.host(host)
        work.tx.replace(keeper, keeper)
    return _save(work, operation, places.hosts)


def renew(
    work: Work, operation: Operation, vms: Collection[str]
) -> tuple[Operation, tuple[AnyBlocker, ...]]:
    """Plan again where a destination of these VMs is no longer fit.

    Return the operation, and why a VM has no place. Then no place that was found is
    kept, and the VMs without one keep none. The history is told once.
    """
    lost = destinations.unfit(work.tx, operation, vms)
    if lost:
        operation = _give_back(work, operation, lost)
    if all(move.to_host for move in operation.moves if move.vm in vms):
        return operation, ()
    places = destinations.find_places(work.tx, operation)
    if not places.blockers:
        return keep(work, operation, places), ()
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
