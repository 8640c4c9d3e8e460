"""The stream has campaigns, for operators only, and each change of one."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.selection import Wanted
from forewarn.control.requests import campaigns
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.streams import Streams, run
from tests.unit.admin.tenants import Shared

ALL = """\
[campaign]
name = "bios"
reason = "CVE-2026-1234"
impact = "reboot"
select = { all = true }
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for changes without operations more often than once a second."""
    monkeypatch.setattr(limits, "RECHECK_SECONDS", 0.02)


def started(client: TestClient) -> dict[str, Any]:
    """Plan and start a campaign of all hosts."""
    file = {"name": "bios.toml", "text": ALL}
    plan = client.post("/v1/campaigns/plan", json=file)
    assert plan.is_success, plan.text
    response = client.post(
        "/v1/campaigns", json={**file, "digest": plan.json()["digest"]}
    )
    assert response.is_success, response.text
    return response.json()


def pause(gateway: LocalGateway) -> None:
    gateway.plane.order(
        Who(actor=operator("bob"), reason="a look"),
        lambda work: campaigns.pause(work, "bios"),
        now=gateway.now(),
    )


def abort(gateway: LocalGateway) -> None:
    gateway.plane.order(
        Who(actor=operator("bob"), reason="no more"),
        lambda work: campaigns.abort(work, "bios"),
        now=gateway.now(),
    )


def test_a_viewer_gets_open_campaigns_and_their_changes(
    client: TestClient, gateway: LocalGateway
) -> None:
    campaign = started(client)

    async def story(streams: Streams) -> None:
        watcher = streams.watch("campaigns")
        (present,) = await watcher.until("ready")
        assert (present["campaign"], present["state"]) == (
            campaign["campaign"],
            "Running",
        )
        pause(gateway)
        name, told = await watcher.next()
        assert (name, told["state"]) == ("campaigns", "Paused")
        abort(gateway)
        while not told["ended"]:
            name, told = await watcher.next()
        assert (told["campaign"], told["state"]) == (campaign["campaign"], "Aborted")
        again = streams.watch("campaigns")
        assert await again.until("ready") == []

    run(gateway, story)


def test_a_viewer_gets_each_host_of_a_campaign_that_changes(
    client: TestClient, gateway: LocalGateway
) -> None:
    """The last row of each host is that of the list; hosts that wait are in it only."""

    def listed() -> dict[str, dict[str, Any]]:
        page = client.get("/v1/campaigns/bios/hosts").json()
        return {host["host"]: host for host in page["hosts"]}

    async def story(streams: Streams) -> None:
        watcher = streams.watch("campaign-hosts")
        assert await watcher.until("ready") == []
        campaign = started(client)
        rows: dict[str, dict[str, Any]] = {}

        async def follow() -> dict[str, dict[str, Any]]:
            """Return the rows of the list after the stream has told of their states."""
            present = listed()
            begun = {name for name, row in present.items() if row["state"] != "planned"}
            while {name: rows.get(name, {}).get("state") for name in begun} != {
                name: present[name]["state"] for name in begun
            }:
                name, row = await watcher.next()
                assert (name, row["campaign"]) == (
                    "campaign-hosts",
                    campaign["campaign"],
                )
                rows[row["host"]] = row
            assert rows.keys() == begun
            return present

        gateway.advance("1m")
        first = await follow()
        assert {host["state"] for host in first.values()} > {"planned"}
        gateway.advance("2h")
        ended = await follow()
        assert ended != first
        for name, row in rows.items():
            assert row == {"campaign": campaign["campaign"], **ended[name]}

    run(gateway, story)


def test_rows_of_hosts_are_selected_as_other_objects(
    client: TestClient, gateway: LocalGateway
) -> None:
    campaign = started(client)

    async def story(streams: Streams) -> None:
        wanted = Wanted(host="h2", rollout=campaign["rollout"])
        watcher = streams.watch("campaign-hosts", wanted=wanted)
        assert await watcher.until("ready") == []
        gateway.advance("2h")
        _, row = await watcher.next()
        assert row["host"] == "h2"

    run(gateway, story)


@pytest.mark.parametrize("topic", ["campaigns", "campaign-hosts"])
def test_a_tenant_gets_no_stream_of_campaigns(topic: str) -> None:
    shared = Shared()
    token = shared.token("shop")
    answer = shared.ask(token, "GET", f"/v1/watch?topics={topic}")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "selector", ["host=h1", "tenant=shop", "scope=web", "vm=web_0"]
)
def test_campaigns_of_a_host_or_scope_are_refused(
    client: TestClient, selector: str
) -> None:
    answer = client.get(f"/v1/watch?topics=hosts,campaigns&{selector}")
    assert answer.status_code == 400
    assert "selected by rollout only" in answer.json()["error"]


def test_a_campaign_is_explained_to_operators(
    client: TestClient, gateway: LocalGateway
) -> None:
    campaign = started(client)
    body = client.get("/v1/explain/bios").json()
    assert (body["kind"], body["id"]) == ("campaign", campaign["campaign"])
    assert "campaign bios" in json.dumps(client.get("/v1/explain/h1").json())


def ordered(client: TestClient) -> str:
    """Maintain two hosts; return the rollout."""
    response = client.post(
        "/v1/maintain", json={"hosts": ["h1", "h2"], "impact": "reboot"}
    )
    assert response.is_success, response.text
    return response.json()["rollout"]


def test_a_rollout_of_several_hosts_is_listed_and_followed_as_a_campaign(
    client: TestClient, gateway: LocalGateway
) -> None:
    name = ordered(client)

    def listed(**params: Any) -> list[dict[str, Any]]:
        page = client.get("/v1/campaigns", params={"limit": 1, **params}).json()
        if page["next"] is not None:
            page["campaigns"] += listed(**{**params, "after": page["next"]})
        return page["campaigns"]

    (found,) = listed()
    assert (found["campaign"], found["name"], found["rollout"]) == (name, name, name)
    assert (found["state"], found["hosts"]) == ("Running", 2)

    async def story(streams: Streams) -> None:
        watcher = streams.watch("campaigns")
        (present,) = await watcher.until("ready")
        assert present["campaign"] == name
        client.post("/v1/cancel", json={"names": [name], "reason": "not today"})
        body = present
        while not body["ended"]:
            _, body = await watcher.next()
        assert (body["campaign"], body["state"]) == (name, "Aborted")

    run(gateway, story)
    assert listed() == []
    second = started(client)
    assert [campaign["campaign"] for campaign in listed(all=True)] == [
        second["campaign"],
        name,
    ]


def test_newest_campaigns_of_both_sorts_come_first_with_their_number(
    client: TestClient, gateway: LocalGateway
) -> None:
    """Campaigns and the rollouts that imply one are in the order of their starts."""
    begun: list[str] = []
    for turn in range(3):
        gateway.advance("1m")
        begun.append(ordered(client))
        client.post("/v1/cancel", json={"names": [begun[-1]], "reason": "not today"})
        gateway.advance("1m")
        begun.append(started(client)["campaign"])
        if turn < 2:
            abort(gateway)
    listed: list[str] = []
    after = ""
    while True:
        query = {"all": True, "newest": True, "limit": 2, "after": after}
        page = client.get("/v1/campaigns", params=query).json()
        assert page["total"] == len(begun)
        assert page["campaigns"], "the page before said that it has a next one"
        listed += [campaign["campaign"] for campaign in page["campaigns"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert listed == begun[::-1]
    open_ones = client.get("/v1/campaigns", params={"newest": True}).json()
    assert [campaign["campaign"] for campaign in open_ones["campaigns"]] == begun[-1:]
    assert open_ones["total"] == 1
