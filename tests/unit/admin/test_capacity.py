"""The capacity of zones and pools, and what the next hosts need."""

from dataclasses import replace

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from forewarn.settings.amounts import Amount
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_attention import get, post

FLEET = """\
[[tenant]]
name = "shop"

[[host]]
name = "a1"
zone = "a"
capacity = 2

[[host]]
name = "a2"
zone = "a"
capacity = 3

[[host]]
name = "b1"
zone = "b"

[[vm]]
name = "v1"
host = "a1"
tenant = "shop"

[[vm]]
name = "v2"
host = "a1"
tenant = "shop"
"""


def test_capacity_reports_slots_and_needs_of_the_next_host(
    served: tuple[FastAPI, TestClient],
) -> None:
    app, client = served
    app.state.gateway = LocalGateway(FLEET)
    a, b = get(client, "capacity")["zones"]
    assert (a["zone"], a["hosts"], a["places"], a["used"], a["free"]) == (
        "a",
        2,
        5,
        2,
        3,
    )
    assert (b["zone"], b["unlimited"], b["places"], b["free"]) == ("b", 1, 0, 0)
    post(client, "maintain", hosts=["b1", "a1"], impact="live-migrate", at_once=1)
    (need,) = get(client, "capacity")["next_hosts"]
    assert (need["host"], need["zone"]) == ("a1", "a")
    assert (need["vms"], need["needs"], need["fits"]) == (2, 2, True)
    for host in ("a2", "b1"):
        post(client, "fail", names=[host])
    (need,) = get(client, "capacity")["next_hosts"]
    assert need["fits"] is False
    assert get(client, "capacity", zone="a")["next_hosts"] == [need]
    assert get(client, "capacity", zone="b")["next_hosts"] == []
    assert get(client, "capacity", host="a2")["next_hosts"] == []
    assert {blocker["kind"] for blocker in need["blockers"]} == {"no capacity"}
    assert [zone["zone"] for zone in get(client, "capacity", zone="b")["zones"]] == [
        "b"
    ]


def test_capacity_reports_the_reserve_of_pools_whose_hosts_have_a_limit(
    served: tuple[FastAPI, TestClient],
) -> None:
    app, client = served
    app.state.gateway = gateway = LocalGateway(FLEET)
    # Host b1 has no limit, so nothing of its pool can be counted.
    assert get(client, "capacity")["pools"] == []
    app.state.gateway = gateway = LocalGateway(
        FLEET.replace('zone = "b"', 'zone = "b"\ncapacity = 4')
    )
    gateway.plane.policy = replace(
        gateway.plane.policy, reserve=Amount(value=25, is_percent=True)
    )
    assert get(client, "capacity")["pools"] == [
        {"pool": "", "resource": "capacity", "total": 9, "free": 7, "reserve": 2}
    ]
    gateway.plane.policy = replace(gateway.plane.policy, reserve=Amount(value=2))
    post(client, "maintain", hosts=["a2"], impact="freeze", at_once=1)
    [pool] = get(client, "capacity", zone="a")["pools"]
    assert (pool["free"], pool["reserve"]) == (4, 8)


@pytest.mark.parametrize(
    ("selector", "hosts"),
    [
        ({}, {"a": 2, "b": 1}),
        ({"zone": "a"}, {"a": 2}),
        ({"rack": "r1"}, {"a": 1, "b": 1}),
        ({"rack": "r1", "zone": "b"}, {"b": 1}),
        ({"label": "model=new"}, {"b": 1}),
        ({"host": "a2"}, {"a": 1}),
        ({"host": "a2", "zone": "b"}, {}),
        ({"vm": "v1"}, {"a": 1}),
        ({"tenant": "shop"}, {"a": 1}),
        ({"tenant": "shop", "rack": "r1"}, {"a": 1}),
        ({"tag": "role=web"}, {"a": 1}),
    ],
)
def test_capacity_takes_the_selectors_of_the_other_lists(
    served: tuple[FastAPI, TestClient],
    selector: dict[str, str],
    hosts: dict[str, int],
) -> None:
    app, client = served
    places = (
        ('zone = "a"\ncapacity = 2', 'zone = "a"\nrack = "r1"\ncapacity = 2'),
        ('zone = "b"', 'zone = "b"\nrack = "r1"\nlabels = { model = "new" }'),
        ('name = "v1"', 'name = "v1"\ntags = { role = "web" }'),
    )
    text = FLEET
    for before, after in places:
        text = text.replace(before, after)
    app.state.gateway = LocalGateway(text)
    zones = client.get("/v1/capacity", params=selector).json()["zones"]
    assert {zone["zone"]: zone["hosts"] for zone in zones} == hosts


def test_capacity_counts_cordoned_hosts(served: tuple[FastAPI, TestClient]) -> None:
    app, client = served
    app.state.gateway = LocalGateway(FLEET)
    post(client, "host-cordon", hosts=["a2"], reason="bad DIMM")
    a, b = get(client, "capacity")["zones"]
    assert (a["cordoned"], a["free"], b["cordoned"]) == (1, 0, 0)


def test_capacity_counts_free_places_and_needs_by_cluster(
    served: tuple[FastAPI, TestClient],
) -> None:
    app, client = served
    text = FLEET.replace('name = "a1"\n', 'name = "a1"\ncluster = "c1"\n')
    text = text.replace('name = "b1"\n', 'name = "b1"\ncluster = "c2"\n')
    app.state.gateway = LocalGateway(text)
    post(client, "maintain", hosts=["a1"], impact="live-migrate", at_once=1)
    answer = get(client, "capacity")
    assert [
        (cluster["cluster"], cluster["hosts"], cluster["places"], cluster["free"])
        for cluster in answer["clusters"]
    ] == [("c1", 1, 2, 0), ("c2", 1, 0, 0)]
    assert [
        cluster["cluster"] for cluster in get(client, "capacity", zone="b")["clusters"]
    ] == ["c2"]
    assert [host["cluster"] for host in answer["next_hosts"]] in ([], ["c1"])
