"""A figure that several pages have is the same on all of them."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually


@pytest.mark.long
def test_hosts_of_a_campaign_are_counted_the_same_on_each_page(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign()
    (host,) = eventually(
        lambda: place.ask(f"/v1/campaigns/{campaign}/hosts?state=announced")["hosts"],
        lambda found: found,
        what="an announced host",
    )
    page = new_tab(place).open()
    card = page.locator(".camp")
    expect(card).to_contain_text("0 in work · 1 announced")
    events = place.ask(f"/v1/events?host={host['host']}")["events"]
    ids = [event["EventId"] for event in events]
    place.ask("/v1/approve", {"event_ids": ids, "reason": "agreed by phone"})
    # Its work takes a minute.
    eventually(
        lambda: place.ask(f"/v1/campaigns/{campaign}/outlook")["counts"],
        lambda counts: counts["running"] == 1,
        what="a host in work",
    )
    page.reload()
    expect(card.get_by_role("img")).to_have_accessible_name("1 in work of 12")
    clusters = page.get_by_role("region", name="Clusters")
    expect(clusters).to_contain_text("12 hosts, 24 VMs")
    page.goto(f"{place.url}/console/campaigns/{campaign}")
    figures = page.get_by_role("region", name="Progress")
    for words in ("1running", "0announced", "11left of 12"):
        expect(figures).to_contain_text(words)
    page.goto(f"{place.url}/console/wall")
    expect(page.locator(".big")).to_contain_text("1running")
    expect(page.locator(".big")).to_contain_text("11left, 0 announced")
