"""The timeline draws who waits for whom, and is a table on paper and on a narrow screen."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import NARROW, Place, Tab, changed
from tests.support.processes import eventually

BARS = """(all) => all.map((each) => each.getBoundingClientRect())
  .map(({top, bottom}) => [top, bottom])"""
"""Script: upper and lower edges of bars."""

WAITS = {"c1-r0-1": ("ready", "c1-r0-0"), "c1-r0-2": ("planned", "c1-r0-1")}
"""The state of some hosts, and the hosts that they wait for."""


@pytest.fixture(scope="module")
def campaign(shared: Place) -> str:
    """Return a campaign that has announced its first host."""
    campaign_id = shared.start_campaign()
    eventually(
        lambda: shared.ask(f"/v1/campaigns/{campaign_id}"),
        lambda shown: shown["in_flight"] > 0,
        what="the first host",
    )
    return campaign_id


def chain(page: Page, waits: Mapping[str, tuple[str, str]]) -> None:
    """Have the service say that hosts wait for each other."""

    def wait(body: Any) -> None:
        for row in body["hosts"]:
            if row["host"] in waits:
                state, holder = waits[row["host"]]
                blocker = {"kind": "host", "text": f"waits for {holder}"}
                blockers = [{**blocker, "host": holder, "until": None}]
                row.update(state=state, blockers=blockers)

    changed(page, r"/campaigns/[^/]+/hosts\?", wait)


def arrows(page: Page) -> tuple[int, int]:
    """Return how many arrows there are, and how many of them are of a chain."""
    tips = page.locator(".sheet .arrow.t").count()
    return tips, page.locator(".sheet line.arrow.on").count() // 2


def test_chain_of_a_host_is_drawn_while_one_looks_at_it(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    chain(tab.page, WAITS)
    page = tab.open(f"campaigns/{campaign}")
    last = page.locator('.row[data-id="h:c1-r0-2"]')
    # A host that is not ready has an arrow only while it is looked at.
    expect(page.locator(".sheet .arrow.t")).to_have_count(1)
    assert arrows(page) == (1, 0)
    last.hover()
    expect(page.locator(".sheet .arrow.t")).to_have_count(2)
    assert arrows(page) == (2, 2)
    page.get_by_role("heading", name="Hosts", exact=True).hover()
    expect(page.locator(".sheet .arrow.t")).to_have_count(1)
    # By keys, and from the other end of the chain.
    page.locator('.row[data-id="c:c1"]').focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(page.locator('.row[data-id="h:c1-r0-0"]')).to_be_focused()
    expect(page.locator(".sheet .arrow.t")).to_have_count(2)


@pytest.mark.long
def test_arrow_to_a_row_out_of_sight_has_its_name(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    chain(tab.page, {"c1-r0-1": ("ready", "c2-r1-2")})
    page = tab.open(f"campaigns/{campaign}")
    row = page.locator('.row[data-id="h:c1-r0-1"]')
    expect(row).to_contain_text("held by c2-r1-2")
    assert arrows(page) == (0, 0)
    row.hover()
    expect(page.locator(".sheet text.away")).to_have_text("c2-r1-2")


def test_paper_gets_a_table(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{campaign}")
    expect(page.locator('.row[data-id="h:c1-r0-0"]')).to_be_visible()
    page.emulate_media(media="print")
    rows = page.locator(".hosts-table tbody tr")
    expect(rows.first).to_be_visible()
    assert page.get_by_role("treegrid").count() == 0
    assert page.get_by_role("button", name="Stop").count() == 0
    page.emulate_media(media="screen")
    expect(page.get_by_role("treegrid")).to_be_visible()
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.long
def test_narrow_screen_gets_a_table_and_can_have_the_timeline(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared, viewport=NARROW)
    chain(tab.page, WAITS)
    page = tab.open(f"campaigns/{campaign}")
    rows = page.locator(".hosts-table tbody tr")
    expect(rows).to_have_count(12)
    # The host that is held comes first.
    expect(rows.first).to_contain_text("c1-r0-1")
    page.get_by_role("button", name="Timeline").click()
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".hosts-table tbody tr")).to_have_count(12)


def test_closed_cluster_hides_no_work(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)

    def work(body: Any) -> None:
        first, other = body["clusters"]
        # One has more racks than are named, the other a lane for each.
        first.update(racks=9, busy=[0, 2, 6, 3])
        other.update(racks=8, busy=[0, 0, 0, 12])
        own = [rack for rack in body["racks"] if rack["cluster"] == "c2"]
        lane = [["done", body["from"], body["until"]]]
        body["racks"] += [
            {**own[0], "rack": f"c2-r{rack}"} for rack in range(len(own), 8)
        ]
        for rack in body["racks"]:
            rack["lane"] = lane

    changed(tab.page, rf"/{campaign}/tree", work)
    page = tab.open(f"campaigns/{campaign}?span=m")
    rows = [page.locator(f'.row[data-id="c:{name}"]') for name in ("c1", "c2")]
    for row in rows:
        expect(row).to_be_visible()
        if row.get_attribute("aria-expanded") == "true":
            row.click()
    # The heights of all clusters compare: the highest is 12.
    columns = rows[0].locator("path.busy")
    expect(columns).to_have_attribute("d", "M1 12v-2h1v2zM2 12v-6h1v6zM3 12v-3h1v3z")
    expect(rows[1].locator("path.busy")).to_have_count(0)
    bars = rows[1].locator("rect.s-done")
    expect(bars).to_have_count(8)
    edges = bars.evaluate_all(BARS)
    assert all(bottom <= top for (_, bottom), (top, _) in pairwise(edges)), edges
    row = rows[1].bounding_box()
    assert row is not None
    assert edges[-1][1] <= row["y"] + row["height"]


@pytest.mark.long
def test_fresh_campaign_shows_short_work_and_what_is_planned(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{campaign}")
    # It has begun some seconds ago.
    spans = page.get_by_role("group", name="Span")
    expect(spans.get_by_role("button", name="30 min")).to_have_attribute(
        "aria-pressed", "true"
    )
    spans.get_by_role("button", name="3 days").click()
    expect(page.locator(".row rect.s-planned").first).to_be_visible()
    # Hosts that come later are one row, until one looks for one of them.
    page.goto(page.url.partition("?")[0] + "?host=c2-r1-0")
    expect(page.locator('.row[data-id="h:c2-r1-0"]')).to_be_visible()
    page.locator('.row[data-id="r:c2/c2-r0"]').click()
    fold = page.locator('.row[data-id="p:c2/c2-r0"]')
    expect(fold).to_have_attribute("aria-label", "3 hosts of rack c2-r0, later")
    expect(page.locator('.row[data-id="h:c2-r0-0"]')).to_have_count(0)


@pytest.mark.long
def test_table_is_as_high_as_the_timeline_and_begins_with_what_needs_a_person(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)

    def grow(body: Any) -> None:
        hosts = body["hosts"]
        hosts[-1].update(state="failed", note="no memory")
        hosts[0].update(state="done", segments=[])
        body["hosts"] = hosts + [
            {**hosts[1], "host": f"more-{place}"} for place in range(40)
        ]

    changed(tab.page, rf"/{campaign}/hosts\?", grow)
    page = tab.open(f"campaigns/{campaign}?as=table")
    rows = page.locator(".hosts-table tbody tr")
    expect(rows.first).to_contain_text("c2-r1-2")
    expect(rows.last).to_contain_text("c1-r0-0")
    box = page.locator(".hosts-box").bounding_box()
    assert box is not None
    assert box["height"] < 420
