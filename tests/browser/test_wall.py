"""The wall is read from afar: it says what needs a person, and when it is out of date."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.consoles import CLUSTERS, Place, Tab

AWAKE = """
window.awake = [];
Object.defineProperty(navigator, "wakeLock", {
  value: { request: async (kind) => void window.awake.push(kind) },
});
"""
"""Notes what the page keeps awake, which a browser without a screen refuses."""


def test_wall_shows_a_campaign_and_what_needs_a_person(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place)
    tab.page.add_init_script(AWAKE)
    page = tab.open("wall")
    assert page.evaluate("awake") == ["screen"]
    expect(page.get_by_text("no campaign runs")).to_be_visible()
    expect(page.get_by_text("All is well")).to_be_visible()
    place.start_campaign()
    expect(page.get_by_role("heading", name="microcode")).to_be_visible()
    for cluster in CLUSTERS:
        picture = page.get_by_role("img", name=f"{cluster}: 0 of 6 done")
        expect(picture).to_be_visible()
    expect(page.get_by_text(re.compile("approvals? missing")).first).to_be_visible()
    expect(page.get_by_text("no ETA: no host is done")).to_be_visible()
    expect(page.get_by_text("failed, at 1 it halts")).to_be_visible()
    place.ask("/v1/fail", {"names": ["bank-c2-r1-2"]})
    first = page.locator(".say li").first
    expect(first).to_contain_text("bank-c2-r1-2 down")
    expect(page).to_have_title("(1) wall: microcode · forewarn")
    # Nobody can touch it.
    assert page.locator("a, button, input, select").count() == 0


@pytest.mark.long
def test_wall_without_a_campaign_has_a_square_for_each_host(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open("wall")
    picture = page.get_by_role("img", name="c1: 6 of 6 up")
    expect(picture).to_be_visible()
    squares = picture.locator("path").first.get_attribute("d") or ""
    assert squares.count("M") == 6
    place.ask("/v1/fail", {"names": ["c1-r1-1"], "kind": "host"})
    picture = page.get_by_role("img", name="c1: 5 of 6 up, 1 down or failed")
    expect(picture).to_be_visible()
    # The second host of the second rack: a line is a rack.
    cross = picture.locator("text")
    assert (cross.get_attribute("x"), cross.get_attribute("y")) == ("26.5", "39")


def test_wall_of_a_large_fleet_has_a_square_for_each_rack(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    racks = [[f"r{rack:02}", "up", 40, 0] for rack in range(29)]
    racks.append(["r29", "down", 40, 0])
    cluster = {"cluster": "c1", "hosts": 1200, "counts": {"up": 1199, "down": 1}}
    fleet = {**cluster, "clusters": [{**cluster, "racks": racks, "squares": []}]}
    tab.page.route("**/v1/fleet/overview", lambda route: route.fulfill(json=fleet))
    picture = tab.open("wall").get_by_role("img", name="c1: 1,199 of 1,200 up")
    expect(picture.locator("path")).to_have_count(len(racks))
    expect(picture.locator("text")).to_have_text("✕")


@pytest.mark.long
def test_racks_with_few_hosts_fill_the_column_of_their_cluster(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    racks = [[f"r{rack}", "up", 6, 0] for rack in range(8)]
    squares = [
        [f"r{rack}", f"r{rack}-{host}", "up"] for rack in range(8) for host in range(6)
    ]
    counts = {"hosts": 48, "counts": {"up": 48}}
    clusters = [
        {**counts, "cluster": f"c{place}", "racks": racks, "squares": squares}
        for place in range(5)
    ]
    fleet = {"hosts": 240, "vms": 0, "counts": {"up": 240}, "clusters": clusters}
    tab.page.route("**/v1/fleet/overview", lambda route: route.fulfill(json=fleet))
    picture = tab.open("wall").get_by_role("img", name="c1: 48 of 48 up")
    column, drawn = picture.bounding_box(), picture.locator("path").bounding_box()
    assert column is not None
    assert drawn is not None
    assert drawn["width"] >= 0.85 * column["width"]


@pytest.mark.long
def test_wall_turns_grey_without_news_and_recovers(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    page = tab.open("wall")
    expect(page.get_by_text("All is well")).to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()
    place.kill()
    page.clock.fast_forward("00:20")
    expect(page.locator(".live.stale")).to_be_visible()
    lost = page.locator(".lost")
    expect(lost).not_to_be_visible()
    page.clock.fast_forward("00:15")
    expect(lost).to_be_visible()
    expect(lost).to_contain_text("What is shown is of")
    # What is read aloud has no number that changes each second.
    expect(lost.get_by_role("alert")).to_have_text(re.compile(r"^No news: [^0-9]*$"))
    size = lost.locator("b").evaluate("each => getComputedStyle(each).fontSize")
    assert size == "80px"
    place.restart()
    page.clock.fast_forward("00:16")
    expect(lost).not_to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()


@pytest.mark.long
def test_wall_whose_stream_never_opens_does_not_look_calm(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place, alone=True)
    tab.page.route("**/v1/watch*", lambda route: route.abort())
    tab.page.clock.install()
    page = tab.page
    page.goto(f"{place.url}/console/wall")
    down = page.locator(".big > div").filter(has_text="VMs down")
    expect(down).to_have_text("\u2013VMs down")
    page.clock.fast_forward("00:35")
    expect(page.locator(".lost")).to_contain_text("Nothing has come")
    expect(page.locator(".live.stale")).to_be_visible()
    expect(page.get_by_text("All is well")).not_to_be_visible()
    page.goto(f"{place.url}/console/")
    page.clock.fast_forward("00:20")
    expect(page.locator(".notices")).to_contain_text("cannot show what is down")
