"""Find destinations for the VMs of a moving operation.

This module reads the fleet and lets `placement` choose. The destinations of a host are
reserved together (`Vm.moving_to`) when its maintenance is announced, and until each move
ends, and count as used capacity. Those of other operations are reserved at Started. For
each
VM, a bounded number of hosts of its pool is checked: hosts with VMs of the same fault
domain, and the hosts with the most free places, memory and vCPUs. The VMs of a host are
read once per operation.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from forewarn.fleet.model import Capacity, Host, Scope, Vm, taken_by, total_use
from forewarn.fleet.placement import (
    CANDIDATES_MAX,
    DONE,
    NEAR_MAX,
    SPREAD_VMS_MAX,
    Candidate,
    choose_host,
    why_none,
)
from forewarn.protocol.blockers import AnyBlocker, NoCapacity
from forewarn.protocol.no_place import NoPlace
from forewarn.protocol.operations import (
    WAITING_STATES,
    Operation,
    OperationState,
)
from forewarn.store import kinds, questions
from forewarn.store.port import Reader, every

SMALL_FLEET = 32
"""Maximum size of a fleet in which all hosts are checked, so that reasons name each."""

CANDIDATES_FIRST = 8
"""Number of hosts with the most free capacity that are checked first. One of them is
nearly always suitable, so the others are not read."""

LAST_POSITION = 1_000_000_000
"""A position after all positions of a rollout."""


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
    if operation.driver_chooses:
        left = (move.vm for move in operation.moves if not move.done)
        return Destinations(blockers=tuple(_fixed(reader, left)))
    return _place_all(
        _search_for(reader, operation, lost=lost, closed=closed),
        (
            vm
            for move in operation.moves
            if not (move.done or move.to_host)
            and (vm := reader.get(Vm, move.vm)) is not None
        ),
    )


def _fixed(reader: Reader, vms: Iterable[str]) -> Iterator[NoCapacity]:
    for name in vms:
        vm = reader.get(Vm, name)
        if vm is not None and not vm.movable:
            yield _cannot_move(vm)


def _cannot_move(vm: Vm) -> NoCapacity:
    return NoCapacity(vm=vm.name, why=NoPlace(on_host=vm.host, is_fixed=True))


def find_at_start(reader: Reader, operation: Operation) -> Destinations:
    """Find a host for each VM whose reserved one is missing or no longer suitable."""
    lost = frozenset(unfit(reader, operation, operation.vms))
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
    found: dict[str, set[str]] = {}
    for vm in every(reader, kinds.VMS_MOVING_TO, host):
        for other in every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
            if other.state in WAITING_STATES and any(
                move.vm == vm.name and move.to_host == host for move in other.moves
            ):
                found.setdefault(other.operation_id, set()).add(vm.name)
    return found


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
    search = _Search(
        reader, request, leaving=tuple(vm.name for vm in leaving), in_time=True
    )
    return _place_all(search, leaving).blockers


def _search_for(
    reader: Reader,
    operation: Operation,
    *,
    lost: Collection[str] = (),
    closed: str = "",
) -> "_Search":
    return _Search(
        reader,
        operation.request,
        besides=operation.operation_id,
        leaving=operation.vms,
        lost=lost,
        closed=closed,
    )


def _place_all(search: "_Search", vms: Iterable[Vm]) -> Destinations:
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
    reader: Reader, operation: Operation, vms: Collection[str]
) -> tuple[str, ...]:
    """Return the VMs whose destination can no longer take them.

    Since the reservation, the host can have failed, been removed, or got other VMs, less
    capacity or an operation. Another operation can have replaced the reservation.
    """
    search = _search_for(reader, operation)
    return tuple(
        move.vm
        for move in operation.moves
        if move.vm in vms
        and not move.done
        and move.to_host
        and not search.is_fit(move.vm, move.to_host)
    )


class _Search:
    """A search for destinations that caches the hosts it has read.

    `leaving` are the VMs that leave one host together.
    """

    def __init__(
        self,
        reader: Reader,
        request: str,
        *,
        besides: str = "",
        leaving: Collection[str] = (),
        lost: Collection[str] = (),
        closed: str = "",
        in_time: bool = False,
    ) -> None:
        self._reader = reader
        self._request = request
        self._besides = besides
        self._leaving = leaving
        self._lost = lost
        self._closed = closed
        self._in_time = in_time
        self._there: dict[str, dict[str, Vm]] = {}
        self._works: dict[str, tuple[bool, int]] = {}
        self._racks: dict[str, str] = {}
        self._members: dict[str, list[Vm]] = {}
        self._placed: dict[str, str] = {}
        """Hosts that were found, by VM."""

    @cached_property
    def _all(self) -> list[Host] | None:
        """All hosts of a small fleet; None: there are too many to check each."""
        hosts = self._reader.select(kinds.ALL_HOSTS, limit=SMALL_FLEET + 1)
        return hosts if len(hosts) <= SMALL_FLEET else None

    def is_fit(self, name: str, to_host: str) -> bool:
        """Return whether a VM can be moved to a host."""
        vm, host = self._reader.get(Vm, name), self._reader.get(Host, to_host)
        if vm is None or host is None:
            return False
        if not vm.movable or vm.moving_to != to_host:
            return False
        scope, origin = self._home_of(vm)
        there = self.candidate(vm, host)
        return choose_host(vm, scope, origin=origin, candidates=[there]) is not None

    def _home_of(self, vm: Vm) -> tuple[Scope, Host]:
        scope = self._reader.get(Scope, vm.scope)
        origin = self._reader.get(Host, vm.host)
        assert scope is not None, f"{vm.name} has no scope"
        assert origin is not None, f"{vm.name} has no host"
        return scope, origin

    def find(self, vm: Vm) -> str | NoCapacity:
        """Return a host for a VM and count the VM there, or return why there is none."""
        if not vm.movable:
            return _cannot_move(vm)
        scope, origin = self._home_of(vm)
        seen: dict[str, Candidate] = {}
        found: str | None = None
        for is_short, names in self._batches(vm, origin):
            if found is not None and not is_short:
                break
            hosts = [
                host
                for name in dict.fromkeys(names)
                if name not in seen
                and (host := self._reader.get(Host, name)) is not None
            ]
            seen |= {host.name: self.candidate(vm, host) for host in hosts}
            found = choose_host(
                vm, scope, origin=origin, candidates=list(seen.values())
            )
            # From a host that waits for its turn, the VM would be moved again.
            if found is not None and seen[found].turn <= 0:
                break
        if found is not None:
            self._on(found)[vm.name] = vm
            self._placed[vm.name] = found
            return found
        why = why_none(vm, scope, origin=origin, candidates=list(seen.values()))
        assert why is not None, f"there is a destination for {vm.name}"
        return NoCapacity(vm=vm.name, why=self._with_others(why, origin.pool))

    def _batches(self, vm: Vm, origin: Host) -> Iterator[tuple[bool, list[str]]]:
        """Yield names of hosts to check, best first, with whether there are few."""
        near = self._reader.select(
            kinds.VMS_OF_DOMAIN,
            kinds.domain_value(vm.scope, vm.fault_domain),
            limit=NEAR_MAX,
        )
        names = sorted({other.host for other in near} - {vm.host})
        if self._all is not None:
            yield True, names + [host.name for host in self._all]
            return
        sizes = [
            ranking
            for need, ranking in (
                (vm.memory, kinds.ROOMS_BY_MEMORY),
                (vm.vcpu, kinds.ROOMS_BY_VCPU),
            )
            if need
        ]
        zone, own = (
            kinds.ROOMS_OPEN_IN_ZONE,
            kinds.zone_value(origin.pool, origin.zone),
        )
        if not self._in_time:
            done = kinds.done_value(self._request, origin.pool, origin.zone)
            for limit in (CANDIDATES_FIRST, CANDIDATES_MAX):
                yield True, self._roomiest(kinds.ROOMS_DONE, done, limit)
            yield True, names + self._roomiest(zone, own, CANDIDATES_FIRST)
            # The hosts with the most free places can lack memory or vCPUs.
            for size in sizes:
                yield True, self._fitting(size, vm, origin.pool, CANDIDATES_FIRST)
            yield True, self._last_ones()
            yield False, self._roomiest(zone, own, CANDIDATES_MAX)
        yield False, names + self._roomiest(self._ranking, origin.pool, CANDIDATES_MAX)
        for size in sizes:
            yield False, self._fitting(size, vm, origin.pool, CANDIDATES_MAX)

    def _last_ones(self) -> list[str]:
        """Return the hosts that come last in the rollout, so that no others follow."""
        last = self._reader.ranked(
            kinds.PLANNED_BY_POSITION, self._request, limit=CANDIDATES_FIRST
        )
        return [operation.host for operation in last]

    @property
    def _ranking(self) -> questions.Ranking[Capacity]:
        return kinds.ROOMS_WITH_SPACE if self._in_time else kinds.ROOMS_OPEN

    def _roomiest(
        self, ranking: questions.Ranking[Capacity], value: str, limit: int
    ) -> list[str]:
        return [room.host for room in self._reader.ranked(ranking, value, limit=limit)]

    def _fitting(
        self, ranking: questions.Ranking[Capacity], vm: Vm, pool: str, limit: int
    ) -> list[str]:
        """Return hosts by a size, without those whose stored capacity is too small.

        If all hosts are too full, none of their VMs are read.
        """
        return [
            room.host
            for room in self._reader.ranked(ranking, pool, limit=limit)
            if room.vcpu - room.vcpu_used >= (vm.vcpu or 0)
            and room.memory - room.memory_used >= (vm.memory or 0)
        ]

    def _with_others(self, why: NoPlace, pool: str) -> NoPlace:
        """Add information about the hosts of the pool that were not checked."""
        if self._all is not None:
            return why
        found = self._reader.ranked(self._ranking, pool, limit=CANDIDATES_MAX)
        if len(found) < CANDIDATES_MAX:
            return replace(why, others_are_full=True)
        return replace(why, looked_at_most=len(found))

    def _on(self, host: str) -> dict[str, Vm]:
        """Return the VMs that are on a host or are moving to it, by name."""
        if host not in self._there:
            self._there[host] = {
                vm.name: vm
                for query in (kinds.VMS_ON_HOST, kinds.VMS_MOVING_TO)
                for vm in every(self._reader, query, host)
                if self._counts(vm, host)
            }
        return self._there[host]

    def _counts(self, vm: Vm, host: str) -> bool:
        """Return whether a VM that is on a host, or moves there, uses its capacity."""
        if vm.host == host:
            # In time, a VM has left the host that it moves away from.
            return not self._in_time or vm.moving_to in {"", host}
        return vm.name not in self._lost

    def candidate(self, vm: Vm, host: Host) -> Candidate:
        """Return a host as a candidate for a VM."""
        there = [each for each in self._on(host.name).values() if each.name != vm.name]
        if host.name not in self._works:
            self._works[host.name] = self._look_at(host.name)
        busy, turn = self._works[host.name]
        load, vcpu, memory = total_use(there)
        return Candidate(
            host=host,
            load=load,
            vcpu=vcpu,
            memory=memory,
            domains=frozenset(
                other.fault_domain for other in there if other.scope == vm.scope
            ),
            rack_excess=self._rack_excess(vm, host),
            busy=(busy and not self._in_time) or host.name == self._closed,
            turn=turn,
        )

    def _rack_excess(self, vm: Vm, host: Host) -> int:
        """Return how many more VMs of the scope are in the rack of a host than in the
        rack of the VM's host.

        VMs that leave that host together still count there: the spread is compared with
        that before the move. 0: it is the same rack, a rack is unknown, or the scope is
        too large.
        """
        own = self._rack_of(vm.host)
        if not own or host.rack in {"", own}:
            return 0
        if vm.scope not in self._members:
            self._members[vm.scope] = self._reader.select(
                kinds.VMS_OF_SCOPE, vm.scope, limit=SPREAD_VMS_MAX + 1
            )
        members = self._members[vm.scope]
        if len(members) > SPREAD_VMS_MAX:
            return 0
        excess = 0
        for other in members:
            if other.name != vm.name:
                racks = {self._rack_of(name) for name in self._places_of(other)}
                was_here = own in racks or other.name in self._leaving
                excess += (host.rack in racks) - was_here
        return excess

    def _places_of(self, vm: Vm) -> frozenset[str]:
        """Return the host that was found for a VM, or the hosts where it uses capacity."""
        if vm.name in self._placed:
            return frozenset({self._placed[vm.name]})
        return taken_by(vm)

    def _rack_of(self, name: str) -> str:
        if name not in self._racks:
            host = self._reader.get(Host, name)
            self._racks[name] = host.rack if host is not None else ""
        return self._racks[name]

    def _look_at(self, host: str) -> tuple[bool, int]:
        """Return whether a host is occupied, and its turn in the rollout."""
        room = self._reader.get(Capacity, host)
        done = room is not None and room.done_in == self._request
        busy, turn = False, DONE if done else 0
        for other in every(self._reader, kinds.OPEN_OPERATIONS_OF_HOST, host):
            if other.operation_id == self._besides:
                continue
            busy = busy or other.occupies_host
            is_planned = other.state is OperationState.PLANNED
            if is_planned and other.request == self._request:
                turn = max(1, LAST_POSITION - other.position)
        return busy, turn
