"""A wall shows each campaign in its turn."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually

pytestmark = pytest.mark.long

NAMES = ("first", "second")


def turn(page: Page, name: str) -> None:
    """Check that the wall shows a campaign, and let it be the turn of the next."""
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()
    page.clock.fast_forward("00:30")


def worked_on(place: Place, campaign: str) -> str:
    """Approve the first host of a campaign, and return its name when the work has begun."""
    path = f"/v1/campaigns/{campaign}/report"

    def first() -> Any:
        return place.ask(path)["attempts"][0]

    host = eventually(first, lambda each: each["announced"])["host"]
    events = place.ask(f"/v1/events?host={host}")["events"]
    ids = [event["EventId"] for event in events]
    place.ask("/v1/approve", {"event_ids": ids, "reason": "agreed by phone"})
    return eventually(first, lambda each: each["started"])["host"]


def test_wall_stays_where_something_is_down(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    for name, cluster in zip(NAMES, ("c1", "c2"), strict=True):
        place.start_campaign(name=name, clusters=[cluster])
    vm = f"shop-{worked_on(place, 'second')}"
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    page = tab.open("wall")
    heading = page.locator("h1")
    expect(heading).to_have_text(re.compile("|".join(NAMES)))
    place.ask("/v1/fail", {"names": [vm], "reason": "no memory"})
    expect(heading).to_have_text("second")
    for _ in range(3):
        turn(page, "second")
    expect(heading).to_have_text("second")
    place.ask("/v1/restore", {"names": [vm]})
    expect(page.locator(".big > div").filter(has_text="VMs down")).to_have_text(
        "0VMs down"
    )
    # The clock says whose turn it is, and the other has the next one.
    if page.evaluate("Math.floor(Date.now() / 30_000) % 2"):
        page.clock.fast_forward("00:30")
    expect(heading).to_have_text("first")


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
