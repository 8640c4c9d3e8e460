"""A replica that follows answers reads and sends everything else to the leader."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.leader import Leader, Leading
from forewarn.admin.tokens import read_tokens
from tests.unit.admin.gateway import LocalGateway

FREEZE = {"hosts": ["h1"], "impact": "freeze"}
TOKEN = "a-token-of-operators-0123"


@pytest.fixture(scope="module")
def leading() -> Leading:
    return Leading()


@pytest.fixture(scope="module")
def client(
    leading: Leading, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    file = tmp_path_factory.mktemp("leading") / "tokens"
    file.write_text(f"ops:{TOKEN}\n")
    file.chmod(0o600)
    app = create_app(
        LocalGateway(), tokens=read_tokens(file), version="1", leading=leading
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(app, base_url="http://127.0.0.1:8200", headers=headers) as client:
        yield client


def test_follower_refuses_what_changes_something_and_names_the_leader(
    client: TestClient, leading: Leading
) -> None:
    leading.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    answer = client.post("/v1/maintain", json=FREEZE)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert answer.json() == {
        "error": "this replica follows r1, which decides",
        "hint": "Send it to https://r1.example:8200. FOREWARN_URL can list the URLs of "
        "all replicas.",
        "kind": "follows",
        "leader": "https://r1.example:8200",
    }
    assert client.get("/v1/operations").json()["operations"] == []


def test_follower_whose_leader_has_no_url_says_so(
    client: TestClient, leading: Leading
) -> None:
    leading.elsewhere = Leader(name="r1")
    answer = client.delete("/v1/tokens/x").json()
    assert "leader" not in answer
    assert answer["hint"].startswith("Send it to that replica.")


def test_follower_without_a_leader_asks_to_wait(
    client: TestClient, leading: Leading
) -> None:
    leading.elsewhere = Leader()
    answer = client.post("/v1/maintain", json=FREEZE)
    assert (answer.status_code, answer.json()["kind"]) == (503, "follows")
    assert "no replica leads now" in answer.json()["error"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_relays_connect_to_the_leader_only(
    client: TestClient, leading: Leading, method: str
) -> None:
    leading.elsewhere = None
    body = client.post("/v1/tokens", json={"relay": "h1", "name": "h1"}).json()
    leading.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    path = "/v1/relay/stream" if method == "GET" else "/v1/relay/seen"
    answer = client.request(
        method,
        path,
        json=None if method == "GET" else {"seconds_ago": {}},
        headers={"Authorization": f"Bearer {body['token']}"},
    )
    assert (answer.status_code, answer.json()["kind"]) == (503, "follows")


def test_stranger_does_not_learn_who_leads(
    client: TestClient, leading: Leading
) -> None:
    leading.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    answer = client.post(
        "/v1/maintain", json=FREEZE, headers={"Authorization": "Bearer wrong"}
    )
    assert answer.status_code == 401
    assert "r1" not in answer.text


def test_service_that_leads_again_decides_at_once(
    client: TestClient, leading: Leading
) -> None:
    leading.elsewhere = Leader(name="r1")
    assert client.post("/v1/maintain", json=FREEZE).status_code == 503
    leading.elsewhere = None
    assert client.post("/v1/maintain", json=FREEZE).status_code == 201
