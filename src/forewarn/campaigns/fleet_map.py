"""A fleet as arrays: 100,000 hosts with a million VMs in some 200 MiB.

Hosts, scopes, tenants and fault domains are numbers. A *domain* is one fault domain of
one scope. A scope with a single VM constrains nothing: its VM has ALONE as its scope.

A VM costs some 50 bytes. Columns are converted by functions in C, such as `map` of a
look-up: a line of Python for each of a million VMs would take a tenth of a second.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, count, pairwise, repeat
from operator import add, attrgetter, mul, ne
from typing import Any, NamedTuple, TypeAlias, cast

from forewarn.fleet.model import PLACES, HostState, ScopeKind

NO_LIMIT = -1
"""A host's capacity if there is no limit."""

ALONE = -1
"""In place of a scope's number, for a VM that is the only one of its scope."""

Columns: TypeAlias = Sequence[Sequence[Any]]
"""Values of some VMs: one sequence for each field."""


class HostRow(NamedTuple):
    """The values of a host that a plan needs, in the order of HOST_FIELDS."""

    name: str
    state: HostState = HostState.UP
    zone: str = ""
    cluster: str = ""
    rack: str = ""
    pool: str = ""
    capacity: int | None = None
    vcpu: int | None = None
    memory: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    last: bool = False


HOST_FIELDS = HostRow._fields
"""The fields of `Host` in a row."""

VM_FIELDS = ("host", "scope", "tenant", "fault_domain", "vcpu", "memory")
"""The fields of `Vm` that a plan needs, in the order of the columns of a page."""

VM_FIELDS_IN_PLACE = VM_FIELDS[:-2]
"""The same without sizes, for a plan that moves no VM away."""


class VmMove(NamedTuple):
    """A VM for which another host than its own keeps capacity."""

    host: str
    to_host: str
    scope: str
    fault_domain: int = 0
    vcpu: int | None = None
    memory: int | None = None


class Column:
    """The value of each host under one label; number 0 is the empty value."""

    def __init__(self, values: Iterable[str]) -> None:
        """Number the values."""
        numbers: dict[str, int] = {"": 0}
        of_hosts = [*values]
        for value in dict.fromkeys(of_hosts):
            numbers.setdefault(value, len(numbers))
        self.of = array("l", map(numbers.__getitem__, of_hosts))
        """The number of each host's value."""
        self.names: list[str] = list(numbers)
        self.numbers = numbers

    @cached_property
    def ranks(self) -> list[int]:
        """The place of each value in their alphabetical order."""
        places = {name: place for place, name in enumerate(sorted(self.names))}
        return [*map(places.__getitem__, self.names)]

    def counts(self, hosts: Iterable[int]) -> list[int]:
        """Return how many of the hosts have each value."""
        hosts_of = Counter(map(self.of.__getitem__, hosts))
        return [hosts_of[number] for number in range(len(self.names))]


class Resource:
    """One kind of capacity: places for VMs, virtual CPUs, or memory."""

    def __init__(self, name: str, size: Iterable[int | None]) -> None:
        """Set the total of each host; None: no limit."""
        self.name = name
        self.size = array("q", (NO_LIMIT if s is None else s for s in size))
        self.is_limited = self.size.count(NO_LIMIT) < len(self.size)
        """Whether any host has a limit."""
        self.used = array("q", bytes(8 * len(self.size)))
        """Amount of the VMs on each host, and of those for which it keeps capacity."""
        self.there = array("q", bytes(8 * len(self.size)))
        """Amount of the VMs on each host."""
        self.largest = array("q", bytes(8 * len(self.size)))
        """The largest amount of one VM on each host."""

    def free(self, host: int) -> int:
        """Return the free amount of a host with a limit."""
        return max(0, self.size[host] - self.used[host])


class Runs:
    """The different numbers of each host: its domains or its scopes."""

    def __init__(self, starts: Sequence[int], numbers: Sequence[int]) -> None:
        """Take the numbers of all hosts, and where those of each host start."""
        # Many loops read them: a tuple is made once, a slice of an array each time.
        self._each = [
            tuple(dict.fromkeys(numbers[start:end])) for start, end in pairwise(starts)
        ]
        self.of = self._each.__getitem__
        """Returns the numbers of a host."""

    def mapped(self, number_of: Sequence[int]) -> "Runs":
        """Return the runs with another number instead of each."""
        starts = accumulate(map(len, self._each), initial=0)
        numbers = map(number_of.__getitem__, chain.from_iterable(self._each))
        return Runs([*starts], [*numbers])


