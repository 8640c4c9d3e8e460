"""The list of campaigns: the open ones first, and the ended ones page by page."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab

PAGE = 2
"""Campaigns of one answer here, so that a few campaigns are several pages."""


@pytest.mark.long
def test_old_campaigns_are_counted_and_loaded_when_asked_for(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    for number in range(5):
        old = place.start_campaign(name=f"old-{number}")
        place.ask("/v1/campaign-abort", {"campaign": old, "reason": "an end"})
    running = place.start_campaign(name="running")
    tab = new_tab(place)
    tab.page.route(
        lambda url: urlsplit(url).path == "/v1/campaigns",
        lambda route: route.continue_(
            url=route.request.url.replace("limit=50", f"limit={PAGE}")
        ),
    )
    page = tab.open("campaigns")
    names = page.locator(".camp a.b")
    expect(names).to_have_text(["running", "old-4"])
    ended = page.get_by_role("region", name="Ended")
    expect(ended).to_contain_text("1 of 5")
    ended.get_by_role("button", name="more").click()
    expect(names).to_have_text(["running", "old-4", "old-3", "old-2"])
    expect(ended).to_contain_text("3 of 5")
    # A campaign that ends meanwhile moves there, and the loaded ones stay.
    place.ask("/v1/campaign-abort", {"campaign": running, "reason": "an end"})
    expect(page.get_by_role("heading", name="0 open campaigns")).to_be_visible()
    expect(names).to_have_text(["running", "old-4", "old-3", "old-2"])
    ended.get_by_role("button", name="more").click()
    expect(names).to_have_count(6)
    expect(ended.get_by_role("button", name="more")).to_have_count(0)
    page.get_by_role("link", name="Reports").click()
    expect(page.get_by_role("heading", name="6 reports")).to_be_visible()
    page.get_by_role("link", name="running").click()
    expect(page.locator(".paper h1")).to_have_text("running")
