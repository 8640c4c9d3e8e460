"""The reserve of a pool: what it keeps, and when a host would use it."""

from dataclasses import replace

import pytest

from forewarn.fleet.model import Host, HostState, capacity_of
from forewarn.fleet.reserve import (
    PoolSum,
    Shortage,
    Sum,
    free_of,
    shortage,
    tallied,
    tally_name,
)
from forewarn.settings.amounts import Amount

HOST = Host(name="h1", pool="amd", capacity=10, memory=64)
PLACES = PoolSum(key="capacity", free=12, total=40, largest=10)


@pytest.mark.parametrize(
    ("amount", "kept"),
    [
        (Amount(value=0), 0),
        (Amount(value=2), 20),
        (Amount(value=25, is_percent=True), 10),
        (Amount(value=1, is_percent=True), 1),
    ],
)
def test_reserve_is_a_number_of_the_largest_hosts_or_a_part_of_the_pool(
    amount: Amount, kept: int
) -> None:
    assert PLACES.reserve(amount) == kept


def test_host_is_emptied_if_the_others_keep_the_reserve_free() -> None:
    one = Amount(value=1)
    own, needed = (0, 0, 0), (2, 0, 0)
    assert shortage(one, [PLACES], needed=needed, own=own) is None
    # One VM more, or a place that is free on the host itself, is too much.
    assert shortage(one, [PLACES], needed=(3, 0, 0), own=own) == Shortage(
        key="capacity", needed=3, free=12, reserve=10
    )
    assert shortage(one, [PLACES], needed=needed, own=(1, 0, 0)) == Shortage(
        key="capacity", needed=2, free=11, reserve=10
    )


def test_resource_that_the_vms_do_not_use_keeps_no_host_waiting() -> None:
    memory = PoolSum(key="memory", free=0, total=64, largest=64)
    needed = (1, 0, 0)
    own = (0, 0, 0)
    assert shortage(Amount(value=1), [memory], needed=needed, own=own) is None


def test_each_host_counts_in_the_sums_of_its_pool() -> None:
    room = capacity_of(HOST, use=(4, 3, 70))
    assert dict(tallied(room)) == {
        tally_name(Sum.TOTAL, "capacity", "amd"): 10,
        tally_name(Sum.FREE, "capacity", "amd"): 6,
        tally_name(Sum.UNLIMITED, "vcpu", "amd"): 1,
        tally_name(Sum.TOTAL, "memory", "amd"): 64,
        # A host with too many VMs takes nothing from others.
        tally_name(Sum.FREE, "memory", "amd"): 0,
    }
    sizes = replace(HOST, capacity=None, vcpu=8, memory=None)
    assert dict(tallied(capacity_of(sizes))) == {
        tally_name(Sum.UNLIMITED, "capacity", "amd"): 1,
        tally_name(Sum.TOTAL, "vcpu", "amd"): 8,
        tally_name(Sum.FREE, "vcpu", "amd"): 8,
        tally_name(Sum.UNLIMITED, "memory", "amd"): 1,
    }


def test_host_that_takes_no_vm_has_nothing_free() -> None:
    assert free_of(capacity_of(HOST)) == (10, 0, 64)
    assert free_of(capacity_of(HOST, works=1)) == (0, 0, 0)
    down = replace(HOST, state=HostState.DOWN)
    assert free_of(capacity_of(down)) == (0, 0, 0)
