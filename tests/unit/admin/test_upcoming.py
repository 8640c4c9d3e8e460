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
    assert [each["state"] for each in answer.json()["upcoming"]] == [
        *("Announced", "Planned"),
    ]
    real = shared.client.get("/v1/operations").json()["operations"]
    secrets = [*SECRETS, rollout, *(each["operation"] for each in real)]
    assert not [secret for secret in secrets if secret in answer.text]


def test_windows_of_others_change_no_time_that_a_tenant_sees(shared: Shared) -> None:
    token = shared.token()
    before = listed(shared, token)
    shared.order("window-set", scopes=["hidden-db"], windows=["sat 02:00 4h"])
    after = listed(shared, token)
    assert [each["earliest"] for each in after] == [each["earliest"] for each in before]
    assert [each["latest"] for each in after] == [None, None]
    assert shared.ask(token, "GET", "/v1/waits").json()["held"] == []


@pytest.mark.parametrize("key", ["tenant", "scope", "vm"])
def test_object_of_another_tenant_is_unknown(shared: Shared, key: str) -> None:
    token = shared.token()
    names = {"tenant": "hidden-bank", "scope": "hidden-db", "vm": "hidden-db-0"}
    told = [
        shared.ask(token, "GET", PATH, params={key: name})
        for name in (names[key], UNKNOWN[key])
    ]
    assert [each.status_code for each in told] == [404, 404]
    assert without(told[0].text, names[key]) == without(told[1].text, UNKNOWN[key])


def test_reading_roles_are_enough_and_operators_see_what_the_tenant_sees(
    shared: Shared,
) -> None:
    own = listed(shared, shared.token())
    assert listed(shared, shared.token(read_only=True)) == own
    viewer = shared.token("", read_only=True)
    assert listed(shared, viewer, tenant="shop") == own
    assert shared.ask(viewer, "GET", PATH).status_code == 400
    other = listed(shared, viewer, tenant="hidden-bank")
    assert {each["vm"] for each in other} == {"hidden-db-0", "hidden-db-1"}
    assert {each["operation"] for each in other}.isdisjoint(
        each["operation"] for each in own if each["operation"]
    )
