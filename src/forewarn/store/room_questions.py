"""The questions about the capacity of hosts, which `kinds` has with all others."""

from forewarn.fleet.model import UNLIMITED, UNLIMITED_PLACES, Capacity
from forewarn.store.questions import Query, Ranking


def zone_value(pool: str, zone: str) -> str:
    """Return the value that the hosts of a zone in a pool are found under."""
    return f"{pool}/{zone}"


def done_value(request: str, pool: str, zone: str) -> str:
    """Return the value that the hosts are found under that are done in a request."""
    return f"{request}/{zone_value(pool, zone)}"


ROOMS_AWAY: Query[Capacity] = Query(
    "rooms_away", Capacity, lambda room: ("",) if room.is_away else ()
)
"""Hosts that are announced, in work, cordoned or down."""
ROOMS_AT_WORK: Query[Capacity] = Query(
    "rooms_at_work", Capacity, lambda room: room.stands_at if room.works else ()
)
"""Hosts at a place that are announced or in work: `fleet.model.place`."""
ROOMS_OPEN_IN_ZONE: Ranking[Capacity] = Ranking(
    "rooms_open_in_zone",
    Capacity,
    lambda room: (
        ((zone_value(room.pool, room.zone), room.free),) if room.is_open else ()
    ),
)
"""The hosts of a pool and zone that can take a VM now, by their free capacity."""
ROOMS_DONE: Ranking[Capacity] = Ranking(
    "rooms_done",
    Capacity,
    lambda room: (
        ((done_value(room.done_in, room.pool, room.zone), room.free),)
        if room.is_open and room.done_in
        else ()
    ),
)
"""The hosts of a pool and zone that are done in a request and can take a VM now, by
their free capacity."""
ROOMS_OPEN: Ranking[Capacity] = Ranking(
    "rooms_open",
    Capacity,
    lambda room: ((room.pool, room.free),) if room.is_open else (),
)
"""The hosts of a pool that can take a VM now, by their free capacity."""
ROOMS_WITH_SPACE: Ranking[Capacity] = Ranking(
    "rooms_with_space",
    Capacity,
    lambda room: ((room.pool, room.free),) if room.has_space else (),
)
"""Hosts of a pool with free capacity that are not cordoned, including those with running
operations."""
ROOMS_BY_VCPU: Ranking[Capacity] = Ranking(
    "rooms_by_vcpu",
    Capacity,
    lambda room: (
        ((room.pool, room.vcpu - room.vcpu_used),)
        if room.has_space and room.vcpu < UNLIMITED
        else ()
    ),
)
"""Hosts of a pool with free places and limited vCPUs, by the free vCPUs."""
ROOMS_BY_MEMORY: Ranking[Capacity] = Ranking(
    "rooms_by_memory",
    Capacity,
    lambda room: (
        ((room.pool, room.memory - room.memory_used),)
        if room.has_space and room.memory < UNLIMITED
        else ()
    ),
)
"""Hosts of a pool with free places and limited memory, by the free memory."""
ROOMS_BY_PLACES_LIMIT: Ranking[Capacity] = Ranking(
    "rooms_by_places_limit",
    Capacity,
    lambda room: ((room.pool, room.places),) if room.places < UNLIMITED_PLACES else (),
)
"""All hosts of a pool with a limit on places, by the limit."""
ROOMS_BY_VCPU_LIMIT: Ranking[Capacity] = Ranking(
    "rooms_by_vcpu_limit",
    Capacity,
    lambda room: ((room.pool, room.vcpu),) if room.vcpu < UNLIMITED else (),
)
ROOMS_BY_MEMORY_LIMIT: Ranking[Capacity] = Ranking(
    "rooms_by_memory_limit",
    Capacity,
    lambda room: ((room.pool, room.memory),) if room.memory < UNLIMITED else (),
)
