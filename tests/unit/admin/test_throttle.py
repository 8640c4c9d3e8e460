"""Failed authentication is slowed down and logged, and does not affect other callers."""

import logging

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.app import create_app
from forewarn.admin.errors import TooManyError
from forewarn.admin.throttle import RefusalLog, Throttle, source_of
from forewarn.admin.tokens import parse_tokens
from forewarn.instants import SECOND
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.tenants import Shared

ALICE = "alice-0123456789abcdef-0123"


class Seconds:
    """The I/O time."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def guarded(gateway: LocalGateway) -> TestClient:
    known = parse_tokens(f"alice:{ALICE}\n", file="tokens")
    app = create_app(gateway, tokens=known, version="1", clock=gateway.clock)
    return TestClient(app, base_url="http://forewarn.example", client=("192.0.2.7", 1))


def ask(client: TestClient, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return client.get("/v1/fleet", headers=headers).status_code


def test_wrong_tokens_of_one_source_are_slowed_down(gateway: LocalGateway) -> None:
    client = guarded(gateway)
    token = client.post(
        "/v1/tokens", json={}, headers={"Authorization": f"Bearer {ALICE}"}
    ).json()["token"]
    for number in range(limits.FAILURES_AT_ONCE):
        assert ask(client, f"wrong-{number}") == 401
    answer = client.get("/v1/fleet", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()["kind"]) == (429, "too-many")
    assert answer.headers["retry-after"] == f"{limits.FAILURE_SECONDS:g}"
    # A valid token is valid, also from here and if it is new.
    assert [ask(client, token), ask(client, token), ask(client, ALICE)] == [200] * 3
    assert ask(client, token[:-1] + "!") == 429
    gateway.clock.advance_to(gateway.now() + round(limits.FAILURE_SECONDS * SECOND))
    assert [ask(client, "wrong"), ask(client, "wrong")] == [401, 429]


def test_valid_token_is_accepted_after_many_invalid_ones(
    gateway: LocalGateway,
) -> None:
    client = guarded(gateway)
    for number in range(limits.FAILURES_AT_ONCE + 5):
        ask(client, f"wrong-{number}")
    # This process has not seen the token before.
    assert ask(client, ALICE) == 200


def test_pages_without_a_token_are_rate_limited_for_each_source(
    gateway: LocalGateway,
) -> None:
    client = guarded(gateway)
    codes = [client.get("/docs").status_code for _ in range(limits.PAGES_AT_ONCE)]
    assert codes == [200] * limits.PAGES_AT_ONCE
    for path in ("/", "/docs", "/openapi.json"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["kind"]) == (429, "too-many")
        assert answer.headers["retry-after"] == "1"
    # Probes, other sources and valid tokens have no such limit.
    assert client.get("/readyz").status_code == 200
    other = TestClient(client.app, client=("192.0.2.8", 1))
    assert other.get("/docs").status_code == 200
    headers = {"Authorization": f"Bearer {ALICE}"}
    assert client.get("/docs", headers=headers).status_code == 200
    gateway.clock.advance_to(gateway.now() + SECOND)
    assert client.get("/docs").status_code == 200


def test_revoked_token_is_rejected(gateway: LocalGateway) -> None:
    client = guarded(gateway)
    alice = {"Authorization": f"Bearer {ALICE}"}
    body = client.post("/v1/tokens", json={}, headers=alice).json()
    assert ask(client, body["token"]) == 200
    client.post("/v1/tokens/revoke", json={"id": body["id"]}, headers=alice)
    codes = [ask(client, body["token"]) for _ in range(limits.FAILURES_AT_ONCE + 1)]
    assert codes == [401] * limits.FAILURES_AT_ONCE + [429]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOURCES_MAX", 3)
    monkeypatch.setattr(limits, "KNOWN_TOKENS_MAX", 3)
    throttle = Throttle(Seconds())
    for number in range(10):
        for _ in range(limits.FAILURES_AT_ONCE):
            throttle.failed(f"192.0.2.{number}", "wrong")
        throttle.succeeded(f"good-{number}")
    for number in range(7, 10):
        assert throttle.is_exhausted(f"192.0.2.{number}")
        with pytest.raises(TooManyError):
            throttle.failed(f"192.0.2.{number}", "wrong")
        assert throttle.is_known(f"good-{number}")
    assert not throttle.is_exhausted("192.0.2.6")
    assert not throttle.is_known("good-6")


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("pid 7, uid 1000", "uid 1000"),
        ("", ""),
    ],
)
def test_source_is_derived_from_the_peer_address(peer: str, source: str) -> None:
    assert source_of(peer) == source


def test_refused_requests_are_logged_within_limits(
    gateway: LocalGateway, caplog: pytest.LogCaptureFixture
) -> None:
    client = guarded(gateway)
    with caplog.at_level(logging.WARNING, "forewarn.admin"):
        for _ in range(5):
            ask(client, "s3cret-and-wrong")
        (line,) = caplog.records
        assert line.getMessage() == (
            "the operator API refused a request from 192.0.2.7: a valid bearer token is "
            "needed"
        )
        assert "s3cret-and-wrong" not in caplog.text
        caplog.clear()
        gateway.clock.advance_to(
            gateway.now() + round(limits.REFUSED_LOG_SECONDS * SECOND)
        )
        ask(client, "wrong")
        assert caplog.text.endswith("needed (4 more were not logged)\n")
        caplog.clear()
        log = RefusalLog(Seconds())
        for number in range(100):
            log.note("no", peer=f"192.0.2.{number}")
        assert len(caplog.records) == limits.REFUSED_LOG_LINES


def test_forbidden_request_is_logged_with_the_token_holder(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared = Shared()
    token = shared.token()
    with caplog.at_level(logging.WARNING, "forewarn.admin"):
        for _ in range(3):
            assert shared.ask(token, "GET", "/v1/tokens").status_code == 403
    (line,) = caplog.records
    assert (
        "a request of shop/ci from testclient: this request needs an operator"
        in line.getMessage()
    )


def test_reads_of_a_tenant_are_rate_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared()
    shop, bank = shared.token(), shared.token("hidden-bank")
    monkeypatch.setattr(limits, "TENANT_READS_AT_ONCE", 30)
    # As good as none come back while the test runs.
    monkeypatch.setattr(limits, "TENANT_READS_PER_SECOND", 0.001)
    codes = [shared.ask(shop, "GET", "/v1/events").status_code for _ in range(32)]
    assert codes == [200] * 30 + [429] * 2
    # Orders, operators and other tenants have their own.
    assert shared.ask(bank, "GET", "/v1/fleet").status_code == 200
    assert shared.client.get("/v1/fleet").status_code == 200
