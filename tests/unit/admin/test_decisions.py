"""Requests as values: they survive serialization, and invalid messages are refused."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from forewarn.admin.access import DEMANDS, Caller
from forewarn.admin.decisions import DECISIONS, Decision, read_message
from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.control.requests import verbs
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Work
from forewarn.protocol.errors import BadRequestError
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.verbs.model import VerbRequest
from forewarn.verbs.roles import ALL_ROLES, READ_ONLY, TENANT_ROLES
from tests.unit.admin.tenants import Shared

OPERATOR = Caller(name="alice")

BODIES: dict[str, dict[str, Any]] = {
    "maintain": {"hosts": ["hidden-h1"], "impact": "reboot", "duration": "5s"},
    "predict-failure": {"hosts": ["hidden-h1"], "in": "2d"},
    "fail": {"names": ["web_0"]},
    "restore": {"names": ["web_0"]},
    "host-cordon": {"hosts": ["hidden-h1"]},
    "host-open": {"hosts": ["hidden-h1"], "all_owners": True},
    "host-drain": {"hosts": ["hidden-h1"], "impact": "redeploy"},
    "cancel": {"names": ["op-1"]},
    "approve": {"event_ids": ["x"], "as_vm": "web_0"},
    "resolve": {"operation": "op-1", "outcome": "done"},
    "defer": {"names": ["hidden"], "until": "+2d", "reason": "month end"},
    "expedite": {"vms": ["hidden"]},
    "window-set": {"scopes": ["hidden"], "windows": ["22:00 1h"]},
    "window-clear": {"scopes": ["hidden"]},
    "blackout-set": {"name": "freeze", "time": "00:00 1h", "reason": "x"},
    "blackout-remove": {"name": "freeze", "reason": "x"},
    "visit-retry": {"hosts": ["hidden-h1"]},
    "visit-skip": {"hosts": ["hidden-h1"], "reason": "x"},
    "campaign-pause": {"campaign": "bios", "reason": "x"},
    "campaign-halt": {"campaign": "bios", "reason": "x"},
    "campaign-resume": {"campaign": "bios", "all_owners": True},
    "campaign-abort": {"campaign": "bios"},
    "campaign-approve": {"campaign": "bios", "stage": 2},
    "campaign-set": {"campaign": "bios", "in_flight": "8"},
    "campaign-add": {"campaign": "bios", "hosts": ["hidden-h1"], "reason": "new"},
    "campaign-retry": {"campaign": "bios", "hosts": ["hidden-h1"]},
    "campaign-skip": {"campaign": "bios", "hosts": ["hidden-h1"]},
    "brake": {"on": True, "reason": "power is unstable"},
    "tokens": {"name": "ci", "expires_in": "30d"},
    "tokens-revoke": {"id": "tk-1"},
    "console-link": {},
    "console-open": {"pass_id": "0" * 32, "ends_at": 1},
    "console-end": {"pass_id": "0" * 32, "ends_at": 1},
    "uses": {"token_ids": ["tk-1"]},
    "relay-approve": {"approvals": [{"vm": "web_0", "event_ids": ["x"]}]},
    "relay-enable": {"vm": "web_0"},
    "relay-seen": {"seconds_ago": {"web_0": 3}},
}


def order(name: str, **more: Any) -> Decision:
    """Return a request with a valid body."""
    rule = DECISIONS[name]
    body = rule.body.model_validate(BODIES.get(name, {"vms": ["web_0"]}))
    fields: dict[str, Any] = {
        "caller": OPERATOR,
        "made": dict.fromkeys(rule.made, "0" * 64),
        **more,
    }
    return Decision(name=name, body=body, **fields)


def sent(decision: Decision) -> Any:
    return json.loads(json.dumps(decision.message()))


@pytest.mark.parametrize("name", DECISIONS)
def test_decision_is_read_back_unchanged(name: str) -> None:
    once = Once(caller="alice", key="k", digest="d")
    for decision in (order(name), order(name, once=once)):
        assert read_message(sent(decision)) == decision


OWN = {"uses", "console-link", "console-open", "console-end"}
"""They are about a token or the caller's session, and need no role to change something."""


