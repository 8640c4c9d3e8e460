"""The routes of receivers, with two receivers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import shapes
from forewarn.admin.app import create_app
from forewarn.protocol.errors import NotFoundError
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_description import check

ROOT = Path(__file__).resolve().parents[3]

OPS: dict[str, Any] = {
    "webhook": "ops",
    "tenant": None,
    "url": "https://hooks.example.com/",
    "state": "idle",
    "pending": 0,
    "oldest": None,
    "delivered": 3,
    "dropped": 0,
    "failures": 0,
    "last_delivered": "2030-01-01T00:00:00Z",
    "last_failed": None,
    "last_error": None,
    "next_try": None,
}


class Receivers:
    """Knows one receiver, and one that never answers (admin.gateways.WebhookGateway)."""

    async def webhooks(self) -> list[dict[str, Any]]:
        return [OPS]

    async def test_webhook(self, name: str) -> dict[str, Any]:
        if name not in {"ops", "dead"}:
            raise NotFoundError(f"there is no webhook {name!r}")
        return {
            "webhook": name,
            "delivered": name == "ops",
            "status": 204 if name == "ops" else None,
            "error": None if name == "ops" else "no answer in 10 s",
            "seconds": 0.01,
        }


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(LocalGateway(), tokens=None, version="1", receivers=Receivers())
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield client


def test_receivers_are_listed(client: TestClient) -> None:
    body = client.get("/v1/webhooks").json()
    check(body, shapes.WebhookList)
    assert body == {"webhooks": [OPS]}


def test_receiver_can_be_tested_by_name(client: TestClient) -> None:
    response = client.post("/v1/webhooks/test", json={"name": "ops"})
    check(response.json(), shapes.WebhookTestShape)
    missing = client.post("/v1/webhooks/test", json={"name": "nobody"})
    assert (missing.status_code, missing.json()["kind"]) == (404, "not-found")
    assert client.post("/v1/webhooks/test", json={}).status_code == 400


def test_webhook_routes_are_described_and_documented(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    page = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    for path, verb in (("/v1/webhooks", "get"), ("/v1/webhooks/test", "post")):
        assert paths[path][verb]["description"]
        assert re.search(rf"{verb.upper()} `{path}`", page), path
