"""Hosts for the VMs of a host that is emptied, by the rules of placement.

A host of the fleet is judged in microseconds if there is ample capacity: the other hosts
with the most free places are enough for each of its VMs, however placement assigns the
VMs before it. Otherwise placement itself assigns the VMs one after the other, as the
service would do it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice

from forewarn.campaigns.fleet_map import ALONE, NO_LIMIT, FleetMap
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.fleet.placement import (
    CANDIDATES_MAX,
    NEAR_MAX,
    SPREAD_VMS_MAX,
    Candidate,
    choose_host,
    why_none,
)
from forewarn.protocol.no_place import NoPlace

WITHOUT_LIMIT = 1 << 40
"""Free capacity of a host without a limit: more than all VMs of a fleet use."""


MIXED = -1
"""Instead of a fault domain: the host has several of the scope."""


@dataclass(frozen=True, slots=True)
class _Spread:
    """The spread of the VMs of a scope over hosts and racks."""

    domains: dict[int, int]
    """The fault domain on each host, including VMs that are moving there; or MIXED."""
    racks: Mapping[int, int]
    """The number of VMs in each rack; empty: the scope is too large for a
    comparison."""


@dataclass(frozen=True, slots=True)
class _Rooms:
    """The roomiest hosts of a pool, with their rooms for VMs of one size."""

    hosts: list[tuple[int, int]]
    total: int
    """The rooms of these hosts."""
    most: int
    """The rooms of one of them at most."""
    in_racks: list[int]
    """The rooms in so many racks at most; a host without a rack is one of its own."""
    zones: frozenset[int]


@dataclass(slots=True)
class _Added:
    """The VMs that placement has put on a host."""

    load: int = 0
    vcpu: int = 0
    memory: int = 0
    domains: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """Their fault domains by scope."""


class Targets:
    """The hosts of a fleet that can take VMs."""

    def __init__(self, fleet: FleetMap) -> None:
        """Rank the open hosts of each pool by their free capacity."""
        self._fleet = fleet
        self._free = {
            resource.name: [
                WITHOUT_LIMIT if size == NO_LIMIT else size - used
                for size, used in zip(resource.size, resource.used, strict=True)
            ]
            for resource in (fleet.places, fleet.vcpu, fleet.memory)
        }
        places = self._free["places"]
        self._open: defaultdict[int, list[int]] = defaultdict(list)
        """The open hosts with free places of each pool, the roomiest first."""
        for host in range(len(fleet)):
            if fleet.is_open(host) and places[host] > 0:
                self._open[fleet.pool.of[host]].append(host)
        for hosts in self._open.values():
            hosts.sort(key=lambda host: (places[host], host), reverse=True)
        self._has_zonal = any(fleet.is_zonal)
        self._spreads: dict[int, _Spread] = {}
        self._ranked: dict[tuple[int, str], list[int]] = {}
        largest = [resource.largest for resource in fleet.resources]
        self._wanted = [*zip(fleet.pool.of, *largest, strict=True)]
        """The pool of each host, and the sizes of a room that each of its VMs fits in."""
        self._rooms_of: dict[tuple[int, ...], _Rooms] = {}
        self._two: dict[int, list[int]] = {}
        """Two open hosts of each pool, if there are, with capacity of every kind."""

    def has_any(self, host: int) -> bool:
        """Return whether another host of the pool has capacity of every kind."""
        pool = self._fleet.pool.of[host]
        if pool not in self._two:
            frees = self._free.values()
            roomy = (
                other
                for other in self._open[pool]
                if all(free[other] > 0 for free in frees)
            )
            self._two[pool] = [*islice(roomy, 2)]
        two = self._two[pool]
        return len(two) > 1 or (len(two) == 1 and two[0] != host)

    def why_not_cleared(self, host: int) -> tuple[int, NoPlace] | None:
        """Return a VM that has no destination, and why; None: all VMs have one."""
        return None if self.has_ample_room(host) else self._placed(host)

    def has_ample_room(self, host: int) -> bool:
        """Return whether each VM surely has a destination, in whatever order.

        Each VM that is placed before uses up at most one of the rooms for a VM with the
        largest sizes. So a VM has a destination if the hosts that may take it have as
        many of these rooms as the host has VMs.
        """
        vms, needed = self._fleet.each_vm, self._fleet.vms[host]
        rooms = self._rooms(host)
        if rooms.total - rooms.most < needed:
            return False
        if self._has_room_elsewhere(host, rooms):
            return True
        here = Counter(vms.scope[vms.starts[host] : vms.starts[host + 1]])
        return all(
            scope == ALONE or self._has_room(host, scope, count, rooms.hosts)
            for scope, count in here.items()
        )

    def _has_room_elsewhere(self, host: int, rooms: _Rooms) -> bool:
        """Return whether racks without any VM of the host's scopes surely have room.

        The VMs of a scope are in as many racks as it has VMs, at most. This needs no look
        at them, which takes ten times as long for a host of a large fleet.
        """
        fleet = self._fleet
        scopes = fleet.host_scopes.of(host)
        if not scopes:
            return True
        if (
            len(scopes) < len(fleet.domains.of(host))
            or (fleet.arrivals and not fleet.arrivals.keys().isdisjoint(scopes))
            or (
                self._has_zonal
                and any(map(fleet.is_zonal.__getitem__, scopes))
                and rooms.zones - {fleet.zone.of[host]}
            )
        ):
            return False
        racks = max(map(fleet.scope_vms.__getitem__, scopes))
        taken = rooms.in_racks[min(racks, len(rooms.in_racks) - 1)]
        return rooms.total - taken >= fleet.vms[host]

    def _rooms(self, host: int) -> _Rooms:
        """Return the roomiest hosts of a host's pool, with their rooms for its largest VM.

        Hosts with equally large VMs have the same ones.
        """
        key = self._wanted[host]
        rooms = self._rooms_of.get(key)
        if rooms is None:
            pool, *sizes = key
            frees = [self._free[resource.name] for resource in self._fleet.resources]
            roomiest = [
                (other, room)
                for other in self._open[pool][:CANDIDATES_MAX]
                # A host with too many VMs takes none, not even one without a size.
                if all(free[other] >= 0 for free in frees)
                and (
                    room := min(
                        (
                            free[other] // size
                            for free, size in zip(frees, sizes, strict=True)
                            if size
                        ),
                        default=WITHOUT_LIMIT,
                    )
                )
            ]
            rooms = self._rooms_of[key] = self._summed(roomiest)
        return rooms

    def _summed(self, rooms: list[tuple[int, int]]) -> _Rooms:
        """Return the rooms of hosts with their sums."""
        rack_of, zone_of = self._fleet.rack.of, self._fleet.zone.of
        racks = Counter[tuple[int, int]]()
        for host, room in rooms:
            racks[rack_of[host], 0 if rack_of[host] else host] += room
        largest = sorted(racks.values(), reverse=True)
        return _Rooms(
            hosts=rooms,
            total=sum(largest),
            most=max((room for _, room in rooms), default=0),
            in_racks=[*accumulate(largest, initial=0)],
            zones=frozenset(zone_of[host] for host, _ in rooms),
        )

    def _has_room(
        self, host: int, scope: int, count: int, rooms: Iterable[tuple[int, int]]
    ) -> bool:
        """Return whether enough of the rooms may take the VMs of a scope on a host.

        Not if these VMs have several fault domains, since they exclude each other.
        """
        fleet = self._fleet
        spread, rack_of, zone_of = self._spread(scope), fleet.rack.of, fleet.zone.of
        domains, racks = spread.domains, spread.racks
        fault_domain, own_rack = domains[host], rack_of[host]
        if fault_domain == MIXED:
            return False
        # The VMs of the scope that are placed before can all be in the same rack.
        most = racks[own_rack] - count if own_rack and racks else WITHOUT_LIMIT
        is_zonal, zone = fleet.is_zonal[scope], zone_of[host]
        missing = fleet.vms[host]
        for other, room in rooms:
            rack = rack_of[other]
            if (
                domains.get(other, fault_domain) == fault_domain
                and other != host
                and (not rack or rack == own_rack or racks.get(rack, 0) <= most)
                and (not is_zonal or zone == zone_of[other])
            ):
                missing -= room
                if missing <= 0:
                    return True
        return False

    @cached_property
    def _members(self) -> list[list[int]]:
        """The VMs of each scope."""
        members: list[list[int]] = [[] for _ in self._fleet.scopes]
        for vm, scope in enumerate(self._fleet.each_vm.scope):
            if scope != ALONE:
                members[scope].append(vm)
        return members

    def _spread(self, scope: int) -> _Spread:
        spread = self._spreads.get(scope)
        if spread is None:
            spread = self._spreads[scope] = self._read_spread(scope)
        return spread

    def _read_spread(self, scope: int) -> _Spread:
        fleet, vms, members = self._fleet, self._fleet.each_vm, self._members[scope]
        arrivals = fleet.arrivals.get(scope, ())
        domains: dict[int, int] = {}
        for host, fault_domain in (
            *((vms.host[vm], vms.fault_domain[vm]) for vm in members),
            *((target, fault_domain) for _, target, fault_domain in arrivals),
        ):
            if domains.setdefault(host, fault_domain) != fault_domain:
                domains[host] = MIXED
        if len(members) > SPREAD_VMS_MAX:
            return _Spread(domains, {})
        rack_of = fleet.rack.of
        racks = Counter(rack_of[vms.host[vm]] for vm in members)
        for origin, target, _ in arrivals:
            racks[rack_of[target]] += rack_of[target] != rack_of[origin]
        return _Spread(domains, racks)

    def _placed(self, host: int) -> tuple[int, NoPlace] | None:
        """Let placement assign the VMs of a host; return the first that has no place."""
        added: defaultdict[int, _Added] = defaultdict(_Added)
        placed: dict[int, int] = {}
        fleet, vms = self._fleet, self._fleet.each_vm
        origin = self._host(host)
        for vm in vms.on(host):
            record, scope = self._records(vm)
            candidates = [
                self._candidate(vm, other, added[other], placed)
                for other in self._candidates(vm, host)
            ]
            chosen = choose_host(record, scope, origin=origin, candidates=candidates)
            if chosen is None:
                why = why_none(record, scope, origin=origin, candidates=candidates)
                assert why is not None, "placement refuses for a reason"
                return vm, why
            target = fleet.numbers[chosen]
            placed[vm] = target
            there = added[target]
            there.load += 1
            there.vcpu += vms.vcpu[vm]
            there.memory += vms.memory[vm]
            there.domains.setdefault(vms.scope[vm], set()).add(vms.fault_domain[vm])
        return None

    def _records(self, vm: int) -> tuple[Vm, Scope]:
        """Return a VM and its scope as placement takes them."""
        fleet, vms = self._fleet, self._fleet.each_vm
        number = vms.scope[vm]
        name = "" if number == ALONE else fleet.scopes[number]
        is_zonal = number != ALONE and fleet.is_zonal[number]
        record = Vm(
            name=str(vm),
            wire_name="",
            host=fleet.names[vms.host[vm]],
            scope=name,
            tenant="",
            view="",
            fault_domain=vms.fault_domain[vm],
            vcpu=vms.vcpu[vm],
            memory=vms.memory[vm],
            vm_id="",
        )
        kind = ScopeKind.SCALE_SET if is_zonal else ScopeKind.AVAILABILITY_SET
        return record, Scope(name=name, tenant="", kind=kind)

    def _host(self, number: int) -> Host:
        fleet = self._fleet
        sizes = (
            None if resource.size[number] == NO_LIMIT else resource.size[number]
            for resource in (fleet.places, fleet.vcpu, fleet.memory)
        )
        capacity, vcpu, memory = sizes
        return Host(
            name=fleet.names[number],
            zone=fleet.zone.names[fleet.zone.of[number]],
            rack=fleet.rack.names[fleet.rack.of[number]],
            pool=fleet.pool.names[fleet.pool.of[number]],
            capacity=capacity,
            vcpu=vcpu,
            memory=memory,
        )

    def _candidates(self, vm: int, host: int) -> list[int]:
        """Return the hosts that placement considers.

        They are the first in each ranking by free capacity, and hosts with VMs of the
        scope in the same fault domain.
        """
        fleet, vms = self._fleet, self._fleet.each_vm
        pool = fleet.pool.of[host]
        hosts = self._open[pool][:CANDIDATES_MAX]
        for name, needed in (
            ("vcpu", vms.vcpu[vm]),
            ("memory", vms.memory[vm]),
        ):
            if needed:
                hosts = hosts + self._roomiest(pool, name)
        if (scope := vms.scope[vm]) != ALONE:
            near = [
                other
                for other in self._members[scope]
                if vms.fault_domain[other] == vms.fault_domain[vm]
            ]
            hosts = hosts + [vms.host[neighbour] for neighbour in near[:NEAR_MAX]]
        return [
            candidate
            for candidate in dict.fromkeys(hosts)
            if candidate != host
            and fleet.is_open(candidate)
            and fleet.pool.of[candidate] == pool
        ]

    def _roomiest(self, pool: int, name: str) -> list[int]:
        """Return the hosts of a pool with the most free vCPUs or memory."""
        key = pool, name
        if key not in self._ranked:
            free = self._free[name]
            ordered = sorted(self._open[pool], key=lambda host: (-free[host], host))
            self._ranked[key] = ordered[:CANDIDATES_MAX]
        return self._ranked[key]

    def _domains_on(self, host: int, scope: int) -> frozenset[int]:
        """Return the fault domains of a scope on a host, with VMs that move there."""
        domains = self._spread(scope).domains.get(host)
        if domains != MIXED:
            return frozenset() if domains is None else frozenset({domains})
        vms = self._fleet.each_vm
        there = {
            vms.fault_domain[vm] for vm in self._members[scope] if vms.host[vm] == host
        }
        arrivals = self._fleet.arrivals.get(scope, ())
        return frozenset(
            there | {arrival[2] for arrival in arrivals if arrival[1] == host}
        )

    def _candidate(
        self, vm: int, host: int, added: _Added, placed: dict[int, int]
    ) -> Candidate:
        fleet, vms = self._fleet, self._fleet.each_vm
        scope = vms.scope[vm]
        domains: frozenset[int] = frozenset()
        excess = 0
        if scope != ALONE:
            domains = self._domains_on(host, scope)
            domains |= added.domains.get(scope, set())
            excess = self._rack_excess(vm, host, placed)
        return Candidate(
            host=self._host(host),
            load=fleet.places.used[host] + added.load,
            vcpu=fleet.vcpu.used[host] + added.vcpu,
            memory=fleet.memory.used[host] + added.memory,
            domains=domains,
            rack_excess=excess,
        )

    def _rack_excess(self, vm: int, host: int, placed: dict[int, int]) -> int:
        """Return how many more VMs of the scope are in the rack of a host than in the
        rack of the VM's host, after the VMs that were placed."""
        fleet, vms = self._fleet, self._fleet.each_vm
        origin = vms.host[vm]
        own, rack = fleet.rack.of[origin], fleet.rack.of[host]
        racks = self._spread(vms.scope[vm]).racks
        if not racks or not own or rack in {0, own}:
            return 0
        moved = sum(
            vms.scope[other] == vms.scope[vm] and fleet.rack.of[target] == rack
            for other, target in placed.items()
        )
        # The VM itself is in its rack; VMs that leave with it count there too.
        return racks[rack] + moved - (racks[own] - 1)
