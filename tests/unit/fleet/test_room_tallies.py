"""Each host counts in the tallies of its places."""

from forewarn.fleet import reserve
from forewarn.fleet.model import Host, capacity_of
from forewarn.fleet.room_tallies import hosts_at, tallied

HOST = Host(name="h1", zone="z1", rack="r1", labels=(("model", "x"),))


def test_a_host_counts_once_at_each_of_its_places() -> None:
    room = capacity_of(HOST)
    counts = dict(tallied(room))
    places = [hosts_at("zone=z1"), hosts_at("rack=r1"), hosts_at("label=model=x")]
    assert [counts.pop(place) for place in places] == [1, 1, 1]
    assert counts == dict(reserve.tallied(room))
