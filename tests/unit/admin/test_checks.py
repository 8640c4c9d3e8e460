"""The routes of checks."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import checks as routes
from forewarn.admin.app import create_app
from forewarn.protocol.errors import NotFoundError
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_description import check

ERRORS: dict[str, Any] = {
    "name": "errors",
    "kind": "promql",
    "asks": "up above 0, at http://prom:9090",
    "every": "30s",
    "timeout": "10s",
    "needed": False,
    "outcome": "pass",
    "reason": "1, above 0",
    "asked": "2030-01-01T00:00:00Z",
}


class Asker:
    """Knows a check that passes (admin.gateways.CheckGateway)."""

    async def checks(self) -> list[dict[str, Any]]:
        return [ERRORS]

    async def run_check(self, name: str) -> dict[str, Any]:
        if name == "errors":
            return ERRORS
        if name == "broken":
            lost = {"outcome": "unknown", "reason": "no answer", "asked": None}
            return {**ERRORS, "name": "broken", **lost}
        raise NotFoundError(f"there is no check {name}")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(LocalGateway(), tokens=None, version="1", checks=Asker())
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield client


def token(client: TestClient, **body: Any) -> dict[str, str]:
    answer = client.post("/v1/tokens", json=body).json()
    return {"Authorization": f"Bearer {answer['token']}"}


def test_checks_are_listed_and_asked(client: TestClient) -> None:
    assert client.get("/v1/checks").json() == {"checks": [ERRORS]}
    assert client.post("/v1/checks/errors/run", json={}).json() == ERRORS
    check(client.get("/v1/checks").json(), routes.CheckList)
    check(ERRORS, routes.CheckShape)
    assert client.post("/v1/checks/weather/run", json={}).status_code == 404
    assert client.post("/v1/checks/errors/run", json={"x": 1}).status_code == 400


def test_checks_need_the_role_to_plan(client: TestClient) -> None:
    for role in ("view", "plan", "run", "approve", "emergency"):
        headers = token(client, roles=[role])
        assert client.get("/v1/checks", headers=headers).status_code == 200
        ran = client.post("/v1/checks/errors/run", json={}, headers=headers)
        assert ran.status_code == (200 if role == "plan" else 403)
