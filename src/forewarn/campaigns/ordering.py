"""The order of a campaign's hosts.

With the order `auto`, zones follow each other. In each zone, the emptiest hosts of each
cluster come first: they hurt few VMs if the work is bad, and become the places for the
VMs of the others. The others come set by set, each set with hosts that can be in work
together, and in a set by cluster and rack. Hosts that are marked as last come last.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from forewarn.campaigns.bounds import least_sets
from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap
from forewarn.campaigns.grouping import Rules, passes_for, sets_of
from forewarn.campaigns.model import Impact, Order

FIRST_SHARE = 10
"""Maximum share of a cluster's hosts that come first as places for VMs, as a divisor."""

COMBINATIONS_MAX = 10_000
"""Maximum sorted combinations of fault domains that are kept with the most frequent one. Five
fault domains of up to ten VMs have 3,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The hosts in their order, with their sets."""

    hosts: list[int]
    sets: list[int]
    """The set of each host of `hosts`; hosts of a set can be in work together."""
    least: int
    """Lower bound of the number of sets."""


def arrange(
    fleet: FleetMap,
    hosts: Sequence[int],
    *,
    order: Order,
    listed: Sequence[str],
    impact: Impact,
    rules: Rules,
    at_once: int,
) -> Ordered:
    """Return the hosts in the order in which they are to be announced.

    `listed` are the names in the order of the file.
    """
    if order is not Order.AUTO:
        ordered = _as_demanded(fleet, hosts, order, listed)
        sets = sets_of(fleet, [ordered], rules, least=1, passes=1)
        least = least_sets(fleet, ordered, rules)
        return Ordered(
            hosts=ordered, sets=[sets[host] for host in ordered], least=least
        )
    arranged: list[int] = []
    numbers: list[int] = []
    least = 0
    passes = passes_for(len(hosts))
    for phase in _phases(fleet, hosts, impact, at_once):
        start = max(numbers, default=-1) + 1
        bound = least_sets(fleet, phase, rules)
        by_label = _by_label(fleet, phase)
        sets = sets_of(fleet, [by_label], rules, least=bound, passes=passes)
        arranged += sorted(by_label, key=sets.__getitem__)
        numbers += [start + sets[host] for host in arranged[len(numbers) :]]
        least += bound
    return Ordered(hosts=arranged, sets=numbers, least=least)


def _as_demanded(
    fleet: FleetMap, hosts: Sequence[int], order: Order, listed: Sequence[str]
) -> list[int]:
    """Return the hosts in an order that the file demands."""
    if order is Order.LISTED:
        places = {fleet.numbers[name]: at for at, name in enumerate(listed)}
        return sorted(hosts, key=places.__getitem__)
    by_place = sorted(
        hosts, key=lambda host: (fleet.is_last[host], _place(fleet, host))
    )
    if order is Order.LEAST_IMPACT:
        by_place.sort(key=lambda host: (fleet.is_last[host], fleet.vms[host]))
    return by_place


def _place(fleet: FleetMap, host: int) -> tuple[str, str, str, int]:
    """Return the zone, cluster and rack of a host, and its number in the fleet."""
    return (
        fleet.zone.names[fleet.zone.of[host]],
        fleet.cluster.names[fleet.cluster.of[host]],
        fleet.rack.names[fleet.rack.of[host]],
        host,
    )


def _by_label(fleet: FleetMap, hosts: Sequence[int]) -> list[int]:
    """Sort hosts by cluster, most frequent fault domain, rack, and freedom.

    Where fault domains follow racks, hosts in this order need the fewest sets.
    """
    domains_of, fault_domain_of = fleet.domains.of, fleet.fault_domains.__getitem__
    clusters, cluster_of = fleet.cluster.ranks, fleet.cluster.of
    racks, rack_of = fleet.rack.ranks, fleet.rack.of

    def key(host: int) -> tuple[int, int, int, int, int]:
        numbers = tuple(sorted(map(fault_domain_of, domains_of(host))))
        most, rack = _most_frequent(numbers), racks[rack_of[host]]
        return clusters[cluster_of[host]], most, rack, -len(numbers), host

    return sorted(hosts, key=key)


@lru_cache(COMBINATIONS_MAX)
def _most_frequent(ascending: tuple[int, ...]) -> int:
    """Return the most frequent of some fault domains, or the lowest of these; -1: none.

    Large fleets have few different combinations, if these are sorted.
    """
    return max(ascending, key=ascending.count, default=-1)


def _phases(
    fleet: FleetMap, hosts: Sequence[int], impact: Impact, at_once: int
) -> Iterator[list[int]]:
    """Yield the hosts in parts that follow each other; no part is empty."""
    zones: defaultdict[str, list[int]] = defaultdict(list)
    last: list[int] = []
    for host in hosts:
        if fleet.is_last[host]:
            last.append(host)
        else:
            zones[fleet.zone.names[fleet.zone.of[host]]].append(host)
    for zone in sorted(zones):
        first = _first(fleet, zones[zone], impact, at_once)
        early = set(first)
        rest = [host for host in zones[zone] if host not in early]
        yield from (part for part in (first, rest) if part)
    if last:
        yield last


def _first(
    fleet: FleetMap, hosts: Sequence[int], impact: Impact, at_once: int
) -> list[int]:
    """Return the emptiest hosts of each cluster: one, or places for the VMs to come."""
    clusters: defaultdict[int, list[int]] = defaultdict(list)
    for host in hosts:
        clusters[fleet.cluster.of[host]].append(host)
    first: list[int] = []
    for members in clusters.values():
        members.sort(key=lambda host: (fleet.vms[host], host))
        most = max(1, len(members) // FIRST_SHARE)
        vms = sum(fleet.vms[host] for host in members[-at_once:])
        taken, places = 0, 0
        while taken < most and (not taken or places < vms):
            size = fleet.places.size[members[taken]]
            places = vms if size == NO_LIMIT else places + size
            taken += 1
            if not impact.empties_host:
                break
        first += members[:taken]
    return first
