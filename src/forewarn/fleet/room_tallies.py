"""The tallies that count the hosts of a fleet: its pools, and each of its places. Pure.

They are kept with the records of the hosts, so that no decision counts the hosts of a
group.
"""

from collections.abc import Iterator

from forewarn.fleet import reserve
from forewarn.fleet.model import Capacity


def hosts_at(place: str) -> str:
    """Return the name of the tally of the hosts at a place, such as `rack=r7`."""
    return f"hosts at {place}"


def tallied(room: Capacity) -> Iterator[tuple[str, int]]:
    """Yield the names of the tallies that count a host, with its part of each."""
    yield from reserve.tallied(room)
    for place in room.stands_at:
        yield hosts_at(place), 1
