"""The bounds of single values: the last that is right, and the first that is wrong."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from forewarn.fleet.model import AppliedFile, Host, Scope, ScopeKind, Tenant, Vm
from forewarn.fleet.validators import (
    ADDRESSES_MAX,
    CAPACITY_MAX,
    DOMAIN_MAX,
    LABELS_MAX,
    MEMORY_MAX,
    NAME_LENGTH_MAX,
    OS_IMAGE_NOTICE_MAX,
    OS_IMAGE_NOTICE_MIN,
    PORT_MAX,
    TAGS_MAX,
    TERMINATE_NOTICE_MAX,
    TERMINATE_NOTICE_MIN,
    TEXT_LENGTH_MAX,
    VCPU_MAX,
    host_faults,
    is_loopback,
    name_fault,
    scope_faults,
    split_listener,
    vm_faults,
)

VM = Vm(
    name="web_0",
    wire_name="web_0",
    host="h1",
    scope="web",
    tenant="shop",
    view="web",
    vm_id="01234567-89ab-8cde-8f01-23456789abcd",
    addresses=("192.0.2.4",),
)
"""A VM of the usual kind, which is seen at a glance to be right."""

WEB = Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET)


def keys(faults: Iterator[tuple[str, str]]) -> list[str]:
    return [key for key, _ in faults]


def tags(count: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"k{number}", "") for number in range(count))


def addresses(count: int) -> tuple[str, ...]:
    return tuple(f"198.51.100.{number}" for number in range(count))


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("wire_name", "n" * NAME_LENGTH_MAX, "n" * (NAME_LENGTH_MAX + 1)),
        ("wire_name", "né", "n é"),
        ("fault_domain", 0, -1),
        ("fault_domain", DOMAIN_MAX, DOMAIN_MAX + 1),
        ("update_domain", 0, -1),
        ("update_domain", DOMAIN_MAX, DOMAIN_MAX + 1),
        ("vcpu", None, 0),
        ("vcpu", 1, -1),
        ("vcpu", VCPU_MAX, VCPU_MAX + 1),
        ("memory", None, 0),
        ("memory", 1, -1),
        ("memory", MEMORY_MAX, MEMORY_MAX + 1),
        ("size", "s" * TEXT_LENGTH_MAX, "s" * (TEXT_LENGTH_MAX + 1)),
        ("size", "tall", "tall\n"),
        ("resource_group", "rg", "\x00"),
        ("subscription", "", "\u200b"),
        ("location", "north", "no\trth"),
        ("vm_id", "0" * 8 + "-0000-0000-0000-" + "0" * 12, "0" * 36),
        ("tags", tags(TAGS_MAX), tags(TAGS_MAX + 1)),
        (
            "tags",
            (("k" * TEXT_LENGTH_MAX, "t" * TEXT_LENGTH_MAX),),
            (("k", "t" * (TEXT_LENGTH_MAX + 1)),),
        ),
        ("addresses", addresses(ADDRESSES_MAX), addresses(ADDRESSES_MAX + 1)),
        ("addresses", (), ("192.0.2.256",)),
        ("addresses", ("223.255.255.255",), ("224.0.0.1",)),
        ("addresses", ("192.0.2.4", "2001:db8::1"), ("192.0.2.4", "no address")),
        ("listen", f"127.0.0.1:{PORT_MAX}", f"127.0.0.1:{PORT_MAX + 1}"),
    ],
)
def test_single_fault_of_a_vm_is_reported(key: str, good: Any, bad: Any) -> None:
    as_written = {"vm_id": "id", "addresses": "address"}.get(key, key)
    # One with tags is looked at closely, whatever else it has.
    for usual in (VM, replace(VM, tags=(("role", "web"),))):
        assert keys(vm_faults(replace(usual, **{key: good}))) == []
        assert keys(vm_faults(replace(usual, **{key: bad}))) == [as_written]


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("terminate_notice", TERMINATE_NOTICE_MIN, TERMINATE_NOTICE_MAX),
        ("os_image_notice", OS_IMAGE_NOTICE_MIN, OS_IMAGE_NOTICE_MAX),
    ],
)
def test_notice_outside_its_bounds_is_refused(key: str, least: int, most: int) -> None:
    for notice in (None, least, most):
        assert keys(scope_faults(replace(WEB, **{key: notice}))) == []
    for notice in (least - 1, most + 1):
        assert keys(scope_faults(replace(WEB, **{key: notice}))) == [key]


@pytest.mark.parametrize(
    ("key", "most"),
    [("capacity", CAPACITY_MAX), ("vcpu", VCPU_MAX), ("memory", MEMORY_MAX)],
)
def test_limits_of_a_host_are_numbers_from_zero(key: str, most: int) -> None:
    host = Host(name="h1")
    for limit in (None, 0, most):
        assert keys(host_faults(replace(host, **{key: limit}))) == []
    for limit in (-1, most + 1):
        assert keys(host_faults(replace(host, **{key: limit}))) == [key]


@pytest.mark.parametrize("key", ["zone", "cluster", "rack", "pool"])
def test_places_of_a_host_are_names_or_empty(key: str) -> None:
    for place in ("", "r-7", "Zürich_2"):
        assert keys(host_faults(replace(Host(name="h1"), **{key: place}))) == []
    for place in ("r 7", "a/b", "-r"):
        assert keys(host_faults(replace(Host(name="h1"), **{key: place}))) == [key]


@pytest.mark.parametrize(
    ("labels", "is_valid"),
    [
        ((("model", "r7525"), ("os.kernel", "6.12 (new)")), True),
        (tags(LABELS_MAX), True),
        (tags(LABELS_MAX + 1), False),
        ((("", "r7525"),), False),
        ((("a=b", "c"),), False),
        ((("a b", "c"),), False),
        ((("model", "r\n"),), False),
        ((("model", "r" * (TEXT_LENGTH_MAX + 1)),), False),
    ],
)
def test_labels_of_a_host_can_be_typed_as_selectors(
    labels: tuple[tuple[str, str], ...], is_valid: bool
) -> None:
    faulty_keys = keys(host_faults(Host(name="h1", labels=labels)))
    assert faulty_keys == ([] if is_valid else ["labels"])


@pytest.mark.parametrize("name", ["web_0", ".a", "a(b)", "Zürich-2", "ж" * 128])
def test_name_in_any_language_is_valid(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize("name", ["", ".", "...", "-a", "(a", "a/b", "ж" * 129])
def test_name_that_commands_would_misread_is_invalid(name: str) -> None:
    assert name_fault(name) != ""


@pytest.mark.parametrize(
    ("listen", "split"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8301", ("::1", 8301)),
        ("Node-1.Example:80", ("node-1.example", 80)),
        ("8301", None),
        (":8301", None),
        ("::1:8301", None),
        ("[::1:8301", None),
        ("::1]:8301", None),
        ("[127.0.0.1]:8301", None),
        ("127.0.0.1:100000", None),
        ("127.0.0.1:-1", None),
    ],
)
def test_a_listener_is_a_host_and_a_port(
    listen: str, split: tuple[str, int] | None
) -> None:
    assert split_listener(listen) == split


@pytest.mark.parametrize(
    ("host", "is_near"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("127.evil.example", False),
        ("localhost.evil.example", False),
        ("128.0.0.1", False),
        ("::2", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_loopback_host_is_matched_by_its_full_name(host: str, is_near: bool) -> None:
    assert is_loopback(host) is is_near


def test_records_of_a_fleet_are_found_by_their_names() -> None:
    file = AppliedFile(name="fleet", digest="1")
    for record in (file, Tenant(name="shop"), Host(name="h1"), VM):
        assert record.key == record.name
