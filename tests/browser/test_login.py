"""Logging in with a token or a link, and out again; the token stays nowhere."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.consoles import (
    AXE,
    CONNECTIONS_LOST_MAX,
    LOOKS,
    Place,
    Tab,
    findings,
)

SECRET = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a service that needs a token."""
    directory = tmp_path_factory.mktemp("guarded")
    file = directory / "tokens"
    file.write_text(f"alice:{SECRET}\n", encoding="utf-8")
    file.chmod(0o600)
    place = Place(directory, admin_token_file=str(file))
    yield place
    place.kill()


def kept(tab: Tab) -> str:
    """Return all that the page can read of what its browser keeps, and its address."""
    return tab.page.evaluate(
        "() => JSON.stringify([location.href, document.cookie, {...localStorage},"
        " {...sessionStorage}, history.state])"
    )


def test_token_opens_the_page_that_was_asked_for(
    guarded: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(guarded)
    page = tab.page
    page.goto(f"{guarded.url}/console/hosts?q=c1-r1-")
    token = page.get_by_label("Token")
    expect(token).to_be_focused()
    token.fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not know this token")
    token.fill(SECRET)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("alice · operator")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(1 + 3)
    assert SECRET not in kept(tab)
    assert SECRET not in guarded.serving.log()
    page.reload()
    expect(page.get_by_text("alice · operator")).to_be_visible()
    page.get_by_text("alice · operator").click()
    page.get_by_role("button", name="Log out").click()
    expect(token).to_be_visible()
    assert page.get_by_text("c1-r1-0").count() == 0


def test_link_logs_in_once(guarded: Place, new_tab: Callable[..., Tab]) -> None:
    context = new_tab(guarded).page.context
    answer = context.request.post(
        f"{guarded.url}/v1/session/links", headers=BEARER, data={}
    )
    path = json.loads(answer.text())["path"]
    tab = new_tab(guarded)
    tab.page.goto(guarded.url + path)
    expect(tab.page.get_by_text("alice · operator")).to_be_visible()
    assert path.partition("#")[2] not in kept(tab)
    other = new_tab(guarded)
    other.page.goto(guarded.url + path)
    expect(other.page.get_by_role("alert")).to_contain_text("used already")
    expect(other.page.get_by_label("Token")).to_be_visible()


def test_refused_link_is_said_above_the_page_of_a_session(
    guarded: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(guarded)
    page = tab.page
    page.goto(f"{guarded.url}/console/")
    page.get_by_label("Token").fill(SECRET)
    page.keyboard.press("Enter")
    expect(page.get_by_text("alice · operator")).to_be_visible()
    page.goto(f"{guarded.url}/console/login#narwhal")
    expect(page.get_by_text("The link has logged nobody in")).to_be_visible()
    expect(page.get_by_text("alice · operator")).to_be_visible()


@pytest.mark.parametrize(
    "is_cut",
    [
        pytest.param(False, id="stream"),
        pytest.param(True, id="requests", marks=pytest.mark.long),
    ],
)
def test_revoked_token_ends_the_page_and_keeps_what_was_typed(
    guarded: Place, new_tab: Callable[..., Tab], *, is_cut: bool
) -> None:
    tab = new_tab(guarded)

    def order(path: str, body: object) -> Any:
        asked = tab.page.context.request
        answer = asked.post(
            f"{guarded.url}{path}",
            headers=BEARER,
            data=body,
            max_retries=CONNECTIONS_LOST_MAX,
        )
        return json.loads(answer.text())

    name, host = ("rob", "c2-r1-0") if is_cut else ("bob", "c2-r0-0")
    ordered = order("/v1/tokens", {"name": name})
    order("/v1/fail", {"names": [host], "kind": "host"})
    page = tab.page
    if is_cut:
        # Only the answer to the count of the order says that the token has ended.
        page.route("**/v1/watch*", lambda route: route.abort())
    page.goto(f"{guarded.url}/console/hosts?host={host}")
    page.get_by_label("Token").fill(ordered["token"])
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{name} · operator")).to_be_visible()
    field = page.get_by_role("searchbox", name="Host, VM, rack or cluster")
    field.fill("c2-r0")
    page.get_by_role("button", name="Cordon…").click()
    dialog = page.get_by_role("dialog", name=f"Cordon {host}?")
    dialog.get_by_label("Why?").fill("DIMM tomorrow")
    order("/v1/tokens/revoke", {"id": ordered["id"]})
    expect(page.get_by_label("Token")).to_be_focused()
    # The form is above the order, and only a token ends it.
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.get_by_label("Token").fill(order("/v1/tokens", {"name": name})["token"])
    page.keyboard.press("Enter")
    expect(page.get_by_label("Token")).not_to_be_visible()
    expect(dialog.get_by_label("Why?")).to_have_value("DIMM tomorrow")
    dialog.get_by_role("button", name="Cordon 1 host").click()
    expect(dialog).not_to_be_visible()
    expect(field).to_have_value("c2-r0")


@pytest.mark.long
@pytest.mark.skipif(not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js")
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_axe_finds_nothing_on_the_login(
    guarded: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
    size: dict[str, int],
    scheme: str,
) -> None:
    context = new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    page = new_tab(guarded, context).page
    page.goto(f"{guarded.url}/console/")
    expect(page.get_by_label("Token")).to_be_focused()
    assert findings(page) == []
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("token")
    assert findings(page) == []
