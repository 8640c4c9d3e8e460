"""A fleet as arrays: 100,000 hosts with a million VMs in some 200 MiB.

Hosts, scopes, tenants and fault domains are numbers. A *domain* is one fault domain of
one scope. Scopes with a single VM are only counted, since they constrain nothing.
"""

from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from forewarn.fleet.model import PLACES, HostState, ScopeKind, VmState

NO_LIMIT = -1
"""A host's capacity if there is no limit."""

_DOMAIN_BITS = 40
"""Bits of a fault domain in a key of scope and fault domain: more than any has."""


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


class VmRow(NamedTuple):
    """The values of a VM that a plan needs, in the order of VM_FIELDS."""

    host: str
    scope: str
    tenant: str
    fault_domain: int = 0
    state: VmState = VmState.RUNNING
    moving_to: str = ""
    vcpu: int | None = None
    memory: int | None = None
    movable: bool = True


HOST_FIELDS = HostRow._fields
"""The fields of `Host` in a row."""

VM_FIELDS = VmRow._fields
"""The fields of `Vm` in a row."""


class Column:
    """The value of each host under one label; number 0 is the empty value."""

    def __init__(self, values: Iterable[str]) -> None:
        """Number the values."""
        numbers: dict[str, int] = {"": 0}
        self.of = array("l", (numbers.setdefault(v, len(numbers)) for v in values))
        """The number of each host's value."""
        self.names: list[str] = list(numbers)
        self.numbers = numbers

    def counts(self, hosts: Iterable[int]) -> list[int]:
        """Return how many of the hosts have each value."""
        found = [0] * len(self.names)
        for host in hosts:
            found[self.of[host]] += 1
        return found


class Resource:
    """One kind of capacity: places for VMs, virtual CPUs, or memory."""

    def __init__(self, name: str, size: Iterable[int | None]) -> None:
        """Set the total of each host; None: no limit."""
        self.name = name
        self.size = array("q", (NO_LIMIT if s is None else s for s in size))
        self.is_limited = any(each != NO_LIMIT for each in self.size)
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
    """Numbers of each host with counts: its domains or its tenants."""

    def __init__(self, hosts: int, pairs: "array[int]", width: int) -> None:
        """Count pairs, each as `host * width + number`."""
        self.starts = array("l", [0])
        self.numbers = array("l")
        self.counts = array("l")
        last = -1
        host = 0
        for pair in sorted(pairs):
            if pair == last:
                self.counts[-1] += 1
                continue
            last = pair
            while pair >= (host + 1) * width:
                self.starts.append(len(self.numbers))
                host += 1
            self.numbers.append(pair - host * width)
            self.counts.append(1)
        self.starts.extend([len(self.numbers)] * (hosts - host))

    def of(self, host: int) -> "array[int]":
        """Return the numbers of a host."""
        return self.numbers[self.starts[host] : self.starts[host + 1]]

    def counted(self, host: int) -> Iterator[tuple[int, int]]:
        """Yield the numbers of a host with their counts."""
        for place in range(self.starts[host], self.starts[host + 1]):
            yield self.numbers[place], self.counts[place]


class FleetMap:
    """A fleet; build it with `fleet_map`."""

    def __init__(self, rows: Sequence[HostRow], busy: Container[str]) -> None:
        """Take the hosts, without VMs; `busy` has those that take no VMs."""
        self.names = [row.name for row in rows]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.zone = Column(row.zone for row in rows)
        self.cluster = Column(row.cluster for row in rows)
        self.rack = Column(row.rack for row in rows)
        self.pool = Column(row.pool for row in rows)
        self.labels = [row.labels for row in rows]
        self.is_up = bytearray(row.state is HostState.UP for row in rows)
        self.is_busy = bytearray(row.name in busy for row in rows)
        self.is_last = bytearray(row.last for row in rows)
        self.places = Resource("places", (row.capacity for row in rows))
        self.vcpu = Resource("vcpu", (row.vcpu for row in rows))
        self.memory = Resource("memory", (row.memory for row in rows))
        every = (self.places, self.vcpu, self.memory)
        self.resources = tuple(each for each in every if each.is_limited)
        """The kinds of capacity that any host limits."""
        self.vms = array("l", bytes(array("l").itemsize * len(rows)))
        """The number of VMs on each host."""
        self.pinned = array("l", bytes(array("l").itemsize * len(rows)))
        """The number of VMs on each host that cannot be moved."""
        self.tenants: list[str] = []
        self.tenant_vms: list[int] = []
        self.scopes: list[str] = []
        self.is_zonal = bytearray()
        """Whether the VMs of each scope stay in their zone."""
        self.scope_of_domain: list[int] = []
        self.fault_domains: list[int] = []
        """The fault domain of each domain, as its scope numbers it."""
        self.domains = Runs(len(rows), array("q"), 1)
        self.host_tenants = Runs(len(rows), array("q"), 1)

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self.names)

    def column(self, label: str) -> Column:
        """Return the values of a label, or of a property of all hosts."""
        if label in PLACES:
            return getattr(self, label)
        return Column(dict(labels).get(label, "") for labels in self.labels)

    def vms_by_tenant(self, hosts: Iterable[int]) -> list[int]:
        """Return how many VMs of each tenant are on some hosts."""
        found = [0] * len(self.tenants)
        for host in hosts:
            for tenant, count in self.host_tenants.counted(host):
                found[tenant] += count
        return found

    def is_open(self, host: int) -> bool:
        """Return whether VMs can be placed on a host now."""
        return bool(self.is_up[host] and not self.is_busy[host])


