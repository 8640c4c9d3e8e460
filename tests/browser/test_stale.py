"""Without a stream, a page says what was true when it told something last."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab


def lose(place: Place, *pages: Page) -> None:
    """End the service, and let 20 seconds pass in the pages."""
    place.kill()
    for page in pages:
        page.clock.fast_forward("00:20")
        expect(page.get_by_text("No update for")).to_be_visible()


def opened(place: Place, new_tab: Callable[..., Tab], path: str = "") -> Page:
    """Open a page with a clock of its own."""
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    return tab.open(path)


@pytest.mark.long
def test_page_does_not_say_what_it_cannot_know(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = opened(place, new_tab)
    expect(page.get_by_text("12 hosts and 24 VMs are up")).to_be_visible()
    lose(place, page)
    calm = re.compile(r"^Nothing needed attention at \d\d:\d\d:\d\d$")
    expect(page.get_by_text(calm)).to_be_visible()
    expect(page.get_by_text("12 hosts and 24 VMs were up")).to_be_visible()
    page.close()

    place.restart()
    campaign = place.start_campaign()
    now = opened(place, new_tab)
    waits = now.get_by_role("region", name="Waiting for approval")
    bank = waits.get_by_role("row", name=re.compile("^bank"))
    expect(bank).to_contain_text(re.compile(r"· in \d+"))
    timeline = opened(place, new_tab, f"campaigns/{campaign}")
    expect(timeline.locator(".sheet .s-noticed").first).to_be_attached()
    expect(timeline.locator(".sheet .unknown")).to_have_count(0)
    lose(place, now, timeline)
    # One outage is read aloud once, however many lists cannot be read.
    expect(now.get_by_role("alert")).to_have_count(1)
    # No countdown can be trusted.
    expect(bank).to_contain_text("· ?")
    # A bar ends with the last news; whether the work is over is not known.
    expect(timeline.locator(".sheet .unknown").first).to_be_attached()
