"""Dialogs say what an order will do, and do not press what the service refuses."""

import itertools
import re
from collections.abc import Callable
from typing import cast

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.consoles import MIDDLE, WIDE, Place, Tab
from tests.support.processes import eventually

COUNTS_MAX = 6
"""Requests of a minute about an order that is refused: after 0, 4, 12, 28 and 60 s."""

LISTS_MAX = 12
"""Requests of a minute for the lists of Now, after the service has gone."""

BOXES = """(labels) => labels.map((each) => each.getBoundingClientRect())
  .map(({x, width}) => [x, width]).sort((one, other) => one[0] - other[0])"""
"""The left edges and widths of elements."""


@pytest.fixture
def open_as(shared: Place, new_tab: Callable[..., Tab]) -> Callable[..., Page]:
    """Return what opens a page with a token of this name and roles."""

    def opened(path: str, name: str, **members: object) -> Page:
        answer = shared.ask("/v1/tokens", {"name": name, **members})
        headers = {"Authorization": f"Bearer {answer['token']}"}
        return new_tab(shared, extra_http_headers=headers).open(path)

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


@pytest.mark.long
def test_refused_order_is_counted_less_and_less(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    shared.ask("/v1/host-cordon", {"hosts": ["c1-r0-1"], "reason": "DIMM tomorrow"})
    tab = new_tab(shared, alone=True)
    tab.page.clock.install()
    page = tab.open("hosts?host=c1-r0-1")
    page.get_by_role("button", name="Open…").click()
    dialog = page.get_by_role("dialog", name="Open c1-r0-1?")
    dialog.get_by_label("Why?").fill("DIMM replaced")
    expect(dialog.get_by_role("button", name="Open 1 host")).to_be_enabled()
    sent: list[str] = []
    page.on(
        "request",
        lambda request: sent.append(request.url) if request.method == "POST" else None,
    )
    shared.ask("/v1/host-open", {"hosts": ["c1-r0-1"], "reason": "it was the cable"})
    for _ in range(60):
        page.clock.run_for(1000)
    expect(dialog.get_by_role("alert")).to_contain_text("is not cordoned")
    expect(dialog.get_by_role("button", name="Open 1 host")).to_be_disabled()
    assert 1 <= len(sent) <= COUNTS_MAX, sent


@pytest.mark.long
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


@pytest.mark.long
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


def test_unknown_campaign_is_asked_for_alone(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared, statuses={404})
    asked: list[str] = []
    tab.page.on(
        "request",
        lambda request: asked.append(request.url) if "narwhal" in request.url else None,
    )
    page = tab.open("campaigns/narwhal")
    expect(page.get_by_text("There is no such campaign")).to_be_visible()
    assert [url for url in asked if "/v1/" in url][1:] == []


def test_tenant_is_found_with_all_changes(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    shared.ask("/v1/fail", {"names": ["bank-c2-r1-1"]})
    page = new_tab(shared).open("hosts")
    page.keyboard.press("/")
    page.keyboard.type("bank")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="History", level=2)).to_be_visible()
    lines = page.locator("#history-lines li")
    expect(lines.first).to_be_visible()
    page.get_by_role("button", name="main").click()
    page.get_by_label("Who").fill("nobody")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="Show all changes").click()
    expect(page.get_by_role("button", name="all", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def closest(boxes: list[tuple[float, float]]) -> float:
    """Return the smallest gap between labels with these left edges and widths."""
    return min(b[0] - a[0] - a[1] for a, b in itertools.pairwise(boxes))


@pytest.mark.long
def test_labels_of_the_axis_do_not_touch(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = shared.start_campaign(name="axis")
    page = new_tab(shared).open(f"campaigns/{campaign}?as=timeline")
    labels = page.locator(".axis svg text")
    # The label of now hides one or two others, which depends on the time of the day.
    for size, most in ((WIDE, 6), (MIDDLE, 3)):
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        page.reload()
        expect(labels.filter(has_text="now")).to_have_count(1)
        # The first drawing does not know the width yet.
        eventually(
            lambda: cast("list[tuple[float, float]]", labels.evaluate_all(BOXES)),
            lambda boxes, most=most: len(boxes) >= most and closest(boxes) > 2,
            what=f"{most} labels that do not touch",
        )
    shared.ask("/v1/campaign-abort", {"campaign": campaign, "reason": "over"})


@pytest.mark.long
def test_service_that_is_away_is_asked_less_and_less(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    page = tab.open()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    asked: list[str] = []

    def away(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/v1/**", away)
    place.kill()
    for _ in range(60):
        page.clock.run_for(1000)
    expect(page.get_by_role("button", name="Reconnect")).to_be_visible()
    lists = [url for url in asked if "/v1/watch" not in url]
    assert len(lists) <= LISTS_MAX, lists
