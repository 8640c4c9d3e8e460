"""The history over the API: filters, accounts of operations, and availability."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits, selection
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.admin.tenants import Shared


def post(client: TestClient, verb: str, **body: Any) -> Any:
    answer = client.post(f"/v1/{verb}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


def get(client: TestClient, path: str, **params: str) -> Any:
    answer = client.get(f"/v1/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, path: str, status: int, **params: str) -> str:
    answer = client.get(f"/v1/{path}", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def whats(client: TestClient, **params: str) -> list[str]:
    return [entry["what"] for entry in get(client, "history", **params)["entries"]]


def test_history_is_filtered_by_time_and_text(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.advance("1h")
    post(client, "fail", names=["web_0"])
    gateway.advance("1h")
    post(client, "restore", names=["web_0"])
    assert "vm runs again" in whats(client, vm="web_0", since="1m")
    assert "vm runs again" not in whats(client, vm="web_0", until="1m")
    assert whats(client, since="90m", until="30m", what="host") == []
    assert "event started" in whats(client, since="90m", until="30m")
    assert whats(client, what="event st") == ["event started"]
    assert whats(client, actor="nobody") == []
    assert "fleet applied" in whats(client, actor="test")
    assert "fleet applied" not in whats(client, actor="operator")


def test_entries_have_values_for_programs(client: TestClient) -> None:
    post(client, "fail", names=["web_0"])
    entries = {entry["kind"]: entry for entry in get(client, "history")["entries"]}
    members = ("about", "what", "what_shortly", "failure", "actor_kind")
    assert [[entries[kind][member] for member in members] for kind in _KINDS] == [
        ["operation", "operation impacting", "impacting", False, "operator"],
        ["order", "fail ordered", "fail ordered", False, "operator"],
        ["", "fleet applied", "fleet applied", False, "operator"],
    ]


_KINDS = ("operation-impacting", "fail-ordered", "fleet-applied")


def test_tenant_sees_no_kind_of_a_hidden_actor() -> None:
    shared = Shared()
    header = {"Authorization": f"Bearer {shared.token()}"}
    shared.order("fail", names=["web_0"])
    page = shared.client.get("/v1/history", headers=header).json()
    by = {(entry["actor"], entry["actor_kind"]) for entry in page["entries"]}
    assert by == {("platform", "platform")}


@pytest.mark.parametrize(
    ("since", "until"),
    [("1h", "2h"), ("1h", "1h"), ("2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z")],
)
@pytest.mark.parametrize("path", ["history", "history/operations", "availability"])
def test_period_that_ends_before_it_starts_is_rejected(
    client: TestClient, gateway: LocalGateway, path: str, since: str, until: str
) -> None:
    gateway.advance("3h")
    message = refused(client, path, 400, since=since, until=until)
    assert "until must be later than since" in message


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("history", {"vm": "nope"}),
        ("history", {"host": "nope"}),
        ("history", {"scope": "nope"}),
        ("history", {"tenant": "nope"}),
        ("history", {"operation": "op-nope"}),
        ("history", {"event": "nope"}),
        ("history/operations", {"vm": "nope"}),
        ("history/operations", {"operation": "op-nope"}),
        ("history/operations/op-nope", {}),
        ("availability", {"vm": "nope"}),
        ("availability", {"scope": "nope"}),
        ("availability", {"tenant": "nope"}),
        ("availability", {"vm": "web_0", "tenant": "nope"}),
    ],
)
def test_unknown_name_is_reported(
    client: TestClient, path: str, params: dict[str, str]
) -> None:
    assert "there is no" in refused(client, path, 404, **params)


def test_period_without_entries_returns_empty_lists(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.advance("1h")
    assert whats(client, vm="web_0", since="1m") == []
    assert get(client, "history/operations", vm="web_0")["operations"] == []


def test_search_for_operations_of_a_vm_is_bounded_and_continues(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that finds nothing within its bound says where the next one begins."""
    for _ in range(5):
        post(client, "fail", names=["web_0"])
        post(client, "restore", names=["web_0"])
        gateway.advance("1h")
    monkeypatch.setattr(selection, "PAGE_ROWS", 2)
    monkeypatch.setattr(limits, "SCAN_ROWS_MAX", 2)
    whole = get(client, "history/operations", vm="web_0", limit="1")
    assert len(whole["operations"]) == 1
    pages, found, after = 0, 0, ""
    while pages == 0 or after:
        page = get(client, "history/operations", vm="web_0", until="150m", after=after)
        found, after = found + len(page["operations"]), page["next"]
        pages += 1
    assert (pages, found) == (3, 3)


