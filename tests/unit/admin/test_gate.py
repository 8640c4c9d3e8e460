"""Authentication, and the answers to unknown callers."""

import asyncio
import logging
import re
import secrets
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from forewarn.admin.app import create_app
from forewarn.admin.gate import Gate
from forewarn.admin.identity import Identity
from forewarn.admin.provenance import names_loopback
from forewarn.admin.throttle import RefusalLog, Throttle
from forewarn.admin.tokens import TokenFileError, parse_tokens, read_tokens
from forewarn.clock import SystemClock
from forewarn.control.gateway import Health
from forewarn.control.tokens import RESERVED
from forewarn.protocol.errors import ForewarnError
from forewarn.store.port import StoreError
from tests.support.loops import in_loop
from tests.unit.admin.gateway import LocalGateway

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "operate" / "runbook.md"
GOOD = "0123456789abcdef01234567"
TOKENS = parse_tokens(
    "# ours\n\nalice: s3cret-of-24-characters-x7\nnameless-token-31f5c2a9e8\n",
    file="token",
)


@pytest.fixture
def guarded(gateway: LocalGateway) -> TestClient:
    app = create_app(gateway, tokens=TOKENS, version="1")
    return TestClient(app, base_url="http://forewarn.example")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("token", "actor"),
    [
        ("s3cret-of-24-characters-x7", "alice"),
        ("nameless-token-31f5c2a9e8", "operator"),
    ],
)
def test_token_determines_the_actor(
    guarded: TestClient, token: str, actor: str
) -> None:
    answer = guarded.post("/v1/reboot", json={"vms": ["web_0"]}, headers=bearer(token))
    assert answer.json()["actor"] == actor


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        {"Authorization": "Basic s3cret-of-24-characters-x7"},
        {"Authorization": "s3cret-of-24-characters-x7"},
        {"X-Forewarn-Actor": "alice"},
    ],
)
def test_invalid_token_gets_no_information(
    guarded: TestClient, headers: dict[str, str]
) -> None:
    for path in ("/v1/operations", "/v1/fleet", "/nowhere"):
        answer = guarded.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["kind"] == "unauthorized"


def test_health_and_description_need_no_token(guarded: TestClient) -> None:
    for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.json"):
        assert guarded.get(path).status_code == 200


def test_readyz_command_in_the_guide_shows_problems_with_a_token(
    guarded: TestClient, gateway: LocalGateway
) -> None:
    """With a token file, an unknown caller gets only the state of the service."""
    guide = GUIDE.read_text(encoding="utf-8")
    (header,) = re.findall(r'^curl -H "([^"]+)" http\S+/readyz$', guide, re.MULTILINE)
    name, _, value = header.replace(
        "$FOREWARN_TOKEN", "s3cret-of-24-characters-x7"
    ).partition(": ")
    gateway.state = Health(alive=True, ready=False, problems=("the store is away",))
    response = guarded.get("/readyz", headers={name: value})
    assert (response.status_code, response.json()["problems"]) == (
        503,
        ["the store is away"],
    )
    response = guarded.get("/readyz")
    assert (response.status_code, response.json()["problems"]) == (
        503,
        ["the reason is visible with an operator token only"],
    )


def test_tokens_are_not_shown() -> None:
    assert "s3cret-of-24-characters-x7" not in repr(TOKENS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: there is no token in this file"),
        ("# only words\n", "file: there is no token in this file"),
        (f"{GOOD}\ntwo words\n", "file:2: the line is neither TOKEN nor NAME:TOKEN"),
        (
            f"two words\n{GOOD}\nPolicy:words\n",
            (
                "file:1: the line is neither TOKEN nor NAME:TOKEN\n"
                "file:3: 'Policy' is a reserved name: the history uses it for another "
                "actor"
            ),
        ),
    ],
)
def test_token_file_error_does_not_contain_tokens(text: str, message: str) -> None:
    with pytest.raises(TokenFileError) as raised:
        parse_tokens(text, file="file")
    assert raised.value.message == message
    assert "words" not in raised.value.message


@pytest.mark.parametrize(
    "secret",
    ["x", GOOD[:23], "a" * 64, "abcd" * 16, "pässwörd-" * 4],
)
def test_guessable_token_is_refused(secret: str) -> None:
    with pytest.raises(TokenFileError) as raised:
        parse_tokens(f"ops:{secret}\n", file="file")
    assert "file:1: this token can be guessed" in raised.value.message
    assert raised.value.hint == "Write the output of `openssl rand -hex 32` as a token."
    assert secret not in raised.value.message
    for length in (12, 16, 32):
        assert parse_tokens(f"ops:{secrets.token_hex(length)}\n", file="file").names


def test_two_lines_with_the_same_name_are_refused() -> None:
    for name, other in (("alice:", "Alice:"), ("", "operator:"), ("", "")):
        text = f"{name}{secrets.token_hex()}\n{other}{secrets.token_hex()}\n"
        with pytest.raises(
            TokenFileError, match="file:2: an earlier line has the name"
        ):
            parse_tokens(text, file="file")


@pytest.mark.parametrize("name", [*sorted(RESERVED - {"operator"}), "vm-1", "Tenant.x"])
def test_reserved_token_name_is_rejected(client: TestClient, name: str) -> None:
    with pytest.raises(TokenFileError, match="is a reserved name"):
        parse_tokens(f"{name}:words\n", file="file")
    answer = client.post("/v1/tokens", json={"name": name})
    assert answer.status_code == 409
    assert "is a reserved name" in answer.json()["error"]


