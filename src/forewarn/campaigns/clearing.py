"""Whether the VMs of each host can leave it, as sums.

Hosts that exchange VMs are a pool. A host can be cleared if the other hosts of its pool
have capacity for all its VMs, and each of its VMs may be on one of them. VMs only change
places within a pool, so its free capacity stays the same, and a host that can be
cleared now can also be cleared later.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap, Resource
from forewarn.campaigns.limits import GroupLimit, LimitKind
from forewarn.campaigns.model import Impact


class Reason(enum.Enum):
    """Why a host cannot be done; the value is the name in the API."""

    DOWN = "down"
    PINNED = "pinned"
    """VMs cannot be moved."""
    SHARED_SCOPE = "shared-scope"
    """The host has several fault domains of one scope, so no work on it can start."""
    NO_ROOM = "no-room"
    TOO_LARGE = "too-large"
    """No other host has capacity for the largest VM."""
    NO_TARGET = "no-target"
    """No other host has capacity of every kind."""
    SCOPE_EVERYWHERE = "scope-everywhere"
    """Each other host with capacity has another fault domain of the scope, or is in
    another zone."""
    TENANT_VMS = "tenant-vms"
    """The host has more VMs of a tenant than the budget allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A host that cannot be done, with the numbers that show why."""

    host: str
    reason: Reason
    subject: str = ""
    """A scope, a tenant, or a pool."""
    resource: str = ""
    """`places`, `vcpu` or `memory`."""
    needed: int = 0
    free: int = 0
    fault_domain: int = 0


class _Pool:
    """The free capacity of the hosts of one pool."""

    def __init__(self, fleet: FleetMap, hosts: Sequence[int]) -> None:
        self.open = [host for host in hosts if fleet.is_open(host)]
        self._free: dict[str, int] = {}
        self._largest: dict[str, tuple[int, int]] = {}
        self._unlimited: dict[str, int] = {}
        """How many hosts have no limit."""
        for resource in fleet.resources:
            sizes = [
                resource.free(host)
                for host in self.open
                if resource.size[host] != NO_LIMIT
            ]
            self._unlimited[resource.name] = len(self.open) - len(sizes)
            self._free[resource.name] = sum(sizes)
            first, second, *_ = [*sorted(sizes, reverse=True)[:2], 0, 0]
            self._largest[resource.name] = first, second

    def elsewhere(
        self, resource: Resource, host: int, *, is_open: bool
    ) -> tuple[int, int] | None:
        """Return the free capacity of the other hosts: of all, and the most of one.

        None: there is no limit.
        """
        has_limit = resource.size[host] != NO_LIMIT
        if self._unlimited[resource.name] > (is_open and not has_limit):
            return None
        free = self._free[resource.name]
        first, second = self._largest[resource.name]
        if not is_open or not has_limit:
            return free, first
        own = resource.free(host)
        return free - own, second if own == first else first

    def at_once(self, resource: Resource, hosts: Iterable[int]) -> int | None:
        """Return how many of these hosts can be cleared together, at any time.

        Their VMs need capacity outside of them, so their total sizes must fit into the
        free capacity of the pool. None: there is no limit.
        """
        if self._unlimited[resource.name]:
            return None
        free = self._free[resource.name]
        count = 0
        sizes = (max(resource.size[host], resource.used[host]) for host in hosts)
        for size in sorted(sizes, reverse=True):
            free -= size
            if free < 0:
                break
            count += 1
        return count


def refusals(
    fleet: FleetMap, hosts: Sequence[int], impact: Impact, tenant_most: Sequence[int]
) -> dict[int, Refusal]:
    """Return the hosts that cannot be done, by number."""
    found: dict[int, Refusal] = {}
    pools = _pools(fleet) if impact.empties_host else {}
    targets = _Targets(fleet) if impact.empties_host else None
    for host in hosts:
        refusal = _refusal(fleet, host, impact, tenant_most)
        if refusal is None and targets is not None and fleet.vms[host]:
            pool = pools[fleet.pool.of[host]]
            refusal = _no_room(fleet, host, pool) or targets.missing(host)
        if refusal is not None:
            found[host] = refusal
    return found


def room_limit(fleet: FleetMap, hosts: Sequence[int]) -> GroupLimit:
    """Return how many hosts of each pool can be cleared together.

    `hosts` are those of a campaign that can be cleared one by one.
    """
    pools = _pools(fleet)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for host in hosts:
        members[fleet.pool.of[host]].append(host)
    most = [NO_LIMIT] * len(fleet.pool.names)
    for pool, its_hosts in members.items():
        rooms = [
            room
            for resource in fleet.resources
            if (room := pools[pool].at_once(resource, its_hosts)) is not None
        ]
        # One host was found to fit; only its VMs count, and not its whole size.
        if rooms and min(rooms) < len(its_hosts):
            most[pool] = max(1, min(rooms))
    return GroupLimit(kind=LimitKind.ROOM, label="pool", column=fleet.pool, most=most)


def _pools(fleet: FleetMap) -> dict[int, _Pool]:
    members: defaultdict[int, list[int]] = defaultdict(list)
    for host in range(len(fleet)):
        members[fleet.pool.of[host]].append(host)
    return {number: _Pool(fleet, hosts) for number, hosts in members.items()}


def _refusal(
    fleet: FleetMap, host: int, impact: Impact, tenant_most: Sequence[int]
) -> Refusal | None:
    """Return why a host cannot be done, whatever capacity other hosts have."""
    name = fleet.names[host]
    if not fleet.is_up[host]:
        return Refusal(host=name, reason=Reason.DOWN)
    if impact.empties_host and fleet.pinned[host]:
        return Refusal(host=name, reason=Reason.PINNED, needed=fleet.pinned[host])
    if impact not in {Impact.NONE, Impact.LIVE_MIGRATE}:
        last = -1
        # Domains are sorted by their numbers, and not by their scopes.
        for scope in sorted(fleet.scope_of_domain[d] for d in fleet.domains.of(host)):
            if scope == last:
                return Refusal(
                    host=name, reason=Reason.SHARED_SCOPE, subject=fleet.scopes[scope]
                )
            last = scope
    if tenant_most and impact is not Impact.NONE:
        for tenant, vms in fleet.host_tenants.counted(host):
            if vms > tenant_most[tenant]:
                return Refusal(
                    host=name,
                    reason=Reason.TENANT_VMS,
                    subject=fleet.tenants[tenant],
                    needed=vms,
                    free=tenant_most[tenant],
                )
    return None


def _no_room(fleet: FleetMap, host: int, pool: _Pool) -> Refusal | None:
    is_open = fleet.is_open(host)
    for resource in fleet.resources:
        elsewhere = pool.elsewhere(resource, host, is_open=is_open)
        if elsewhere is None:
            continue
        free, most = elsewhere
        needed = resource.there[host]
        largest = 1 if resource is fleet.places else resource.largest[host]
        for reason, wanted, there in (
            (Reason.NO_ROOM, needed, free),
            (Reason.TOO_LARGE, largest, most),
        ):
            if wanted > there:
                return Refusal(
                    host=fleet.names[host],
                    reason=reason,
                    subject=fleet.pool.names[fleet.pool.of[host]],
                    resource=resource.name,
                    needed=wanted,
                    free=there,
                )
    return None


class _Targets:
    """The hosts that can take the VMs of a domain.

    A host never has two fault domains of a scope, and a VM of a scale set stays in its
    zone. Other hosts of the scope are counted once per scope, so that a host is judged
    without reading the fleet.
    """

    def __init__(self, fleet: FleetMap) -> None:
        self._fleet = fleet
        self._with_room: set[int] = {
            host
            for host in range(len(fleet))
            if fleet.is_open(host)
            and all(
                r.size[host] == NO_LIMIT or r.free(host) > 0 for r in fleet.resources
            )
        }
        self._open: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Hosts with room in each pool and zone; zone -1: in any zone."""
        for host in self._with_room:
            pool = fleet.pool.of[host]
            self._open[pool, -1] += 1
            self._open[pool, fleet.zone.of[host]] += 1
        self._holders: defaultdict[int, dict[int, set[int]]] = defaultdict(dict)
        """The hosts with room that have each domain, by scope."""
        scope_of = fleet.scope_of_domain
        for host in self._with_room:
            for domain in fleet.domains.of(host):
                by_domain = self._holders[scope_of[domain]]
                by_domain.setdefault(domain, set()).add(host)

    def missing(self, host: int) -> Refusal | None:
        """Return a refusal if a VM of the host has no target."""
        fleet = self._fleet
        pool = fleet.pool.of[host]
        if self._open[pool, -1] <= (host in self._with_room):
            return Refusal(
                host=fleet.names[host],
                reason=Reason.NO_TARGET,
                subject=fleet.pool.names[pool],
            )
        for domain in fleet.domains.of(host):
            scope = fleet.scope_of_domain[domain]
            zone = fleet.zone.of[host] if fleet.is_zonal[scope] else -1
            holders = self._holders.get(scope, {})
            there = self._open[pool, zone]
            if there > sum(map(len, holders.values())) + 1:
                continue
            blocked = {host} & self._with_room
            for other, its_hosts in holders.items():
                if other != domain:
                    blocked |= {
                        each
                        for each in its_hosts
                        if fleet.pool.of[each] == pool
                        and zone in {-1, fleet.zone.of[each]}
                    }
            if there <= len(blocked):
                return Refusal(
                    host=fleet.names[host],
                    reason=Reason.SCOPE_EVERYWHERE,
                    subject=fleet.scopes[scope],
                    fault_domain=fleet.fault_domains[domain],
                    needed=there,
                )
        return None
