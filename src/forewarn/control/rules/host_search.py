"""The search for hosts that can take the VMs of one host. It reads the fleet.

The VMs of a host are read once per operation. They are not read at all if its stored
capacity is too small, or if the VMs of the scope tell that its fault domain or rack is
unsuitable. So the answer that no host can take a VM is quick, too.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property

from forewarn.control.rules import relay_links
from forewarn.control.rules.host_use import HostUse, why_too_small
from forewarn.fleet.model import Capacity, Host, Scope, Vm, taken_by
from forewarn.fleet.placement import (
    CANDIDATES_MAX,
    DONE,
    NEAR_MAX,
    SPREAD_VMS_MAX,
    Candidate,
    choose_host,
    why_none,
)
from forewarn.protocol.blockers import NoCapacity
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.no_place import NoPlace, Unfit
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds, questions
from forewarn.store.port import Reader, every

SMALL_FLEET = 32
"""Maximum size of a fleet in which all hosts are checked, so that reasons name each."""

CANDIDATES_FIRST = 8
"""Number of hosts with the most free capacity that are checked first. One of them is
nearly always suitable, so the others are not read."""

LAST_POSITION = 1_000_000_000
"""A position after all positions of a rollout."""


class Relays(Enumeration):
    """The demand on the relay of a destination."""

    NEEDED = "a host with a silent relay takes no VM"
    PREFERRED = "a host with a silent relay is the last choice"
    IGNORED = "relays do not matter"


def cannot_move(vm: Vm) -> NoCapacity:
    """Return the blocker for a VM that cannot be moved at all."""
    return NoCapacity(vm=vm.name, why=NoPlace(on_host=vm.host, is_fixed=True))


class HostSearch:
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
        relays: Relays = Relays.IGNORED,
    ) -> None:
        self._reader = reader
        self._request = request
        self._besides = besides
        self._leaving = leaving
        self._lost = lost
        self._closed = closed
        self._in_time = in_time
        self._relays = relays
        self._there: dict[str, HostUse] = {}
        self._ranked: dict[tuple[str, str, int], list[Capacity]] = {}
        self._rooms: dict[str, Capacity | None] = {}
        self._works: dict[str, tuple[bool, int]] = {}
        self._racks: dict[str, str] = {}
        self._members: dict[str, list[Vm]] = {}
        self._excluded: dict[tuple[str, int], frozenset[str]] = {}
        self._placed: dict[str, str] = {}
        """Hosts that were found, by VM."""
        self._counted_for = "", 0
        self._counted = Counter[str](), 0
        """The result of `_racks_of_others` for the last VM."""

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
            return cannot_move(vm)
        scope, origin = self._home_of(vm)
        candidates: dict[str, Candidate] = {}
        too_small: dict[str, Unfit] = {}
        chosen: str | None = None
        for is_short, names in self._batches(vm, origin):
            if chosen is not None and not is_short:
                break
            new = [
                name
                for name in dict.fromkeys(names)
                if name not in candidates and name not in too_small
            ]
            for name in new:
                if why := self._why_unread(vm, name, is_short=is_short):
                    too_small[name] = why
            hosts = [
                host
                for name in new
                if name not in too_small
                and (host := self._reader.get(Host, name)) is not None
            ]
            added = {host.name: self.candidate(vm, host) for host in hosts}
            candidates |= added
            # Those before, except the best one, are worse or unfit.
            before = [candidates[chosen]] if chosen is not None else []
            chosen = choose_host(
                vm, scope, origin=origin, candidates=[*before, *added.values()]
            )
            # From a host that waits for its turn, the VM would be moved again.
            best = candidates[chosen] if chosen is not None else None
            if best is not None and best.turn <= 0 and not best.silent:
                break
        if chosen is not None:
            self._use(chosen).add(vm)
            self._placed[vm.name] = chosen
            return chosen
        why = why_none(
            vm,
            scope,
            origin=origin,
            candidates=list(candidates.values()),
            too_small=too_small,
        )
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
        for limit in (CANDIDATES_FIRST, CANDIDATES_MAX):
            yield False, names + self._roomiest(self._ranking, origin.pool, limit)
        for size in sizes:
            yield False, self._fitting(size, vm, origin.pool, CANDIDATES_MAX)

    def _last_ones(self) -> list[str]:
        """Return the hosts that come last in the rollout, so that no others follow."""
        return [operation.host for operation in self._planned_last]

    @cached_property
    def _planned_last(self) -> list[Operation]:
        return self._reader.ranked(
            kinds.PLANNED_BY_POSITION, self._request, limit=CANDIDATES_FIRST
        )

    @property
    def _ranking(self) -> questions.Ranking[Capacity]:
        return kinds.ROOMS_WITH_SPACE if self._in_time else kinds.ROOMS_OPEN

    def _roomiest(
        self, ranking: questions.Ranking[Capacity], value: str, limit: int
    ) -> list[str]:
        return [room.host for room in self._ask(ranking, value, limit)]

    def _fitting(
        self, ranking: questions.Ranking[Capacity], vm: Vm, pool: str, limit: int
    ) -> list[str]:
        """Return hosts by a size, without those whose stored capacity is too small.

        If all hosts are too full, none of their VMs are read.
        """
        return [
            room.host
            for room in self._ask(ranking, pool, limit)
            if why_too_small(room, vm) is None
        ]

    def _ask(
        self, ranking: questions.Ranking[Capacity], value: str, limit: int
    ) -> list[Capacity]:
        """Return rooms of a ranking, which are the same for all VMs of a host."""
        key = ranking.name, value, limit
        if key not in self._ranked:
            rooms = self._reader.ranked(ranking, value, limit=limit)
            self._rooms.update((room.host, room) for room in rooms)
            self._ranked[key] = rooms
        return self._ranked[key]

    def _room(self, host: str) -> Capacity | None:
        """Return the stored capacity of a host."""
        if host not in self._rooms:
            self._rooms[host] = self._reader.get(Capacity, host)
        return self._rooms[host]

    def _why_unread(self, vm: Vm, host: str, *, is_short: bool) -> Unfit | None:
        """Return why a host cannot take a VM, if that is known without its VMs.

        In a small fleet, each host is read. Capacity that a lost reservation or, in time,
        a move away from the host frees is not in the stored capacity.
        """
        if self._all is not None or host in {vm.host, vm.moving_to}:
            return None
        if host in self._freed:
            return None
        room = self._room(host)
        is_current = room is not None and not (self._in_time and room.works)
        if room is not None and is_current and (why := why_too_small(room, vm)):
            return why
        if is_short:
            return None
        if host in self._others_of_scope(vm):
            return Unfit.DOMAIN
        record = self._reader.get(Host, host)
        is_worse = record is not None and self._rack_excess(vm, record) > 0
        return Unfit.RACK if is_worse else None

    @cached_property
    def _freed(self) -> frozenset[str]:
        """The hosts of lost reservations."""
        lost = (self._reader.get(Vm, name) for name in self._lost)
        return frozenset(vm.moving_to for vm in lost if vm is not None)

    def _others_of_scope(self, vm: Vm) -> frozenset[str]:
        """Return the hosts with another fault domain of the VM's scope.

        If the scope is large, there are none: its VMs are read host by host.
        """
        key = vm.scope, vm.fault_domain
        if key not in self._excluded:
            members = self._members_of(vm.scope)
            self._excluded[key] = frozenset(
                host
                for other in members[:SPREAD_VMS_MAX]
                if len(members) <= SPREAD_VMS_MAX
                and other.fault_domain != vm.fault_domain
                for host in taken_by(other)
                if self._counts(other, host)
            )
        return self._excluded[key]

    def _members_of(self, scope: str) -> list[Vm]:
        """Return the VMs of a scope; of a large one, more than `SPREAD_VMS_MAX`."""
        if scope not in self._members:
            self._members[scope] = self._reader.select(
                kinds.VMS_OF_SCOPE, scope, limit=SPREAD_VMS_MAX + 1
            )
        return self._members[scope]

    def _with_others(self, why: NoPlace, pool: str) -> NoPlace:
        """Add information about the hosts of the pool that were not checked."""
        if self._all is not None:
            return why
        candidates = self._ask(self._ranking, pool, CANDIDATES_MAX)
        if len(candidates) < CANDIDATES_MAX:
            return replace(why, others_are_full=True)
        return replace(why, looked_at_most=len(candidates))

    def _use(self, host: str) -> HostUse:
        """Return the VMs that are on a host or are moving to it."""
        if host not in self._there:
            self._there[host] = HostUse.of(
                vm
                for query in (kinds.VMS_ON_HOST, kinds.VMS_MOVING_TO)
                for vm in every(self._reader, query, host)
                if self._counts(vm, host)
            )
        return self._there[host]

    def _counts(self, vm: Vm, host: str) -> bool:
        """Return whether a VM that is on a host, or moves there, uses its capacity."""
        if vm.host == host:
            # In time, a VM has left the host that it moves away from.
            return not self._in_time or vm.moving_to in {"", host}
        return vm.name not in self._lost

    def candidate(self, vm: Vm, host: Host) -> Candidate:
        """Return a host as a candidate for a VM."""
        use = self._use(host.name)
        if host.name not in self._works:
            self._works[host.name] = self._look_at(host.name)
        busy, turn = self._works[host.name]
        load, vcpu, memory = use.beside(vm)
        return Candidate(
            host=host,
            load=load,
            vcpu=vcpu,
            memory=memory,
            domains=use.domains_beside(vm),
            rack_excess=self._rack_excess(vm, host),
            busy=(busy and not self._in_time) or host.name == self._closed,
            turn=turn,
            silent=self._is_silent(host.name),
            needs_relay=self._relays is Relays.NEEDED,
        )

    @cached_property
    def _is_silent(self) -> Callable[[str], bool]:
        if self._relays is Relays.IGNORED:
            return lambda _host: False
        return relay_links.silent_hosts(self._reader)

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
        others, here = self._racks_of_others(vm)
        return others[host.rack] - here

    def _racks_of_others(self, vm: Vm) -> tuple[Counter[str], int]:
        """Return how many other VMs of the scope each rack has, and the VM's rack had."""
        key = vm.name, len(self._placed)
        if key != self._counted_for:
            self._counted_for = key
            self._counted = self._count_racks(vm)
        return self._counted

    def _count_racks(self, vm: Vm) -> tuple[Counter[str], int]:
        own, others, here = self._rack_of(vm.host), Counter[str](), 0
        members = self._members_of(vm.scope)
        if len(members) > SPREAD_VMS_MAX:
            return others, here
        for other in members:
            if other.name != vm.name:
                racks = {self._rack_of(name) for name in self._places_of(other)}
                others.update(racks)
                here += own in racks or other.name in self._leaving
        return others, here

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
        room = self._room(host)
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