def test_only_a_token_file_can_use_the_name_operator(client: TestClient) -> None:
    names = ("vmware", "tenants", "alice", "driver-bot")
    for name in names:
        assert client.post("/v1/tokens", json={"name": name}).status_code == 201
    text = "".join(f"{name}:{GOOD}-{name}\n" for name in (*names, "operator"))
    assert parse_tokens(text, file="file").name_of(f"{GOOD}-operator") == "operator"
    assert client.post("/v1/tokens", json={"name": "operator"}).status_code == 409


def test_a_token_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(TokenFileError, match="No such file"):
        read_tokens(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match="not UTF-8"):
        read_tokens(file)
    file.write_text(f"bob:{GOOD}\n")
    assert read_tokens(file).name_of(GOOD) == "bob"
    assert read_tokens(file).name_of(f"bob:{GOOD}") is None


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost", True),
        ("LOCALHOST:8200", True),
        ("127.0.0.1:8200", True),
        ("127.9.9.9", True),
        ("[::1]:8200", True),
        ("", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8200", False),
        ("192.0.2.1", False),
        ("[::2]", False),
        ("[::1", False),
        ("::1", False),
        ("[127.0.0.1]", False),
        ("localhost:1@evil.example", False),
        ("localhost:x", False),
        ("localhost:1:2", False),
        ("127.0.0.1,evil.example", False),
        ("127.1", False),
        ("0", False),
    ],
)
def test_loopback_host_names_are_recognized(host: str, *, good: bool) -> None:
    assert names_loopback(host) is good


def test_request_with_another_host_name_is_refused_without_tokens(
    client: TestClient,
) -> None:
    for path in ("/v1/operations", "/", "/readyz"):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 403
        assert answer.json()["kind"] == "forbidden"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_body_types_that_any_page_can_send_are_refused(
    client: TestClient, kind: str
) -> None:
    answer = client.post(
        "/v1/reboot", content=b'{"vms":["web_0"]}', headers={"Content-Type": kind}
    )
    assert answer.status_code == 415
    assert client.get("/v1/operations").json()["operations"] == []


def test_health_routes_report_liveness_and_readiness(
    client: TestClient, gateway: LocalGateway
) -> None:
    assert client.get("/readyz").json() == {
        "alive": True,
        "ready": True,
        "role": "leads",
        "problems": [],
    }
    gateway.state = Health(alive=True, ready=False, problems=("the store is away",))
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["the store is away"]
    gateway.state = Health(alive=False, ready=False)
    assert client.get("/healthz").status_code == 503


def test_unknown_route_or_method_is_rejected(client: TestClient) -> None:
    answer = client.get("/v2/x")
    assert answer.status_code == 404
    assert answer.json()["error"] == "there is no route GET /v2/x"
    # An additional slash is not redirected either.
    answer = client.get("/v1/operations/", follow_redirects=False)
    assert answer.status_code == 404
    answer = client.get("/v1/reboot")
    assert answer.status_code == 405
    assert answer.json()["kind"] == "method-not-allowed"
    assert answer.headers["allow"] == "POST"


class BusyError(ForewarnError):
    """Like the routes of the service, which this package does not import."""


@pytest.mark.parametrize("error", [StoreError("the disk is full"), BusyError("later")])
def test_temporary_failure_is_answered_with_retry_after(
    client: TestClient, gateway: LocalGateway, error: Exception
) -> None:
    gateway.broken = error
    answer = client.post("/v1/reboot", json={"vms": ["web_0"]})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["kind"] == "unavailable"


@in_loop
async def test_requests_without_a_token_take_turns() -> None:
    """Many of them together delay no other request by more than one of them."""
    iteration = 0
    iterations: list[int] = []

    async def noting(_scope: Scope, _receive: Receive, _send: Send) -> None:
        iterations.append(iteration)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    now = SystemClock().monotonic
    gate = Gate(
        noting,
        identity=Identity(TOKENS, throttle=Throttle(now), is_local_operator=None),
        refused=RefusalLog(now),
        relay_refused=lambda: None,
    )
    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
    tasks = [
        asyncio.ensure_future(gate(dict(scope), nothing, nothing)) for _ in range(20)
    ]
    while not all(task.done() for task in tasks):
        iteration += 1
        await asyncio.sleep(0)
    assert len(iterations) == len(set(iterations)) == 20


def test_error_while_the_token_is_checked_is_an_internal_error(
    guarded: TestClient, gateway: LocalGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.broken = ValueError("inside")
    with caplog.at_level(logging.ERROR):
        answer = guarded.get(
            "/v1/operations", headers=bearer("fw_0123456789_" + "0" * 64)
        )
    assert (answer.status_code, answer.json()["kind"]) == (500, "internal")
    assert "inside" not in answer.text
    assert [record.name for record in caplog.records] == ["forewarn.admin"]


def test_path_with_control_characters_has_no_route(guarded: TestClient) -> None:
    for path in ("/v1/operations%0A", "/v1/operations/x%0A", "/metrics%0A", "/%00"):
        for headers in ({}, bearer("s3cret-of-24-characters-x7")):
            answer = guarded.get(path, headers=headers)
            assert (answer.status_code, answer.json()["kind"]) == (404, "not-found")


def test_internal_error_is_logged_once_and_not_disclosed(
    client: TestClient, gateway: LocalGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.broken = ZeroDivisionError("inside")
    with caplog.at_level(logging.ERROR):
        answer = client.get("/v1/operations")
    assert answer.status_code == 500
    assert "inside" not in answer.text
    assert answer.json()["kind"] == "internal"
    assert [record.name for record in caplog.records] == ["forewarn.admin"]
