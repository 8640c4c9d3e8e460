"""Sessions of the console: their beginning, their rights and their end."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.admin.leader import Leader, Leading
from forewarn.admin.tokens import parse_tokens
from forewarn.instants import HOUR, SECOND, parse_duration
from forewarn.store.port import StoreError
from tests.unit.admin.browsers import (
    BEARER,
    SECRET,
    SECURE,
    SITE,
    TOKENS,
    Browser,
    Service,
)


@pytest.fixture(scope="module")
def shared() -> Service:
    return Service()


def test_session_has_the_rights_of_its_token(shared: Service) -> None:
    browser = Browser(shared.client)
    assert browser.ask("GET", "/v1/operations").status_code == 401
    answer = browser.log_in(token=SECRET)
    assert answer.status_code == 201
    body = answer.json()
    assert body["name"] == "alice"
    assert body["tenant"] is None
    assert body["identified_by"] == "session"
    assert body["read_only"] is False
    assert {"campaigns", "campaign-halt", "brake", "approve"} <= set(body["orders"])
    assert body["expires"] == "2030-01-01T12:00:00Z"
    assert body["now"] == "2030-01-01T00:00:00Z"
    assert body["version"] == "1.2"
    assert browser.ask("GET", "/v1/operations").status_code == 200
    response = browser.ask("POST", "/v1/reboot", json={"vms": ["web_0"]})
    assert response.json()["actor"] == "alice"


def test_cookie_has_neither_the_token_nor_a_name_that_other_hosts_can_set(
    shared: Service,
) -> None:
    browser = Browser(shared.client)
    answer = browser.log_in(token=SECRET)
    assert SECRET not in answer.text
    assert len(browser.said) == 1
    cookie = browser.said[0]
    assert SECRET not in cookie
    assert cookie.startswith(f"{SECURE}=")
    pair, _, attributes = cookie.partition("; ")
    assert len(pair) < 400
    assert attributes == "Max-Age=43200; Path=/; HttpOnly; SameSite=Strict; Secure"


def test_tenant_sees_only_its_own(shared: Service) -> None:
    token = shared.token("shop", read_only=True)
    browser = Browser(shared.client)
    body = browser.log_in(token=token["token"]).json()
    assert (body["name"], body["tenant"]) == ("shop/ci", "shop")
    assert (body["roles"], body["read_only"], body["orders"]) == (["view"], True, [])
    assert browser.ask("GET", "/v1/capacity").status_code == 403
    assert browser.ask("POST", "/v1/reboot", json={"vms": ["web_0"]}).status_code == 403
    fleet = browser.ask("GET", "/v1/fleet").text
    assert "web_0" in fleet
    assert "db_0" not in fleet
    shared.revoke(token)


@pytest.mark.parametrize(
    ("tenant", "roles", "offered", "refused"),
    [
        ("", ["approve"], {"approve", "campaign-halt"}, {"reboot", "campaign-resume"}),
        ("", ["plan"], {"campaigns/plan", "brake"}, {"campaigns", "expedite"}),
        ("shop", ["run"], {"redeploy", "cancel"}, {"approve", "campaign-halt", "fail"}),
    ],
)
def test_orders_of_a_session_are_those_that_its_roles_admit(
    shared: Service, tenant: str, roles: list[str], offered: set[str], refused: set[str]
) -> None:
    token = shared.token(tenant, roles=roles)
    session = Browser(shared.client).log_in(token=token["token"]).json()
    assert offered <= set(session["orders"])
    assert not refused & set(session["orders"])
    shared.revoke(token)


@pytest.mark.parametrize("lifetime", ["5m", "30d"])
def test_session_ends_after_12_hours_or_with_its_token(lifetime: str) -> None:
    service = Service()
    token = service.token(expires_in=lifetime)
    browser = Browser(service.client)
    browser.log_in(token=token["token"])
    left = "5m" if lifetime == "5m" else "12h"
    service.move(parse_duration(left) - SECOND)
    assert browser.who() == "shop/ci"
    service.move(SECOND)
    answer = browser.ask("GET", "/v1/session")
    assert answer.status_code == 401
    assert answer.json()["error"] == "the session is over"
    assert "forewarn console" in answer.json()["hint"]


def test_session_ends_when_its_token_is_revoked(shared: Service) -> None:
    token = shared.token()
    browser = Browser(shared.client)
    browser.log_in(token=token["token"])
    assert browser.who() == "shop/ci"
    shared.revoke(token)
    assert browser.ask("GET", "/v1/operations").status_code == 401
    assert browser.ask("POST", "/v1/reboot", json={"vms": ["web_0"]}).status_code == 401
    # Another token of the same name does not continue it.
    again = shared.token()
    assert browser.who() == ""
    shared.revoke(again)


def test_session_of_a_token_of_the_file_ends_with_its_line() -> None:
    first = Service()
    browser = Browser(first.client)
    browser.log_in(token=SECRET)
    for text, who in (
        (f"alice:{SECRET}\nbob:another-secret-of-24-chars", "alice"),
        ("alice:another-secret-of-24-chars", ""),
        ("bob:another-secret-of-24-chars", ""),
    ):
        tokens = parse_tokens(text, file="tokens")
        browser.client = Service(tokens, gateway=first.gateway).client
        assert browser.who() == who, text


def test_session_survives_a_restart_and_is_good_at_each_replica() -> None:
    first = Service()
    browser = Browser(first.client)
    browser.log_in(token=SECRET)
    follower = Leading()
    follower.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    browser.client = Service(gateway=first.gateway, leading=follower).client
    assert browser.who() == "alice"
    # A session also begins at a replica that follows.
    other = Browser(browser.client)
    assert other.log_in(token=SECRET).status_code == 201
    other.client = first.client
    assert other.who() == "alice"


def test_session_of_another_store_is_none(shared: Service) -> None:
    browser = Browser(Service().client)
    browser.log_in(token=SECRET)
    browser.client = shared.client
    answer = browser.ask("GET", "/v1/session")
    assert answer.status_code == 401
    assert answer.json()["error"] == "a valid bearer token is needed"


def changed(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


@pytest.mark.parametrize(
    "forge",
    [
        lambda text: changed(text, 10),
        lambda text: changed(text, len(text) - 1),
        lambda text: text.partition(".")[0] + ".",
        lambda text: text.partition(".")[0],
        lambda text: "." + text.partition(".")[2],
        lambda _text: "",
        lambda _text: "x" * 5_000,
        lambda _text: "\u00fc.\u00fc",
        lambda text: text + "." + text,
        lambda text: f"{text}; {SECURE}={text}",
        lambda text: f"x; {SECURE}={text}",
    ],
)
def test_forged_cookie_is_none(shared: Service, forge: Callable[[str], str]) -> None:
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    good = browser.cookies[SECURE]
    assert browser.who() == "alice"
    cookie = f"{SECURE}={forge(good)}".encode()
    answer = shared.client.get("/v1/session", headers=[(b"Cookie", cookie)])
    assert answer.status_code == 401


def test_bearer_token_has_precedence_over_a_cookie(shared: Service) -> None:
    token = shared.token()
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    bearer = {"Authorization": f"Bearer {token['token']}"}
    body = browser.ask("GET", "/v1/session", headers=bearer).json()
    assert (body["name"], body["identified_by"]) == ("shop/ci", "token")
    bad = {"Authorization": "Bearer nonsense"}
    assert browser.ask("GET", "/v1/session", headers=bad).status_code == 401
    shared.revoke(token)


def test_logging_out_ends_the_session_everywhere() -> None:
    service = Service()
    browser = Browser(service.client)
    browser.log_in(token=SECRET)
    copy = dict(browser.cookies)
    answer = browser.ask("DELETE", "/v1/session")
    assert answer.json() == {"ended": True}
    assert browser.cookies == {}
    browser.cookies = copy
    assert browser.who() == ""
    browser.client = Service(gateway=service.gateway).client
    assert browser.who() == ""
    service.move(11 * HOUR)
    assert browser.who() == ""


def test_logging_out_at_a_replica_that_follows_says_how_far_it_goes() -> None:
    follower = Leading()
    service = Service(leading=follower)
    browser = Browser(service.client)
    browser.log_in(token=SECRET)
    copy = dict(browser.cookies)
    follower.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    assert browser.ask("DELETE", "/v1/session").json() == {"ended": False}
    assert browser.cookies == {}
    browser.cookies = copy
    assert browser.who() == ""


def test_log_out_that_could_not_be_stored_is_completed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    browser = Browser(service.client)
    browser.log_in(token=SECRET)
    copy = dict(browser.cookies)

    async def full(*_order: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(service.gateway, "order", full)
        assert browser.ask("DELETE", "/v1/session").status_code == 503
    # The session continues, and the browser still has its cookie.
    assert browser.cookies == copy
    assert browser.who() == "alice"
    assert browser.ask("DELETE", "/v1/session").json() == {"ended": True}
    browser.cookies = copy
    browser.client = Service(gateway=service.gateway).client
    assert browser.who() == ""


def test_log_out_at_a_replica_is_completed_when_it_leads() -> None:
    replica = Leading()
    service = Service(leading=replica)
    browser = Browser(service.client)
    browser.log_in(token=SECRET)
    copy = dict(browser.cookies)
    replica.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    assert browser.ask("DELETE", "/v1/session").json() == {"ended": False}
    browser.cookies = dict(copy)
    assert browser.who() == ""
    replica.elsewhere = None
    assert browser.who() == ""
    assert browser.ask("DELETE", "/v1/session").json() == {"ended": True}
    browser.cookies = copy
    browser.client = Service(gateway=service.gateway).client
    assert browser.who() == ""


def test_cookie_of_a_session_that_is_over_can_be_removed() -> None:
    # Without tokens, the browser would otherwise have no right until the cookie ends.
    for known, base in ((TOKENS, SITE), (None, "http://127.0.0.1:8200")):
        service = Service(known, base=base)
        token = service.token()
        browser = Browser(service.client)
        browser.log_in(token=token["token"])
        service.revoke(token)
        assert browser.who() == ""
        assert browser.ask("DELETE", "/v1/session").json() == {"ended": False}
        assert browser.cookies == {}
        assert browser.who() == ("" if known else "operator")


def test_logging_out_without_a_session_ends_nothing(shared: Service) -> None:
    headers = {**BEARER, "Content-Type": "application/json"}
    answer = shared.client.delete("/v1/session", headers=headers)
    assert answer.json() == {"ended": False}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"token": ""},
        {"token": SECRET, "link": "x"},
        {"token": SECRET, "name": "root"},
        {"token": "x" * 2_000},
        {"token": ["x"]},
    ],
)
def test_malformed_login_is_refused_without_repeating_it(
    shared: Service, body: Any
) -> None:
    answer = Browser(shared.client).ask("POST", "/v1/session", json=body)
    assert answer.status_code == 400
    assert SECRET not in answer.text
    assert "xxx" not in answer.text


def test_failed_logins_count_like_invalid_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FAILURES_AT_ONCE", 3)
    service = Service()
    browser = Browser(service.client)
    codes = [browser.log_in(token=f"wrong-{n}").status_code for n in range(2)]
    codes.append(browser.log_in(link="wrong").status_code)
    assert codes == [401] * 3
    late = browser.log_in(token="wrong")
    assert (late.status_code, late.headers["retry-after"]) == (429, "5")
    assert browser.log_in(link="wrong").status_code == 429
    headers = {"Authorization": "Bearer wrong"}
    assert service.client.get("/v1/operations", headers=headers).status_code == 429
    # No source can lock out a valid token.
    assert browser.log_in(token=SECRET).status_code == 201
    assert browser.log_in(link=service.link()["link"]).status_code == 201


@pytest.mark.parametrize("end", ["expires", "logs out", "is revoked"])
def test_requests_of_a_session_that_is_over_count_like_invalid_tokens(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FAILURES_AT_ONCE", 3)
    service = Service()
    token = service.token("", expires_in="1h")
    browser = Browser(service.client)
    browser.log_in(token=token["token"])
    copy = dict(browser.cookies)
    if end == "expires":
        service.move(HOUR)
    elif end == "logs out":
        browser.ask("DELETE", "/v1/session")
        browser.cookies = dict(copy)
    else:
        service.revoke(token)
    codes = [browser.ask("GET", "/v1/brake").status_code for _ in range(5)]
    assert codes == [401, 401, 401, 429, 429]
    # The cookie can still be removed, also by another session.
    assert browser.log_in(token=SECRET).status_code == 201
    assert browser.who() == "alice"
    browser.cookies = copy
    assert browser.ask("DELETE", "/v1/session").json() == {"ended": False}
    assert browser.cookies == {}


def test_session_whose_time_has_passed_costs_no_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    browser = Browser(service.client)
    browser.log_in(token=SECRET)
    assert browser.who() == "alice"
    service.move(12 * HOUR)

    async def read(_ask: object) -> None:
        raise AssertionError("the store is read")

    monkeypatch.setattr(service.gateway, "read", read)
    assert browser.ask("GET", "/v1/session").status_code == 401


def test_token_of_a_relay_begins_no_session(shared: Service) -> None:
    created = shared.client.post(
        "/v1/tokens", headers=BEARER, json={"relay": "h1", "name": "h1"}
    ).json()
    browser = Browser(shared.client)
    answer = browser.log_in(token=created["token"])
    assert answer.status_code == 403
    assert browser.cookies == {}
    bearer = {"Authorization": f"Bearer {created['token']}"}
    for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/links")):
        body: dict[str, Any] = {"json": {}} if method == "POST" else {}
        answer = shared.client.request(method, path, headers=bearer, **body)
        assert answer.status_code == 403
    shared.revoke(created)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/tokens", {"name": "mine"}),
        ("POST", "/v1/tokens/revoke", {"id": "tk-1"}),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/fleet/apply", {"fleet": ""}),
        ("POST", "/v1/session/links", {}),
    ],
)
def test_session_makes_no_rights_that_outlive_it(
    shared: Service, method: str, path: str, body: Any
) -> None:
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    answer = browser.ask(method, path, json=body)
    assert answer.status_code == 403
    assert "needs a bearer token" in answer.json()["error"]
    local = Browser(Service(None, base="http://127.0.0.1:8200").client)
    assert local.ask(method, path, json=body).status_code == 403


def test_nothing_of_a_session_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    service = Service()
    browser = Browser(service.client)
    link = service.link()
    browser.log_in(link=link["link"])
    browser.log_in(link=link["link"])
    browser.log_in(token=SECRET)
    browser.ask("POST", "/v1/tokens", json={"name": "x"})
    cookie = browser.cookies[SECURE]
    browser.ask("DELETE", "/v1/session")
    browser.cookies = {SECURE: cookie}
    browser.who()
    assert "used already" in caplog.text
    for secret in (SECRET, link["link"], cookie, link["link"].partition(".")[2]):
        assert secret not in caplog.text
