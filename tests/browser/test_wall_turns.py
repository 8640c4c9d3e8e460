"""A wall shows each campaign in its turn."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab

pytestmark = pytest.mark.long

NAMES = ("first", "second")


def turn(page: Page, name: str) -> None:
    """Check that the wall shows a campaign, and let it be the turn of the next."""
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()
    page.clock.fast_forward("00:30")


def test_wall_shows_campaigns_in_turn_without_those_that_are_paused(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    for name, cluster in zip(NAMES, ("c1", "c2"), strict=True):
        place.start_campaign(name=name, clusters=[cluster])
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    page = tab.open("wall")
    heading = page.locator("h1")
    expect(heading).to_have_text(re.compile("|".join(NAMES)))
    now = heading.text_content() or ""
    other = NAMES[1 - NAMES.index(now)]
    turn(page, now)
    turn(page, other)
    turn(page, now)
    expect(heading).to_have_text(other)
    # One that is paused has no turn while another runs.
    place.ask("/v1/campaign-pause", {"campaign": "first", "reason": "a look at it"})
    turn(page, "second")
    turn(page, "second")
    expect(heading).to_have_text("second")
