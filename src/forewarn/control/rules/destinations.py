"""Find destinations for the VMs of a moving operation.

This module reads the fleet and lets `placement` choose. The destinations of a host are
reserved together (`Vm.moving_to`) when its maintenance is announced, and until each move
ends, and count as used capacity. Those of other operations are reserved at Started. For
each VM, a bounded number of hosts of its pool is checked (`host_search`): hosts with VMs
of the same fault domain, and the hosts with the most free places, memory and vCPUs.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from forewarn.control.rules import told, wide_blackouts
from forewarn.control.rules.host_search import HostSearch, Relays, cannot_move
from forewarn.fleet.model import Vm
from forewarn.protocol.blockers import AnyBlocker, NoCapacity
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    WAITING_STATES,
    Operation,
    OperationState,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """A host for each VM that must move, or the reasons why there is none."""

    hosts: dict[str, str] = field(default_factory=dict[str, str])
    blockers: tuple[AnyBlocker, ...] = ()


def find_places(
    reader: Reader,
    operation: Operation,
    *,
    lost: Collection[str] = (),
    closed: str = "",
) -> Destinations:
    """Find a host for each VM of the operation that has none yet.

    The VMs are placed one after the other; each counts as load for the next ones. The
    reserved hosts of the VMs in `lost` do not count as load. Host `closed` takes none.
    If the driver chooses, no host is looked for, and only a VM that cannot be moved has a
    blocker.
    """
    left = [move for move in operation.moves if not move.done]
    if operation.driver_chooses:
        vms = [move.vm for move in left]
        fixed = tuple(_fixed(reader, vms))
        return Destinations(blockers=fixed or _unable(reader, operation, vms))
    searched = [move.vm for move in left if not move.to_host]
    if unable := _unable(reader, operation, searched):
        return Destinations(blockers=unable)
    return _place_all(
        _search_for(reader, operation, lost=lost, closed=closed),
        (vm for name in searched if (vm := reader.get(Vm, name)) is not None),
    )


def _unable(
    reader: Reader, operation: Operation, vms: Collection[str]
) -> tuple[AnyBlocker, ...]:
    """Return what the driver told against moving VMs of the operation, if any move."""
    if operation.action not in MOVING_ACTIONS or not vms:
        return ()
    return told.why_unable(reader, operation.host, vms, (operation.action,))


def _fixed(reader: Reader, vms: Iterable[str]) -> Iterator[NoCapacity]:
    for name in vms:
        vm = reader.get(Vm, name)
        if vm is not None and not vm.movable:
            yield cannot_move(vm)


def find_at_start(reader: Reader, operation: Operation) -> Destinations:
    """Find a host for each VM whose reserved one is missing or no longer suitable."""
    lost = frozenset(unfit(reader, operation, operation.vms, is_open=True))
    return find_places(reader, _without(operation, lost), lost=lost)


def _without(operation: Operation, lost: Collection[str]) -> Operation:
    """Return an operation without the reserved hosts of some VMs."""
    if not lost:
        return operation
    moves = tuple(
        replace(move, to_host="") if move.vm in lost else move
        for move in operation.moves
    )
    return replace(operation, moves=moves)


def reservations(reader: Reader, host: str) -> dict[str, set[str]]:
    """Return the VMs for which a host keeps places before their moves start.

    They are the values, by the operation that moves them.
    """
    reserved: dict[str, set[str]] = {}
    for vm in every(reader, kinds.VMS_MOVING_TO, host):
        for other in every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
            if other.state in WAITING_STATES and any(
                move.vm == vm.name and move.to_host == host for move in other.moves
            ):
                reserved.setdefault(other.operation_id, set()).add(vm.name)
    return reserved


def arrivals(reader: Reader, host: str) -> Iterator[Vm]:
    """Yield the VMs whose moves to a host have started."""
    waiting = set[str]().union(*reservations(reader, host).values())
    for vm in every(reader, kinds.VMS_MOVING_TO, host):
        if vm.name not in waiting:
            yield vm


def can_give_up_places(reader: Reader, host: str) -> bool:
    """Return whether other hosts can take the VMs for which a host keeps places."""
    for operation_id, vms in reservations(reader, host).items():
        operation = reader.get(Operation, operation_id)
        assert operation is not None, "an open operation is stored"
        without = _without(operation, vms)
        if find_places(reader, without, lost=vms, closed=host).blockers:
            return False
    return True


def find_in_time(
    reader: Reader, vms: Iterable[Vm], *, request: str
) -> tuple[AnyBlocker, ...]:
    """Return why VMs have no destination even after all work on hosts has ended."""
    leaving = tuple(vms)
    search = HostSearch(
        reader, request, leaving=tuple(vm.name for vm in leaving), in_time=True
    )
    return _place_all(search, leaving).blockers


def _search_for(
    reader: Reader,
    operation: Operation,
    *,
    lost: Collection[str] = (),
    closed: str = "",
    relays: Relays | None = None,
) -> HostSearch:
    return HostSearch(
        reader,
        operation.request,
        besides=operation.operation_id,
        leaving=operation.vms,
        lost=lost,
        closed=closed,
        relays=_relays_for(operation) if relays is None else relays,
    )


def _relays_for(operation: Operation) -> Relays:
    """Return the demand on the relays of destinations.

    Planned work can wait until it has started. Other VMs are better off anywhere.
    """
    is_waiting = operation.state in {OperationState.PLANNED, *WAITING_STATES}
    is_strict = is_waiting and wide_blackouts.is_stopped(operation)
    return Relays.NEEDED if is_strict else Relays.PREFERRED


def _place_all(search: HostSearch, vms: Iterable[Vm]) -> Destinations:
    hosts: dict[str, str] = {}
    blockers: list[AnyBlocker] = []
    for vm in vms:
        place = search.find(vm)
        if isinstance(place, NoCapacity):
            blockers.append(place)
        else:
            hosts[vm.name] = place
    return Destinations(hosts=hosts, blockers=tuple(blockers))


def unfit(
    reader: Reader,
    operation: Operation,
    vms: Collection[str],
    *,
    is_open: bool = False,
) -> tuple[str, ...]:
    """Return the VMs whose destination can no longer take them.

    Since the reservation, the host can have failed, been removed, or got other VMs, less
    capacity or an operation. Another operation can have replaced the reservation. While
    the move `is_open` for another choice, a destination of planned work must also have no
    silent relay.
    """
    is_strict = is_open and wide_blackouts.is_stopped(operation)
    relays = Relays.NEEDED if is_strict else Relays.IGNORED
    search = _search_for(reader, operation, relays=relays)
    return tuple(
        move.vm
        for move in operation.moves
        if move.vm in vms
        and not move.done
        and move.to_host
        and not search.is_fit(move.vm, move.to_host)
    )