def test_removed_vm_is_still_found_in_the_history(
    client: TestClient, gateway: LocalGateway
) -> None:
    without = FLEET[: FLEET.index('[[vm]]\nname = "same"')]
    answer = client.post("/v1/fleet/apply", json={"text": without})
    assert answer.status_code == 200, answer.text
    assert "vm remove" in " ".join(whats(client, vm="same"))
    assert whats(client, vm="same", what="nothing of the kind") == []


def test_operation_record_shows_outcome_approvals_and_phases(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    gateway.enable("db_0")
    response = post(
        client, "maintain", hosts=["h1"], impact="freeze", reason="a ticket"
    )
    (operation,) = response["operations"]
    for event in operation["events"]:
        vm = event["resources"][0]
        post(client, "approve", event_ids=[event["EventId"]], as_vm=vm)
    gateway.advance("1h")
    answer = get(client, f"history/operations/{operation['operation']}")
    assert (answer["outcome"], answer["reason"]) == ("completed", "a ticket")
    assert {approval["approved_by"] for approval in answer["approvals"]} == {
        "web_0",
        "db_0",
    }
    phases = [phase["phase"] for phase in answer["phases"]]
    assert phases == [
        "scheduled",
        "approved",
        "approved",
        "ready",
        "started",
        "driver done",
        "impact over",
        "done",
    ]
    assert {vm["vm"]: vm["planned_seconds"] for vm in answer["vms"]} == {
        "web_0": 9,
        "db_0": 9,
    }
    assert all(vm["down_seconds"] == 0 for vm in answer["vms"])


def test_history_keeps_the_reason_why_an_operation_was_held(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "fail", names=["h2"])
    response = post(client, "maintain", hosts=["h1"], impact="reboot")
    (operation,) = response["operations"]
    gateway.advance("20m")
    post(client, "restore", names=["h2"])
    gateway.advance("1h")
    answer = get(client, f"history/operations/{operation['operation']}")
    held = [phase for phase in answer["phases"] if phase["phase"] == "held"]
    assert len(held) == 1, "said once, however often it was looked at"
    assert "fault domain 1 down because" in held[0]["detail"]
    assert answer["state"] == "Done"


def test_history_of_a_vm_includes_failures_that_ended(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "fail", names=["h2"])
    gateway.advance("90s")
    post(client, "restore", names=["h2"])
    (told,) = get(client, "history/operations", vm="web_1")["operations"]
    down_seconds = {vm["vm"]: vm["down_seconds"] for vm in told["vms"]}
    assert down_seconds["web_1"] == 90.0
    assert told["kind"] == "fail"


def test_history_of_a_host_and_of_a_rollout_has_the_approvals(
    client: TestClient,
) -> None:
    rollout = post(client, "maintain", hosts=["h1"], impact="reboot")["rollout"]
    post(client, "maintain", hosts=["h2"], impact="reboot")
    [event, *_] = get(client, "events", host="h1")["events"]
    post(client, "approve", event_ids=[event["EventId"]])
    for params in ({"host": "h1"}, {"operation": rollout}):
        assert whats(client, **params).count("event approved") == 1, params
    assert "event approved" not in whats(client, host="h2")


def test_operation_history_is_paginated(
    client: TestClient, gateway: LocalGateway
) -> None:
    for vm in ("web_0", "web_1", "db_1"):
        post(client, "fail", names=[vm])
        post(client, "restore", names=[vm])
    narrower: list[dict[str, str]] = [{}, {"vm": "web_0"}, {"tenant": "shop"}]
    for params in narrower:
        whole = get(client, "history/operations", **params)["operations"]
        operations: list[object] = []
        after = ""
        while True:
            page = get(client, "history/operations", limit="1", after=after, **params)
            operations += page["operations"]
            if page["next"] is None:
                break
            after = page["next"]
        assert operations == whole


def test_availability_reports_unplanned_downtime(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.advance("1h")
    post(client, "fail", names=["h1"])
    gateway.advance("1500ms")
    post(client, "fail", names=["web_1"])
    gateway.advance("2s")
    answer = get(client, "availability", scope="web", since="1h")
    assert [row["vm"] for row in answer["vms"]] == ["web_0", "web_1"]
    assert answer["several_domains_down_seconds"] == 2.0
    assert answer["total"]["unplanned_seconds"] == 5.5
    assert answer["total"]["down_now"] == 2
    (one,) = get(client, "availability", vm="web_0")["vms"]
    assert one["existed_seconds"] == 3603.5
    assert one["percent"] == 99.902872
    assert one["by_kind"] == {"failure": 3.5}
    later = get(client, "availability", vm="web_0", until="2099-01-01T00:00:00Z")
    assert later["until"] == "2030-01-01T01:00:03.500000Z"
    assert get(client, "availability", tenant="bank")["total"]["vms"] == 3


def test_availability_of_a_place_counts_the_vms_there_now(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.advance("1h")
    post(client, "fail", names=["h1"])
    gateway.advance("2s")
    answer = get(client, "availability", host="h1")
    assert [row["vm"] for row in answer["vms"]] == ["db_0", "web_0"]
    # The fault domains of a part of a scope say nothing of the scope.
    part = get(client, "availability", host="h1", scope="web")
    assert [row["vm"] for row in part["vms"]] == ["web_0"]
    assert part["several_domains_down_seconds"] is None
    post(client, "restore", names=["h1"])
    post(client, "evict", vms=["db_0"])
    gateway.advance("1h")
    now = get(client, "availability", host="h1")
    assert [row["vm"] for row in now["vms"]] == ["web_0"]
    assert get(client, "availability", vm="db_0")["total"]["vms"] == 1
    assert get(client, "availability", host="same")["vms"] == []


def test_tenant_cannot_select_by_the_hosts_of_its_vms() -> None:
    shared = Shared()
    shared.order("reboot", vms=["web_0"])
    token = shared.token()
    for path in ("availability", "waits"):
        assert shared.ask(token, "GET", f"/v1/{path}?host=hidden-h1").status_code == 404
        assert shared.ask(token, "GET", f"/v1/{path}?vm=web_0").status_code == 200
        assert shared.ask(token, "GET", f"/v1/{path}?vm=hidden-db-0").status_code == 404


def test_tenant_sees_waits_in_whole_seconds() -> None:
    shared = Shared()
    gateway = shared.gateway
    gateway.clock.advance_to(gateway.now() + 123_456)
    gateway.enable("web_0")
    shared.order("reboot", vms=["web_0"])
    token = shared.token()
    (wait,) = shared.ask(token, "GET", "/v1/waits").json()["waits"]
    assert "." not in wait["since"] + wait["last_poll"]
    assert "." in shared.client.get("/v1/waits").json()["waits"][0]["last_poll"]


def test_availability_shows_what_holds_maintenance_from_now_on(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.advance("1h")
    assert get(client, "availability", scope="web")["holds"] == []
    window = "23:00 2h UTC"
    post(client, "window-set", scopes=["web"], windows=[window])
    post(client, "window-set", scopes=["db"], windows=[window])
    time = "2099-12-24T18:00 2099-12-26T06:00 UTC"
    post(client, "blackout-set", name="year-end", time=time, reason="sales")
    post(client, "brake", on=True, reason="storm")
    brake, blackout, opening = get(client, "availability", scope="web")["holds"]
    assert (brake["kind"], brake["ends"]) == ("brake", None)
    assert brake["message"].startswith("the brake is on")
    assert blackout == {
        "kind": "blackout",
        "name": "year-end",
        "begins": "2099-12-24T18:00:00Z",
        "ends": "2099-12-26T06:00:00Z",
        "message": "blackout year-end forbids planned work from 2099-12-24T18:00:00Z "
        "until 2099-12-26T06:00:00Z",
    }
    assert (opening["kind"], opening["name"]) == ("window", "web")
    assert "T23:00:00Z until " in opening["message"]


def test_tenant_sees_its_windows_in_its_availability_and_no_other_hold() -> None:
    shared = Shared()
    shared.order("window-set", scopes=["web"], windows=["23:00 2h UTC"])
    shared.order("blackout-set", name="hidden-sales", time="00:00 1h UTC")
    shared.order("brake", on=True)
    body = shared.ask(shared.token(), "GET", "/v1/availability").json()
    assert {(hold["kind"], hold["name"]) for hold in body["holds"]} == {
        ("window", "web")
    }


def test_live_migration_that_is_announced_as_a_freeze_is_explained(
    client: TestClient,
) -> None:
    order = {"hosts": ["h1"], "impact": "live-migrate", "reason": "DIMM"}
    (operation,) = post(client, "maintain", **order)["operations"]
    event = get(client, "events", host="h1")["events"][0]
    assert event["EventType"] == "Freeze"
    sentence = "is announced as a Freeze, and is a live migration"
    of_work = get(client, f"explain/{operation['operation']}")
    assert sentence in of_work["status"]
    of_host = get(client, "explain/h1", kind="host")
    assert sentence in of_host["operations"][0]["status"]
    freeze = post(client, "maintain", hosts=["h2"], impact="freeze", reason="patch")
    shown = get(client, f"explain/{freeze['operations'][0]['operation']}")
    assert "live migration" not in shown["status"]
