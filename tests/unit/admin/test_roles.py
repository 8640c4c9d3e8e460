"""Roles of tokens: each route and each request with each role, and what creates them."""

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.admin.access import DEMANDS, Caller, Demand
from forewarn.admin.decisions import DECISIONS, Decision, Rule
from forewarn.admin.errors import ForbiddenError
from forewarn.verbs.roles import ALL_ROLES, READ_ONLY, Role, complete
from tests.unit.admin.tenants import Shared, paths
from tests.unit.admin.test_decisions import order

WRITING = [role for role in Role if role is not Role.VIEW]
WORKS = ["run", "emergency"]


@pytest.fixture(scope="module")
def shared() -> Shared:
    """Return a service that no test of the module changes, except its tokens."""
    return Shared()


@pytest.fixture
def fresh() -> Shared:
    return Shared()


@pytest.fixture(scope="module")
def holders(shared: Shared) -> dict[Role, str]:
    """Return an operator's token for each role."""
    return {role: shared.token("", roles=[role.value]) for role in Role}


def send(shared: Shared, token: str, route: str) -> Any:
    """Send a request that no route accepts, to the path of a route."""
    method, _, path = route.partition(" ")
    path = path.replace("{name}", "op-0000000000")
    more: dict[str, Any] = {"json": {"nothing": 1}} if method == "POST" else {}
    if path == "/v1/watch":
        more = {"params": {"topics": "weather"}}
    return shared.ask(token, method, path, **more)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("route", sorted(DEMANDS))
def test_route_is_open_to_exactly_its_roles(
    shared: Shared, holders: dict[Role, str], route: str, role: Role
) -> None:
    method, _, path = route.partition(" ")
    if (method, path) not in {entry[:2] for entry in paths(shared.app.openapi())}:
        pytest.skip("not in this application")
    demand = DEMANDS[route]
    answer = send(shared, holders[role], route)
    if demand.is_met_by(complete([role])):
        assert answer.status_code != 403, answer.text
        return
    assert answer.status_code == 403, answer.text
    error = answer.json()
    assert all(
        role_.value in error["error"] for role_ in demand.roles if role_ != role
    ), error
    assert "forewarn token create" in error["hint"]


REQUESTS = {
    "run": "maintain reboot redeploy evict terminate upgrade-os reimage cancel resolve "
    "predict-failure host-cordon host-open host-drain "
    "campaign-abort campaign-resume campaign-retry campaign-skip campaign-set campaign-add window-set window-clear "
    "blackout-set blackout-remove "
    "visit-retry visit-skip",
    "approve": "approve campaign-approve defer expedite",
    "emergency": "fail restore",
    "plan run approve emergency": "brake campaign-pause campaign-halt",
}
"""The roles of which each request needs one; the others need all."""


class _AdmittedError(Exception):
    """The request was admitted, and its transaction is not committed."""