class Vms:
    """The VMs of a fleet, in the order of their hosts."""

    def __init__(self) -> None:
        """Have no VM."""
        self.scope = array("l")
        """The number of each VM's scope, or ALONE."""
        self.tenant = array("l")
        self.fault_domain = array("q")
        self.vcpu = array("q")
        self.memory = array("q")
        self.starts = array("l", [0])
        """The first VM of each host, and the number of VMs."""

    def __len__(self) -> int:
        """Return the number of VMs."""
        return self.starts[-1]

    @cached_property
    def host(self) -> "array[int]":
        """The host of each VM."""
        on_each = (end - start for start, end in pairwise(self.starts))
        return array("l", chain.from_iterable(map(repeat, count(), on_each)))

    def on(self, host: int) -> range:
        """Return the VMs on a host."""
        return range(self.starts[host], self.starts[host + 1])


class FleetMap:
    """A fleet; build it with `fleet_map`."""

    def __init__(self, rows: Sequence[HostRow], busy: Container[str]) -> None:
        """Take the hosts, without VMs; `busy` has those that take no VMs."""
        self.names: list[str] = [*map(attrgetter("name"), rows)]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.zone = Column(map(attrgetter("zone"), rows))
        self.cluster = Column(map(attrgetter("cluster"), rows))
        self.rack = Column(map(attrgetter("rack"), rows))
        self.pool = Column(map(attrgetter("pool"), rows))
        self.labels: list[tuple[tuple[str, str], ...]] = [
            *map(attrgetter("labels"), rows)
        ]
        self.is_up = bytearray(row.state is HostState.UP for row in rows)
        self.is_busy = bytearray(map(busy.__contains__, self.names))
        self.is_last = bytearray(map(attrgetter("last"), rows))
        self.places = Resource("places", map(attrgetter("capacity"), rows))
        self.vcpu = Resource("vcpu", map(attrgetter("vcpu"), rows))
        self.memory = Resource("memory", map(attrgetter("memory"), rows))
        every = (self.places, self.vcpu, self.memory)
        self.resources = tuple(resource for resource in every if resource.is_limited)
        """The kinds of capacity that any host limits."""
        self.each_vm = Vms()
        self.vms = array("l", bytes(array("l").itemsize * len(rows)))
        """The number of VMs on each host."""
        self.unable: dict[int, tuple[str, str]] = {}
        """Hosts on which the driver cannot do the work: a VM, or "" for all, and why."""
        self.pinned = array("l", bytes(array("l").itemsize * len(rows)))
        """The number of VMs on each host that cannot be moved."""
        self.tenants: list[str] = []
        self.scopes: list[str] = []
        """The scopes that constrain the work: with several VMs, or scale sets."""
        self.is_zonal = bytearray()
        """Whether the VMs of each scope stay in their zone."""
        self.scope_vms = array("l")
        """The number of VMs of each scope."""
        self.scope_of_domain: list[int] = []
        self.fault_domains: list[int] = []
        """The fault domain of each domain, as its scope numbers it."""
        self.domains = Runs((), ())
        self.arrivals: dict[int, list[tuple[int, int, int]]] = {}
        """The VMs of each scope that are moving: host, destination, fault domain."""

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self.names)

    def column(self, label: str) -> Column:
        """Return the values of a label, or of a property of all hosts."""
        if label in PLACES:
            return getattr(self, label)
        return Column(dict(labels).get(label, "") for labels in self.labels)

    @cached_property
    def host_scopes(self) -> Runs:
        """The scopes of each host."""
        return self.domains.mapped(self.scope_of_domain)

    def tenants_on(self, host: int) -> Counter[int]:
        """Return the tenants of a host, with the numbers of their VMs."""
        vms = self.each_vm
        return Counter(vms.tenant[vms.starts[host] : vms.starts[host + 1]])

    @cached_property
    def tenant_vms(self) -> list[int]:
        """The number of VMs of each tenant."""
        return self.vms_by_tenant(range(len(self)))

    def vms_by_tenant(self, hosts: Sequence[int]) -> list[int]:
        """Return how many VMs of each tenant are on some hosts."""
        vms = self.each_vm
        if len(hosts) == len(self):
            vms_of = Counter(vms.tenant)
        else:
            vms_of = Counter[int]()
            for host in hosts:
                vms_of.update(vms.tenant[vms.starts[host] : vms.starts[host + 1]])
        return [vms_of[tenant] for tenant in range(len(self.tenants))]

    def is_open(self, host: int) -> bool:
        """Return whether VMs can be placed on a host now."""
        return bool(self.is_up[host] and not self.is_busy[host])


