"""FleetLock on the wire: the bytes that Zincati sends, and servers that lie."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.locks.fleetlock import FleetLock, body_of
from forewarn.agent.locks.port import LockError
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import SystemClock
from forewarn.protocol.errors import ForewarnError
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.fake_fleetlock import FakeFleetLock, Odd

pytestmark = pytest.mark.slow

ID = "e0f3745b108f471cbd4883c6fbed8cdd"


def context(seconds: float = 30.0) -> RunContext:
    return context_for(seconds, SystemClock())


@pytest.fixture(params=["airlock", "lease"])
def server(request: pytest.FixtureRequest) -> Iterator[FakeFleetLock]:
    with FakeFleetLock(style=request.param) as fake:
        yield fake


def client(server: FakeFleetLock, **more: str) -> FleetLock:
    values: dict[str, Any] = {"url": server.url, **more}
    settings = LockSettings(kind="fleetlock", **values)
    return FleetLock(settings, clock=SystemClock())


# Requests


ZINCATI_BODY = b"""{
  "client_params": {
    "id": "e0f3745b108f471cbd4883c6fbed8cdd",
    "group": "mock-workers"
  }
}"""
"""As `serde_json::to_string_pretty` writes it in Zincati, and its tests compare it."""


def test_body_equals_that_of_zincati() -> None:
    assert body_of(ID, "mock-workers") == ZINCATI_BODY


def test_body_has_the_members_of_the_protocol() -> None:
    """The example of the protocol's document."""
    assert json.loads(body_of("c988d2509fdf5cdcbed39037c56406fb", "workers")) == {
        "client_params": {
            "group": "workers",
            "id": "c988d2509fdf5cdcbed39037c56406fb",
        }
    }


@pytest.mark.parametrize("base", ["", "/base", "/base/"])
def test_requests_follow_the_protocol(base: str) -> None:
    with FakeFleetLock({"mock-workers": 1}, base=base.rstrip("/")) as fake:
        url = f"http://127.0.0.1:{fake.port}{base}"
        lock = client(fake, url=url, group="mock-workers")
        assert lock.take(ID, context()).is_held
        lock.release(ID, context())
    took, gave = fake.came
    root = base.rstrip("/")
    assert took.line == f"POST {root}/v1/pre-reboot HTTP/1.1"
    assert gave.line == f"POST {root}/v1/steady-state HTTP/1.1"
    for came in (took, gave):
        assert came.body == ZINCATI_BODY
        assert dict(came.headers) == {
            "Host": f"127.0.0.1:{fake.port}",
            "User-Agent": "forewarn-agent",
            "Accept-Encoding": "identity",
            "fleet-lock-protocol": "true",
            "Content-Length": str(len(ZINCATI_BODY)),
            "Connection": "close",
        }


def test_token_is_sent_as_bearer_authorization(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    with FakeFleetLock() as fake:
        assert client(fake, token_file=str(file)).take("web_0", context()).is_held
        file.unlink()
        with pytest.raises(ForewarnError, match="cannot be read"):
            client(fake, token_file=str(file)).take("web_0", context())
    assert dict(fake.came[0].headers)["Authorization"] == "Bearer s3cret"


# Responses

WEB_PAGE = "a web page: is this a proxy or a login page instead of a FleetLock server?"
UNFOLLOWED = "which is not followed: set the server's final URL"


def test_full_semaphore_is_a_refusal_with_the_servers_message(
    server: FakeFleetLock,
) -> None:
    client(server).take("web_0", context())
    refused = client(server).take("web_1", context())
    assert not refused.is_held
    assert refused.detail == (
        "all 1 semaphore slots currently locked"
        if server.style == "airlock"
        else "reboot lease lock unavailable, held by web_0"
    )


def test_release_of_a_lock_held_by_another_succeeds(server: FakeFleetLock) -> None:
    client(server).take("web_0", context())
    client(server).release("web_1", context())
    assert server.held() == ["web_0"]


def test_unknown_group_is_reported() -> None:
    with FakeFleetLock() as fake, pytest.raises(LockError) as refused:
        client(fake, group="db").take("web_0", context())
    assert refused.value.message == (
        'POST /v1/pre-reboot was answered 400: unknown_group: unknown group "db"'
    )


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (
            Odd(body=b'{"kind": "failed_lock", "value": "no etcd"}'),
            "was answered 200 with an error: failed_lock: no etcd",
        ),
        (Odd(body=b'{"error": "denied"}'), "was answered 200 with an error: denied"),
        (
            Odd(body=b'{"error": {"code": 7}}'),
            "was answered 200 with an error: {'code': 7}",
        ),
        (
            Odd(status=409, body=b"<html>", content_type="text/html"),
            "was answered 409: <html>",
        ),
        (
            Odd(body=b"<!DOCTYPE html><html>Log in"),
            f"was answered 200 with {WEB_PAGE}",
        ),
        (
            Odd(body=b"welcome", content_type="text/html; charset=utf-8"),
            f"was answered 200 with {WEB_PAGE}",
        ),
        (Odd(status=204), "was answered 204"),
        (Odd(status=202, body=b"queued"), "was answered 202: queued"),
        (
            Odd(status=302, headers=(("Location", "https://example.com/"),)),
            f"was answered 302: a redirect to https://example.com/, {UNFOLLOWED}",
        ),
        (Odd(status=307), "was answered 307: a redirect to no location, which is not"),
        (Odd(status=500, body=b"\x00\xff"), "was answered 500"),
        (Odd(status=500, body=b"[" * 60_000), "was answered 500"),
        (Odd(status=503, body=b"\n\nUpstream is away\n"), "503: Upstream is away"),
        (Odd(status=400, body=b'{"kind": 7, "value": []}'), "was answered 400"),
        (
            Odd(status=500, body=b'{"kind": "failed_sem_init", "value": "no etcd"}'),
            "was answered 500: failed_sem_init: no etcd",
        ),
        (Odd(status=404, body=b"404 page not found\n"), "404: 404 page not found"),
    ],
)
def test_unexpected_answer_is_an_error_with_a_message(odd: Odd, told: str) -> None:
    with FakeFleetLock() as fake:
        fake.odd = [odd, odd]
        with pytest.raises(LockError) as took:
            client(fake).take("web_0", context())
        assert took.value.message.startswith("POST /v1/pre-reboot was answered")
        assert told in took.value.message
        with pytest.raises(LockError) as gave:
            client(fake).release("web_0", context())
        assert gave.value.message.startswith("POST /v1/steady-state was answered")