class _Numbers:
    """Numbers for names, in the order of their first use."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def fleet_map(
    hosts: Iterable[HostRow],
    vms: Iterable[VmRow],
    scope_kinds: Iterable[tuple[str, ScopeKind]] = (),
    *,
    busy: Container[str] = frozenset(),
) -> FleetMap:
    """Return the fleet of these hosts and VMs.

    `scope_kinds` has at least the scopes that are scale sets, and `busy` the hosts
    that are cordoned, or have an announced or running operation for the host itself.
    """
    fleet = FleetMap(list(hosts), busy)
    on_host, domain_of, scopes, tenants, tenant_of = _read_vms(fleet, vms)
    fleet.scopes = list(scopes.known)
    fleet.tenants = list(tenants.known)
    fleet.is_zonal = bytearray(len(fleet.scopes))
    for name, kind in scope_kinds:
        if kind is ScopeKind.SCALE_SET and name in scopes.known:
            fleet.is_zonal[scopes.known[name]] = True
    members = [0] * len(fleet.scopes)
    scope_of = fleet.scope_of_domain
    for domain in domain_of:
        members[scope_of[domain]] += 1
    width = max(1, len(scope_of))
    fleet.domains = Runs(
        len(fleet),
        array(
            "q",
            (
                host * width + domain
                for host, domain in zip(on_host, domain_of, strict=True)
                if members[scope_of[domain]] > 1 or fleet.is_zonal[scope_of[domain]]
            ),
        ),
        width,
    )
    width = max(1, len(fleet.tenants))
    fleet.host_tenants = Runs(
        len(fleet),
        array(
            "q",
            (
                host * width + tenant_of[scope_of[domain]]
                for host, domain in zip(on_host, domain_of, strict=True)
            ),
        ),
        width,
    )
    fleet.tenant_vms = fleet.vms_by_tenant(range(len(fleet)))
    return fleet


def _read_vms(
    fleet: FleetMap, rows: Iterable[VmRow]
) -> "tuple[array[int], array[int], _Numbers, _Numbers, list[int]]":
    """Count the VMs on their hosts; return the host and the domain of each."""
    on_host, domain_of = array("l"), array("l")
    scopes, tenants = _Numbers(), _Numbers()
    tenant_of: list[int] = []
    domains: dict[int, int] = {}
    numbers, vms, pinned = fleet.numbers, fleet.vms, fleet.pinned
    places = fleet.places.used
    for row in rows:
        name, scope, tenant, number, state, moving_to, vcpu, memory, movable = row
        if state is VmState.DELETED:
            continue
        host = numbers[name]
        scope_number = scopes.of(scope)
        if scope_number == len(tenant_of):
            tenant_of.append(tenants.of(tenant))
        key = scope_number << _DOMAIN_BITS | number
        domain = domains.get(key)
        if domain is None:
            domain = domains[key] = len(domains)
            fleet.scope_of_domain.append(scope_number)
            fleet.fault_domains.append(number)
        on_host.append(host)
        domain_of.append(domain)
        vms[host] += 1
        places[host] += 1
        fleet.places.there[host] += 1
        if not movable:
            pinned[host] += 1
        if vcpu is not None or memory is not None:
            _count_sizes(fleet, host, vcpu, memory)
        if moving_to and moving_to != name:
            # Its destination keeps capacity for it.
            target = numbers[moving_to]
            places[target] += 1
            _count_sizes(fleet, target, vcpu, memory, is_there=False)
    return on_host, domain_of, scopes, tenants, tenant_of


def _count_sizes(
    fleet: FleetMap,
    host: int,
    vcpu: int | None,
    memory: int | None,
    *,
    is_there: bool = True,
) -> None:
    for resource, size in ((fleet.vcpu, vcpu), (fleet.memory, memory)):
        if size is not None:
            resource.used[host] += size
            if is_there:
                resource.there[host] += size
                resource.largest[host] = max(size, resource.largest[host])
