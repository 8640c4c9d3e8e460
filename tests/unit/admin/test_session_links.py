"""Links that begin a session of the console."""

import pytest

from forewarn.admin.leader import Leader, Leading
from forewarn.control import sessions
from forewarn.store import kinds
from forewarn.store.records import AuditKind
from tests.unit.admin.browsers import BEARER, SECRET, SECURE, Browser, Service


@pytest.fixture(scope="module")
def shared() -> Service:
    return Service()


def test_link_begins_one_session_of_its_creator(shared: Service) -> None:
    link = shared.link()
    assert link["path"] == f"/console/login#{link['link']}"
    browser = Browser(shared.client)
    assert browser.log_in(link=link["link"]).json()["name"] == "alice"
    assert browser.who() == "alice"
    thief = Browser(shared.client)
    answer = thief.log_in(link=link["link"])
    assert answer.status_code == 401
    assert "used already" in answer.json()["error"]
    assert thief.cookies == {}


def test_link_of_a_tenant_has_the_rights_of_the_tenant_and_ends_with_the_token() -> (
    None
):
    service = Service()
    token = service.token()
    browser = Browser(service.client)
    first, second = service.link(token["token"]), service.link(token["token"])
    body = browser.log_in(link=first["link"]).json()
    assert (body["name"], body["tenant"]) == ("shop/ci", "shop")
    service.revoke(token)
    assert browser.who() == ""
    assert browser.log_in(link=second["link"]).status_code == 401


def test_link_of_another_does_not_replace_a_session(shared: Service) -> None:
    token = shared.token()
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    link = shared.link(token["token"])["link"]
    answer = browser.log_in(link=link)
    assert answer.status_code == 409
    assert "a session of alice" in answer.json()["error"]
    assert browser.who() == "alice"
    # A new link of the same holder begins a new session.
    assert browser.log_in(link=shared.link()["link"]).status_code == 201
    browser.ask("DELETE", "/v1/session")
    assert browser.log_in(link=link).json()["name"] == "shop/ci"
    shared.revoke(token)


def test_link_is_too_old_after_two_minutes() -> None:
    service = Service()
    link = service.link()
    assert link["expires"] == "2030-01-01T00:02:00Z"
    service.move(sessions.LINK_LIFETIME)
    assert Browser(service.client).log_in(link=link["link"]).status_code == 401


def test_link_is_no_session_and_a_session_no_link(shared: Service) -> None:
    link = shared.link()
    answer = shared.client.get(
        "/v1/session", headers={"Cookie": f"{SECURE}={link['link']}"}
    )
    assert answer.status_code == 401
    browser = Browser(shared.client)
    browser.log_in(token=SECRET)
    other = Browser(shared.client)
    assert other.log_in(link=browser.cookies[SECURE]).status_code == 401


def test_link_is_used_at_the_leading_replica_only() -> None:
    leading = Leading()
    service = Service(leading=leading)
    link = service.link()
    leading.elsewhere = Leader(name="r1", url="https://r1.example:8200")
    browser = Browser(service.client)
    answer = browser.log_in(link=link["link"])
    assert (answer.status_code, answer.json()["kind"]) == (503, "follows")
    assert answer.json()["leader"] == "https://r1.example:8200"
    # It is not used up.
    leading.elsewhere = None
    assert browser.log_in(link=link["link"]).status_code == 201


def test_history_has_who_created_a_link_and_not_the_link() -> None:
    service = Service()
    link = service.link(service.token()["token"])
    entries = [
        entry
        for entry in service.gateway.store.read(
            lambda reader: reader.select(kinds.ALL_AUDIT)
        )
        if entry.kind is AuditKind.CONSOLE_LINK_CREATED
    ]
    assert [entry.actor.text for entry in entries] == ["shop/ci"]
    history = service.client.get("/v1/history", headers=BEARER).text
    assert "console link created" in history
    assert link["link"] not in history


def test_caller_without_a_token_needs_no_link() -> None:
    service = Service(None, base="http://127.0.0.1:8200")
    answer = service.client.post("/v1/session/links", json={})
    assert answer.status_code == 403
    assert "/console/" in answer.json()["hint"]
    body = service.client.get("/v1/session").json()
    assert (body["identified_by"], body["expires"]) == ("nothing", None)
