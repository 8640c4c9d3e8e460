"""The routes about the hosts of a campaign over time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import campaign_timeline, limits, timeline_shapes
from forewarn.admin.shared_reads import SharedReads
from tests.unit.admin.browsers import BEARER, Service
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.tenants import Shared
from tests.unit.admin.test_campaign_watch import started
from tests.unit.admin.test_description import check

ROUTES = ("tree", "outlook", "hosts", "hosts/h1")


def get(client: TestClient, what: str, **query: str | int) -> dict[str, Any]:
    answer = client.get(f"/v1/campaigns/bios/{what}", params=query)
    assert answer.is_success, answer.text
    return answer.json()


def test_answers_have_the_described_members(
    client: TestClient, gateway: LocalGateway
) -> None:
    started(client)
    gateway.advance("2h")
    tree = get(client, "tree")
    check(tree, timeline_shapes.CampaignTreeShape)
    check(tree["clusters"][0], timeline_shapes.TreeClusterShape)
    check(tree["racks"][0], timeline_shapes.TreeRackShape)
    outlook = get(client, "outlook")
    check(outlook, timeline_shapes.CampaignOutlookShape)
    check(outlook["eta"], timeline_shapes.EtaShape)
    check(outlook["stages"][0], timeline_shapes.OutlookStageShape)
    check(outlook["budgets"][0], timeline_shapes.BudgetUseShape)
    page = get(client, "hosts")
    check(page, timeline_shapes.CampaignRowPage)
    for host in page["hosts"]:
        check(host, timeline_shapes.CampaignRowShape)
        for segment in host["segments"]:
            check(segment, timeline_shapes.SegmentShape)
    one = get(client, "hosts/h1")
    check(one, timeline_shapes.CampaignHostShape)
    check(one["vm_list"][0], timeline_shapes.HostVmShape)
    check(one["verbs"][0], timeline_shapes.HostVerbShape)


def test_pages_and_states_select_hosts(
    client: TestClient, gateway: LocalGateway
) -> None:
    started(client)
    gateway.advance("1m")
    first = get(client, "hosts", limit=1)
    assert [host["host"] for host in first["hosts"]] == ["h1"]
    rest = get(client, "hosts", after=first["next"])
    assert [host["host"] for host in rest["hosts"]] == ["h2", "same"]
    flying = get(client, "hosts", state="announced,ready,impacting,recovering")
    hosts = get(client, "hosts")["hosts"]
    assert flying["hosts"] == [host for host in hosts if host["state"] != "planned"]
    assert flying["hosts"] != hosts
    assert get(client, "hosts", rack="r1")["hosts"] == []


@pytest.mark.parametrize(
    ("what", "query", "says"),
    [
        ("hosts", {"state": "happy"}, "must be some of planned"),
        ("hosts", {"since": "soon"}, "since"),
        ("tree", {"since": "1h", "until": "2h"}, "until must be later than since"),
    ],
)
def test_bad_queries_are_refused(
    client: TestClient, what: str, query: dict[str, str], says: str
) -> None:
    started(client)
    answer = client.get(f"/v1/campaigns/bios/{what}", params=query)
    assert answer.status_code == 400
    assert says in answer.text


def test_unknown_campaign_and_host_are_not_found(client: TestClient) -> None:
    assert client.get("/v1/campaigns/bios/tree").status_code == 404
    started(client)
    answer = client.get("/v1/campaigns/bios/hosts/h9")
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "campaign bios has no host 'h9'",
    )


@pytest.mark.parametrize("what", ROUTES)
def test_tenant_gets_none_of_it(what: str) -> None:
    shared = Shared()
    shared.live()
    answer = shared.ask(shared.token(), "GET", f"/v1/campaigns/bios/{what}")
    assert answer.status_code == 403


class SharedWithAnEnd(SharedReads):
    """Answers of which each is read after `end`, as if its first caller had lost its
    right meanwhile."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self.end = end

    async def get(
        self,
        key: Hashable,
        read: Callable[[], Awaitable[Any]],
        *,
        max_age: float = 0.0,
    ) -> Any:
        self.end()
        return await super().get(key, read, max_age=max_age)


