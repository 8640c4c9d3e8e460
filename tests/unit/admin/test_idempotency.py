"""Requests with an Idempotency-Key are executed once."""

import hashlib
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin.decisions import DECISIONS
from forewarn.admin.orders import said_in
from forewarn.control.requests.idempotency import KEPT_FOR
from forewarn.instants import format_duration
from forewarn.store import kinds
from forewarn.store.records import OrderKey
from tests.unit.admin.gateway import FLEET, LocalGateway

KEY = {"Idempotency-Key": "8e03978e-40d5-43e8-bc93-6894a57f9324"}

REPEATED = "Idempotent-Replayed"


def requests(gateway: LocalGateway) -> int:
    """Return the number of requests in the store."""
    operations = gateway.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    return len({operation.request for operation in operations})


def bearer_of(client: TestClient, tenant: str) -> dict[str, str]:
    """Return the header of a new token of a tenant."""
    response = client.post(
        "/v1/tokens", json={"tenant": tenant, "name": f"{tenant}-ci"}
    )
    return {"Authorization": f"Bearer {response.json()['token']}"}


def order_keys(gateway: LocalGateway) -> list[OrderKey]:
    return gateway.store.read(
        lambda reader: reader.due(
            kinds.ORDER_KEYS_EXPIRED, gateway.now() + 10 * KEPT_FOR
        )
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("maintain", {"hosts": ["h1"], "impact": "freeze"}),
        ("reboot", {"vms": ["web_0"]}),
        ("redeploy", {"vms": ["web_0"]}),
        ("evict", {"vms": ["db_0"]}),
        ("terminate", {"vms": ["db_1"]}),
        ("upgrade-os", {"vms": ["db_1"]}),
        ("reimage", {"vms": ["db_1"]}),
        ("predict-failure", {"hosts": ["h1"]}),
        ("fail", {"names": ["h1"]}),
    ],
)
def test_repeated_request_with_key_is_executed_once(
    client: TestClient, gateway: LocalGateway, path: str, body: dict[str, Any]
) -> None:
    first = client.post(f"/v1/{path}", json=body, headers=KEY)
    assert (first.status_code, REPEATED in first.headers) == (201, False)
    again = client.post(f"/v1/{path}", json=body, headers=KEY)
    assert (again.status_code, again.headers[REPEATED]) == (201, "true")
    assert again.json()["request"] == first.json()["request"]
    assert requests(gateway) == 1


def test_repeated_request_without_key_is_executed_again(
    client: TestClient, gateway: LocalGateway
) -> None:
    for _ in range(2):
        assert client.post("/v1/reboot", json={"vms": ["web_0"]}).status_code == 201
        gateway.advance("1h")
    assert requests(gateway) == 2
    assert order_keys(gateway) == []


def test_key_reused_for_another_request_is_refused(
    client: TestClient, gateway: LocalGateway
) -> None:
    body = {"vms": ["web_0"]}
    assert client.post("/v1/reboot", json=body, headers=KEY).status_code == 201
    for path, other in (("reboot", {"vms": ["web_1"]}), ("redeploy", body)):
        refused = client.post(f"/v1/{path}", json=other, headers=KEY)
        assert (refused.status_code, refused.json()["kind"]) == (422, "key-reused")
        assert "was used for another request" in refused.json()["error"]
    assert requests(gateway) == 1


def test_same_request_with_different_formatting_is_a_repetition(
    client: TestClient,
) -> None:
    headers = {**KEY, "Content-Type": "application/json"}
    first, again = (
        client.post("/v1/reboot", content=text, headers=headers)
        for text in ('{"vms":["web_0"],"reason":""}', '{ "vms": ["web_0"] }')
    )
    assert again.headers[REPEATED] == "true"
    assert again.json()["request"] == first.json()["request"]


def test_refused_order_stores_no_key(client: TestClient, gateway: LocalGateway) -> None:
    body = {"names": ["h1"]}
    assert client.post("/v1/restore", json=body, headers=KEY).status_code == 409
    assert order_keys(gateway) == []
    client.post("/v1/fail", json=body)
    restored = client.post("/v1/restore", json=body, headers=KEY)
    assert restored.json() == {
        "restored": [{"kind": "host", "name": "h1", "state": "up"}],
        "refused": [],
    }
    client.post("/v1/fail", json=body)
    again = client.post("/v1/restore", json=body, headers=KEY)
    assert (again.headers[REPEATED], again.json()) == ("true", restored.json())
    fleet = client.get("/v1/fleet").json()
    assert [host["state"] for host in fleet["hosts"]][:1] == ["down"]


