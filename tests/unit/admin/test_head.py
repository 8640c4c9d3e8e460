"""Checks of a request's head, before its body is read."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from fastapi import APIRouter
from starlette.responses import Response
from starlette.types import Message

from forewarn.admin import limits
from forewarn.admin.access import DEMANDS, Demand, demand_of
from tests.unit.admin.tenants import Shared


@pytest.fixture
def shared() -> Shared:
    return Shared()


class Asked:
    """One request to the application, with its response."""

    def __init__(
        self,
        shared: Shared,
        token: str,
        path: str,
        *,
        length: int,
        http: str = "1.1",
        method: str = "POST",
    ) -> None:
        self._app = shared.app
        self.read = 0
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        headers = [
            (b"host", b"127.0.0.1:8200"),
            (b"content-type", b"application/json"),
            (b"content-length", str(length).encode()),
        ]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": http,
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8200),
        }

    def run(self, pieces: Iterator[bytes]) -> "Asked":
        """Send it, with the body in pieces."""

        async def receive() -> Message:
            self.read += 1
            piece = next(pieces, None)
            more = piece is not None
            return {"type": "http.request", "body": piece or b"", "more_body": more}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = dict(message["headers"])

        anyio.run(self._app, self._scope, receive, send)
        return self


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


@pytest.mark.parametrize("path", ["/v1/fleet/apply", "/v1/maintain", "/v1/tokens"])
@pytest.mark.parametrize("read_only", [True, False])
def test_forbidden_tenant_request_is_refused_before_its_body_is_read(
    shared: Shared, path: str, read_only: bool
) -> None:
    token = shared.token(read_only=read_only)
    request = Asked(shared, token, path, length=60 << 20).run(endless(b"[" * 65536))
    assert (request.status, request.read) == (403, 0)
    assert request.headers[b"connection"] == b"close"


def test_request_without_valid_token_is_refused_before_its_body_is_read(
    shared: Shared,
) -> None:
    wrong = "fw_0000000000_" + "0" * 64
    request = Asked(shared, wrong, "/v1/reboot", length=60 << 20).run(endless(b"["))
    assert (request.status, request.read) == (401, 0)
    assert request.headers[b"connection"] == b"close"


def test_tenant_over_its_rate_limit_is_refused_before_its_body_is_read(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 1)
    token = shared.token()
    for expected, read in ((400, True), (429, False)):
        request = Asked(shared, token, "/v1/reboot", length=2).run(iter([b"{}"]))
        assert (request.status, request.read > 0) == (expected, read)


def test_refused_tenant_requests_count_against_its_rate_limit(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 3)
    token = shared.token()
    statuses = [
        shared.ask(token, "POST", "/v1/maintain", json={}).status_code for _ in range(5)
    ]
    assert statuses == [403, 403, 403, 429, 429]
    # Nothing that it may read is refused.
    assert shared.ask(token, "GET", "/v1/events").status_code == 200


def test_refused_requests_of_one_token_do_not_slow_down_another(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 3)
    reading, writing = shared.token(read_only=True), shared.token()
    body = {"vms": ["web_0"]}
    for path in ("/v1/reboot", "/v1/nowhere"):
        for _ in range(5):
            shared.ask(reading, "POST", path, json=body)
    answer = shared.ask(reading, "POST", "/v1/reboot", json=body)
    assert answer.status_code == 429
    assert "too many refused requests from token tk-" in answer.json()["error"]
    assert shared.ask(writing, "POST", "/v1/reboot", json=body).status_code == 201


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_to_unknown_routes_are_rate_limited(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 3)
    token = shared.token()
    codes = [
        shared.ask(token, method, "/v1/nowhere", json={}).status_code for _ in range(4)
    ]
    assert codes == [404] * 3 + [429]
    # An operator has no limit.
    for _ in range(5):
        assert shared.client.request(method, "/v1/nowhere", json={}).status_code == 404


def test_refusal_of_an_additional_route_is_logged_and_rate_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 2)
    router = APIRouter()

    @router.get("/more")
    async def more() -> Response:
        raise AssertionError("only for operators")

    shared = Shared(extra=[router])
    token = shared.token()
    with caplog.at_level(logging.WARNING, "forewarn.admin"):
        codes = [shared.ask(token, "GET", "/v1/more").status_code for _ in range(3)]
    assert codes == [403, 403, 429]
    assert "this request needs an operator token" in caplog.text


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/v1/maintain", limits.ORDER_BYTES_MAX),
        ("/v1/fleet/plan", limits.FLEET_BYTES_MAX),
    ],
)
def test_body_with_too_large_content_length_is_not_read(
    shared: Shared, path: str, most: int
) -> None:
    request = Asked(shared, "", path, length=most + 1).run(endless(b" "))
    assert (request.status, request.read) == (413, 0)


def test_tenant_body_is_limited_to_64_kib(shared: Shared) -> None:
    token = shared.token()
    long = limits.TENANT_BYTES_MAX + 1
    request = Asked(shared, token, "/v1/reboot", length=long).run(endless(b" "))
    assert (request.status, request.read) == (413, 0)


def test_json_of_very_many_values_is_refused_before_it_is_parsed(
    shared: Shared,
) -> None:
    body = b"[" + b"[]," * limits.BODY_VALUES_MAX + b"[]]"
    answer = shared.client.post(
        "/v1/maintain", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert f"{limits.BODY_VALUES_MAX} JSON values" in answer.json()["error"]


def test_a_nested_fleet_file_is_refused_at_its_first_bracket(shared: Shared) -> None:
    body = b'{"name": "x", "text": ['
    pieces = iter([body + b"[" * limits.ORDER_BYTES_MAX, *[b"["] * 1000])
    request = Asked(shared, "", "/v1/fleet/plan", length=60 << 20).run(pieces)
    assert (request.status, request.read) == (400, 1)


def test_only_one_large_fleet_file_is_received_at_a_time(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FLEET_TURN_SECONDS", 0.01)
    statuses: list[int] = []

    def pieces() -> Iterator[bytes]:
        yield b'{"name": "x", "text": "'
        other = Asked(shared, "", "/v1/fleet/plan", length=2 << 20)
        statuses.append(_nested(other).status)
        yield b"#" * limits.ORDER_BYTES_MAX + b'"}'

    request = Asked(shared, "", "/v1/fleet/plan", length=1 << 20).run(pieces())
    assert statuses == [503]
    # An empty file would remove the fleet; it was read, and judged.
    assert request.status == 409
    again = Asked(shared, "", "/v1/fleet/plan", length=1 << 20).run(iter([b"{}"]))
    assert again.status == 400


def _nested(asked: Asked) -> Asked:
    """Run a request while another one waits for its body."""
    thread = threading.Thread(target=asked.run, args=(endless(b"#"),))
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return asked


def test_required_permission_is_found_by_method_and_path() -> None:
    assert demand_of("GET", "/v1/explain/op-1") is Demand.TENANT_READS
    assert demand_of("POST", "/v1/fleet/apply") is Demand.OPERATOR_RUNS
    assert demand_of("GET", "/metrics") is Demand.OPERATOR_READS
    for path in ("/v1/operations/a/b", "/v1/fleet/apply/", "/v1/nothing", "/"):
        assert demand_of("POST", path) is None
    for route, demand in DEMANDS.items():
        method, _, path = route.partition(" ")
        assert demand_of(method, path.replace("{name}", "x")) is demand


FORWARDING = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "Via",
)


@pytest.mark.parametrize("header", FORWARDING)
@pytest.mark.parametrize("path", ["/v1/operations", "/healthz", "/"])
def test_without_tokens_a_forwarded_request_is_refused(
    shared: Shared, header: str, path: str
) -> None:
    answer = shared.client.get(path, headers={header: "192.0.2.1"})
    assert answer.status_code == 403
    assert header.lower() in answer.json()["error"]
    assert "token_file" in answer.json()["hint"]
    assert shared.client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/operations", "/metrics", "/v1/reboot"])
def test_without_tokens_an_http_1_0_request_counts_as_forwarded(
    shared: Shared, path: str
) -> None:
    """nginx adds no header by itself, and speaks HTTP/1.0."""
    method = "POST" if path == "/v1/reboot" else "GET"
    bare = Asked(shared, "", path, length=0, http="1.0", method=method)
    assert bare.run(iter([])).status == 403
    usual = Asked(shared, "", path, length=0, method=method)
    assert usual.run(iter([])).status in {200, 400}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_probe_may_use_http_1_0(shared: Shared, path: str) -> None:
    probe = Asked(shared, "", path, length=0, http="1.0", method="GET")
    assert probe.run(iter([])).status == 200


@pytest.mark.parametrize("digits", ["0" * 5000 + "1", "9" * 5000])
@pytest.mark.parametrize("path", ["/healthz", "/v1/reboot", "/v1/fleet/plan"])
def test_content_length_of_thousands_of_digits_is_no_server_error(
    shared: Shared, digits: str, path: str
) -> None:
    headers = {"Content-Length": digits, "Content-Type": "application/json"}
    answer = shared.client.post(path, headers=headers, content=b"")
    assert answer.status_code in {400, 405, 413}
