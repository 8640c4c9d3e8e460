"""Where the VMs of a moving operation go: reads the fleet, asks `placement`.

A place is kept (`Vm.moving_to`) from Started until the move is over, and counts
as taken. Hosts that hold the VM's own fault domain are asked first; then all
others, a page at a time, until one fits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from forewarn.control.blockers import Blocker, NoRoom
from forewarn.fleet.model import Host, Scope, Vm
from forewarn.fleet.placement import Candidate, choose_host, why_none
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A host for each VM that must move, or why there is none."""

    hosts: dict[str, str] = field(default_factory=dict[str, str])
    blockers: tuple[Blocker, ...] = ()


def find_places(reader: Reader, operation: Operation) -> Places:
    """Find a host for every VM of the operation that has none yet.

    The VMs are placed one after the other, each counting for the next.
    """
    hosts: dict[str, str] = {}
    blockers: list[Blocker] = []
    taken: dict[str, list[Vm]] = {}
    for move in operation.moves:
        vm = reader.get(Vm, move.vm)
        if vm is None or move.done or move.to_host:
            continue
        place = _find_one(reader, operation, vm, taken)
        if isinstance(place, Blocker):
            blockers.append(place)
        else:
            hosts[vm.name] = place
            taken.setdefault(place, []).append(vm)
    return Places(hosts=hosts, blockers=tuple(blockers))


def _find_one(
    reader: Reader, operation: Operation, vm: Vm, taken: dict[str, list[Vm]]
) -> str | Blocker:
    scope = reader.get(Scope, vm.scope)
    origin = reader.get(Host, vm.host)
    assert scope is not None, f"{vm.name} has no scope"
    assert origin is not None, f"{vm.name} has no host"
    seen: list[Candidate] = []
    for page in _pages(reader, vm):
        candidates = [
            _candidate(reader, operation, vm, host, taken.get(host.name, ()))
            for host in page
        ]
        chosen = choose_host(vm, scope, zone=origin.zone, candidates=candidates)
        if chosen is not None:
            return chosen
        seen += candidates
    why = why_none(vm, scope, zone=origin.zone, candidates=seen)
    return NoRoom(vm=vm.name, why=why)


def _pages(reader: Reader, vm: Vm) -> Iterator[list[Host]]:
    """Yield hosts to ask: those of the VM's own fault domain, then all."""
    near = {
        other.host
        for other in every(reader, kinds.VMS_OF_SCOPE, vm.scope)
        if other.fault_domain == vm.fault_domain and other.host != vm.host
    }
    if near:
        yield [
            host
            for name in sorted(near)
            if (host := reader.get(Host, name)) is not None
        ]
    after = ""
    while page := reader.select(kinds.ALL_HOSTS, after=after):
        yield [host for host in page if host.name not in near]
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].name


def _candidate(
    reader: Reader, operation: Operation, vm: Vm, host: Host, taken: Iterable[Vm]
) -> Candidate:
    there = {
        other.name: other
        for other in (
            *every(reader, kinds.VMS_ON_HOST, host.name),
            *every(reader, kinds.VMS_MOVING_TO, host.name),
            *taken,
        )
        if other.name != vm.name
    }
    return Candidate(
        host=host,
        load=len(there),
        domains=frozenset(
            other.fault_domain for other in there.values() if other.scope == vm.scope
        ),
        busy=is_busy(reader, host.name, besides=operation.operation_id),
    )


def is_busy(reader: Reader, host: str, *, besides: str = "") -> bool:
    """Tell whether the host itself is under, or before, an operation.

    Nothing is placed on such a host: it would meet an impact without notice.
    """
    return any(
        operation.is_host_bound and operation.operation_id != besides
        for operation in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host)
    )
