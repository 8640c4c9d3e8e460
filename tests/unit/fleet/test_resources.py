"""Sizes of memory, and whether VMs fit on a host."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.model import Host
from forewarn.fleet.resources import format_size, is_overfull, parse_size
from forewarn.fleet.validators import MEMORY_MAX
from tests.unit.fleet.test_validators import VM


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("64GiB", 64 << 10),
        ("64 GiB", 64 << 10),
        ("64G", 64 << 10),
        ("1536MiB", 1536),
        ("2T", 2 << 20),
        ("0M", 0),
    ],
)
def test_size_has_a_unit_of_powers_of_two(text: str, mib: int) -> None:
    assert parse_size(text) == mib


@pytest.mark.parametrize("text", ["", "64", "64GB", "64KiB", "-1GiB", "1.5GiB", "G"])
def test_other_sizes_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=f'such as 64GiB, not the text "{text}"'):
        parse_size(text)


@given(st.integers(0, MEMORY_MAX))
def test_formatted_size_reads_back_equal(mib: int) -> None:
    assert parse_size(format_size(mib)) == mib


def test_size_is_formatted_in_the_largest_whole_unit() -> None:
    assert list(map(format_size, (0, 1023, 1 << 10, 1536, 3 << 20))) == [
        "0MiB",
        "1023MiB",
        "1GiB",
        "1536MiB",
        "3TiB",
    ]


@pytest.mark.parametrize(
    ("host", "count"),
    [
        (Host(name="h1", capacity=2, vcpu=100, memory=9_000), 2),
        (Host(name="h1", vcpu=7), 3),
        (Host(name="h1", memory=4 << 10), 4),
        (Host(name="h1", memory=0), 0),
    ],
)
def test_host_takes_vms_until_its_scarcest_resource_is_used(
    host: Host, count: int
) -> None:
    vm = replace(VM, vcpu=2, memory=1 << 10)
    assert not is_overfull(host, [vm] * count)
    assert is_overfull(host, [vm] * (count + 1))


def test_vm_without_a_size_uses_a_place_only() -> None:
    assert not is_overfull(Host(name="h1", vcpu=0, memory=0), [VM] * 50)
    assert is_overfull(Host(name="h1", capacity=0), [VM])
