"""The stream has campaigns, for operators only, and each change of one."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
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
    made = client.post("/v1/campaigns", json={**file, "digest": plan.json()["digest"]})
    assert made.is_success, made.text
    return made.json()


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
    made = started(client)

    async def story(streams: Streams) -> None:
        watcher = streams.watch("campaigns")
        (present,) = await watcher.until("ready")
        assert (present["campaign"], present["state"]) == (made["campaign"], "Running")
        pause(gateway)
        name, told = await watcher.next()
        assert (name, told["state"]) == ("campaigns", "Paused")
        abort(gateway)
        while not told["ended"]:
            name, told = await watcher.next()
        assert (told["campaign"], told["state"]) == (made["campaign"], "Aborted")
        again = streams.watch("campaigns")
        assert await again.until("ready") == []

    run(gateway, story)


def test_a_tenant_gets_no_stream_of_campaigns() -> None:
    shared = Shared()
    token = shared.token("shop")
    answer = shared.ask(token, "GET", "/v1/watch?topics=campaigns")
    assert answer.status_code == 403


def test_a_campaign_is_explained_to_operators(
    client: TestClient, gateway: LocalGateway
) -> None:
    made = started(client)
    told = client.get("/v1/explain/bios").json()
    assert (told["kind"], told["id"]) == ("campaign", made["campaign"])
    assert "campaign bios" in json.dumps(client.get("/v1/explain/h1").json())


def ordered(client: TestClient) -> str:
    """Maintain two hosts; return the rollout."""
    made = client.post("/v1/maintain", json={"hosts": ["h1", "h2"], "impact": "reboot"})
    assert made.is_success, made.text
    return made.json()["rollout"]


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
        told = present
        while not told["ended"]:
            _, told = await watcher.next()
        assert (told["campaign"], told["state"]) == (name, "Aborted")

    run(gateway, story)
    assert listed() == []
    second = started(client)
    assert [each["campaign"] for each in listed(all=True)] == [
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
        listed += [each["campaign"] for each in page["campaigns"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert listed == begun[::-1]
    open_ones = client.get("/v1/campaigns", params={"newest": True}).json()
    assert [each["campaign"] for each in open_ones["campaigns"]] == begun[-1:]
    assert open_ones["total"] == 1
