"""Put the hosts of a campaign into sets that can be in work together.

No conflict graph is built. For each scope there is one integer with a bit for each set
that has a host of it, and for each domain one with the sets of that domain. The sets
that are forbidden for a host are the union of the sets of its scopes, without those of
its own domains, and of the full sets of its groups. The host joins the lowest set that
already has one of its domains, else the lowest that is not forbidden.

A second pass never needs more sets, if it takes the hosts set by set (iterated greedy).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap
from forewarn.campaigns.limits import GroupLimit

SETS_MAX = 256
"""Maximum sets that a limit of a group may need to hold within sets. A stricter one
decides the pace anyway, and only admission applies it; the bits of the sets stay short."""

PASSES_BY_HOSTS = ((20_000, 8), (60_000, 4))
"""Maximum passes up to a number of hosts in the campaign; larger ones have two, since
each takes more than a second for 100,000 hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the hosts of each set."""

    domains: bool
    """Whether fault domains of one scope are kept apart."""
    is_exclusive: bool
    """Whether two hosts of one scope are kept apart, even with the same fault domain."""
    groups: tuple[GroupLimit, ...]


def passes_for(hosts: int) -> int:
    """Return how many passes a campaign of so many hosts can have."""
    return next((passes for most, passes in PASSES_BY_HOSTS if hosts <= most), 2)


def sets_of(
    fleet: FleetMap,
    orders: Sequence[Sequence[int]],
    rules: Rules,
    *,
    least: int,
    passes: int,
) -> dict[int, int]:
    """Return the set of each host, numbered from 0.

    `orders` are orders of the same hosts, which are tried first. `least` is a lower
    bound: with so few sets, the search ends.
    """
    best: dict[int, int] = {}
    for number in range(passes):
        tried = number - len(orders)
        order = orders[number] if tried < 0 else _by_sets(best, tried)
        sets = _assign(fleet, order, rules)
        if not best or _count(sets) <= _count(best):
            best = sets
        if _count(best) <= least:
            break
    return best


def _count(sets: dict[int, int]) -> int:
    return max(sets.values(), default=-1) + 1


def _by_sets(sets: dict[int, int], number: int) -> list[int]:
    """Return the hosts set by set: the last first, the largest first, or mixed."""
    members: list[list[int]] = [[] for _ in range(_count(sets))]
    for host, its_set in sets.items():
        members[its_set].append(host)
    keys: tuple[Callable[[int], int], ...] = (
        lambda position: -position,
        lambda position: -len(members[position]),
        # A multiplication by a prime mixes the sets, the same in every run.
        lambda position: (position + number) * 7_919 % 104_729,
    )
    order = sorted(range(len(members)), key=keys[number % len(keys)])
    return [host for position in order for host in members[position]]


class _Full:
    """The sets that are full for each group of one limit."""

    def __init__(self, limit: GroupLimit) -> None:
        self.of = limit.column.of
        self.most = limit.most
        self.full = [0] * len(limit.most)
        self._load: dict[tuple[int, int], int] = {}

    def add(self, host: int, its_set: int, bit: int) -> None:
        group = self.of[host]
        if self.most[group] == NO_LIMIT:
            return
        load = self._load[group, its_set] = self._load.get((group, its_set), 0) + 1
        if load >= self.most[group]:
            self.full[group] |= bit


def _assign(fleet: FleetMap, order: Sequence[int], rules: Rules) -> dict[int, int]:
    """Return the set of each host, taken in an order."""
    full_scopes = [0] * len(fleet.scopes)
    own = [0] * len(fleet.scope_of_domain)
    scope_of = fleet.scope_of_domain
    groups = [_Full(limit) for limit in rules.groups]
    scopes_of, domains_of = fleet.host_scopes.of, fleet.domains.of
    has_domains = rules.domains and not rules.is_exclusive
    sets: dict[int, int] = {}
    for host in order:
        forbidden = preferred = 0
        for group in groups:
            forbidden |= group.full[group.of[host]]
        domains = domains_of(host) if has_domains else ()
        scopes = scopes_of(host) if rules.is_exclusive else ()
        for scope in scopes:
            forbidden |= full_scopes[scope]
        for domain in domains:
            full = full_scopes[scope_of[domain]]
            if mine := own[domain]:
                forbidden |= full & ~mine
                preferred |= mine
            else:
                forbidden |= full
        allowed = preferred & ~forbidden or ~forbidden
        bit = allowed & -allowed
        its_set = bit.bit_length() - 1
        sets[host] = its_set
        for group in groups:
            group.add(host, its_set, bit)
        for scope in scopes:
            full_scopes[scope] |= bit
        for domain in domains:
            full_scopes[scope_of[domain]] |= bit
            own[domain] |= bit
    return sets
