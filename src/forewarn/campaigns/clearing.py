"""Whether the VMs of each host can leave it, as sums and by the rules of placement.

Hosts that exchange VMs are a pool. A host can be cleared if the other hosts of its pool
have capacity for all its VMs, and placement finds a host for each of them (`targets`).
VMs only change places within a pool, so its free capacity stays the same, and a host
that can be cleared now can also be cleared later.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap, Resource
from forewarn.campaigns.limits import GroupLimit, LimitKind
from forewarn.campaigns.model import Impact
from forewarn.campaigns.targets import Targets
from forewarn.fleet.reserve import NO_RESERVE, PoolSum
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.no_place import Unfit
from forewarn.settings.amounts import Amount

_OF_THE_SCOPE = frozenset({Unfit.DOMAIN, Unfit.ZONE, Unfit.RACK})
"""Reasons that keep VMs of a scope apart, whatever capacity there is."""


class Reason(Enumeration):
    """Why a host cannot be done; the value is the name in the API."""

    DOWN = "down"
    PINNED = "pinned"
    """VMs cannot be moved."""
    UNABLE = "unable"
    """The driver told that the impact is not possible on the host or a VM there."""
    SHARED_SCOPE = "shared-scope"
    """The host has several fault domains of one scope, so no work on it can start."""
    NO_ROOM = "no-room"
    TOO_LARGE = "too-large"
    """No other host has capacity for the largest VM."""
    NO_TARGET = "no-target"
    """No other host has capacity of every kind."""
    NO_FIT = "no-fit"
    """The free capacity is enough in total, but the VMs do not fit one after the other:
    what is free on single hosts is too small, or these hosts may not take the VMs."""
    SCOPE_EVERYWHERE = "scope-everywhere"
    """Each other host has another fault domain of the scope, or is in another zone."""
    RACKS = "racks"
    """The same, or a host is in a rack with more VMs of the scope than its own rack."""
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
    reserve: int = 0
    """Part of the free capacity that the reserve of the pool keeps."""
    fault_domain: int = 0
    impact: str = ""
    """With UNABLE: what is not possible. `subject` is the VM, or empty."""
    said: str = ""
    """With UNABLE: the reason of the driver."""


def _reserve(resource: Resource, hosts: Sequence[int], amount: Amount) -> int:
    """Return what stays free in a pool; 0 if not all of its hosts have a limit."""
    limits = [resource.size[host] for host in hosts] if amount.value else []
    if not limits or NO_LIMIT in limits:
        return 0
    return PoolSum(
        key=resource.name, free=0, total=sum(limits), largest=max(limits)
    ).reserve(amount)


class Pool:
    """The free capacity of the hosts of one pool."""

    def __init__(
        self, fleet: FleetMap, hosts: Sequence[int], reserve: Amount = NO_RESERVE
    ) -> None:
        self.reserve = {
            each.name: _reserve(each, hosts, reserve) for each in fleet.resources
        }
        """Amount of each resource that stays free."""
        self.keeps_none = not any(self.reserve.values())
        self.open = [host for host in hosts if fleet.is_open(host)]
        self._free: dict[str, int] = {}
        self._largest: dict[str, tuple[int, int]] = {}
        self._unlimited: dict[str, int] = {}
        """For each resource, the number of hosts without a limit."""
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
        free = self._free[resource.name] - self.reserve[resource.name]
        count = 0
        numbers = [*hosts]
        size_of, used_of = resource.size.__getitem__, resource.used.__getitem__
        sizes = map(max, map(size_of, numbers), map(used_of, numbers))
        for size in sorted(sizes, reverse=True):
            free -= size
            if free < 0:
                break
            count += 1
        return count


def refusals(
    fleet: FleetMap,
    hosts: Sequence[int],
    impact: Impact,
    tenant_most: Sequence[int],
    *,
    pools: Mapping[int, Pool] | None,
) -> dict[int, Refusal]:
    """Return the hosts that cannot be done, by number.

    `pools` are those of the fleet if forewarn chooses destinations for the VMs of the
    hosts. Without them, capacity does not count.
    """
    refused: dict[int, Refusal] = {}
    targets = Targets(fleet) if pools is not None else None
    for host in hosts:
        refusal = _refusal(fleet, host, impact, tenant_most)
        if refusal is None and pools and targets and fleet.vms[host]:
            pool = pools[fleet.pool.of[host]]
            refusal = _no_place(fleet, host, pool, targets)
        if refusal is not None:
            refused[host] = refusal
    return refused


def room_limit(
    fleet: FleetMap, hosts: Sequence[int], pools: Mapping[int, Pool]
) -> GroupLimit:
    """Return how many hosts of each pool can be cleared together.

    `hosts` are those of a campaign that can be cleared one by one.
    """
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


def pools_of(fleet: FleetMap, reserve: Amount = NO_RESERVE) -> dict[int, Pool]:
    """Return the free capacity of each pool of a fleet."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for host in range(len(fleet)):
        members[fleet.pool.of[host]].append(host)
    return {number: Pool(fleet, hosts, reserve) for number, hosts in members.items()}


