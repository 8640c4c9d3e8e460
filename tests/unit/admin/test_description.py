"""/openapi.json describes the API correctly."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from forewarn.admin import app, attention_shapes, fleet_shapes, history_shapes, shapes
from forewarn.admin.app import create_app
from forewarn.admin.errors import Kind
from tests.unit.admin.gateway import LocalGateway

ROOT = Path(__file__).resolve().parents[3]

PATHS = {
    "/v1/maintain", "/v1/reboot", "/v1/redeploy", "/v1/evict", "/v1/terminate",
    "/v1/upgrade-os", "/v1/reimage", "/v1/fail", "/v1/restore",
    "/v1/predict-failure", "/v1/cancel", "/v1/approve", "/v1/resolve",
    "/v1/defer", "/v1/expedite", "/v1/tenant/deferrals", "/v1/tenant/upcoming",
    "/v1/blackouts", "/v1/blackout-set", "/v1/blackout-remove",
    "/v1/brake", "/v1/windows", "/v1/window-set", "/v1/window-clear",
    "/v1/host-cordon", "/v1/host-open", "/v1/host-drain",
    "/v1/hosts/{name}/cordon", "/v1/hosts/{name}/open",
    "/v1/operations", "/v1/operations/{name}", "/v1/explain/{name}",
    "/v1/problems", "/v1/waits", "/v1/capacity",
    "/v1/requests/{name}", "/v1/rollouts", "/v1/rollouts/{name}", "/v1/events", "/v1/history", "/v1/fleet",
    "/v1/fleet/export", "/v1/fleet/validate", "/v1/fleet/plan", "/v1/fleet/apply",
    "/v1/campaigns", "/v1/campaigns/{name}", "/v1/campaigns/{name}/file", "/v1/campaigns/{name}/racks", "/v1/campaigns/{name}/report", "/v1/campaigns/{name}/skipped", "/v1/campaigns/{name}/sums", "/v1/campaigns/plan", "/v1/campaigns/progress/{key}",
    "/v1/campaigns/simulate", "/v1/campaigns/{name}/tree", "/v1/campaigns/{name}/outlook", "/v1/campaigns/{name}/hosts", "/v1/campaigns/{name}/hosts/{host}",
    "/v1/visit-retry", "/v1/visit-skip", "/v1/campaign-pause", "/v1/campaign-halt", "/v1/campaign-resume", "/v1/campaign-abort",
    "/v1/campaign-approve", "/v1/campaign-set", "/v1/campaign-retry", "/v1/campaign-skip",
    "/v1/campaign-add",
    "/v1/session", "/v1/session/links", "/v1/tokens", "/v1/tokens/revoke",
    "/v1/watch", "/healthz", "/readyz",
    "/v1/fleet/overview", "/v1/search",
    "/v1/availability", "/v1/history/operations", "/v1/history/operations/{name}",
}  # fmt: skip


@pytest.fixture
def description(client: TestClient) -> Any:
    return client.get("/openapi.json").json()


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
def test_unchanged_page_is_rendered_once_and_not_sent_again(
    client: TestClient, path: str
) -> None:
    first = client.get(path)
    assert client.get(path).content == first.content
    tag = first.headers["etag"]
    same = client.get(path, headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)


def test_failed_description_is_created_again(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_app = create_app(gateway, tokens=None, version="1")
    client = TestClient(new_app, base_url="http://127.0.0.1:8200")
    with monkeypatch.context() as patched:
        patched.setattr(app, "with_schemas", lambda _document: 1 / 0)
        assert client.get("/openapi.json").status_code == 500
    described = client.get("/openapi.json").json()
    assert "ProblemShape" in described["components"]["schemas"]


def test_every_path_is_described(description: Any) -> None:
    assert set(description["paths"]) == PATHS
    assert description["info"]["version"] == "1.2.3"
    for path, verbs in description["paths"].items():
        for verb, operation in verbs.items():
            assert operation["description"], (path, verb)
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query" and parameter["name"] != "limit":
                    assert parameter["description"], (path, parameter)


def test_every_request_has_an_example_and_described_fields(
    description: Any,
) -> None:
    schemas = description["components"]["schemas"]
    for path, verbs in description["paths"].items():
        if "post" not in verbs:
            continue
        body = verbs["post"]["requestBody"]["content"]["application/json"]
        schema = schemas[body["schema"]["$ref"].rpartition("/")[2]]
        assert schema["examples"], path
        for name, member in schema["properties"].items():
            assert member["description"], (path, name)


def test_examples_are_valid(client: TestClient, description: Any) -> None:
    schemas = description["components"]["schemas"]
    for path, verbs in description["paths"].items():
        if "post" in verbs:
            body = verbs["post"]["requestBody"]["content"]["application/json"]
            schema = schemas[body["schema"]["$ref"].rpartition("/")[2]]
            for example in schema["examples"]:
                answer = client.post(path, json=example)
                assert answer.json().get("kind") != "bad-request", answer.text


def check(value: Any, model: type[BaseModel]) -> None:
    """Check that an answer has exactly the described members."""
    assert set(value) == set(model.model_fields)
    model.model_validate(value)


def test_answers_match_the_description(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    response = client.post("/v1/maintain", json={"hosts": ["h1"], "impact": "redeploy"})
    check(response.json(), shapes.MadeShape)
    (operation,) = response.json()["operations"]
    check(operation, shapes.OperationShape)
    check(operation["events"][0], shapes.EventInOperation)
    check(operation["moves"][0], shapes.MoveShape)
    name = operation["operation"]
    explained = client.get(f"/v1/explain/{name}").json()
    check(explained, attention_shapes.ExplanationShape)
    page = client.get("/v1/operations").json()
    check(page, shapes.OperationPage)
    page = client.get("/v1/events").json()
    check(page, shapes.EventPage)
    check(page["events"][0], shapes.EventShape)
    page = client.get("/v1/history").json()
    check(page, history_shapes.HistoryPage)
    check(page["entries"][0], history_shapes.EntryShape)
    check(client.get("/v1/fleet").json(), fleet_shapes.FleetPage)
    plan = client.post("/v1/fleet/plan", json={"text": '[[host]]\nname = "h1"\n'})
    check(plan.json(), fleet_shapes.PlanShape)
    check(plan.json()["changes"][0], fleet_shapes.ChangeShape)
    check(client.get("/healthz").json(), shapes.HealthShape)
    check(
        client.post("/v1/cancel", json={"names": [name]}).json(), shapes.CancelledShape
    )
    client.post("/v1/fail", json={"names": ["h1"]})
    restored = client.post("/v1/restore", json={"names": ["h1"]}).json()
    check(restored, shapes.RestoredShape)


class Links(HTMLParser):
    """Collects the URLs that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            value or "" for name, value in attrs if name in {"src", "href", "action"}
        ]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_page_loads_nothing_from_other_servers(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    links = Links()
    links.feed(answer.text)
    assert links.found == ["docs/page.css", "docs/page.js", "openapi.json"]
    for link in links.found[:2]:
        file = client.get(urljoin(path, link))
        assert file.status_code == 200
        assert not re.search(r"https?://|innerHTML", file.text)
    assert "<style" not in answer.text
    assert not re.search(r"https?://|<script>|style=| on\w+=", answer.text)


def test_page_has_no_other_file(client: TestClient) -> None:
    assert client.get("/docs/page.html").status_code == 404
    assert client.get("/docs/app.py").status_code == 404


def test_the_description_is_json_without_framework_errors(description: Any) -> None:
    assert "HTTPValidationError" not in json.dumps(description)


def test_the_document_names_every_path_and_every_kind_of_error() -> None:
    text = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    for path in PATHS:
        assert f"{path}`" in text, path
    for kind in Kind:
        assert f"| {kind.status} | `{kind.word}` |" in text