def test_repeated_cancel_approve_and_resolve_return_the_first_result(
    client: TestClient, gateway: LocalGateway
) -> None:
    response = client.post("/v1/maintain", json={"hosts": ["h1"], "impact": "freeze"})
    body = {"names": [response.json()["request"]]}
    cancels = [client.post("/v1/cancel", json=body, headers=KEY) for _ in range(2)]
    first, again = (
        [operation["operation"] for operation in answer.json()["cancelled"]]
        for answer in cancels
    )
    assert first == again != []

    gateway.enable("web_0")
    client.post("/v1/maintain", json={"hosts": ["h1"], "impact": "freeze"})
    (event, *_) = client.get("/v1/events", params={"scope": "web"}).json()["events"]
    body = {"event_ids": [event["EventId"]]}
    key = {"Idempotency-Key": "approve"}
    answers = [client.post("/v1/approve", json=body, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].json()["approved"][0]["EventId"] == event["EventId"]

    gateway.driver.is_silent = gateway.driver.forgets = True
    ordered = client.post("/v1/reboot", json={"vms": ["same"]}).json()
    [operation] = ordered["operations"]
    gateway.advance("31m")
    body = {"operation": operation["operation"], "outcome": "done"}
    key = {"Idempotency-Key": "resolve"}
    answers = [client.post("/v1/resolve", json=body, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text


def test_repeated_fleet_file_is_applied_once(
    client: TestClient, gateway: LocalGateway
) -> None:
    body = {"text": FLEET + '[[host]]\nname = "h3"\n'}
    first = client.post("/v1/fleet/apply", json=body, headers=KEY).json()
    assert first["lines"] == ["+ host h3"]
    client.post("/v1/fleet/apply", json={"text": FLEET})
    again = client.post("/v1/fleet/apply", json=body, headers=KEY)
    assert again.headers[REPEATED] == "true"
    assert again.json()["lines"] == ["+ host h3"]
    hosts = client.get("/v1/fleet").json()["hosts"]
    # A host that another file removed since then stays removed.
    assert "h3" not in [host["name"] for host in hosts]
    assert len(order_keys(gateway)) == 1


def test_repeated_token_is_refused_by_name_and_made_once(client: TestClient) -> None:
    body = client.post("/v1/tokens", json={"name": "ci"}, headers=KEY).json()
    again = client.post("/v1/tokens", json={"name": "ci"}, headers=KEY)
    assert again.status_code == 409
    assert f"`forewarn token revoke {body['id']}`" in again.json()["hint"]
    assert len(client.get("/v1/tokens").json()["tokens"]) == 1
    gone = [
        client.post(
            "/v1/tokens/revoke",
            json={"id": body["id"]},
            headers={"Idempotency-Key": "revoke"},
        )
        for _ in range(2)
    ]
    assert [response.json()["id"] for response in gone] == [body["id"]] * 2


def test_each_caller_has_its_own_keys(
    client: TestClient, gateway: LocalGateway
) -> None:
    shop, bank = bearer_of(client, "shop"), bearer_of(client, "bank")
    for token, vm in ((shop, "web_0"), (bank, "db_0")):
        response = client.post(
            "/v1/reboot", json={"vms": [vm]}, headers={**KEY, **token}
        )
        assert (response.status_code, REPEATED in response.headers) == (201, False)
    assert requests(gateway) == 2


@pytest.mark.parametrize("key", ["", "two words", "x" * 256])
def test_malformed_key_is_refused(client: TestClient, key: str) -> None:
    answer = client.post(
        "/v1/reboot", json={"vms": ["web_0"]}, headers={"Idempotency-Key": key}
    )
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["error"]


def test_key_expires_after_a_day_and_is_deleted(
    client: TestClient, gateway: LocalGateway
) -> None:
    body = {"vms": ["web_0"]}
    client.post("/v1/reboot", json=body, headers=KEY)
    day = format_duration(KEPT_FOR)
    gateway.clock.advance_to(gateway.now() + KEPT_FOR - 1)
    assert client.post("/v1/reboot", json=body, headers=KEY).headers[REPEATED]
    gateway.clock.advance_to(gateway.now() + 1)
    # Before it is deleted, too.
    response = client.post("/v1/reboot", json=body, headers=KEY)
    assert REPEATED not in response.headers
    assert len(order_keys(gateway)) == 1
    gateway.advance(day)
    gateway.advance("1m")
    assert order_keys(gateway) == []


SAID_BEFORE = {
    "campaign-pause": '{"reason":"a look","campaign":"bios"}',
    "brake": '{"reason":"smoke","on":true,"withdraw":false}',
}
"""The texts of requests whose digests stores have, in the order of their members."""


@pytest.mark.parametrize("path", SAID_BEFORE)
def test_request_of_the_version_before_can_be_repeated(path: str) -> None:
    """Members that were added since are not in its digest while they are not used."""
    kind = DECISIONS[path].body
    message = SAID_BEFORE[path]
    assert said_in(kind.model_validate_json(message)) == message
    tried = kind.model_validate_json(message).model_copy(update={"dry_run": True})
    assert said_in(tried) != message


def test_key_is_compared_by_the_text_of_the_request(
    client: TestClient, gateway: LocalGateway
) -> None:
    message = SAID_BEFORE["brake"]
    assert client.post("/v1/brake", json=json.loads(message), headers=KEY).is_success
    [kept] = order_keys(gateway)
    assert kept.digest == hashlib.sha256(f"/v1/brake\n{message}".encode()).hexdigest()
