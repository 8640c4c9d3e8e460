"""Test the capacity record of a host, and a fleet within another file."""

import tomllib

import pytest

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import (
    UNLIMITED,
    UNLIMITED_PLACES,
    Capacity,
    Host,
    capacity_of,
)


def capacity(*, used: int = 0, is_up: bool = True, works: int = 0) -> Capacity:
    return Capacity(host="h1", zone="1", places=2, used=used, is_up=is_up, works=works)


def test_free_places_are_those_that_are_not_used() -> None:
    assert [capacity(used=used).free for used in (0, 1, 2, 3)] == [2, 1, 0, -1]
    assert capacity().key == "h1"


@pytest.mark.parametrize(
    ("found", "is_open", "has_space"),
    [
        (capacity(used=1), True, True),
        (capacity(used=1, works=1), False, True),
        (capacity(used=2), False, False),
        (capacity(is_up=False), False, False),
        (capacity(is_up=False, works=1), False, False),
    ],
)
def test_vm_is_placed_on_a_host_that_is_up_with_a_free_place_and_no_operation(
    found: Capacity, *, is_open: bool, has_space: bool
) -> None:
    assert (found.is_open, found.has_space) == (is_open, has_space)


@pytest.mark.parametrize(("limit", "places"), [(None, UNLIMITED_PLACES), (3, 3)])
def test_capacity_of_a_host_is_its_limit(limit: int | None, places: int) -> None:
    host = Host(name="h1", zone="1", pool="amd", capacity=limit, vcpu=limit)
    host_capacity = capacity_of(host, use=(1, 2, 3), works=2)
    sizes = (
        host_capacity.pool,
        host_capacity.vcpu_used,
        host_capacity.memory,
        host_capacity.memory_used,
    )
    assert sizes == ("amd", 2, UNLIMITED, 3)
    assert host_capacity.vcpu == (UNLIMITED if limit is None else limit)
    assert (host_capacity.host, host_capacity.zone, host_capacity.places) == (
        "h1",
        "1",
        places,
    )
    assert (host_capacity.used, host_capacity.works, host_capacity.is_up) == (
        1,
        2,
        True,
    )


def test_fleet_in_a_table_of_another_file_is_read_from_the_parsed_table() -> None:
    text = '[[fleet.host]]\nname = "h1"\n[[fleet.vm]]\nname = "web_0"\nhost = "h1"\n'
    tables = tomllib.loads(text)["fleet"]
    wanted = read_fleet(text, name="mine.toml", within="fleet", tables=tables)
    assert [*wanted.vms] == ["web_0"]
    with pytest.raises(FleetFileError):
        read_fleet(text, name="mine.toml")
