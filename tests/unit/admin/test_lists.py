"""Lists, pages, histories and explanations."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits, selection, shapes
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_description import check


@pytest.fixture
def busy(client: TestClient) -> TestClient:
    """A service with a rollout over two hosts, and a failure that has ended."""
    client.post("/v1/fail", json={"names": ["web_0"]})
    client.post("/v1/restore", json={"names": ["web_0"]})
    for host in ("h1", "h2"):
        client.post("/v1/maintain", json={"hosts": [host], "impact": "freeze"})
    return client


def names(client: TestClient, **params: Any) -> list[tuple[str, str]]:
    answer = client.get("/v1/operations", params=params)
    assert answer.status_code == 200, answer.text
    return sorted(
        (operation["kind"], operation["target"])
        for operation in answer.json()["operations"]
    )


H1, H2, FAILED = ("maintain", "h1"), ("maintain", "h2"), ("fail", "web_0")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [H1, H2]),
        ({"vm": "web_0"}, [H1]),
        ({"vm": "web_0", "all": True}, [FAILED, H1]),  # though the failure let go of it
        ({"host": "h2"}, [H2]),
        ({"host": "h1", "all": True}, [FAILED, H1]),
        ({"scope": "web"}, [H1, H2]),
        ({"scope": "web", "host": "h1"}, [H1]),
        ({"scope": "web", "all": True}, [FAILED, H1, H2]),
        ({"tenant": "shop", "all": True}, [FAILED, H1, H2]),
        ({"tenant": "bank", "all": True}, [H1, H2]),
        ({"state": "announced"}, [H1, H2]),
        ({"state": "Done"}, [FAILED]),
        ({"vm": "web_0", "state": "Done"}, [FAILED]),
        ({"vm": "web_0", "all": True, "limit": 1}, [FAILED]),
        ({"state": "Recovering"}, []),
    ],
)
def test_operations_are_filtered(
    busy: TestClient, gateway: LocalGateway, params: dict[str, Any], expected: object
) -> None:
    if "state" not in params:
        gateway.advance("10m")
    assert names(busy, **params) == expected


def test_events_are_filtered(busy: TestClient, gateway: LocalGateway) -> None:
    def events(**params: Any) -> list[tuple[str, ...]]:
        rows = busy.get("/v1/events", params=params).json()["events"]
        return sorted((event["scope"], *event["vms"]) for event in rows)

    gateway.advance("10m")
    assert events(host="h1") == [("db", "db_0"), ("web", "web_0")]
    assert events(scope="web") == [("web", "web_0"), ("web", "web_1")]
    assert events(tenant="bank", host="h1") == [("db", "db_0")]
    assert events(vm="web_1") == [("web", "web_1")]
    assert events(state="started") == []
    assert events(state="removed") == [("web", "web_0")]
    assert events(scope="web", host="h1", all=True) == [("web", "web_0")] * 2


@pytest.mark.parametrize("what", ["operations", "events"])
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_pages_contain_every_item_once(busy: TestClient, what: str, limit: int) -> None:
    key = "operation" if what == "operations" else "EventId"
    keys: list[str] = []
    after = ""
    while True:
        page = busy.get(f"/v1/{what}", params={"limit": limit, "after": after}).json()
        keys += [item[key] for item in page[what]]
        if page["next"] is None:
            break
        after = page["next"]
    whole = busy.get(f"/v1/{what}").json()[what]
    assert sorted(keys) == sorted(item[key] for item in whole)


def test_number_of_rows_scanned_for_a_page_is_limited(
    busy: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.admin.selection.PAGE_ROWS", 1)
    monkeypatch.setattr(limits, "SCAN_ROWS_MAX", 1)
    page = busy.get("/v1/operations", params={"host": "h1", "scope": "web"}).json()
    assert page["next"]


def test_unknown_name_is_an_error_and_not_an_empty_list(client: TestClient) -> None:
    for params in ({"vm": "web_9"}, {"host": "x"}, {"scope": "x"}, {"tenant": "x"}):
        for path in ("operations", "events"):
            answer = client.get(f"/v1/{path}", params=params)
            assert answer.status_code == 404
            assert "there is no" in answer.json()["error"]
    assert client.get("/v1/operations", params={"vm": "web_0"}).status_code == 200


@pytest.mark.parametrize(
    "params", [{"state": "Sleeping"}, {"limit": 0}, {"limit": 1001}, {"vn": "web_0"}]
)
def test_invalid_filter_is_reported(client: TestClient, params: dict[str, Any]) -> None:
    answer = client.get("/v1/operations", params=params)
    assert answer.status_code == 400
    assert next(iter(params)) in answer.json()["error"]


def test_operation_request_and_explanation_are_returned_by_id(busy: TestClient) -> None:
    first, _ = busy.get("/v1/operations").json()["operations"]
    assert busy.get(f"/v1/operations/{first['operation']}").json() == first
    request = busy.get(f"/v1/requests/{first['request']}").json()
    assert first in request["operations"]
    explained = busy.get(f"/v1/explain/{first['operation']}").json()
    assert explained["blocked_by"] == first["blocked_by"]
    assert explained["blocked_by"]
    for path in ("operations/op-x", "explain/op-x", "requests/ro-x"):
        answer = busy.get(f"/v1/{path}")
        assert answer.status_code == 404
        assert answer.json()["kind"] == "not-found"


def test_history_is_filtered(busy: TestClient, gateway: LocalGateway) -> None:
    def what(**params: Any) -> list[str]:
        answer = busy.get("/v1/history", params=params)
        assert answer.status_code == 200, answer.text
        return [entry["what"] for entry in answer.json()["entries"]]

    (operation, *_) = busy.get("/v1/operations").json()["operations"]
    assert what(host="h1", vm="web_1") == []
    assert "maintain ordered" in what(operation=operation["rollout"])
    assert "operation announced" in what(operation=operation["operation"])
    event = operation["events"][0]["EventId"]
    assert what(event=event.lower()) == ["event scheduled"]
    assert "event started" in what(vm="web_0", scope="web", tenant="shop")
    gateway.advance("30s")
    busy.post("/v1/cancel", json={"names": [operation["rollout"]], "reason": "why not"})
    late = what(since="10s")
    assert "operation cancelled" in late
    assert "maintain ordered" not in late
    assert what(since="2030-01-01T00:00:30Z") == late
    assert what(since="1h")[0] == what()[0]


def test_history_is_paginated(busy: TestClient) -> None:
    page = busy.get("/v1/history", params={"limit": 2}).json()
    assert len(page["entries"]) == 2
    following = busy.get("/v1/history", params={"after": page["next"], "limit": 1})
    assert following.json()["entries"][0]["id"] > page["entries"][-1]["id"]


@pytest.mark.parametrize("since", ["yesterday", "2030-01-01T00:00:00", "1x"])
def test_invalid_since_is_reported(client: TestClient, since: str) -> None:
    answer = client.get("/v1/history", params={"since": since})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("since: ")


def ordered(client: TestClient, *hosts: str) -> str:
    """Maintain hosts; return the rollout."""
    body = {"hosts": hosts, "impact": "freeze", "reason": "firmware"}
    return client.post("/v1/maintain", json=body).json()["rollout"]


def test_rollout_counts_its_operations_by_state(
    client: TestClient,
) -> None:
    rollout = ordered(client, "h1", "h2")
    (listed,) = client.get("/v1/rollouts").json()["rollouts"]
    check(listed, shapes.RolloutShape)
    assert listed == client.get(f"/v1/rollouts/{rollout}").json()
    assert listed["rollout"] == rollout
    assert (listed["state"], listed["reason"]) == ("Open", "firmware")
    assert (listed["states"], listed["at_once"]) == ({"Planned": 1, "Announced": 1}, 1)
    assert client.get("/v1/rollouts/ro-none").status_code == 404
    for params, found in (
        ({"host": "h1"}, 1),
        ({"host": "same"}, 0),
        ({"vm": "web_0", "tenant": "shop"}, 1),
        ({"scope": "web", "tag": "role=web"}, 0),
    ):
        answer = client.get("/v1/rollouts", params=params)
        assert len(answer.json()["rollouts"]) == found, params
    answer = client.get("/v1/rollouts", params={"rollout": rollout})
    assert answer.status_code == 400


def test_ended_rollout_is_listed_only_with_all(
    client: TestClient,
) -> None:
    first, second = ordered(client, "h1"), ordered(client, "h2")
    client.post("/v1/cancel", json={"names": [first]})
    client.post("/v1/reboot", json={"vms": ["same"]})

    def names(**params: Any) -> list[str]:
        page = client.get("/v1/rollouts", params=params).json()
        return [rollout["rollout"] for rollout in page["rollouts"]]

    assert names() == [second]
    assert names(all=True) == [first, second]
    page = client.get("/v1/rollouts", params={"all": True, "limit": 1}).json()
    assert names(all=True, limit=1) == [first]
    assert names(all=True, after=page["next"]) == [second]


def test_a_page_of_large_rollouts_ends_early(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ordered(client, "h1", "h2"), ordered(client, "same")
    monkeypatch.setattr(limits, "SCAN_ROWS_MAX", 2)
    monkeypatch.setattr(selection, "PAGE_ROWS", 1)
    page = client.get("/v1/rollouts").json()
    assert [rollout["rollout"] for rollout in page["rollouts"]] == [first]
    page = client.get("/v1/rollouts", params={"after": page["next"]}).json()
    assert [rollout["rollout"] for rollout in page["rollouts"]] == [second]


def test_lists_are_narrowed_to_a_rollout(client: TestClient) -> None:
    first, second = ordered(client, "h1", "same"), ordered(client, "h2")
    assert names(client, rollout=first) == [H1, ("maintain", "same")]
    assert names(client, rollout=second, state="Announced") == [H2]
    client.post("/v1/cancel", json={"names": [second]})
    assert names(client, rollout=second) == []
    assert names(client, rollout=second, all=True) == [H2]
    events = client.get("/v1/events", params={"rollout": first}).json()["events"]
    assert {event["scope"] for event in events} == {"web", "db"}
    body = client.get("/v1/history/operations", params={"rollout": second}).json()
    assert [operation["target"] for operation in body["operations"]] == ["h2"]
    for path in ("operations", "events"):
        answer = client.get(f"/v1/{path}", params={"rollout": "ro-none"})
        assert answer.status_code == 404


def test_vms_of_a_planned_host_operation_are_counted(
    client: TestClient,
) -> None:
    ordered(client, "h1", "h2")
    operations = client.get("/v1/operations").json()["operations"]
    counted = {
        (operation["target"], operation["state"], operation["vm_count"])
        for operation in operations
    }
    assert counted == {("h1", "Announced", 2), ("h2", "Planned", 3)}


def test_reasons_of_an_operation_are_values_as_in_its_explanation(
    busy: TestClient,
) -> None:
    """No program has to read the sentences."""
    for operation in busy.get("/v1/operations").json()["operations"]:
        explained = busy.get(f"/v1/explain/{operation['operation']}").json()
        assert operation["blockers"] == explained["blockers"]
        assert operation["blocked_by"] == [
            blocker["text"] for blocker in operation["blockers"]
        ]
        missing = [e for e in operation["blockers"] if e["kind"] == "approval"]
        events = {event["scope"]: event["EventId"] for event in operation["events"]}
        assert {approval["scope"]: approval["event"] for approval in missing} == events
