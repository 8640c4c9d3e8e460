"""The field at the top finds things of all kinds, and says if there are more."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually


@pytest.fixture(scope="module")
def announced(shared: Place) -> dict[str, Any]:
    """Return the first operation of a campaign, which is announced."""
    shared.start_campaign()
    shared.ask("/v1/fail", {"names": ["bank-c1-r0-0"]})
    return eventually(
        lambda: shared.ask("/v1/operations?limit=100")["operations"],
        lambda found: any(row["events"] for row in found),
        what="an announced operation",
    )[0]


def find(page: Page, text: str) -> None:
    """Type into the field at the top, and press Enter."""
    # The page that was found before takes the focus as soon as it is drawn.
    expect(page.locator("#find")).not_to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_one_thing_opens_its_page_and_several_a_list_of_each_kind(
    shared: Place, announced: dict[str, Any], new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open()
    find(page, "microcode")
    expect(page).to_have_title(re.compile("microcode: running"))
    find(page, announced["operation"])
    expect(page).to_have_title(re.compile("History"))
    expect(page.get_by_role("main")).to_contain_text("event")
    find(page, "op-")
    operations = page.get_by_role("region", name="operations")
    expect(operations.get_by_role("link").first).to_contain_text("op-")
    find(page, "c1-r0-1")
    expect(page.get_by_role("complementary", name="c1-r0-1")).to_be_visible()
    find(page, "bank")
    # The tenant has exactly this name: its changes are shown.
    expect(page).to_have_url(
        f"{shared.url}/console/history?since=60d&all=yes&tenant=bank"
    )
    find(page, "bank-")
    for name in ("12 VMs", "12 scopes"):
        expect(page.get_by_role("region", name=name)).to_be_visible()
    row = page.get_by_role("region", name="12 VMs").get_by_role(
        "row", name="bank-c2-r1-2"
    )
    for words in ("bank", "bank-c2-12", "c2-r1-2"):
        expect(row).to_contain_text(words)
    down = page.get_by_role("row", name="bank-c1-r0-0")
    expect(down.first).to_contain_text("✕ down")
    event = announced["events"][0]["EventId"]
    find(page, event)
    expect(page).to_have_url(
        f"{shared.url}/console/history?since=60d&all=yes&event={event}"
    )
    find(page, "narwhal")
    expect(page.get_by_text("Nothing begins with “narwhal”")).to_be_visible()
    page.get_by_role("link", name="Clusters and racks").click()
    expect(page.get_by_text("No name begins with “narwhal”")).to_be_visible()


@pytest.mark.long
def test_list_that_is_cut_says_so(shared: Place, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(shared)
    empty = dict.fromkeys(("state", "tenant", "scope", "cluster", "rack"))
    matches = [
        {
            **empty,
            "kind": "vm",
            "name": f"vm-{number}",
            "title": f"vm-{number}",
            "host": "h",
        }
        for number in range(50)
    ]

    def answer(route: Route) -> None:
        route.fulfill(json={"found": matches, "more": True})

    tab.page.route("**/v1/search?*", answer)
    for path in ("find?q=vm-", "hosts?q=vm-"):
        page = tab.open(path)
        expect(page.get_by_text("The first 50 VMs are shown.")).to_be_visible()


@pytest.mark.long
def test_tenant_finds_what_is_its_own(
    shared: Place, announced: dict[str, Any], new_tab: Callable[..., Tab]
) -> None:
    token = shared.ask("/v1/tokens", {"name": "finder", "tenant": "shop"})["token"]
    headers = {"Authorization": f"Bearer {token}"}
    page = new_tab(shared, extra_http_headers=headers).open()
    find(page, "shop-c1")
    for name in ("6 VMs", "6 scopes"):
        expect(page.get_by_role("region", name=name)).to_be_visible()
    find(page, "shop-c2-r1-2")
    expect(page).to_have_title(re.compile("History"))
    find(page, "bank")
    expect(page.get_by_text("Nothing begins with “bank”")).to_be_visible()
    (mine,) = [event for event in announced["events"] if event["tenant"] == "shop"]
    find(page, mine["EventId"][:8].lower())
    expect(page.get_by_role("main")).not_to_contain_text("Nothing begins")
