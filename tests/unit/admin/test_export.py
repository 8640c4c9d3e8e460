"""`fleet apply` of an export changes nothing."""

from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.support.fleets import CHANGES, FleetPlan, changed, fleets
from tests.unit.admin.gateway import LocalGateway

NUMBER = st.integers(0, 11)
EDITS = st.lists(
    st.tuples(st.sampled_from(CHANGES), NUMBER, NUMBER, NUMBER), max_size=4
)
LIVES = st.lists(
    st.tuples(st.sampled_from(("fail", "restore", "redeploy", "wait")), NUMBER),
    max_size=6,
)


class Api:
    """The operator API over a separate gateway."""

    def __init__(self, served: tuple[FastAPI, TestClient]) -> None:
        self._app, self._client = served
        self.gateway = self._app.state.gateway = LocalGateway("")

    def begin_with(self, gateway: LocalGateway) -> None:
        """Use another fleet."""
        self.gateway = self._app.state.gateway = gateway

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        answer = self._client.post(f"/v1/{path}", json=body)
        return answer.status_code, answer.json()

    def apply(self, text: str) -> tuple[int, Any]:
        return self.post("fleet/apply", {"name": "fleet.toml", "text": text})

    def export(self) -> str:
        return self._client.get("/v1/fleet/export").text

    def fleet(self) -> Any:
        return self._client.get("/v1/fleet").json()

    def live(self, plan: FleetPlan, what: str, number: int) -> None:
        """Send a request about a VM, which can be refused."""
        vm = plan.vms[number % len(plan.vms)].name
        if what == "wait":
            self.gateway.advance("1h")
        elif what in {"fail", "restore"}:
            self.post(what, {"name": vm, "kind": "vm"})
        else:
            self.post(what, {"vms": [vm]})


@pytest.mark.slow
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=fleets(), edits=EDITS, lives=LIVES)
def test_export_then_apply_changes_nothing(
    served: tuple[FastAPI, TestClient],
    plan: FleetPlan,
    edits: list[tuple[str, int, int, int]],
    lives: list[tuple[str, int]],
) -> None:
    api = Api(served)
    status, _ = api.apply(plan.text())
    assert status == 200
    for what, one, two, three in edits:
        after = changed(plan, what, one, two, three)
        # Other tests check that refused requests change nothing.
        if after.vms and api.apply(after.text())[0] == 200:
            plan = after
    for what, number in lives:
        api.live(plan, what, number)
    exported, before = api.export(), api.fleet()
    status, merged = api.post("fleet/plan", {"name": "exported.toml", "text": exported})
    assert status == 200, merged
    assert merged["is_empty"], merged["lines"]
    assert api.apply(exported)[0] == 200
    assert api.fleet() == before
    assert api.export() == exported


def test_deleted_vm_is_not_exported_and_so_removed(
    served: tuple[FastAPI, TestClient],
) -> None:
    api = Api(served)
    api.begin_with(LocalGateway())
    api.post("terminate", {"vms": ["db_1"]})
    api.gateway.advance("1h")
    exported = api.export()
    assert "db_1" not in exported
    status, merged = api.apply(exported)
    assert (status, merged["lines"]) == (200, ["- vm db_1"])
    assert api.export() == exported


@pytest.mark.slow
@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=fleets())
def test_an_export_makes_the_same_fleet_elsewhere(
    served: tuple[FastAPI, TestClient], plan: FleetPlan
) -> None:
    here = Api(served)
    assert here.apply(plan.text())[0] == 200
    exported, fleet = here.export(), here.fleet()
    there = Api(served)
    assert there.apply(exported)[0] == 200
    assert there.export() == exported
    assert _but_ids(there.fleet()) == _but_ids(fleet)


def _but_ids(fleet: Any) -> Any:
    for vm in fleet["vms"]:
        assert vm.pop("vm_id")
    return fleet
