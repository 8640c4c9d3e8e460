"""`/v1/tenant/upcoming`: a tenant sees its coming work, and nothing of others."""

from typing import Any

import pytest

from tests.unit.admin.tenants import SECRETS, UNKNOWN, Shared, without

PATH = "/v1/tenant/upcoming"


@pytest.fixture
def shared() -> Shared:
    """Return a service with an announced and a planned host that both tenants share."""
    shared = Shared()
    for vm in ("web_0", "web_1", "hidden-db-0", "hidden-db-1"):
        shared.gateway.enable(vm)
    shared.gateway.advance("1m")
    hosts = ["hidden-h1", "hidden-h2"]
    shared.order("maintain", hosts=hosts, impact="reboot")
    return shared


def listed(shared: Shared, token: str, **asked: Any) -> list[dict[str, Any]]:
    answer = shared.ask(token, "GET", PATH, params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["upcoming"]


def test_no_answer_reveals_hosts_rollouts_or_others(shared: Shared) -> None:
    token = shared.token()
    rollout = shared.client.get("/v1/rollouts").json()["rollouts"][0]["rollout"]
    answer = shared.ask(token, "GET", PATH)
    assert [operation["state"] for operation in answer.json()["upcoming"]] == [
        *("Announced", "Planned"),
    ]
    real = shared.client.get("/v1/operations").json()["operations"]
    secrets = [*SECRETS, rollout, *(operation["operation"] for operation in real)]
    assert not [secret for secret in secrets if secret in answer.text]


def test_windows_of_others_change_no_time_that_a_tenant_sees(shared: Shared) -> None:
    token = shared.token()
    before = listed(shared, token)
    shared.order("window-set", scopes=["hidden-db"], windows=["sat 02:00 4h"])
    after = listed(shared, token)
    assert [operation["earliest"] for operation in after] == [
        operation["earliest"] for operation in before
    ]
    assert [operation["latest"] for operation in after] == [None, None]
    assert shared.ask(token, "GET", "/v1/waits").json()["held"] == []


@pytest.mark.parametrize("key", ["tenant", "scope", "vm"])
def test_object_of_another_tenant_is_unknown(shared: Shared, key: str) -> None:
    token = shared.token()
    names = {"tenant": "hidden-bank", "scope": "hidden-db", "vm": "hidden-db-0"}
    answers = [
        shared.ask(token, "GET", PATH, params={key: name})
        for name in (names[key], UNKNOWN[key])
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert without(answers[0].text, names[key]) == without(
        answers[1].text, UNKNOWN[key]
    )


def test_reading_roles_are_enough_and_operators_see_what_the_tenant_sees(
    shared: Shared,
) -> None:
    own = listed(shared, shared.token())
    assert listed(shared, shared.token(read_only=True)) == own
    viewer = shared.token("", read_only=True)
    assert listed(shared, viewer, tenant="shop") == own
    assert shared.ask(viewer, "GET", PATH).status_code == 400
    other = listed(shared, viewer, tenant="hidden-bank")
    assert {operation["vm"] for operation in other} == {"hidden-db-0", "hidden-db-1"}
    assert {operation["operation"] for operation in other}.isdisjoint(
        operation["operation"] for operation in own if operation["operation"]
    )


def test_explanation_of_a_vm_tells_when_it_is_touched_and_nothing_of_others(
    shared: Shared,
) -> None:
    token = shared.token()
    answer = shared.ask(token, "GET", "/v1/explain/web_1")
    (coming,) = answer.json()["upcoming"]
    assert coming == listed(shared, token, vm="web_1")[0]
    assert not [secret for secret in SECRETS if secret in answer.text]
    assert shared.ask(token, "GET", "/v1/explain/hidden-db-1").status_code == 404
    assert shared.client.get("/v1/explain/web_1").json()["upcoming"] == [coming]


def test_deferral_is_ended_by_its_tenant_only(shared: Shared) -> None:
    shop, bank = shared.token(), shared.token("hidden-bank")
    later = {"names": ["hidden-db-1"], "until": "+2d", "reason": "HIDDEN"}
    assert shared.ask(bank, "POST", "/v1/defer", json=later).status_code == 200
    for name in ("hidden-db-1", "web_1"):
        refused = shared.ask(
            shop, "POST", "/v1/defer", json={"names": [name], "clear": True}
        )
        assert refused.status_code in {404, 409}
        assert "HIDDEN" not in refused.text
    ended = shared.ask(
        bank, "POST", "/v1/defer", json={"names": ["hidden-db-1"], "clear": True}
    )
    assert ended.json()["deferrals"][0]["over"] is True
    history = shared.ask(shop, "GET", "/v1/history").text
    assert "deferral cleared" not in history
    assert "deferral cleared" in shared.ask(bank, "GET", "/v1/history").text


@pytest.mark.parametrize(
    "path",
    [
        *("explain/webb", "explain/zzzzzzzz", "explain/ro-nope"),
        *("operations?rollout=ro-nope", "operations?rollout=rq-nope"),
        *("history?operation=ro-nope", "requests/ro-nope"),
    ],
)
def test_hints_for_tenants_name_only_commands_for_tenants(
    shared: Shared, path: str
) -> None:
    body = shared.ask(shared.token(), "GET", f"/v1/{path}").json()
    assert body["hint"], path
    for word in ("rollout list", "campaign", "capacity", "host"):
        assert word not in body["hint"] + body["error"], body


@pytest.mark.parametrize("name", ["web", "shop"])
def test_explanation_for_tenants_names_nothing_of_the_operators(
    shared: Shared, name: str
) -> None:
    response = shared.ask(shared.token(), "GET", f"/v1/explain/{name}")
    assert response.json()["operations"], "the maintenance of its host concerns it"
    for word in ("rollout list", "campaign", "capacity", "hidden"):
        assert word not in response.text, response.text
