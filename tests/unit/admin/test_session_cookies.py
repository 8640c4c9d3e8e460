"""Cookies of sessions over http and through proxies, and sessions of local users."""

import pytest
from starlette.testclient import TestClient

from tests.unit.admin.browsers import (
    BEARER,
    PLAIN,
    SECRET,
    SECURE,
    SITE,
    AtSocket,
    Browser,
    Service,
)


@pytest.fixture(scope="module")
def shared() -> Service:
    return Service()


def test_browser_that_keeps_no_secure_cookie_from_loopback_gets_another_one() -> None:
    service = Service(base="http://127.0.0.1:8200")
    for keeps in (True, False):
        browser = Browser(service.client, keeps_secure=keeps)
        assert browser.log_in(token=SECRET).status_code == 201
        assert set(browser.cookies) == ({SECURE, PLAIN} if keeps else {PLAIN})
        assert browser.who() == "alice"
        assert browser.ask("DELETE", "/v1/session").json() == {"ended": True}
        assert browser.cookies == {}


def test_plain_cookie_counts_only_on_loopback_without_a_proxy(shared: Service) -> None:
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    cookie = f"{PLAIN}={browser.cookies[SECURE]}"
    for base, more, status in (
        ("http://127.0.0.1:8200", {}, 200),
        ("http://127.0.0.1:8200", {"X-Forwarded-For": "192.0.2.1"}, 401),
        ("https://127.0.0.1:8200", {}, 401),
        ("http://ops.example", {}, 401),
    ):
        client = TestClient(shared.app, base_url=base)
        answer = client.get("/v1/session", headers={"Cookie": cookie, **more})
        assert answer.status_code == status, (base, more)


@pytest.mark.parametrize("base", ["http://ops.example", "http://127.0.0.1:8200"])
def test_no_session_begins_over_http_from_another_machine(
    shared: Service, base: str
) -> None:
    link = shared.link()
    client = TestClient(shared.app, base_url=base)
    # The proxy does not pass on the name of the host.
    browser = Browser(client, origin="http://ops.example", keeps_secure=False)
    if base == "http://ops.example":
        for body in ({"token": SECRET}, {"link": link["link"]}):
            answer = browser.log_in(**body)
            assert answer.status_code == 403
            assert "over http" in answer.json()["error"]
            assert browser.said == []
        # The link is not used up.
        assert Browser(shared.client).log_in(link=link["link"]).status_code == 201
    else:
        assert browser.log_in(token=SECRET).status_code == 403


def test_tls_of_a_proxy_that_changes_the_host_is_known_from_the_origin(
    shared: Service,
) -> None:
    client = TestClient(shared.app, base_url="http://127.0.0.1:8200")
    browser = Browser(client, origin=SITE)
    assert browser.log_in(token=SECRET).status_code == 201
    assert set(browser.cookies) == {SECURE}
    assert browser.who() == "alice"


# Local users


def test_session_of_a_local_user_ends_with_the_right_of_the_user() -> None:
    operators = {"unix:dora"}
    service = Service(is_local_operator=operators.__contains__)
    at_socket = AtSocket(service.app)
    response = TestClient(at_socket, base_url="http://localhost").post(
        "/v1/session/links", json={}
    )
    browser = Browser(service.client)
    body = browser.log_in(link=response.json()["link"]).json()
    assert (body["name"], body["identified_by"]) == ("unix:dora", "session")
    assert browser.ask("POST", "/v1/reboot", json={"vms": ["web_0"]}).status_code == 201
    # A service that listens at no socket identifies no local user.
    elsewhere = Browser(Service(gateway=service.gateway).client)
    elsewhere.cookies = browser.cookies
    assert elsewhere.who() == ""
    operators.clear()
    assert browser.who() == ""


def test_page_with_a_rebound_name_gets_nothing_through_a_forwarded_socket() -> None:
    service = Service()
    at_socket = AtSocket(service.app)
    local = TestClient(at_socket, base_url="http://localhost:8200")
    assert local.get("/v1/operations").status_code == 200
    rebound = TestClient(at_socket, base_url="http://evil.example:8200")
    assert rebound.get("/v1/operations").status_code == 403
    assert rebound.post("/v1/brake", json={"on": True}).status_code == 403
    assert rebound.get("/v1/operations", headers=BEARER).status_code == 200


def test_proxy_at_the_socket_passes_on_sessions_and_has_no_right_itself() -> None:
    service = Service()
    client = TestClient(AtSocket(service.app), base_url=SITE)
    headers = {"X-Forwarded-For": "192.0.2.1"}
    assert client.get("/v1/operations", headers=headers).status_code == 403
    browser = Browser(client)
    answer = browser.ask("POST", "/v1/session", json={"token": SECRET}, headers=headers)
    assert answer.status_code == 201
    body = browser.ask("GET", "/v1/session", headers=headers).json()
    assert body["name"] == "alice"