def fleet_map(
    hosts: Iterable[HostRow],
    vms: Iterable[Columns],
    scopes: Iterable[tuple[str, ScopeKind]],
    *,
    moves: Iterable[VmMove] = (),
    fixed: Iterable[str] = (),
    busy: Container[str] = frozenset(),
) -> FleetMap:
    """Return the fleet of these hosts and VMs.

    `vms` has pages with the columns VM_FIELDS of the VMs that exist, in the order of the
    hosts; VM_FIELDS_IN_PLACE is enough to plan work for which no VM leaves its host.
    `scopes` has all scopes but those that are implied by their only VM, `fixed` the
    host of each VM that cannot be moved, and `busy` the hosts that are cordoned, or have an
    announced or running operation for the host itself.
    """
    fleet = FleetMap(list(hosts), busy)
    kinds = dict(scopes)
    _read_vms(fleet, vms, {name: number for number, name in enumerate(kinds)})
    _keep_scopes(fleet, kinds)
    _count_sizes(fleet, moves)
    for name in fixed:
        fleet.pinned[fleet.numbers[name]] += 1
    return fleet


def _read_vms(
    fleet: FleetMap, pages: Iterable[Columns], scopes: Mapping[str, int]
) -> None:
    """Add the VMs to the fleet, with the numbers of their scopes."""
    on_host = Counter[str]()
    tenants: defaultdict[str, int] = defaultdict(count().__next__)
    vms = fleet.each_vm
    sized = (vms.vcpu, vms.memory)
    for host, scope, tenant, fault_domain, *sizes in pages:
        on_host.update(host)
        vms.scope.extend(map(scopes.get, scope, repeat(ALONE)))
        vms.tenant.extend(map(tenants.__getitem__, tenant))
        vms.fault_domain.extend(fault_domain)
        for size, values in zip(sized, sizes, strict=False):
            size.extend(_without_none(values))
    fleet.tenants = list(tenants)
    fleet.vms = array("l", map(on_host.__getitem__, fleet.names))
    vms.starts = array("l", accumulate(fleet.vms, initial=0))
    assert len(vms) == len(vms.scope), "each VM is on a host of the fleet"


def _without_none(sizes: Sequence[int | None]) -> Iterable[int]:
    """Return sizes, with 0 for the VMs that have none."""
    return (size or 0 for size in sizes) if None in sizes else cast("list[int]", sizes)


def _keep_scopes(fleet: FleetMap, kinds: Mapping[str, ScopeKind]) -> None:
    """Number the scopes that constrain the work, and the domains of each host."""
    vms = fleet.each_vm
    members = Counter(vms.scope)
    # The last one is for ALONE, which is -1.
    new_numbers = array("l", [ALONE]) * (len(kinds) + 1)
    for number, (name, kind) in enumerate(kinds.items()):
        is_zonal = kind is ScopeKind.SCALE_SET and members[number] > 0
        if is_zonal or members[number] > 1:
            new_numbers[number] = len(fleet.scopes)
            fleet.scopes.append(name)
            fleet.is_zonal.append(is_zonal)
            fleet.scope_vms.append(members[number])
    if len(fleet.scopes) < len(kinds):
        vms.scope = array("l", map(new_numbers.__getitem__, vms.scope))
    constrained = bytearray(map(ne, vms.scope, repeat(ALONE)))
    domains: defaultdict[int, int] = defaultdict(count().__next__)
    width = max(vms.fault_domain, default=0) + 1
    shifted = map(mul, compress(vms.scope, constrained), repeat(width))
    keys = map(add, shifted, compress(vms.fault_domain, constrained))
    numbers = [*map(domains.__getitem__, keys)]
    before = [*accumulate(constrained, initial=0)]
    fleet.domains = Runs([*map(before.__getitem__, vms.starts)], numbers)
    fleet.scope_of_domain = [key // width for key in domains]
    fleet.fault_domains = [key % width for key in domains]


def _count_sizes(fleet: FleetMap, moves: Iterable[VmMove]) -> None:
    """Count what the VMs use on their hosts, and on those that they move to."""
    vms, starts = fleet.each_vm, fleet.each_vm.starts
    fleet.places.there = array("q", fleet.vms)
    fleet.places.largest = array("q", map(bool, fleet.vms))
    for resource, sizes in ((fleet.vcpu, vms.vcpu), (fleet.memory, vms.memory)):
        if resource.is_limited and sizes:
            for host, its_vms in enumerate(fleet.vms):
                if its_vms:
                    there = sizes[starts[host] : starts[host + 1]]
                    resource.there[host] = sum(there)
                    resource.largest[host] = max(there)
    for resource in fleet.resources:
        resource.used = array("q", resource.there)
    scopes = {name: number for number, name in enumerate(fleet.scopes)}
    for move in moves:
        target = fleet.numbers[move.to_host]
        scope = scopes.get(move.scope, ALONE)
        if scope != ALONE:
            fleet.arrivals.setdefault(scope, []).append(
                (fleet.numbers[move.host], target, move.fault_domain)
            )
        fleet.places.used[target] += 1
        fleet.vcpu.used[target] += move.vcpu or 0
        fleet.memory.used[target] += move.memory or 0
