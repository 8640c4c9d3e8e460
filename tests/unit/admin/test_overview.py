"""The fleet at a glance, and the search by the beginning of names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from forewarn.admin.overview import (
    FleetOverviewShape,
    FoundShape,
    OverviewClusterShape,
    SearchShape,
)
from forewarn.reporting import fleet_overview, reports
from forewarn.reporting.searching import search as search_in
from forewarn.store.port import Transaction
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import start
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.tenants import Shared
from tests.unit.admin.test_campaign_watch import started
from tests.unit.admin.test_description import check
from tests.unit.control.test_campaign_tree import TWO_AT_ONCE, placed, world_of


@pytest.fixture
def small(served: tuple[FastAPI, TestClient]) -> tuple[LocalGateway, TestClient]:
    """Return a fleet of eight hosts in four racks of two clusters."""
    app, client = served
    app.state.gateway = gateway = LocalGateway(placed(8))
    return gateway, client


def overview(client: TestClient) -> dict[str, Any]:
    body = client.get("/v1/fleet/overview").json()
    check(body, FleetOverviewShape)
    for cluster in body["clusters"]:
        check(cluster, OverviewClusterShape)
        assert cluster["hosts"] == sum(cluster["counts"].values())
        assert cluster["hosts"] == sum(rack[2] for rack in cluster["racks"])
    total = sum(cluster["hosts"] for cluster in body["clusters"])
    assert total == body["hosts"] == sum(body["counts"].values())
    return body


def states(found: dict[str, Any]) -> dict[str, str]:
    squares = (square for cluster in found["clusters"] for square in cluster["squares"])
    return {host: state for _, host, state in squares}


def test_each_host_has_its_worst_state(
    small: tuple[LocalGateway, TestClient],
) -> None:
    gateway, client = small
    assert set(states(overview(client)).values()) == {"up"}
    client.post("/v1/fail", json={"names": ["h0000"]})
    client.post("/v1/host-cordon", json={"hosts": ["h0002"]})
    client.post("/v1/maintain", json={"hosts": ["h0003"], "impact": "reboot"})
    body = overview(client)
    shown = states(body)
    assert [shown[f"h000{number}"] for number in range(5)] == [
        *("down", "up", "cordoned", "announced", "up"),
    ]
    assert body["counts"] == {"down": 1, "announced": 1, "cordoned": 1, "up": 5}
    assert body["clusters"][0]["racks"] == [
        ["r0", "down", 2, 0],
        ["r1", "announced", 2, 0],
    ]
    assert body["vms"] == 8
    assert client.get("/v1/events").json()["events"]
    while states(overview(client))["h0003"] == "announced":
        gateway.advance("1m")
    assert states(overview(client))["h0003"] == "working"


def test_vm_that_moves_counts_once(small: tuple[LocalGateway, TestClient]) -> None:
    gateway, client = small
    client.post("/v1/maintain", json={"hosts": ["h0003"], "impact": "live-migrate"})
    moving = set[int]()
    for _ in range(90):
        assert overview(client)["vms"] == 8
        hosts = client.get("/v1/fleet?after=hosts:").json()["hosts"]
        moving.add(sum(len(host["keeps_places_for"]) for host in hosts))
        gateway.advance("10s")
    assert moving == {1}


def test_hosts_that_an_open_campaign_has_done_are_counted(
    small: tuple[LocalGateway, TestClient],
) -> None:
    gateway, client = small
    started(client)
    while not overview(client)["clusters"][0]["done"]:
        gateway.advance("5m")
    first, *_ = overview(client)["clusters"][0]["racks"]
    assert first[3] >= 1


def test_large_fleet_has_racks_without_hosts(
    small: tuple[LocalGateway, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = small
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 8)
    assert len(states(overview(client))) == 8
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 7)
    body = overview(client)
    assert states(body) == {}
    assert [len(cluster["racks"]) for cluster in body["clusters"]] == [2, 2]


def test_snapshot_of_the_file_gives_the_same(tmp_path: Path) -> None:
    """The operator API reads single fields of a snapshot."""
    file = tmp_path / "wall.db"
    world = world_of(store=SqliteStore(file))
    start(world, TWO_AT_ONCE)
    world.advance("25m")
    snapshot = snapshots_of(file)
    found, expected = (
        read(lambda reader: fleet_overview.fleet_overview(reader, now=world.now))
        for read in (snapshot.read, world.read)
    )
    snapshot.close()
    assert found == expected


def search(client: TestClient, q: str, **more: int) -> dict[str, Any]:
    answer = client.get("/v1/search", params={"q": q, **more})
    assert answer.is_success, answer.text
    check(answer.json(), SearchShape)
    for match in answer.json()["found"]:
        check(match, FoundShape)
    return answer.json()


def named(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["kind"], item["name"]) for item in found["found"]]


def test_search_finds_each_kind_by_its_beginning(client: TestClient) -> None:
    response = client.post("/v1/reboot", json={"vms": ["db_0"]})
    campaign = started(client)["campaign"]
    [operation] = response.json()["operations"]
    [event, *_] = operation["events"]
    assert named(search(client, "web")) == [
        ("vm", "web_0"),
        ("vm", "web_1"),
        ("scope", "web"),
    ]
    # A host and a VM have this name; names in another case are others.
    assert named(search(client, "same")) == [("host", "same"), ("vm", "same")]
    assert named(search(client, "WEB")) == []
    assert named(search(client, "bank")) == [("tenant", "bank")]
    assert named(search(client, "bio")) == [("campaign", campaign)]
    name = operation["operation"]
    assert named(search(client, name)) == [("operation", name)]
    short = event["EventId"][:12].lower()
    assert named(search(client, short)) == [("event", event["EventId"])]


def test_search_says_if_there_are_more(client: TestClient) -> None:
    both = search(client, "web_", limit=2)
    assert (len(both["found"]), both["more"]) == (2, False)
    one = search(client, "web_", limit=1)
    assert (named(one), one["more"]) == ([("vm", "web_0")], True)
    assert client.get("/v1/search").status_code == 400


def test_search_finds_the_newest_of_many_campaigns(tmp_path: Path) -> None:
    file = tmp_path / "search.db"
    world = world_of(store=SqliteStore(file))
    campaign = start(world, TWO_AT_ONCE)
    many = 1_100

    def add_ended(tx: Transaction) -> None:
        for number in range(many):
            name = "old" if number else "first"
            key = f"{campaign.campaign_id}-{number:04}"
            tx.add(
                replace(campaign, campaign_id=key, name=name, ended=world.now, due_at=0)
            )

    world.store.transact(add_ended)
    snapshot = snapshots_of(file)
    for read in (snapshot.read, world.read):
        found, more = read(lambda reader: search_in(reader, "old", limit=2))
        names = [row["name"] for row in found]
        assert names == [f"{campaign.campaign_id}-{many - number}" for number in (1, 2)]
        assert more
        [one], more = read(lambda reader: search_in(reader, "first", limit=2))
        assert (one["name"], more) == (f"{campaign.campaign_id}-0000", False)
        [is_open, *_], _ = read(
            lambda reader: search_in(reader, campaign.campaign_id, limit=2)
        )
        assert is_open["name"] == campaign.campaign_id
    snapshot.close()


@pytest.mark.parametrize("path", ["fleet/overview", "search?q=web"])
def test_tenant_gets_neither(path: str) -> None:
    shared = Shared()
    answer = shared.ask(shared.token(), "GET", f"/v1/{path}")
    assert answer.status_code == 403
