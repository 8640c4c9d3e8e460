"""Requests: their results, their actors and their refusals."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin.host_shapes import HostShape, HostsShape
from forewarn.control.requests import failures
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.verbs.model import TARGETS_MAX
from tests.unit.admin.gateway import LocalGateway


def post(client: TestClient, path: str, status: int = 201, /, **body: Any) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_maintenance_of_two_hosts_is_one_rollout(client: TestClient) -> None:
    response = post(
        client,
        "maintain",
        hosts=["h1", "h2"],
        impact="freeze",
        duration="4.5s",
        not_before="+1h",
        description="new firmware",
        reason="ticket 12",
    )
    assert response["rollout"] == response["request"]
    assert response["actor"] == "operator"
    assert response["reason"] == "ticket 12"
    assert {operation["target"] for operation in response["operations"]} == {"h1", "h2"}
    assert {operation["not_before"] for operation in response["operations"]} == {
        "2030-01-01T01:00:00Z"
    }
    events = client.get("/v1/events", params={"host": "h1"}).json()["events"]
    assert {event["DurationInSeconds"] for event in events} == {5}
    assert {event["Description"] for event in events} == {"new firmware"}


def test_hosts_are_cordoned_and_opened_by_list_and_by_path(client: TestClient) -> None:
    response = post(client, "host-cordon", 200, hosts=["h1", "nope"], reason="bad DIMM")
    HostsShape.model_validate(response, strict=True)
    (host,) = response["hosts"]
    assert host.keys() == HostShape.model_fields.keys()
    cordon = {
        "by": "operator",
        "reason": "bad DIMM",
        "since": "2030-01-01T00:00:00Z",
    }
    assert (host["name"], host["cordons"]) == ("h1", [cordon])
    assert [target["name"] for target in response["refused"]] == ["nope"]

    assert post(client, "hosts/h2/cordon", 200)["cordons"] == [cordon | {"reason": ""}]
    hosts = client.get("/v1/fleet").json()["hosts"]
    assert [host["name"] for host in hosts if host["cordons"]] == ["h1", "h2"]
    assert post(client, "hosts/h2/open", 200, all_owners=True)["cordons"] == []
    again = post(client, "hosts/h2/open", 409)
    assert again["error"] == "host h2 is not cordoned"
    assert post(client, "hosts/nope/cordon", 404)["kind"] == "not-found"


@pytest.mark.parametrize("key", ["reason", "description"])
@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x9b", "\u202e"])
def test_control_characters_are_refused_with_their_position(
    client: TestClient, key: str, character: str
) -> None:
    text = f"new {character}[31m firmware"
    body = {"hosts": ["h1"], "impact": "freeze", key: text}
    refused = post(client, "maintain", 400, **body)
    [problem] = refused["problems"]
    assert problem["place"] == key
    assert f"character 5 is U+{ord(character):04X}" in problem["message"]
    assert client.get("/v1/operations").json()["operations"] == []


def test_answers_escape_terminal_control_characters(
    client: TestClient, gateway: LocalGateway
) -> None:
    # Stores of 0.1.0 have such texts.
    gateway.plane.order(
        Who(actor=operator("test"), reason="a \x9b31m b\u202e"),
        lambda work: failures.fail_vm(work, "web_0"),
        now=gateway.now(),
    )
    answer = client.get("/v1/history")
    texts = [
        str(value) for entry in answer.json()["entries"] for value in entry.values()
    ]
    assert any("a \x9b31m b\u202e" in text for text in texts)
    assert answer.text.isprintable()


@pytest.mark.parametrize(
    ("path", "vms", "kind"),
    [
        ("reboot", ["web_0"], "Reboot"),
        ("redeploy", ["web_0"], "Redeploy"),
        ("evict", ["db_0"], "Preempt"),
        ("terminate", ["db_1"], "Terminate"),
        ("upgrade-os", ["db_1"], "Reboot"),
        ("reimage", ["db_1"], "Reboot"),
    ],
)
def test_vm_requests_create_events_of_their_type(
    client: TestClient, gateway: LocalGateway, path: str, vms: list[str], kind: str
) -> None:
    for vm in ("web_0", "db_0"):
        gateway.enable(vm)
    response = post(client, path, vms=vms, reason="asked")
    assert response["kind"] == path
    (event,) = client.get("/v1/events").json()["events"]
    assert (event["EventType"], event["vms"]) == (kind, vms)


def test_emergency_maintenance_accepts_an_absolute_time(client: TestClient) -> None:
    response = post(
        client,
        "maintain",
        hosts=["h1"],
        impact="redeploy",
        emergency=True,
        not_before="2030-01-02T00:00:00+01:00",
    )
    assert response["operations"][0]["not_before"] == "2030-01-01T23:00:00Z"
    (event, *_) = client.get("/v1/events").json()["events"]
    assert "emergency" in event["Description"]


def test_failed_host_and_vm_are_restored(client: TestClient) -> None:
    response = post(client, "fail", names=["h1"], reason="smoke")
    assert response["operations"][0]["state"] == "Impacting"
    restored = post(client, "restore", 200, names=["h1"])
    up = {"kind": "host", "name": "h1", "state": "up"}
    assert restored == {"restored": [up], "refused": []}
    response = post(client, "fail", names=["web_1"])
    assert response["operations"][0]["target_kind"] == "vm"
    restored = post(client, "restore", 200, names=["web_1"])
    running = {"kind": "vm", "name": "web_1", "state": "running"}
    assert restored == {"restored": [running], "refused": []}


def test_name_shared_by_a_host_and_a_vm_requires_a_kind(client: TestClient) -> None:
    refused = post(client, "fail", 409, names=["same"])
    assert "a host and of a VM" in refused["error"]
    assert "--kind" in refused["hint"]
    response = post(client, "fail", names=["same"], kind="vm")
    assert response["operations"][0]["target_kind"] == "vm"
    missing = post(client, "fail", 404, names=["other"])
    assert missing["error"] == "there is no host or VM 'other'"


def test_predicted_failure_sets_not_before(client: TestClient) -> None:
    response = post(client, "predict-failure", 201, hosts=["h1"], **{"in": "3d"})
    assert {operation["not_before"] for operation in response["operations"]} == {
        "2030-01-04T00:00:00Z"
    }


@pytest.mark.parametrize(
    ("body", "not_before"),
    [({}, "2030-01-08T00:00:00Z"), ({"not_before": "+1d"}, "2030-01-02T00:00:00Z")],
)
def test_predicted_failure_has_a_default_and_an_explicit_time(
    client: TestClient, body: dict[str, str], not_before: str
) -> None:
    response = post(client, "predict-failure", 201, hosts=["h1"], **body)
    assert response["operations"][0]["not_before"] == not_before


def test_predicted_failure_with_two_times_is_refused(client: TestClient) -> None:
    body = {"hosts": ["h1"], "in": "3d", "not_before": "+3d"}
    refused = post(client, "predict-failure", 400, **body)
    assert refused["error"] == "give `in` or `not_before`, not both"


def test_operations_are_cancelled_by_operation_and_rollout(client: TestClient) -> None:
    response = post(client, "maintain", hosts=["h1", "h2"], impact="reboot")
    first = response["operations"][0]["operation"]
    cancelled = post(client, "cancel", 200, names=[first], reason="not now")
    assert [operation["state"] for operation in cancelled["cancelled"]] == ["Cancelled"]
    assert cancelled["cancelled"][0]["note"] == "cancelled by operator: not now"
    cancelled = post(client, "cancel", 200, names=[response["rollout"]])
    assert len(cancelled["cancelled"]) == 1
    refused = post(client, "cancel", 409, names=[first])
    assert refused["kind"] == "refused"
    assert post(client, "cancel", 404, names=["op-none"])["kind"] == "not-found"


def test_events_are_approved_by_the_operator(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    post(client, "reboot", vms=["web_0"])
    (event,) = client.get("/v1/events").json()["events"]
    refused = post(client, "approve", 409, event_ids=[event["EventId"]], as_vm="db_1")
    assert "db_1" in refused["error"]
    approved = post(client, "approve", 200, event_ids=[event["EventId"].lower()])
    assert approved["approved"][0]["approved_by"] == "(operator)"
    assert post(client, "approve", 404, event_ids=["none"])["kind"] == "not-found"


def test_operation_with_unknown_outcome_is_resolved(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.driver.is_silent = True
    gateway.driver.forgets = True
    response = post(client, "reboot", vms=["web_0"])
    operation = response["operations"][0]["operation"]
    refused = post(client, "resolve", 409, operation=operation, outcome="done")
    assert "not unknown" in refused["error"]
    gateway.advance("31m")
    explained = client.get(f"/v1/explain/{operation}").json()
    assert [blocker["kind"] for blocker in explained["blockers"]] == ["driver unknown"]
    resolved = post(client, "resolve", 200, operation=operation, outcome="done")
    assert resolved["state"] == "Recovering"


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("reboot", {}, "vms: is needed"),
        ("reboot", {"vms": []}, "vms: must have at least 1 item"),
        ("reboot", {"vms": ["a" * 257]}, "vms.0: must have at most 256 characters"),
        ("reboot", {"vms": ["a"], "why": "x"}, "why: this field does not exist here"),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "burn"},
            "impact: must be freeze, live-migrate, reboot, redeploy or none",
        ),
        ("reboot", {"vms": "web_0"}, "vms: must be a list"),
        ("reboot", {"vms": [7]}, "vms.0: must be a string"),
        ("cancel", {"names": [""]}, "names.0: must not be empty"),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "freeze", "emergency": "perhaps"},
            "emergency: must be true or false",
        ),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "freeze", "duration": 4.5},
            "duration: must be a whole number",
        ),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "freeze", "duration": "soon"},
            "duration: 'soon' is not a duration",
        ),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "freeze", "duration": True},
            "duration: true and false are not durations",
        ),
        (
            "maintain",
            {"hosts": ["h1"], "impact": "freeze", "duration": -2},
            "duration: must be at least -1",
        ),
        (
            "reboot",
            {"vms": ["web_0"], "not_before": "tomorrow"},
            "not_before: 'tomorrow' is not a time",
        ),
        (
            "reboot",
            {"vms": ["web_0"], "not_before": "+soon"},
            "not_before: 'soon' is not a duration",
        ),
        (
            "reboot",
            {"vms": ["web_0"], "not_before": "2099-01-01T00:00:00Z"},
            "not_before: '2099-01-01T00:00:00Z' is more than ten years ahead",
        ),
    ],
)
def test_malformed_request_names_the_invalid_field(
    client: TestClient, path: str, body: dict[str, Any], sentence: str
) -> None:
    refused = post(client, path, 400, **body)
    assert refused["error"].startswith(sentence)
    assert refused["kind"] == "bad-request"


def test_body_that_is_not_json_is_refused(client: TestClient) -> None:
    answer = client.post(
        "/v1/reboot", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("this is not JSON: ")


def test_request_refused_by_the_rules_changes_nothing(client: TestClient) -> None:
    refused = post(client, "reboot", 409, vms=["web_0"], not_before="+1m")
    assert refused == {
        "error": "Reboot needs a notice of at least 15 m",
        "hint": "Use a later time, or omit it.",
        "kind": "refused",
    }
    assert client.get("/v1/operations").json() == {"operations": [], "next": None}


def test_more_targets_than_the_maximum_are_refused_with_a_hint(
    client: TestClient,
) -> None:
    names = [f"vm_{number}" for number in range(TARGETS_MAX + 1)]
    for verb, key, noun in (
        ("reboot", "vms", "VMs"),
        ("fail", "names", "hosts or VMs"),
        ("cancel", "names", "operations"),
        ("approve", "event_ids", "events"),
    ):
        answer = client.post(f"/v1/{verb}", json={key: names})
        assert answer.status_code == 409, verb
        body = answer.json()
        assert body["error"] == f"one request can name at most 1,000 {noun}, not 1,001"
        assert body["hint"].startswith("Split it into several requests")
