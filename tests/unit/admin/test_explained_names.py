"""Explanations of scopes, tenants, places, blackouts, checks, webhooks, tokens and
replicas."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.attention import ExplainQuery
from forewarn.admin.attention_shapes import ExplanationShape
from forewarn.cli.attention import explanation_lines
from forewarn.protocol.errors import NotFoundError
from forewarn.reporting.explained_names import KINDS
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.admin.tenants import Shared
from tests.unit.admin.test_attention import get, post
from tests.unit.admin.test_checks import Asker
from tests.unit.admin.test_cluster import Replicas

RACKS = FLEET.replace('name = "h1"', 'name = "h1"\nrack = "r7"')


HOOK: dict[str, Any] = {
    "webhook": "oncall",
    "tenant": None,
    "url": "http://pager",
    "state": "failing",
    "pending": 2,
    "oldest": None,
    "dropped": 1,
    "last_delivered": None,
    "last_error": "503",
    "next_try": "2030-01-01T00:05:00Z",
}


class Hooks:
    """Knows a receiver that fails (admin.gateways.WebhookGateway)."""

    async def webhooks(self) -> list[dict[str, Any]]:
        return [HOOK]

    async def test_webhook(self, name: str) -> dict[str, Any]:
        raise NotFoundError(f"there is no webhook {name}")


@pytest.fixture
def gateway() -> LocalGateway:
    """Return a gateway with a host in a rack."""
    return LocalGateway(RACKS)


@pytest.fixture
def client(gateway: LocalGateway) -> Iterator[TestClient]:
    """Return a client of a service with checks, receivers and replicas."""
    app = create_app(
        gateway,
        tokens=None,
        version="1",
        checks=Asker(),
        receivers=Hooks(),
        replicas=Replicas(),
    )
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield client


def explained(client: TestClient, name: str, **params: Any) -> tuple[Any, str]:
    """Return an explanation, and its text on the command line."""
    document = get(client, f"explain/{name}", **params)
    ExplanationShape.model_validate(document, strict=True)
    return document, "\n".join(explanation_lines(document))


def test_scope_and_tenant_show_what_is_missing_and_their_open_operations(
    client: TestClient, gateway: LocalGateway
) -> None:
    response = post(client, "maintain", hosts=["h1"], impact="freeze")
    (operation,) = response["operations"]
    scope, text = explained(client, "web")
    assert (scope["kind"], scope["state"]) == ("scope", "not enabled")
    assert "Scheduled Events are not enabled, so its events wait for NotBefore" in text
    assert "none of its VMs has polled" in text
    assert [operation_["operation"] for operation_ in scope["operations"]] == [
        operation["operation"]
    ]
    assert "tenant shop has not enabled Scheduled Events for scope web" in text
    gateway.enable("web_0")
    scope, text = explained(client, "web")
    assert scope["state"] == "enabled"
    tenant, text = explained(client, "shop")
    assert (tenant["kind"], tenant["state"]) == ("tenant", "enabled")
    assert "have Scheduled Events enabled" in text
    assert tenant["blocked_by"] == scope["blocked_by"]


def test_rack_shows_its_hosts_and_their_operations(client: TestClient) -> None:
    post(client, "maintain", hosts=["h1"], impact="freeze")
    post(client, "host-cordon", hosts=["h1"], reason="bad DIMM")
    for name in ("r7", "rack=r7"):
        rack, text = explained(client, name)
        assert (rack["kind"], rack["id"]) == ("place", "rack=r7")
        assert "of 1 host, 0 are down and 1 cordoned; 1 open operation" in text


def test_brake_is_explained_on_and_off(client: TestClient) -> None:
    brake, text = explained(client, "brake")
    assert (brake["kind"], brake["state"]) == ("brake", "off")
    assert text == "brake: off\nplanned work can begin"
    post(client, "brake", on=True, reason="power is unstable")
    brake, text = explained(client, "brake")
    assert brake["state"] == "on"
    assert "power is unstable" in brake["status"]
    assert "`forewarn brake off`" in text


def test_each_open_problem_is_explained_by_its_id(
    client: TestClient, gateway: LocalGateway
) -> None:
    post(client, "fail", names=["h1"], reason="power supply")
    post(client, "brake", on=True, reason="power is unstable")
    problems = get(client, "problems")["problems"]
    assert {problem["kind"] for problem in problems} >= {"vm-down", "brake"}
    for problem in problems:
        document, text = explained(client, problem["problem"])
        assert (document["kind"], document["state"]) == ("problem", "open")
        assert problem["text"] in text
        operations = [operation["operation"] for operation in document["operations"]]
        assert operations == [problem["operation"]] * bool(problem["operation"])
    post(client, "brake", on=False)
    refused = get(client, "explain/brake:brake", 404)
    assert refused["error"].endswith("other object 'brake:brake'")


def test_tenant_explains_its_own_problems() -> None:
    shared = Shared()
    shared.live()
    token = shared.token()
    own = shared.ask(token, "GET", "/v1/problems").json()["problems"]
    for problem in own:
        answer = shared.ask(token, "GET", f"/v1/explain/{problem['problem']}")
        assert answer.status_code == 200
        assert "hidden" not in answer.text
    post(shared.client, "brake", on=True, reason="power is unstable")
    answer = shared.ask(token, "GET", "/v1/explain/brake:brake")
    assert answer.status_code == 404
    assert own


def test_blackout_and_token_are_described(client: TestClient) -> None:
    post(client, "blackout-set", name="freeze", time="00:00 12h", reason="audit")
    blackout, text = explained(client, "freeze")
    assert (blackout["kind"], blackout["state"]) == ("blackout", "in force")
    assert "for the whole fleet, set by operator (audit)" in text
    token = post(client, "tokens", name="ci", tenant="shop")
    for name in ("ci", token["id"]):
        answer, text = explained(client, name)
        assert (answer["kind"], answer["state"]) == ("token", "valid")
        assert "for tenant shop" in text
        assert "never used" in text
        assert token["token"] not in text


def test_checks_webhooks_and_replicas_are_described(client: TestClient) -> None:
    check, text = explained(client, "errors")
    assert (check["kind"], check["state"]) == ("check", "pass")
    assert "`forewarn check run errors` asks it now" in text
    webhook, text = explained(client, "oncall")
    assert (webhook["kind"], webhook["state"]) == ("webhook", "failing")
    assert webhook["counts"] == {"Pending": 2, "Dropped": 1}
    assert "2 pending messages, delivered last: never; last error: 503" in text
    assert "`forewarn webhook test oncall`" in text
    replica, text = explained(client, "a")
    assert (replica["kind"], replica["state"]) == ("replica", "leads")
    assert "`forewarn cluster show` shows all replicas" in text


def test_host_comes_first_and_a_kind_selects_another_object(client: TestClient) -> None:
    post(client, "tokens", name="h1", roles=["view"])
    assert explained(client, "h1")[0]["kind"] == "host"
    assert explained(client, "h1", kind="token")[0]["kind"] == "token"
    refused = get(client, "explain/h1", 404, kind="scope")
    assert refused["error"].startswith("there is no operation")
    post(client, "tokens", name="shop", roles=["view"])
    refused = get(client, "explain/shop", 409)
    assert refused["error"] == "shop is the name of a tenant and of a token"
    assert "--kind tenant" in refused["hint"]


def test_tenant_sees_its_own_scopes_and_no_token_place_or_receiver() -> None:
    shared = Shared()
    shared.live()
    token = shared.token()
    for name in ("web", "shop"):
        answer = shared.ask(token, "GET", f"/v1/explain/{name}")
        assert answer.status_code == 200
        assert "hidden" not in answer.text
    (receiver, *_) = shared.client.get("/v1/webhooks").json()["webhooks"]
    for name in ("ci", "hidden-bank", "hidden-db", receiver["webhook"]):
        answer = shared.ask(token, "GET", f"/v1/explain/{name}")
        assert answer.status_code == 404, name


def test_every_kind_can_be_selected() -> None:
    kinds = get_args(ExplainQuery.model_fields["kind"].annotation)
    assert set(kinds) == {"", "host", "vm", "campaign", *KINDS}