def _refusal(
    fleet: FleetMap, host: int, impact: Impact, tenant_most: Sequence[int]
) -> Refusal | None:
    """Return why a host cannot be done, whatever capacity other hosts have."""
    name = fleet.names[host]
    if not fleet.is_up[host]:
        return Refusal(host=name, reason=Reason.DOWN)
    if impact.empties_host and fleet.pinned[host]:
        return Refusal(host=name, reason=Reason.PINNED, needed=fleet.pinned[host])
    if host in fleet.unable and impact is not Impact.NONE:
        vm, why = fleet.unable[host]
        return Refusal(
            host=name,
            reason=Reason.UNABLE,
            subject=vm,
            impact=impact.value,
            said=why,
        )
    if impact is not Impact.NONE and impact is not Impact.LIVE_MIGRATE:
        domains = fleet.domains.of(host)
        if len(fleet.host_scopes.of(host)) < len(domains):
            scopes = [*map(fleet.scope_of_domain.__getitem__, domains)]
            shared = min(
                fleet.scopes[scope] for scope in scopes if scopes.count(scope) > 1
            )
            return Refusal(host=name, reason=Reason.SHARED_SCOPE, subject=shared)
    if tenant_most and impact is not Impact.NONE:
        for tenant, vms in fleet.tenants_on(host).items():
            if vms > tenant_most[tenant]:
                return Refusal(
                    host=name,
                    reason=Reason.TENANT_VMS,
                    subject=fleet.tenants[tenant],
                    needed=vms,
                    free=tenant_most[tenant],
                )
    return None


def _no_place(
    fleet: FleetMap, host: int, pool: Pool, targets: Targets
) -> Refusal | None:
    """Return why the VMs of a host cannot leave it."""
    # Ample room on some hosts is enough for the sums of all hosts, but for a reserve.
    if pool.keeps_none and targets.has_any(host) and targets.has_ample_room(host):
        return None
    refusal = _no_room(fleet, host, pool)
    return refusal or _no_destination(fleet, host, targets)


def _no_room(fleet: FleetMap, host: int, pool: Pool) -> Refusal | None:
    is_open = fleet.is_open(host)
    for resource in fleet.resources:
        elsewhere = pool.elsewhere(resource, host, is_open=is_open)
        if elsewhere is None:
            continue
        free, most = elsewhere
        needed = resource.there[host]
        largest = 1 if resource is fleet.places else resource.largest[host]
        reserve = pool.reserve[resource.name] if needed else 0
        for reason, amount, available, reserved in (
            (Reason.NO_ROOM, needed, free, reserve),
            (Reason.TOO_LARGE, largest, most, 0),
        ):
            if amount + reserved > available:
                return Refusal(
                    host=fleet.names[host],
                    reason=reason,
                    subject=fleet.pool.names[fleet.pool.of[host]],
                    resource=resource.name,
                    needed=amount,
                    free=available,
                    reserve=reserved,
                )
    return None


def _no_destination(fleet: FleetMap, host: int, targets: Targets) -> Refusal | None:
    """Return a refusal if placement has no destination for a VM of the host."""
    pool = fleet.pool.names[fleet.pool.of[host]]
    if not targets.has_any(host):
        return Refusal(host=fleet.names[host], reason=Reason.NO_TARGET, subject=pool)
    obstacle = targets.why_not_cleared(host)
    if obstacle is None:
        return None
    vm, why = obstacle
    scope = fleet.each_vm.scope[vm]
    reason = _reason({unfit.why for unfit in why.unfit})
    return Refusal(
        host=fleet.names[host],
        reason=reason,
        subject=pool if reason is Reason.NO_FIT else fleet.scopes[scope],
        fault_domain=fleet.each_vm.fault_domain[vm],
    )


def _reason(unfit: AbstractSet[Unfit]) -> Reason:
    """Return the reason that describes best the hosts that cannot take a VM."""
    if unfit - _OF_THE_SCOPE:
        return Reason.NO_FIT
    return Reason.RACKS if Unfit.RACK in unfit else Reason.SCOPE_EVERYWHERE