def admits(shared: Shared, decision: Decision, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the transaction of a request decides it, without deciding it."""

    def decide(_work: object, _decision: Decision) -> None:
        raise _AdmittedError

    rule = replace(DECISIONS[decision.name], decide=decide)
    monkeypatch.setitem(cast("dict[str, Rule]", DECISIONS), decision.name, rule)
    try:
        shared.gateway.plane.order(decision.who, decision, now=shared.gateway.now())
    except ForbiddenError:
        return False
    except _AdmittedError:
        return True
    raise AssertionError


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "name",
    # test_relay_tokens has those of relays.
    sorted(name for name, rule in DECISIONS.items() if rule.path and rule.demand.roles),
)
def test_request_is_judged_by_its_roles_in_its_transaction(
    shared: Shared, name: str, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    sufficient = {
        role
        for roles, requests in REQUESTS.items()
        for role in roles.split()
        if name in requests.split()
    }
    caller = Caller(name="alice", roles=complete([role]))
    is_admitted = admits(shared, order(name, caller=caller), monkeypatch)
    assert is_admitted is (role.value in sufficient)
    assert admits(shared, order(name, caller=Caller(name="alice")), monkeypatch)


@pytest.mark.parametrize("role", WRITING)
def test_whoever_may_change_anything_puts_the_brake_on(
    fresh: Shared, role: Role
) -> None:
    token = fresh.token("", roles=[role.value])
    put = fresh.ask(token, "POST", "/v1/brake", json={"on": True, "reason": "smoke"})
    assert put.json()["on"] is True
    taken = fresh.ask(token, "POST", "/v1/brake", json={"on": False})
    if role is Role.EMERGENCY:
        assert taken.json()["on"] is False
        return
    assert taken.status_code == 403
    assert "the role emergency" in taken.json()["error"]
    assert fresh.ask(token, "GET", "/v1/brake").json()["on"] is True


def test_emergency_maintenance_needs_its_role_too(fresh: Shared) -> None:
    body = {"hosts": ["hidden-h1"], "impact": "freeze", "emergency": True}
    for roles, status in ((["run"], 403), (["emergency"], 403), (WORKS, 201)):
        token = fresh.token("", roles=roles)
        answer = fresh.ask(token, "POST", "/v1/maintain", json=body)
        assert answer.status_code == status, answer.text
    routine = fresh.token("", roles=["run"])
    body = {"hosts": ["hidden-h2"], "impact": "freeze", "emergency": False}
    assert fresh.ask(routine, "POST", "/v1/maintain", json=body).status_code == 201


def test_an_emergency_campaign_needs_its_role_too(fresh: Shared) -> None:
    text = (
        '[campaign]\nname = "bios"\nreason = "CVE"\nimpact = "freeze"\n'
        'emergency = true\nselect = { host = ["hidden-h1"] }\n'
    )
    file = {"name": "bios.toml", "text": text}
    plan = fresh.client.post("/v1/campaigns/plan", json=file).json()
    body = {**file, "digest": plan["digest"]}
    for roles, status in ((["run"], 403), (["emergency"], 403), (WORKS, 201)):
        token = fresh.token("", roles=roles)
        answer = fresh.ask(token, "POST", "/v1/campaigns", json=body)
        assert answer.status_code == status, answer.text


def test_a_file_that_may_remove_the_whole_fleet_needs_emergency(fresh: Shared) -> None:
    body = {"name": "fleet.toml", "text": "", "allow_empty": True}
    for roles in (["run"], ["emergency", "plan"]):
        token = fresh.token("", roles=roles)
        answer = fresh.ask(token, "POST", "/v1/fleet/apply", json=body)
        assert answer.status_code == 403, answer.text
    # A plan changes nothing, so it needs no more than the file does.
    token = fresh.token("", read_only=True)
    assert fresh.ask(token, "POST", "/v1/fleet/plan", json=body).status_code == 200
    assert len(fresh.client.get("/v1/fleet").json()["vms"]) == 4
    token = fresh.token("", roles=WORKS)
    assert fresh.ask(token, "POST", "/v1/fleet/apply", json=body).status_code == 200
    assert fresh.client.get("/v1/fleet").json()["vms"] == []


def test_only_a_holder_of_all_roles_creates_and_revokes_tokens(fresh: Shared) -> None:
    most = [role.value for role in WRITING if role is not Role.APPROVE]
    almost, all_ = fresh.token("", roles=most), fresh.token("")
    ordered = fresh.order("tokens", name="victim")
    for path, body in (
        ("/v1/tokens", {"roles": ["view"]}),
        ("/v1/tokens/revoke", {"id": ordered["id"]}),
    ):
        refused = fresh.ask(almost, "POST", path, json=body)
        assert refused.status_code == 403
        assert "all roles, also approve" in refused.json()["error"]
        assert fresh.ask(all_, "POST", path, json=body).is_success


def test_token_without_roles_has_all_that_its_kind_can_have(fresh: Shared) -> None:
    def roles(**body: Any) -> list[str]:
        return fresh.order("tokens", **body)["roles"]

    assert roles() == [role.value for role in ALL_ROLES]
    assert roles(tenant="shop") == ["view", "run", "approve"]
    assert roles(read_only=True) == roles(roles=["view"]) == ["view"]
    assert roles(roles=["emergency", "run", "run"]) == ["view", "run", "emergency"]
    entries = fresh.client.get("/v1/history").json()["entries"]
    shown = [entry["detail"] for entry in entries if entry["what"] == "token created"]
    assert any("; roles view, run, emergency; 90 d" in detail for detail in shown), (
        shown
    )
    assert any("; read-only; 90 d" in detail for detail in shown)


def test_tenant_may_approve_without_the_right_to_restart(fresh: Shared) -> None:
    fresh.gateway.enable("web_0")
    fresh.gateway.advance("20m")
    ordered = fresh.order("maintain", hosts=["hidden-h1"], impact="freeze")
    events = {
        event["tenant"]: event["EventId"]
        for operation in ordered["operations"]
        for event in operation["events"]
    }
    token = fresh.token(roles=["approve"])
    body = {"event_ids": [events["shop"]]}
    assert fresh.ask(token, "POST", "/v1/approve", json=body).status_code == 200
    refused = fresh.ask(token, "POST", "/v1/reboot", json={"vms": ["web_0"]})
    assert refused.status_code == 403
    hint = refused.json()["hint"]
    # The new token has no fewer rights than this one.
    assert "`forewarn token create --tenant shop --role run --role approve`" in hint


@pytest.mark.parametrize("role", ["plan", "emergency"])
def test_tenant_cannot_have_the_role_of_an_operator(fresh: Shared, role: str) -> None:
    body = {"tenant": "shop", "roles": ["run", role]}
    answer = fresh.client.post("/v1/tokens", json=body)
    assert answer.status_code == 409
    assert f"cannot have the role {role}" in answer.json()["error"]
    assert fresh.client.get("/v1/tokens").json()["tokens"] == []


def test_read_only_and_roles_together_are_refused(fresh: Shared) -> None:
    for body in ({"read_only": True, "roles": ["run"]}, {"roles": ["king"]}):
        assert fresh.client.post("/v1/tokens", json=body).status_code == 400


@given(
    st.sets(st.sampled_from(Role)),
    st.sampled_from([demand for demand in Demand if not demand.for_relays]),
)
def test_more_roles_never_allow_less(roles: set[Role], demand: Demand) -> None:
    """And a token always reads."""
    held = complete(roles)
    assert set(held) == roles | {Role.VIEW}
    assert list(held) == sorted(held, key=list(Role).index)
    assert Demand.OPERATOR_READS.is_met_by(held)
    if demand.is_met_by(held):
        assert all(demand.is_met_by({*held, more}) for more in Role)
    assert demand.is_met_by(ALL_ROLES)
    assert demand.writes is not demand.is_met_by(READ_ONLY)
