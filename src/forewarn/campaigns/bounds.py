"""Lower bounds of the rounds of a campaign, and the constraint that binds.

A round is the time of one host. However the hosts are ordered, a limit of `at_once` for
`count` hosts, domains or VMs takes at least `count / at_once` rounds.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap
from forewarn.campaigns.grouping import Rules
from forewarn.campaigns.limits import GroupLimit, LimitKind, Limits

BOUNDS_MAX = 10
"""Maximum bounds that a plan names: the first one binds, and the next ones say what
would bind if it were relaxed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The rounds that one limit needs at least."""

    kind: LimitKind
    label: str = ""
    """The label of a group."""
    subject: str = ""
    """The value of the label, the scope, the tenant or the pool."""
    count: int
    """Hosts, fault domains or VMs that the limit applies to."""
    at_once: int

    @property
    def rounds(self) -> int:
        """Return the rounds, rounded up."""
        return -(-self.count // self.at_once)


def bounds(
    fleet: FleetMap, hosts: Sequence[int], limits: Limits, rules: Rules
) -> list[Bound]:
    """Return the highest bound of each kind and label; the one that binds is first."""
    highest = [
        Bound(kind=LimitKind.IN_FLIGHT, count=len(hosts), at_once=limits.in_flight)
    ]
    if limits.at_once < limits.in_flight:
        highest.append(
            Bound(kind=LimitKind.UNAVAILABLE, count=len(hosts), at_once=limits.at_once)
        )
    highest += _of_groups(hosts, rules)
    if rules.domains:
        highest += _of_tenants(fleet, hosts, limits)
        highest += _of_scopes(fleet, hosts, rules)
    highest.sort(key=lambda bound: -bound.rounds)
    return highest[:BOUNDS_MAX]


def least_sets(fleet: FleetMap, hosts: Sequence[int], rules: Rules) -> int:
    """Return a lower bound of the sets of hosts that can be in work together."""
    bounds_of_limits = list(_of_groups(hosts, rules))
    if rules.domains:
        bounds_of_limits += _of_scopes(fleet, hosts, rules)
    return max((limit.rounds for limit in bounds_of_limits), default=1)


def least_sets_of(hosts: Sequence[int], limit: GroupLimit) -> int:
    """Return how many sets the limit of a group needs at least."""
    bound = _of_group(hosts, limit)
    return 1 if bound is None else bound.rounds


def _of_groups(hosts: Sequence[int], rules: Rules) -> Iterator[Bound]:
    for limit in rules.groups:
        bound = _of_group(hosts, limit)
        if bound is not None:
            yield bound


def _of_group(hosts: Sequence[int], limit: GroupLimit) -> Bound | None:
    """Return the bound of the group that needs most rounds."""
    candidates = [
        Bound(
            kind=limit.kind,
            label=limit.label,
            subject=limit.column.names[group],
            count=count,
            at_once=limit.most[group],
        )
        for group, count in enumerate(limit.column.counts(hosts))
        if count and limit.most[group] != NO_LIMIT
    ]
    return max(candidates, key=lambda bound: bound.rounds, default=None)


def _of_tenants(
    fleet: FleetMap, hosts: Sequence[int], limits: Limits
) -> Iterator[Bound]:
    if not limits.tenant_most:
        return
    candidates = [
        Bound(
            kind=LimitKind.TENANT_VMS,
            subject=fleet.tenants[tenant],
            count=count,
            at_once=limits.tenant_most[tenant],
        )
        for tenant, count in enumerate(fleet.vms_by_tenant(hosts))
        if count
    ]
    if candidates:
        yield max(candidates, key=lambda bound: bound.rounds)


def _of_scopes(fleet: FleetMap, hosts: Sequence[int], rules: Rules) -> Iterator[Bound]:
    if rules.is_exclusive:
        scopes = Counter(chain.from_iterable(map(fleet.host_scopes.of, hosts)))
    else:
        domains = set(chain.from_iterable(map(fleet.domains.of, hosts)))
        scopes = Counter(map(fleet.scope_of_domain.__getitem__, domains))
    counts = [scopes[scope] for scope in range(len(fleet.scopes))]
    most = max(counts, default=0)
    if most:
        yield Bound(
            kind=LimitKind.MIGRATIONS
            if rules.is_exclusive
            else LimitKind.FAULT_DOMAINS,
            subject=fleet.scopes[counts.index(most)],
            count=most,
            at_once=1,
        )
