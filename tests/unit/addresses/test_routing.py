"""Tests of the calls of `ip`."""

import pytest

from forewarn.addresses.file import read_plan
from forewarn.addresses.routing import (
    Route,
    Routing,
    Rule,
    changes,
    read_routing,
    wanted,
)

BY_SOURCE = read_plan(
    """
[[port]]
vm = "web_0"
interface = "tap-web0"
address = "192.0.2.4"
[[port]]
vm = "db_0"
interface = "tap100i0"
bridge = "vmbr0"
address = ["192.0.2.5", "192.0.2.6"]
""",
    name="x",
)

BY_LISTENER = read_plan(
    """
way = "listener"
table = 200
[[port]]
vm = "web_0"
interface = "tap-web0"
listen = "169.254.169.254:8301"
[[port]]
vm = "web_1"
interface = "tap-web1"
listen = "169.254.169.254:8302"
""",
    name="x",
)


def said(routing: Routing, present: Routing | None = None) -> list[str]:
    return [" ".join(words) for words in changes(present or Routing(), routing)]


def test_routing_by_source_address_uses_one_table() -> None:
    assert said(wanted(BY_SOURCE)) == [
        "route replace local 169.254.169.254 dev lo table local proto 169",
        "route replace 192.0.2.4 dev tap-web0 table 16925 proto 169",
        "route replace 192.0.2.5 dev vmbr0 table 16925 proto 169",
        "route replace 192.0.2.6 dev vmbr0 table 16925 proto 169",
        "rule add pref 16925 from 169.254.169.254 lookup 16925 protocol 169",
    ]


def test_routing_by_listener_uses_one_table_per_guest_and_a_return_table() -> None:
    assert said(wanted(BY_LISTENER)) == [
        "route replace local 169.254.169.254 dev lo table local proto 169",
        "route replace default dev tap-web0 table 200 proto 169",
        "route replace default dev tap-web1 table 201 proto 169",
        (
            "route replace default table 202 proto 169 nexthop dev tap-web0 "
            "nexthop dev tap-web1"
        ),
        (
            "rule add pref 200 from 169.254.169.254 ipproto tcp sport 8301 lookup 200 "
            "protocol 169"
        ),
        (
            "rule add pref 201 from 169.254.169.254 ipproto tcp sport 8302 lookup 201 "
            "protocol 169"
        ),
        "rule add pref 202 from 169.254.169.254 lookup 202 protocol 169",
    ]


@pytest.mark.parametrize("plan", [BY_SOURCE, BY_LISTENER])
def test_missing_device_gets_no_route(plan: object) -> None:
    assert plan in {BY_SOURCE, BY_LISTENER}
    for each_plan in (BY_SOURCE, BY_LISTENER):
        routes = wanted(each_plan, devices={"tap-web1", "vmbr0"}).routes
        assert {device for route in routes for device in route.devices} <= {
            "lo",
            "tap-web1",
            "vmbr0",
        }


def test_existing_routes_are_not_added_again() -> None:
    assert not said(wanted(BY_LISTENER), wanted(BY_LISTENER))


def test_routes_of_an_earlier_plan_are_removed_first() -> None:
    assert said(wanted(BY_SOURCE, devices=["vmbr0"]), wanted(BY_SOURCE)) == [
        "route del 192.0.2.4 dev tap-web0 table 16925 proto 169"
    ]
    undone = said(Routing(), wanted(BY_LISTENER))
    assert [line.split()[:2] for line in undone] == [["rule", "del"]] * 3 + [
        ["route", "del"]
    ] * 4


def test_kernel_state_identifies_routes_of_forewarn() -> None:
    present = read_routing(
        [
            {"type": "local", "dst": "169.254.169.254", "dev": "lo", "table": "local"},
            {"dst": "192.0.2.4", "dev": "t0", "table": "16925", "flags": []},
            {
                "dst": "default",
                "table": "202",
                "nexthops": [{"dev": "t0", "weight": 1}, {"dev": "t1", "weight": 1}],
            },
            {"dst": "192.0.2.9", "dev": "t0"},
        ],
        [
            {"priority": 0, "src": "all", "table": "local"},
            {"priority": 7, "src": "all", "table": "7", "protocol": "static"},
            {"priority": 9, "src": "x", "table": "9", "sport": 8301, "protocol": "169"},
        ],
    )
    assert present == Routing(
        routes=(
            Route("local", "169.254.169.254", ("lo",), "local"),
            Route("16925", "192.0.2.4", ("t0",)),
            Route("202", "default", ("t0", "t1")),
            Route("main", "192.0.2.9", ("t0",)),
        ),
        rules=(Rule(9, "9", 8301),),
    )
