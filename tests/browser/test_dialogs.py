"""The results of an order, and rows that stay in their place while one reads."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from tests.support.consoles import AXE, MIDDLE, Place, Tab, findings


@pytest.mark.long
@pytest.mark.skipif(not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js")
def test_axe_finds_nothing_in_what_came_of_an_order(
    place: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    names = ("shop-c1-r0-0", "bank-c2-r1-1")
    for name in names:
        place.ask("/v1/fail", {"names": [name]})
    tab = new_tab(place, new_context(viewport=MIDDLE, bypass_csp=True), statuses={500})
    refused = [{"name": "bank-c2-r1-1", "error": "it is up", "hint": ""}]
    answers = [
        {"status": 409, "json": {"error": "somebody was quicker", "kind": "conflict"}},
        {"status": 500, "json": {"error": "the service failed"}},
        {"status": 200, "json": {"refused": refused}},
    ]

    def answer(route: Route) -> None:
        if "dry_run" in (route.request.post_data or ""):
            route.continue_()
        else:
            route.fulfill(**answers.pop(0))  # pyright: ignore[reportArgumentType]

    tab.page.route("**/v1/restore", answer)
    page = tab.open()
    for name in names:
        page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Mark restored…").last.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("repaired by hand").click()
    for said in ("somebody was quicker", "not known whether", "Done in part"):
        dialog.locator("footer button").last.click()
        expect(dialog.get_by_role("alert")).to_contain_text(said)
        assert findings(page) == [], said
    assert not answers
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).not_to_be_visible()


@pytest.mark.long
def test_rows_under_the_pointer_stay(place: Place, new_tab: Callable[..., Tab]) -> None:
    place.ask("/v1/fail", {"names": ["shop-c2-r1-2"]})
    page = new_tab(place).open()
    rows = page.locator("#down-rows tr")
    expect(rows).to_have_count(1)
    page.get_by_role("heading", name="Activity").scroll_into_view_if_needed()
    lines = page.locator("#act-lines li")
    expect(lines.first).to_be_visible()
    first = lines.first.inner_text()
    lines.first.hover()
    place.ask("/v1/fail", {"names": ["bank-c1-r0-0"], "reason": "no memory"})
    expect(page.get_by_text(re.compile(r"^\d+ new$"))).to_be_visible()
    assert lines.first.inner_text() == first
    expect(rows).to_have_count(2)
    rows.last.hover()
    # Nobody points at the lines any more.
    expect(lines.first).to_contain_text("no memory")
    place.ask("/v1/restore", {"names": ["shop-c2-r1-2"]})
    over = page.locator("#down-rows tr.over")
    expect(over).to_contain_text("shop-c2-r1-2")
    expect(rows).to_have_count(2)
    page.mouse.move(0, 0)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("bank-c1-r0-0")


def test_stop_stays_in_sight_however_far_one_scrolls(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.start_campaign()
    low = {"width": 1440, "height": 500}
    page = new_tab(place, viewport=low).open("campaigns/microcode")
    page.get_by_role("button", name="Open all").click()
    expect(page.locator('.row[data-id="h:c2-r1-2"]')).to_be_visible()
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("region", name="Activity")).to_be_in_viewport()
    assert page.evaluate("() => scrollY") > 200
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_in_viewport(ratio=1)
    # Nothing is above it: a click hits it.
    stop.click()
    expect(page.get_by_role("dialog", name="Stop microcode?")).to_be_visible()