@pytest.mark.parametrize(
    "body", [b"", b"ok", b"obtained reboot lease", b"{}", b'{"slots": 2}', b"\xff"]
)
def test_status_200_grants_the_lock_with_any_body(body: bytes) -> None:
    """The protocol says nothing of its body."""
    with FakeFleetLock() as fake:
        fake.odd = [Odd(body=body)]
        assert client(fake).take("web_0", context()).is_held


@pytest.mark.parametrize("status", [409, 423])
def test_conflict_status_without_body_is_a_refusal(status: int) -> None:
    with FakeFleetLock() as fake:
        fake.odd = [Odd(status=status), Odd(status=status)]
        refused = client(fake).take("web_0", context())
        assert (refused.is_held, refused.detail) == (False, str(status))
        client(fake).release("web_0", context())


def test_hanging_server_times_out() -> None:
    with FakeFleetLock() as fake:
        fake.odd = [Odd(hangs_seconds=60)]
        with pytest.raises(ForewarnError) as refused:
            client(fake).take("web_0", context(0.5))
        assert "no time left while waiting for the answer" in refused.value.message


def test_response_over_the_size_limit_is_an_error() -> None:
    with FakeFleetLock() as fake:
        fake.odd = [Odd(body=b"x" * 70_000)]
        with pytest.raises(ForewarnError, match="more than 65536 bytes"):
            client(fake).take("web_0", context())


@needs_openssl
def test_no_request_is_sent_to_a_server_with_an_untrusted_certificate(
    tmp_path: Path,
) -> None:
    certificate = certificate_in(tmp_path)
    with FakeFleetLock(tls=certificate.server()) as fake:
        with pytest.raises(ForewarnError, match="no trusted connection"):
            client(fake).take("web_0", context())
        assert fake.came == []
        trusted = client(fake, ca_file=str(certificate.certificate))
        assert trusted.take("web_0", context()).is_held
        assert "accepts connections" in trusted.describe(context())


@needs_openssl
def test_client_certificate_is_sent_on_request(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    tls = certificate.server()
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate.certificate)
    with FakeFleetLock(tls=tls) as fake:
        ca = str(certificate.certificate)
        with pytest.raises(ForewarnError):
            client(fake, ca_file=ca).take("web_0", context())
        key = str(certificate.key)
        shown = client(fake, ca_file=ca, cert_file=ca, key_file=key)
        assert shown.take("web_0", context()).is_held


def test_check_asks_nothing_that_could_change_the_lock() -> None:
    with FakeFleetLock() as fake:
        message = client(fake).describe(context())
        assert message == (
            f"{fake.url} accepts connections; FleetLock does not show the holders"
        )
        assert fake.came == []
    with pytest.raises(ForewarnError, match="connection refused"):
        client(fake).describe(context())


@pytest.mark.parametrize(
    "body", [b"", b"null", b"ok", b"[]", b"{}", b'{"error": null}']
)
def test_any_200_response_means_the_lock_is_held(body: bytes) -> None:
    with FakeFleetLock() as fake:
        fake.odd = [Odd(body=body, does=True)]
        assert client(fake).take("web_0", context()).is_held