@pytest.mark.parametrize(
    "path", ["/v1/fleet/overview", "/v1/capacity", "/v1/campaigns/bios/tree"]
)
def test_answer_that_others_wait_for_does_not_depend_on_the_token_of_one(
    path: str,
) -> None:
    service = Service()
    service.client.headers.update(BEARER)
    started(service.client)
    token = service.token("")
    bearer = {"Authorization": f"Bearer {token['token']}"}
    service.app.state.shared_reads = SharedWithAnEnd(lambda: service.revoke(token))
    assert service.client.get(path, headers=bearer).status_code == 200
    assert service.client.get(path, headers=bearer).status_code == 401


def test_slow_answer_is_shared_for_a_while_and_an_error_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[str] = []

    async def story() -> None:
        shared, gate = SharedReads(), asyncio.Event()

        async def read() -> str:
            await gate.wait()
            reads.append("read")
            return "found"

        both = asyncio.gather(shared.get("a", read), shared.get("a", read))
        await asyncio.sleep(0)
        gate.set()
        assert await both == ["found", "found"]
        assert len(reads) == 1
        # It took no time, so it is read again.
        await shared.get("a", read)
        assert len(reads) == 2
        monkeypatch.setattr(limits, "SHARED_FROM_SECONDS", 0)
        monkeypatch.setattr(limits, "SHARED_PAUSE", 1e9)
        await shared.get("a", read)
        await shared.get("a", read)
        assert len(reads) == 3
        await shared.get("b", read)
        assert len(reads) == 4

        async def fail() -> str:
            raise ValueError("no")

        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await shared.get("c", fail)

    asyncio.run(story())


def test_caller_who_says_which_age_is_recent_enough_gets_what_another_has_read(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that does not say so reads what it has changed itself."""
    started(client)
    paths = ["tree", "hosts", "outlook"]
    recent = {"Cache-Control": "no-transform, max-age=600"}

    def states() -> list[Any]:
        return [
            client.get(f"/v1/campaigns/bios/{path}", headers=recent).json()
            for path in paths
        ]

    monkeypatch.setattr(limits, "SHARED_SECONDS_MAX", 600.0)
    before = states()
    gateway.advance("30m")
    assert states() == before
    for path in paths:
        get(client, path)
    after = states()
    assert all(new != old for new, old in zip(after, before, strict=True))
    recent["Cache-Control"] = "max-age=0"
    gateway.advance("30m")
    assert all(new != old for new, old in zip(states(), after, strict=True))


def test_shared_answer_is_never_older_than_its_limit_and_few_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SHARED_FROM_SECONDS", 0)
    monkeypatch.setattr(limits, "SHARED_PAUSE", 1e9)
    monkeypatch.setattr(limits, "SHARED_ANSWERS_MAX", 2)
    reads: list[str] = []

    async def story() -> None:
        shared = SharedReads()

        async def ask(key: str) -> None:
            async def read() -> None:
                reads.append(key)

            await shared.get(key, read)

        for key in "aabbcca":
            await ask(key)
        assert reads == ["a", "b", "c", "a"]
        monkeypatch.setattr(limits, "SHARED_SECONDS_MAX", -1.0)
        for key in "dd":
            await ask(key)
        assert reads[4:] == ["d", "d"]

    asyncio.run(story())


def test_large_campaign_has_its_clusters_from_memory_and_a_cluster_with_racks(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(client)
    small = get(client, "tree")
    monkeypatch.setattr(campaign_timeline, "LANES_HOSTS_MAX", 2)
    for _ in range(3):
        large = get(client, "tree")
        check(large, timeline_shapes.CampaignTreeShape)
        assert (large["racks"], large["racks_left_out"]) == ([], len(small["racks"]))
        assert large["hosts"] == sum(large["counts"].values()) == 3
        gateway.advance("30m")
    assert get(client, "tree")["counts"] != small["counts"]
    assert get(client, "tree", cluster="")["racks"][0]["hosts"] == 3
