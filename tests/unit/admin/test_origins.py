"""Requests that pages of other origins make a browser send."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.tokens import parse_tokens
from tests.unit.admin.browsers import SECURE, Browser
from tests.unit.admin.gateway import LocalGateway

SECRET = "0123456789abcdef01234567"
HERE = "https://ops.example"
BRAKE = {"on": True, "reason": "smoke"}

FOREIGN = [
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    # Another port, or another name below the same one: the cookie is sent.
    {"Sec-Fetch-Site": "same-site", "Origin": "https://ops.example:9000"},
    {"Sec-Fetch-Site": "same-site", "Origin": "https://evil.ops.example"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "Same-Origin"},
    {"Origin": "https://evil.example"},
    {"Origin": "https://ops.example:9000"},
    {"Origin": "https://ops.example.evil.example"},
    {"Origin": "https://ops.example@evil.example"},
    # Over http, others can change the pages of the same name.
    {"Origin": "http://ops.example"},
    {"Origin": "null"},
    {"Origin": ""},
]

OWN = [
    {"Sec-Fetch-Site": "same-origin", "Origin": HERE},
    {"Sec-Fetch-Site": "same-origin"},
    {"Origin": HERE},
    {"Origin": "https://OPS.example:443"},
]


@pytest.fixture(scope="module")
def browser() -> Browser:
    tokens = parse_tokens(f"alice:{SECRET}", file="tokens")
    app = create_app(LocalGateway(), tokens=tokens, version="1")
    browser = Browser(TestClient(app, base_url=HERE))
    browser.log_in(token=SECRET)
    return browser


@pytest.fixture(scope="module")
def local() -> Iterator[TestClient]:
    """Return a service without tokens on the loopback address."""
    app = create_app(LocalGateway(), tokens=None, version="1")
    with TestClient(app, base_url="http://ops.example") as client:
        client.headers["Host"] = "localhost"
        yield client


def send(browser: Browser, headers: dict[str, str], method: str = "POST") -> Any:
    path = {"POST": "/v1/brake", "DELETE": "/v1/session", "GET": "/v1/operations"}
    body: dict[str, Any] = {"json": BRAKE} if method == "POST" else {}
    kind = {"Content-Type": "application/json"}
    cookie = {"Cookie": f"{SECURE}={browser.cookies[SECURE]}"}
    return browser.client.request(
        method, path[method], headers={**kind, **cookie, **headers}, **body
    )


@pytest.mark.parametrize("headers", FOREIGN)
def test_page_of_another_origin_changes_nothing(
    browser: Browser, headers: dict[str, str]
) -> None:
    for method in ("POST", "DELETE"):
        answer = send(browser, headers, method)
        assert answer.status_code == 403, method
        assert "another origin" in answer.json()["error"]
        assert answer.headers.get("access-control-allow-origin") is None
    assert browser.ask("GET", "/v1/brake").json()["on"] is False
    assert browser.who() == "alice"


@pytest.mark.parametrize("headers", OWN)
def test_page_of_this_origin_sends_requests(
    browser: Browser, headers: dict[str, str]
) -> None:
    # The brake may be on already.
    assert send(browser, headers).status_code in {200, 409}


@pytest.mark.parametrize(
    ("base", "origin", "is_own"),
    [
        ("http://ops.example", "https://ops.example", True),
        ("http://ops.example", "http://ops.example", False),
        ("http://127.0.0.1:8200", "http://127.0.0.1:8200", True),
        ("https://127.0.0.1:8200", "https://127.0.0.1:8200", True),
        ("https://127.0.0.1:8200", "http://127.0.0.1:8200", False),
    ],
    ids=[
        "TLS of a proxy",
        "a proxy without TLS",
        "loopback",
        "TLS",
        "TLS, but not its page",
    ],
)
def test_page_over_http_has_a_session_only_on_loopback(
    browser: Browser, base: str, origin: str, is_own: bool
) -> None:
    here = TestClient(browser.client.app, base_url=base)
    answer = here.post(
        "/v1/hosts/h2/cordon",
        json={},
        headers={"Cookie": f"{SECURE}={browser.cookies[SECURE]}", "Origin": origin},
    )
    # The host may be cordoned already.
    assert answer.status_code in ({200, 409} if is_own else {403})


def test_cookie_without_an_origin_changes_nothing(browser: Browser) -> None:
    for method in ("POST", "DELETE"):
        answer = send(browser, {}, method)
        assert answer.status_code == 403
        assert "must have Sec-Fetch-Site or Origin" in answer.json()["error"]
    assert send(browser, {}, "GET").status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_type_of_a_form_is_refused(browser: Browser, method: str, kind: str) -> None:
    answer = send(browser, {"Content-Type": kind, **OWN[0]}, method)
    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)],
)
def test_page_of_another_origin_loads_nothing_with_the_rights_of_the_user(
    browser: Browser, local: TestClient, site: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": site}
    assert send(browser, headers, "GET").status_code == status
    assert local.get("/v1/operations", headers=headers).status_code == status
    # A link from elsewhere to a page works.
    for path in ("/", "/docs", "/healthz"):
        assert browser.client.get(path, headers=headers).status_code == 200


def test_frame_is_refused_by_each_response(browser: Browser) -> None:
    for path in ("/", "/v1/operations", "/nothing"):
        policy = browser.ask("GET", path).headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("headers", FOREIGN)
def test_page_cannot_begin_a_session_of_its_own_choice(
    browser: Browser, headers: dict[str, str]
) -> None:
    answer = browser.client.post("/v1/session", json={"token": SECRET}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("headers", FOREIGN)
def test_page_has_not_the_rights_of_the_machine(
    local: TestClient, headers: dict[str, str]
) -> None:
    assert local.post("/v1/brake", json=BRAKE, headers=headers).status_code == 403
    assert local.get("/v1/brake").json()["on"] is False


def test_programs_say_no_origin(browser: Browser, local: TestClient) -> None:
    bearer = {"Authorization": f"Bearer {SECRET}"}
    for headers in (bearer, bearer | FOREIGN[0]):
        answer = browser.client.post("/v1/brake", json=BRAKE, headers=headers)
        assert answer.status_code in {200, 409}
    assert local.post("/v1/hosts/h1/cordon", json={}).status_code == 200
    assert local.delete("/v1/session").json() == {"ended": False}


def test_no_response_admits_another_origin(browser: Browser) -> None:
    for method in ("GET", "OPTIONS"):
        answer = browser.client.request(
            method,
            "/v1/brake",
            headers={
                "Origin": "https://evil.example",
                "Access-Control-Request-Method": "POST",
            },
        )
        assert not [
            name for name in answer.headers if name.startswith("access-control")
        ]