@pytest.mark.parametrize("name", sorted(set(DECISIONS) - OWN))
def test_each_request_has_a_route(name: str) -> None:
    assert DEMANDS[f"POST /v1/{DECISIONS[name].path}"].writes


def test_every_route_that_orders_is_in_the_table() -> None:
    paths = {f"POST /v1/{rule.path}" for rule in DECISIONS.values() if rule.path}
    others = {
        "POST /v1/campaigns",
        "POST /v1/fleet/apply",
        "POST /v1/webhooks/test",
        # It changes nothing in the store.
        "POST /v1/relay/served",
        # The same decisions as those of a list of hosts.
        "POST /v1/hosts/{name}/cordon",
        "POST /v1/hosts/{name}/open",
        "POST /v1/tenant/deferrals",
    }
    only_read = {
        "POST /v1/campaigns/plan",
        "POST /v1/campaigns/simulate",
        "POST /v1/checks/{name}/run",
    }
    assert paths | others | only_read == {
        route
        for route, demand in DEMANDS.items()
        if route.startswith("POST") and demand.writes
    }


@pytest.mark.parametrize(
    "change",
    [
        {"name": "shell"},
        {"name": ["maintain"]},
        {"body": {"hosts": "h1", "impact": "reboot"}},
        {"body": None},
        {"body": {"hosts": ["h1"], "impact": "reboot", "more": 1}},
        {"caller": "alice"},
        {"caller": {"name": "alice"}},
        {"once": {"caller": "a", "key": 1, "digest": "d"}},
        {"made": {"secret_digest": "x"}},
        {"made": []},
        {"more": 1},
    ],
)
def test_invalid_message_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        read_message({**sent(order("maintain")), **change})


@pytest.mark.parametrize("message", [None, [], "maintain", {}, 1])
def test_message_that_is_not_a_request_is_refused(message: object) -> None:
    with pytest.raises(BadRequestError):
        read_message(message)


def test_a_caller_of_the_wrong_type_is_refused() -> None:
    message = sent(order("reboot"))
    message["caller"]["is_authenticated"] = "yes"
    with pytest.raises(BadRequestError, match="is_authenticated"):
        read_message(message)


@pytest.mark.parametrize("roles", ["run", None, ["king"], [["run"]], {"run": 1}])
def test_roles_of_a_caller_that_are_none_are_refused(roles: object) -> None:
    message = sent(order("reboot"))
    message["caller"]["roles"] = roles
    with pytest.raises(BadRequestError, match="roles"):
        read_message(message)


def judged(shared: Shared, caller: Caller, name: str = "reboot") -> None:
    decision = order(name, caller=caller)
    shared.gateway.plane.order(decision.who, decision, now=shared.gateway.now())


def test_decision_without_a_result_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    decide = verbs.DECISIONS["reboot"]

    def forgets(work: Work, given: VerbRequest) -> Any:
        decide(work, given)

    monkeypatch.setitem(cast("dict[str, Any]", verbs.DECISIONS), "reboot", forgets)
    with pytest.raises(AssertionError):
        judged(shared, OPERATOR)
    operations = shared.gateway.store.read(
        lambda reader: [*every(reader, kinds.ALL_OPERATIONS)]
    )
    assert operations == []


def test_rights_are_checked_again_in_the_transaction() -> None:
    shared = Shared()
    ordered = shared.order("tokens", tenant="shop", name="ci")
    caller = Caller(
        name="shop/ci", tenant="shop", roles=TENANT_ROLES, token_id=ordered["id"]
    )
    judged(shared, caller)
    # With another name, with other rights, and without a token.
    for wrong in (
        Caller(name="alice", token_id=ordered["id"]),
        Caller(name="shop/ci", tenant="hidden-bank", token_id=ordered["id"]),
        Caller(name="shop/ci", tenant="shop", token_id="tk-0000000000"),
        replace(caller, roles=ALL_ROLES),
    ):
        with pytest.raises(UnauthorizedError):
            judged(shared, wrong)
    for name in ("maintain", "tokens", "fail"):
        with pytest.raises(ForbiddenError):
            judged(shared, caller, name)
    with pytest.raises(ForbiddenError):
        judged(shared, Caller(name="alice", roles=READ_ONLY))
    shared.order("tokens/revoke", id=ordered["id"])
    with pytest.raises(UnauthorizedError):
        judged(shared, caller)
