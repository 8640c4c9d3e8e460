"""A past time is found again in the timeline and the history, and a link keeps it."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from playwright.sync_api import expect

from tests.support.consoles import Place, Tab


def now(place: Place) -> datetime:
    """Return the time of the service."""
    return datetime.fromisoformat(place.ask("/v1/session")["now"])


def test_timeline_and_history_go_to_a_past_time(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign("CHG-17")
    page = new_tab(place).open(f"campaigns/{campaign}?span=4h")
    tools = page.get_by_role("region", name="Hosts")
    axis = page.locator(".axis svg")
    expect(axis).to_contain_text("now")
    for _ in range(2):
        tools.get_by_role("button", name="Earlier").click()
    # Two halves of four hours.
    expect(page).to_have_url(re.compile(r"at=\d{4}-"))
    at = datetime.fromisoformat(page.url.partition("at=")[2].replace("%3A", ":"))
    assert timedelta(hours=3.9) < now(place) - at < timedelta(hours=4.2)
    before = axis.text_content() or ""
    page.reload()
    expect(axis).to_have_text(before)
    tools.get_by_role("button", name="Later").click()
    expect(axis).not_to_have_text(before)
    tools.get_by_role("button", name="now").click()
    expect(axis).to_contain_text("now")
    # A change leads to its time.
    activity = page.get_by_role("region", name="Activity")
    activity.get_by_role("listitem").filter(has_text="campaign started").get_by_role(
        "link", name=re.compile(r"^\d\d:\d\d:\d\d$")
    ).click()
    expect(page).to_have_url(re.compile("at="))
    expect(tools.get_by_label(re.compile("^At"))).not_to_have_value("")

    page.goto(f"{place.url}/console/history")
    started = page.get_by_role("listitem").filter(has_text="campaign started")
    expect(started).to_contain_text("operator")
    field = page.get_by_label(re.compile("^At"))
    past = now(place) - timedelta(hours=2)
    field.fill(f"{past:%Y-%m-%dT%H:%M}")
    field.press("Tab")
    expect(page.get_by_text("No change matches")).to_be_visible()
    expect(page).to_have_url(re.compile(f"at={past:%Y-%m-%d}"))
    field.fill(f"{now(place):%Y-%m-%dT%H:%M}")
    field.press("Tab")
    expect(started).to_contain_text("operator")
