"""The token of a relay: what it can do, and everything that it cannot."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.admin.access import DEMANDS, Caller, Demand
from forewarn.admin.decisions import DECISIONS
from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.admin.limits import RELAY_ENABLINGS_MAX
from forewarn.control import tokens
from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.protocol.actors import operator
from forewarn.store import kinds
from forewarn.verbs.roles import ALL_ROLES
from tests.unit.admin.gateway import FLEET
from tests.unit.admin.relays import Api
from tests.unit.admin.test_decisions import order

RELAY_ROUTES = {
    "GET /v1/relay/stream",
    "POST /v1/relay/approve",
    "POST /v1/relay/enable",
    "POST /v1/relay/seen",
    "POST /v1/relay/served",
}
RELAY_REQUESTS = {"relay-approve", "relay-enable", "relay-seen"}


@pytest.fixture(scope="module")
def shared() -> Api:
    """Return an API that no test of the module changes, except its tokens."""
    return Api()


@pytest.fixture
def api() -> Api:
    return Api()


def test_only_the_routes_of_relays_are_for_relays() -> None:
    assert {
        key for key, demand in DEMANDS.items() if demand is Demand.RELAY
    } == RELAY_ROUTES
    assert {
        name for name, rule in DECISIONS.items() if rule.demand is Demand.RELAY
    } == RELAY_REQUESTS


@pytest.mark.parametrize("route", sorted(set(DEMANDS) - RELAY_ROUTES))
def test_a_relay_is_refused_everywhere_else(shared: Api, route: str) -> None:
    token = shared.create("h1")["token"]
    method, _, path = route.partition(" ")
    answer = shared.ask(token, method, path.replace("{name}", "web_0"))
    # A pace may refuse it first: the answer says nothing about the route either.
    assert answer.status_code in (403, 429), (route, answer.text)
    shared.gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: tokens.revoke_all_of_relay(work, "h1"),
        now=shared.gateway.now(),
    )


@pytest.mark.parametrize("route", sorted(RELAY_ROUTES))
def test_nobody_else_is_a_relay(shared: Api, route: str) -> None:
    method, _, path = route.partition(" ")
    for body in ({}, {"tenant": "shop"}, {"read_only": True}):
        response = shared.client.post("/v1/tokens", json={**body, "expires_in": "1h"})
        answer = shared.ask(response.json()["token"], method, path)
        assert answer.status_code == 403
        assert "token create --relay" in answer.json()["hint"]
    # Also without a token, who is the operator at a loopback address.
    assert shared.client.request(method, path, json={}).status_code == 403


@pytest.mark.parametrize("name", sorted(DECISIONS))
def test_the_transaction_judges_a_relay_again(api: Api, name: str) -> None:
    api.create("h1")
    stored = api.gateway.store.read(lambda reader: reader.select(kinds.ALL_TOKENS))
    caller = Caller.of_token(stored[0])
    decision = order(name, caller=caller)
    plane, now = api.gateway.plane, api.gateway.now()
    if name not in RELAY_REQUESTS:
        with pytest.raises(ForbiddenError):
            plane.order(decision.who, decision, now=now)
    else:
        plane.order(decision.who, decision, now=now)
    # A caller that claims another host, or roles, is not the holder of the token.
    for forged in (
        replace(caller, host="h2"),
        replace(caller, host=""),
        replace(caller, roles=ALL_ROLES),
    ):
        with pytest.raises((ForbiddenError, UnauthorizedError)):
            plane.order(decision.who, order(name, caller=forged), now=now)


def test_a_relay_token_has_no_role_and_does_not_expire(api: Api) -> None:
    created = api.create("h1")
    assert (created["relay"], created["tenant"], created["roles"]) == ("h1", None, [])
    assert created["expires"] is None
    assert api.create("h1", expires_in="30d")["expires"] is not None
    entries = api.client.get("/v1/history").json()["entries"]
    shown = [entry["detail"] for entry in entries if entry["what"] == "token created"]
    assert len(shown) == 2
    assert all("; relay of h1; " in detail for detail in shown), shown
    for body in ({"tenant": "shop"}, {"read_only": True}, {"roles": ["view"]}):
        refused = api.client.post("/v1/tokens", json={"relay": "h1", **body})
        assert refused.status_code == 400, refused.text
    assert api.client.post("/v1/tokens", json={"relay": "h9"}).status_code == 404


def test_a_relay_has_few_tokens_and_does_not_use_up_those_of_operators(
    api: Api,
) -> None:
    for _ in range(tokens.RELAY_TOKENS_MAX):
        api.create("h1")
    refused = api.client.post("/v1/tokens", json={"relay": "h1"})
    assert refused.status_code == 409
    assert "the relay of h1 has 8 tokens" in refused.json()["error"]
    assert api.client.post("/v1/tokens", json={}).status_code == 201
    api.create("h2")


def test_the_tokens_of_a_removed_host_end(api: Api) -> None:
    token = api.create("same")["token"]
    assert api.ask(token, "POST", "/v1/relay/seen", {"seconds_ago": {}}).is_success
    fleet = FLEET.replace('[[host]]\nname = "same"\n', "")
    api.gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: fleet_changes.apply(work, read_fleet(fleet, name="fleet.toml")),
        now=api.gateway.now(),
    )
    answer = api.ask(token, "POST", "/v1/relay/seen", {"seconds_ago": {}})
    assert answer.status_code == 401


def approve(api: Api, token: str, vm: str, *event_ids: str) -> Any:
    body = {"approvals": [{"vm": vm, "event_ids": list(event_ids)}]}
    answer = api.ask(token, "POST", "/v1/relay/approve", body)
    assert answer.status_code == 200, answer.text
    return answer.json()["refusals"]


def test_a_stolen_token_approves_only_for_the_vms_of_its_host(api: Api) -> None:
    ours, theirs = api.create("h1")["token"], api.create("h2")["token"]
    for vm in ("web_0", "web_1", "db_0"):
        api.gateway.enable(vm)
    event = api.event("web_0")
    # web_0 is on h1. Its event is also in the document of web_1, which is on h2.
    assert approve(api, theirs, "web_0", event) == ["this VM is not known"]
    assert approve(api, theirs, "no-such-vm", event) == ["this VM is not known"]
    (listed,) = api.client.get("/v1/events").json()["events"]
    assert listed["approved_by"] is None
    # db_0 is on the host, and of another tenant: its document does not have the event.
    assert "is not in this VM's document" in approve(api, ours, "db_0", event)[0]
    assert approve(api, ours, "web_0", event.lower()) == [None]
    (listed,) = api.client.get("/v1/events").json()["events"]
    assert listed["approved_by"] == "web_0"


def test_a_stolen_token_enables_only_the_vms_of_its_host(api: Api) -> None:
    token = api.create("h1")["token"]

    def enabled(vm: str) -> bool:
        answer = api.ask(token, "POST", "/v1/relay/enable", {"vm": vm})
        assert answer.status_code == 200, answer.text
        return answer.json()["enabled"]

    assert [enabled(vm) for vm in ("same", "no-such-vm", "web_0")] == [
        False,
        False,
        True,
    ]
    views = api.gateway.store.read(lambda reader: reader.select(kinds.ALL_VIEWS))
    assert {view.scope for view in views if view.is_enabled} == {"web"}


def test_several_vms_are_enabled_by_one_request(api: Api) -> None:
    token = api.create("h1")["token"]

    def enable(body: Any) -> Any:
        return api.ask(token, "POST", "/v1/relay/enable", body)

    answer = enable({"vms": ["db_0", "same", "web_0", "no-such-vm"]}).json()
    assert (answer["enabled"], answer["vms"]) == (False, ["db_0", "web_0"])
    views = api.gateway.store.read(lambda reader: reader.select(kinds.ALL_VIEWS))
    assert {view.scope for view in views if view.is_enabled} == {"web", "db"}
    answer = enable({"vms": ["web_0"]}).json()
    assert (answer["enabled"], answer["vms"]) == (True, ["web_0"])
    many = [f"vm-{number}" for number in range(RELAY_ENABLINGS_MAX + 1)]
    for body in ({}, {"vms": []}, {"vm": "web_0", "vms": ["db_0"]}, {"vms": many}):
        assert enable(body).status_code in {400, 422}


def test_last_requests_are_ages_and_count_for_the_vms_of_the_host(api: Api) -> None:
    token = api.create("h1")["token"]
    for vm in ("web_0", "same"):
        api.gateway.enable(vm)
    api.gateway.advance("1h")
    body = {"seconds_ago": {"web_0": 60, "same": 0, "no-such-vm": 0}}
    assert api.ask(token, "POST", "/v1/relay/seen", body).is_success
    views = api.gateway.store.read(lambda reader: reader.select(kinds.ALL_VIEWS))
    age_by_scope = {view.scope: api.gateway.now() - view.last_seen for view in views}
    assert (age_by_scope["web"], age_by_scope["same"]) == (60 * 10**6, 3600 * 10**6)


def test_the_use_of_a_relay_token_is_stored(api: Api) -> None:
    token = api.create("h1")["token"]
    with api.client:
        api.ask(token, "POST", "/v1/relay/seen", {"seconds_ago": {}})
        (listed,) = api.client.get("/v1/tokens").json()["tokens"]
    assert listed["last_used"] is not None
