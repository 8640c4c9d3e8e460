"""The reserve: free capacity of a pool that routine work leaves for failures.

A reserve is a number of hosts or a percentage. A number of hosts means as much as that
many of the largest host of the pool have; a percentage is of the total of the pool. Only
resources that all hosts of the pool limit are counted. The sums of a pool are kept as
tallies, so that no decision adds up the hosts of a fleet. Pure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from forewarn.fleet.model import UNLIMITED, UNLIMITED_PLACES, Capacity
from forewarn.fleet.resources import RESOURCES
from forewarn.protocol.enumerations import Enumeration
from forewarn.settings.amounts import Amount

NO_RESERVE = Amount(value=0)
"""No reserve: all free capacity can be used."""

RESERVED_HOSTS_MAX = 1_000
"""Maximum hosts of a reserve: the size of a large pool."""

KEYS = tuple(resource.key for resource in RESOURCES)
"""Keys of the resources, in the order of `use_of`: `capacity`, `vcpu` and `memory`."""


class Sum(Enumeration):
    """A number that is kept for each pool and resource."""

    FREE = "free"
    """Free capacity of the hosts that can take VMs now."""
    TOTAL = "total"
    """Capacity of all hosts, in use or not."""
    UNLIMITED = "unlimited"
    """Number of hosts without a limit."""


def tally_name(which: Sum, key: str, pool: str) -> str:
    """Return the name of the tally of a sum: `free/vcpu/p2`."""
    return f"{which.value}/{key}/{pool}"


def limits_of(room: Capacity) -> tuple[tuple[str, int | None, int], ...]:
    """Return the key, the limit (None: no limit) and the use of each resource."""
    places = None if room.places == UNLIMITED_PLACES else room.places
    vcpu = None if room.vcpu == UNLIMITED else room.vcpu
    memory = None if room.memory == UNLIMITED else room.memory
    used = room.used, room.vcpu_used, room.memory_used
    return tuple(zip(KEYS, (places, vcpu, memory), used, strict=True))


def free_of(room: Capacity) -> tuple[int, ...]:
    """Return how much of each resource a host can give to VMs now; 0 without a limit."""
    if room.is_away:
        return (0,) * len(KEYS)
    return tuple(
        0 if limit is None else max(0, limit - used)
        for _, limit, used in limits_of(room)
    )


def tallied(room: Capacity) -> Iterator[tuple[str, int]]:
    """Yield the names of the tallies that count a host, with its part of each."""
    for (key, limit, _), free in zip(limits_of(room), free_of(room), strict=True):
        if limit is None:
            yield tally_name(Sum.UNLIMITED, key, room.pool), 1
            continue
        yield tally_name(Sum.TOTAL, key, room.pool), limit
        yield tally_name(Sum.FREE, key, room.pool), free


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSum:
    """The capacity of one resource in a pool whose hosts all limit it."""

    key: str
    free: int
    """Free on the hosts that can take VMs now."""
    total: int
    largest: int
    """Limit of the largest host."""

    def reserve(self, amount: Amount) -> int:
        """Return how much a reserve keeps free."""
        if amount.is_percent:
            return amount.of(self.total)
        return int(amount.value) * self.largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource that would be used from the reserve."""

    key: str
    needed: int
    free: int
    """Free on other hosts."""
    reserve: int


def shortage(
    amount: Amount,
    sums: Iterable[PoolSum],
    *,
    needed: tuple[int, ...],
    own: tuple[int, ...],
) -> Shortage | None:
    """Return why a host cannot be emptied without use of the reserve; None: it can.

    `needed` is what its VMs use, and `own` is what is free on the host itself, both in
    the order of KEYS.
    """
    for pool in sums:
        place = KEYS.index(pool.key)
        free = pool.free - own[place]
        reserve = pool.reserve(amount)
        if needed[place] and needed[place] + reserve > free:
            return Shortage(
                key=pool.key, needed=needed[place], free=free, reserve=reserve
            )
    return None
