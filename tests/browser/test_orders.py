"""Dialogs say what an order will do, and do not press what the service refuses."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.consoles import Place, Tab

COUNTS_MAX = 6
"""Requests of a minute about an order that is refused: after 0, 4, 12, 28 and 60 s."""


@pytest.fixture
def open_as(
    shared: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> Callable[..., Page]:
    """Return what opens a page with a token of this name and roles."""

    def opened(path: str, name: str, **members: object) -> Page:
        made = shared.ask("/v1/tokens", {"name": name, **members})
        headers = {"Authorization": f"Bearer {made['token']}"}
        return new_tab(shared, new_context(extra_http_headers=headers)).open(path)

    return opened


def test_cordon_of_another_ends_if_one_chooses_it(
    shared: Place, new_tab: Callable[..., Tab], open_as: Callable[..., Page]
) -> None:
    shared.ask("/v1/host-cordon", {"hosts": ["c1-r0-0"], "reason": "DIMM tomorrow"})
    page = open_as("hosts?host=c1-r0-0", "bob")
    page.get_by_role("button", name="Open…").click()
    dialog = page.get_by_role("dialog", name="Open c1-r0-0?")
    # Nothing else can be opened here, so it is chosen at first.
    also = dialog.get_by_role("checkbox", name=re.compile("^also of"))
    expect(also).to_be_checked()
    also.uncheck()
    send = dialog.get_by_role("button", name="Open 1 host")
    expect(dialog.get_by_role("alert")).to_contain_text("not by bob")
    expect(send).to_be_disabled()
    also.check()
    expect(dialog).to_contain_text("ends too")
    dialog.get_by_label("Why?").fill("DIMM replaced")
    send.click()
    expect(dialog).not_to_be_visible()
    expect(page.get_by_role("button", name="Cordon…")).to_be_visible()


def test_refused_order_is_counted_less_and_less(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    shared.ask("/v1/host-cordon", {"hosts": ["c1-r0-1"], "reason": "DIMM tomorrow"})
    tab = new_tab(shared)
    tab.page.clock.install()
    page = tab.open("hosts?host=c1-r0-1")
    page.get_by_role("button", name="Open…").click()
    dialog = page.get_by_role("dialog", name="Open c1-r0-1?")
    dialog.get_by_label("Why?").fill("DIMM replaced")
    expect(dialog.get_by_role("button", name="Open 1 host")).to_be_enabled()
    sent: list[str] = []
    page.on(
        "request", lambda each: sent.append(each.url) if each.method == "POST" else None
    )
    shared.ask("/v1/host-open", {"hosts": ["c1-r0-1"], "reason": "it was the cable"})
    for _ in range(60):
        page.clock.run_for(1000)
    expect(dialog.get_by_role("alert")).to_contain_text("is not cordoned")
    expect(dialog.get_by_role("button", name="Open 1 host")).to_be_disabled()
    assert 1 <= len(sent) <= COUNTS_MAX, sent


def test_reader_has_no_dialog_by_any_key(
    shared: Place, open_as: Callable[..., Page]
) -> None:
    campaign = shared.start_campaign(name="firmware")
    page = open_as(f"campaigns/{campaign}", "eve", roles=["view"])
    expect(page.get_by_role("heading", name="firmware")).to_be_visible()
    page.keyboard.press("!")
    page.keyboard.press("?")
    # The keys work: the second has opened the only dialog.
    expect(page.get_by_role("dialog")).to_have_count(1)
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    shared.ask("/v1/campaign-abort", {"campaign": campaign, "reason": "over"})


def test_skipped_hosts_are_not_shown_as_done(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = shared.start_campaign(name="bios")
    rest = [f"c2-r{rack}-{host}" for rack in range(2) for host in range(3)]
    order = {"campaign": campaign, "hosts": rest[1:], "reason": "DIMMs tomorrow"}
    page = new_tab(shared).open(f"campaigns/{campaign}?host={rest[-1]}")
    page.get_by_role("button", name="Skip host…").click()
    dialog = page.get_by_role("dialog", name=f"Skip {rest[-1]}?")
    expect(dialog).to_contain_text("it stays so until somebody opens it")
    page.keyboard.press("Escape")
    assert shared.ask("/v1/campaign-skip", order)["refused"] == []
    page.get_by_role("button", name="Close", exact=True).click()
    row = page.locator('.row[data-id="r:c2/c2-r1"]')
    expect(row).to_contain_text("3 skipped")
    if row.get_attribute("aria-expanded") == "false":
        row.click()
    for host in rest[3:]:
        expect(page.locator(f'.row[data-id="h:{host}"]')).to_contain_text("skipped")
    expect(page.locator('.row[data-id="d:c2/c2-r1"]')).to_have_count(0)
    shared.ask("/v1/campaign-abort", {"campaign": campaign, "reason": "over"})
