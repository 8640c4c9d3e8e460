"""Problems, missing approvals and explanations."""

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import attention_shapes
from forewarn.control.gateway import Health
from forewarn.control.rules.sightings import Seen, Withheld
from forewarn.drivers.port import Sighting
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.tenants import Shared

SHAPES = {
    "problems": attention_shapes.ProblemPage,
    "waits": attention_shapes.WaitPage,
    "capacity": attention_shapes.CapacityPage,
}


def get(client: TestClient, path: str, status: int = 200, **params: Any) -> Any:
    answer = client.get(f"/v1/{path}", params=params)
    assert answer.status_code == status, answer.text
    if path in SHAPES and status == 200:
        SHAPES[path].model_validate(answer.json(), strict=True)
    return answer.json()


def post(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


def told(client: TestClient, **params: Any) -> list[tuple[str, str]]:
    problems = get(client, "problems", **params)["problems"]
    return [(problem["kind"], problem["text"]) for problem in problems]


def test_idle_service_has_no_problems(client: TestClient) -> None:
    page = get(client, "problems")
    assert page["problems"] == []
    assert set(page["counts"].values()) == {0}
    assert get(client, "waits")["waits"] == []


def test_the_worst_problem_comes_first(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_1")
    gateway.advance("20m")
    post(client, "maintain", hosts=["h2"], impact="freeze")
    gateway.advance("12m")
    post(client, "fail", names=["web_0"])
    gateway.state = Health(
        alive=True,
        ready=True,
        problems=("no listener for vm web_1",),
        seen=Seen(withheld=Withheld(vms=40, since=gateway.now())),
    )
    assert told(client) == [
        ("not-ready", "no listener for vm web_1"),
        (
            "vms-stopped",
            (
                "40 VMs stopped at once, which looks like a fault of the network or the "
                "driver: none of them is failed"
            ),
        ),
        ("vm-down", "VM web_0 is down"),
        (
            "approval-late",
            "shop has not approved maintain (freeze) of host h2, which starts in 3 m",
        ),
    ]
    # Late in the last quarter of its notice of 15 minutes.
    late = get(client, "problems", kind="approval-late")["problems"][0]
    assert late["since"] == "2030-01-01T00:31:15Z"
    page = get(client, "problems", limit=1)
    assert page["counts"]["vm-down"] == page["counts"]["approval-late"] == 1
    rest = get(client, "problems", limit=5, after=page["next"])
    assert [problem["kind"] for problem in rest["problems"]] == [
        "vms-stopped",
        "vm-down",
        "approval-late",
    ]
    assert rest["next"] is None


def test_mass_of_stopped_vms_on_one_host_names_it(
    gateway: LocalGateway, client: TestClient
) -> None:
    gateway.state = Health(
        alive=True,
        ready=True,
        seen=Seen(withheld=Withheld(vms=40, since=gateway.now(), host="h1")),
    )
    [problem] = get(client, "problems", kind="vms-stopped")["problems"]
    assert problem["hosts"] == ["h1"]
    assert problem["text"].startswith("40 VMs of host h1 stopped at once: none of them")


def test_a_failed_host_is_one_problem_with_its_vms(client: TestClient) -> None:
    post(client, "fail", names=["h1"])
    (problem,) = get(client, "problems")["problems"]
    assert problem["text"] == "host h1 is down, and VMs db_0, web_0 with it"
    assert problem["vms"] == ["db_0", "web_0"]
    assert problem["tenants"] == ["bank", "shop"]
    assert (problem["target"], problem["hosts"]) == ("h1", ["h1"])
    assert problem["actions"] == ["restore", "redeploy"]
    assert told(client, vm="db_0", host="h1", tenant="bank", kind="vm-down")
    assert told(client, vm="web_1") == []
    assert "there is no VM" in get(client, "problems", 404, vm="nope")["error"]


def test_failure_has_the_reason_of_its_request(client: TestClient) -> None:
    post(client, "fail", names=["web_0"], reason="kernel panic")
    (problem,) = get(client, "problems")["problems"]
    assert problem["cause"] == "kernel panic"


def test_work_that_the_brake_holds_waits_for_the_brake_only(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "maintain", hosts=["h2"], impact="reboot")
    gateway.advance("10m")
    post(client, "brake", on=True, reason="a fire")
    gateway.advance("10m")
    brake, held = get(client, "problems")["problems"]
    assert (brake["kind"], held["kind"]) == ("brake", "held")
    assert held["actions"] == ["brake off", "cancel"]


def test_problem_of_the_service_keeps_its_id_when_another_ends(
    client: TestClient, gateway: LocalGateway
) -> None:
    first, second = "no listener for VM web_0", "no listener for VM web_1"
    well = Health(alive=True, ready=True)
    gateway.state = replace(well, problems=(first, second))
    ids = {
        problem["text"]: problem["problem"]
        for problem in get(client, "problems")["problems"]
    }
    gateway.state = replace(well, problems=(second,))
    [left] = get(client, "problems")["problems"]
    assert left["problem"] == ids[second] != ids[first]


def test_held_operation_reports_its_start_and_remedies(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "maintain", hosts=["h2"], impact="reboot")
    gateway.advance("10m")
    post(client, "fail", names=["web_0"])
    gateway.advance("10m")
    down, held = get(client, "problems")["problems"]
    assert (down["kind"], held["kind"]) == ("vm-down", "held")
    assert held["since"] == "2030-01-01T00:15:00Z"
    assert "because vm web_0 failed" in held["text"]
    # The VM that is down has a problem and commands of its own.
    assert down["actions"] == ["restore", "redeploy"]
    assert held["actions"] == ["explain", "cancel"]
    post(client, "restore", names=["web_0"])
    gateway.advance("1s")
    assert told(client) == []


def test_unknown_outcome_of_a_silent_driver_is_a_problem(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.driver.is_silent = gateway.driver.forgets = True
    response = post(client, "reboot", vms=["web_0"])
    gateway.advance("31m")
    (problem,) = get(client, "problems")["problems"]
    assert problem["kind"] == "outcome-unknown"
    assert problem["operation"] == response["operations"][0]["operation"]
    assert problem["actions"] == ["resolve"]
    assert problem["sighted"] == []
    sightings = [
        Sighting(vm=vm, running=False, host="h1", at=gateway.now(), text="no answer")
        for vm in ("web_0", "web_1")
    ]
    gateway.state = Health(alive=True, ready=True, seen=Seen(early=tuple(sightings)))
    (problem,) = get(client, "problems")["problems"]
    assert problem["sighted"] == [
        {
            "vm": "web_0",
            "running": False,
            "host": "h1",
            "at": "2030-01-01T00:31:00Z",
            "text": "no answer",
        }
    ]


def test_answers_have_tags_and_unchanged_ones_return_304(
    client: TestClient,
) -> None:
    for path in ("problems", "waits", "capacity", "operations", "fleet"):
        first = client.get(f"/v1/{path}")
        tag = first.headers["ETag"]
        for known in (tag, f'"other", W/{tag}'):
            again = client.get(f"/v1/{path}", headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["ETag"] == tag
    post(client, "fail", names=["web_0"])
    changed = client.get("/v1/problems", headers={"If-None-Match": tag})
    assert changed.status_code == 200


def test_longest_wait_for_an_approval_comes_first(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("db_0")
    gateway.advance("20m")
    post(client, "maintain", hosts=["h1"], impact="freeze")
    post(client, "reboot", vms=["same"], not_before="+30m")
    gateway.advance("1m")
    post(client, "maintain", hosts=["h2"], impact="freeze")
    page = get(client, "waits")
    bank, shop = page["waits"]
    assert (bank["tenant"], bank["events"], bank["vms"]) == ("bank", 4, 3)
    assert bank["since"] == "2030-01-01T00:20:00Z"
    assert bank["not_before"] == "2030-01-01T00:35:00Z"
    assert (bank["scopes"], bank["scopes_enabled"], bank["enabled"]) == (2, 1, True)
    assert bank["last_poll"] == "2030-01-01T00:00:00Z"
    # Only its scope that enabled events has agents, which know them.
    assert bank["preparing"] == [
        {
            "scope": "db",
            "vms": ["db_0", "db_1"],
            "since": "2030-01-01T00:20:00Z",
            "last_poll": "2030-01-01T00:00:00Z",
        }
    ]
    assert shop["preparing"] == []
    assert (shop["tenant"], shop["enabled"], shop["last_poll"]) == ("shop", False, None)
    assert page["sums"] == {"tenants": 2, "events": 6, "vms": 5, "hosts": 2}
    assert page["complete"] is True
    assert [
        wait["tenant"] for wait in get(client, "waits", tenant="shop")["waits"]
    ] == ["shop"]
    first = get(client, "waits", limit=1)
    rest = get(client, "waits", limit=1, after=first["next"])
    assert [first["waits"], rest["waits"]] == [[bank], [shop]]
    assert rest["next"] is None


def test_waits_of_one_rollout(client: TestClient, gateway: LocalGateway) -> None:
    gateway.enable("db_0")
    ours = post(client, "maintain", hosts=["h1"], impact="freeze")
    other = post(client, "reboot", vms=["same"], not_before="+30m")
    (wait,) = get(client, "waits", rollout=other["request"])["waits"]
    assert (wait["tenant"], wait["vms"]) == ("bank", 1)
    page = get(client, "waits", rollout=ours["request"])
    everything = get(client, "waits")["sums"]["events"]
    assert page["sums"]["events"] == everything - 1
    assert page["complete"] is True
    error = get(client, "waits", 404, rollout="op-nope")["error"]
    assert "op-nope" in error


def test_waits_name_the_windows_that_hold_maintenance(client: TestClient) -> None:
    assert get(client, "waits")["held"] == []
    post(client, "window-set", scopes=["web"], windows=["10:00 4h"])
    response = post(client, "maintain", hosts=["h1", "h2"], impact="reboot")
    (held,) = get(client, "waits")["held"]
    assert (held["scope"], held["until"]) == ("web", "2030-01-01T10:00:00Z")
    assert get(client, "waits", tenant="shop", scope="web")["held"] == [held]
    assert get(client, "waits", tenant="bank")["held"] == []
    # A window is of no host, and of no single rollout.
    assert get(client, "waits", host="h1")["held"] == []
    assert get(client, "waits", rollout=response["rollout"])["held"] == []
    assert get(client, "waits", after="x")["held"] == []


def test_forgotten_cordon_is_a_problem_after_a_day(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "host-cordon", hosts=["h1"], reason="bad DIMM")
    gateway.advance("23h")
    assert told(client) == []
    gateway.advance("1h")
    (problem,) = get(client, "problems", host="h1")["problems"]
    assert problem["text"] == (
        "host h1 takes no new VM: it has been cordoned by operator since "
        "2030-01-01T00:00:00Z (bad DIMM)"
    )
    assert (problem["since"], problem["target"]) == ("2030-01-01T00:00:00Z", "h1")
    post(client, "host-open", hosts=["h1"])
    assert told(client) == []


def test_unknown_names_in_waits_and_capacity_are_refused(client: TestClient) -> None:
    assert get(client, "waits", tenant="shop")["waits"] == []
    error = get(client, "waits", 404, tenant="nope")["error"]
    assert error == "there is no tenant 'nope'"
    error = get(client, "capacity", 404, zone="nope")["error"]
    assert error == "there is no zone 'nope'"


def test_actionable_blockers_come_first(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    gateway.advance("20m")
    response = post(client, "maintain", hosts=["h1"], impact="freeze")
    (operation,) = response["operations"]
    explained = get(client, f"explain/{operation['operation']}")
    first, second, third = explained["blockers"]
    assert (first["kind"], first["remedy"], first["tenant"]) == (
        "approval",
        "tenant",
        "shop",
    )
    (event,) = (event for event in operation["events"] if event["tenant"] == "shop")
    assert (first["event"], first["scope"]) == (event["EventId"], "web")
    assert first["until"] == operation["not_before"]
    assert (second["tenant"], second["remedy"]) == ("bank", "tenant")
    assert (third["kind"], third["until"]) == ("not before", operation["not_before"])
    assert explained["blocked_by"] == [
        blocker["text"] for blocker in explained["blockers"]
    ]
    assert (
        get(client, "operations")["operations"][0]["blocked_by"]
        == (explained["blocked_by"])
    )


def test_every_named_object_is_explained(
    client: TestClient, gateway: LocalGateway
) -> None:
    response = post(client, "maintain", hosts=["h1", "h2"], impact="reboot", at_once=1)
    first, second = response["operations"]
    rollout = get(client, f"explain/{response['rollout']}")
    assert (rollout["kind"], rollout["counts"]) == (
        "rollout",
        {"Announced": 1, "Planned": 1},
    )
    assert rollout["status"].startswith("0 of 2 operations have ended")
    # The second one waits only for its turn, which the rollout says.
    assert [operation["operation"] for operation in rollout["operations"]] == [
        first["operation"]
    ]
    assert rollout["more_operations"] == 1
    planned = get(client, f"explain/{second['operation']}")
    assert [blocker["kind"] for blocker in planned["blockers"]] == ["turn"]
    assert len(rollout["blocked_by"]) == len(set(rollout["blocked_by"])) > 2
    event = first["events"][0]["EventId"]
    by_event = get(client, f"explain/{event.lower()}")
    assert (by_event["kind"], by_event["id"]) == ("event", event)
    assert "NotBefore is in 15 m" in by_event["status"]
    host = get(client, "explain/h1")
    assert host["status"] == "it is up, with 2 VMs; 1 open operation concerns it"
    vm = get(client, "explain/web_0")
    assert vm["operations"] == host["operations"] == by_event["operations"]
    assert vm["blocked_by"]
    gateway.advance("3h")
    assert get(client, f"explain/{event}")["state"] == "Removed"
    assert get(client, "explain/web_0")["status"] == (
        "it runs on host h1; no open operation concerns it"
    )


def test_operators_read_why_the_driver_cannot_reach_a_host() -> None:
    shared = Shared()
    trouble = "h1 cannot be reached: no route to host"
    shared.gateway.state = Health(
        alive=True, ready=True, unreachable={"hidden-h1": trouble}
    )
    for name in ("hidden-h1", "web_0"):
        assert trouble in get(shared.client, f"explain/{name}")["status"]
    assert trouble not in get(shared.client, "explain/hidden-h2")["status"]
    tenant = shared.ask(shared.token(), "GET", "/v1/explain/web_0")
    assert tenant.is_success
    assert trouble not in tenant.text
    shared.gateway.state = Health(alive=True, ready=True)
    assert trouble not in get(shared.client, "explain/hidden-h1")["status"]


def test_ambiguous_name_needs_a_kind(client: TestClient) -> None:
    refused = get(client, "explain/same", 409)
    assert "--kind host" in refused["hint"]
    for kind in ("host", "vm"):
        assert get(client, "explain/same", kind=kind)["kind"] == kind


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("web_9", 'Did you mean "web_1" or "web_0"'),
        ("hh1", 'Did you mean "h1"?'),
        ("zzzzzzzz", "`forewarn rollout list --all`"),
        ("we", 'Did you mean "web_0" or "web_1"'),
        ("op-nope", "`forewarn operations --all`"),
    ],
)
def test_unknown_name_is_reported_with_suggestions(
    client: TestClient, name: str, hint: str
) -> None:
    answer = get(client, f"explain/{name}", 404)
    assert answer["error"] == (
        f"there is no operation, rollout, event, campaign, host, VM or other object '{name}'"
    )
    assert hint in answer["hint"]


@pytest.mark.parametrize("noun", ["operation", "rollout"])
@pytest.mark.parametrize("place", [4, 10, -1])
def test_id_with_one_wrong_character_is_suggested(
    client: TestClient, noun: str, place: int
) -> None:
    response = post(client, "maintain", hosts=["h1", "h2"], impact="freeze")
    post(client, "cancel", names=[response["rollout"]])
    name = {"rollout": response["rollout"]} | response["operations"][0]
    letters = list(name[noun])
    letters[place] = "u"
    answer = get(client, f"explain/{''.join(letters)}", 404)
    assert f'"{name[noun]}"' in answer["hint"]


def test_unknown_rollout_is_named_as_such_everywhere(client: TestClient) -> None:
    for path, params in (
        ("rollouts/ro-nope", {}),
        ("operations", {"rollout": "ro-nope"}),
        ("history", {"operation": "ro-nope"}),
        ("history/operations", {"operation": "ro-nope"}),
    ):
        error = get(client, path, 404, **params)
        assert error["error"] == "there is no rollout 'ro-nope'", path
        assert "`forewarn rollout list --all`" in error["hint"]
    answer = client.post("/v1/cancel", json={"names": ["ro-nope"]})
    assert answer.json()["error"] == "there is no rollout 'ro-nope'"


def test_unknown_event_is_named_as_it_was_written(client: TestClient) -> None:
    assert "'nope'" in get(client, "history", 404, event="nope")["error"]
    answer = client.post("/v1/approve", json={"event_ids": ["nope"]})
    assert answer.json()["error"] == "there is no event 'nope'"


def test_tenant_sees_only_its_problems_and_waits_and_no_capacity() -> None:
    shared = Shared()
    shared.gateway.enable("web_0")
    shared.gateway.enable("hidden-db-0")
    shared.gateway.advance("20m")
    shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    shared.order("fail", names=["hidden-h2"], reason="DIMM of hidden-h2")
    shared.gateway.advance("12m")
    token = shared.token()
    page = shared.ask(token, "GET", "/v1/problems").json()
    assert [(problem["kind"], problem["text"]) for problem in page["problems"]] == [
        ("vm-down", "VM web_1 is down"),
        (
            "approval-late",
            "shop has not approved maintain (reboot) of host, which starts in 3 m",
        ),
    ]
    assert [problem["actions"] for problem in page["problems"]] == [
        ["redeploy"],
        ["approve"],
    ]
    assert "hidden" not in str(page)
    waits = shared.ask(token, "GET", "/v1/waits").json()
    assert [wait["tenant"] for wait in waits["waits"]] == ["shop"]
    assert waits["waits"][0]["hosts"] == 0
    assert shared.ask(token, "GET", "/v1/capacity").status_code == 403
    # After NotBefore the other domain's failure holds it, which the tenant may know.
    shared.gateway.advance("5m")
    held = shared.ask(token, "GET", "/v1/problems").json()["problems"][-1]
    assert (held["kind"], held["actions"]) == ("held", [])
    assert "another fault domain of scope web is down" in held["text"]
    assert shared.ask(token, "GET", "/v1/explain/hidden-h1").status_code == 404
    assert (
        shared.ask(token, "GET", "/v1/explain/hidden-db-0")
        .json()["hint"]
        .count("hidden")
        == 0
    )
