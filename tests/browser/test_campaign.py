"""A campaign is followed on its timeline, explained in the drawer, and stopped."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.consoles import NARROW, Place, Tab, changed
from tests.support.processes import eventually

HOSTS = 12

FOUND_LATE = """() => {
  const links = document.querySelectorAll("link[rel=modulepreload], script[src]");
  const early = new Set([...links].map((each) => each.href || each.src));
  return performance.getEntriesByType("resource")
    .map((each) => each.name)
    .filter((name) => name.endsWith(".js") && !early.has(name));
}"""


def begun(place: Place) -> str:
    """Start a campaign, and return its ID when it has announced its first host."""
    found = place.start_campaign()
    eventually(
        lambda: place.ask(f"/v1/campaigns/{found}"),
        lambda shown: shown["in_flight"] > 0,
        what="the first host",
    )
    return found


@pytest.fixture
def campaign(place: Place) -> str:
    """Return a campaign of a service for one test."""
    return begun(place)


@pytest.fixture(scope="module")
def watched(shared: Place) -> str:
    """Return a campaign that tests only look at."""
    return begun(shared)


def opened(page: Page, campaign: str, place: Place) -> str:
    """Return a host that is announced, whose row is in sight."""
    hosts = place.ask(f"/v1/campaigns/{campaign}/hosts?state=announced")["hosts"]
    host = hosts[0]["host"]
    expect(page.locator(f'.row[data-id="h:{host}"]')).to_be_visible()
    return host


def test_head_counts_all_hosts(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{watched}")
    progress = page.get_by_role("region", name="Progress")
    expect(progress.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("announced of 12")
    )
    numbers = [
        int(text) for text in progress.locator(".kpis > div > b").all_inner_texts()[:5]
    ]
    assert sum(numbers) == HOSTS
    expect(page).to_have_title("microcode: running, 0 of 12 · forewarn")


def test_drawer_says_why_a_host_waits(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    host = opened(page, campaign, place)
    page.locator(f'.row[data-id="h:{host}"]').click()
    drawer = page.get_by_role("complementary", name=host)
    expect(drawer).to_contain_text("tenant shop has not enabled Scheduled Events")
    expect(drawer.get_by_role("row", name=re.compile(f"shop-{host}"))).to_be_visible()
    # A refused request is there, with the reason of the service.
    retry = drawer.get_by_role("button", name="Retry…")
    expect(retry).to_be_disabled()
    expect(retry).to_have_accessible_description(
        f"Retry: host {host} is not a failed host of campaign microcode"
    )
    expect(drawer.get_by_role("button", name="Cancel…")).to_be_enabled()
    # The address shows a colleague the same.
    assert f"host={host}" in page.url
    drawer.get_by_role("button", name="Skip host…").click()
    dialog = page.get_by_role("dialog", name=f"Skip {host}?")
    dialog.get_by_label("Why?").fill("DIMM tomorrow")
    dialog.get_by_role("button", name="Skip 1 host").click()
    expect(dialog).not_to_be_visible()
    expect(drawer).to_contain_text("Skipped")


def test_browser_need_not_find_the_modules_of_a_page_one_after_the_other(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{watched}")
    opened(page, watched, shared)
    assert page.evaluate(FOUND_LATE) == []


def test_change_of_a_host_comes_by_the_stream(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    """Rows and counts show it, although no list is answered again."""
    page = new_tab(place).open(f"campaigns/{campaign}?as=table")
    row = page.locator(".hosts-table").get_by_role("row", name="c2-r1-2")
    expect(row).to_contain_text("planned")
    counts = page.get_by_role("region", name="Progress").get_by_role("img")
    expect(counts).to_have_attribute("aria-label", "1 announced of 12")
    page.route(re.compile(r"/hosts\?|/tree"), lambda route: route.abort())
    skip = {"campaign": campaign, "hosts": ["c2-r1-2"], "reason": "DIMM tomorrow"}
    place.ask("/v1/campaign-skip", skip)
    expect(row).to_contain_text("skipped")
    expect(counts).to_have_attribute("aria-label", re.compile("1 skipped"))


def test_link_with_a_host_opens_its_row(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{watched}?host=c2-r1-2")
    selected = page.locator('.row[data-id="h:c2-r1-2"]')
    expect(selected).to_have_attribute("aria-selected", "true")


def test_timeline_is_one_tab_stop_and_opens_by_keys(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{watched}")
    host = opened(page, watched, shared)
    assert page.locator('.row[tabindex="0"]').count() == 1
    page.locator('.row[tabindex="0"]').focus()
    page.keyboard.press("Home")
    first = page.locator('.row[data-id="c:c1"]')
    expect(first).to_be_focused()
    expect(first).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowLeft")
    expect(first).to_have_attribute("aria-expanded", "false")
    expect(page.locator(f'.row[data-id="h:{host}"]')).not_to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator(f'.row[data-id="h:{host}"]')).to_be_visible()
    for name in ("r:c1/c1-r0", f"h:{host}"):
        page.keyboard.press("ArrowDown")
        expect(page.locator(f'.row[data-id="{name}"]')).to_be_focused()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name=host)
    expect(drawer).to_be_visible()
    drawer.get_by_role("button", name="Close").focus()
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()
    expect(page.locator(f'.row[data-id="h:{host}"]')).to_be_focused()


def test_stop_takes_two_clicks_and_a_reason(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop microcode?")
    # The history must not have a reason that was not given.
    chosen = dialog.get_by_role("radio", name="no reason given")
    expect(chosen).to_be_focused()
    expect(chosen).to_be_checked()
    dialog.get_by_role("button", name=re.compile("^■ Stop")).click()
    expect(dialog).not_to_be_visible()
    expect(page.get_by_role("button", name="Resume…")).to_be_visible()
    answer = place.ask(f"/v1/campaigns/{campaign}")
    assert (answer["state"], answer["in_flight"]) == ("Halted", 0)
    assert "no reason given" in answer["halted"]["message"]


def test_stop_by_keys_asks_first(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("!")
    dialog = page.get_by_role("dialog", name="Stop microcode?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    assert place.ask(f"/v1/campaigns/{campaign}")["state"] == "Running"
    page.keyboard.press("!")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Resume…")).to_be_visible()
    assert place.ask(f"/v1/campaigns/{campaign}")["halted"]["message"]


def test_dialog_says_what_the_service_counts(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{watched}")
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop microcode?")
    expect(dialog).to_contain_text("1 host cancelled without impact: 2 VMs of 2")
    expect(dialog).to_contain_text("11 hosts not begun")
    expect(dialog.get_by_role("button", name="Stop 1 + 11 hosts")).to_be_visible()
    dialog.get_by_role("button", name="Keep running").click()
    assert shared.ask(f"/v1/campaigns/{watched}")["state"] == "Running"


@pytest.mark.long
def test_button_waits_for_the_reader_when_the_effect_has_grown(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    growing = itertools.count()

    def grow(body: Any) -> None:
        body["effect"]["cancelled"]["hosts"] += next(growing)

    changed(page, "/v1/campaign-halt$", grow)
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop microcode?")
    dialog.get_by_label("Why?").fill("VMs do not boot")
    stop = dialog.get_by_role("button", name=re.compile("^■ Stop"))
    expect(stop).to_be_enabled()
    expect(stop).to_be_disabled()
    expect(stop).to_be_enabled()


def test_order_after_another_decision_names_who_made_it(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog", name="Pause microcode?")
    dialog.get_by_text("shift ends").click()
    place.ask("/v1/campaign-pause", {"campaign": campaign, "reason": "uni-hpc asked"})
    dialog.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_role("alert")).to_contain_text("uni-hpc asked")
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing was changed")
    # One cannot take over from oneself.
    expect(dialog.get_by_role("button", name="Take over")).to_have_count(0)


@pytest.mark.long
def test_pause_of_another_operator_can_be_taken_over(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    """This service knows one operator only, so the pause of the other is made up."""
    tab = new_tab(place)
    other = {
        "by": "bob",
        "at": "2026-11-28T10:00:00Z",
        "reason": "uni-hpc asked",
        "kind": "campaign-paused",
        "what": "campaign paused",
    }
    sent: list[dict[str, Any]] = []

    def answer(route: Route) -> None:
        body: dict[str, Any] = route.request.post_data_json or {}
        if not body.get("dry_run"):
            sent.append(body)
        if len(sent) == 1 and not body.get("dry_run"):
            text = "campaign microcode has changed since you looked"
            refused = {"error": text, "kind": "conflict", "hint": "", "changed": other}
            route.fulfill(status=409, json=refused)
        else:
            route.continue_()

    tab.page.route("**/v1/campaign-pause", answer)
    page = tab.open(f"campaigns/{campaign}")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog", name="Pause microcode?")
    # A person says why first.
    expect(dialog.get_by_label("Why?")).to_be_focused()
    dialog.get_by_text("shift ends").click()
    dialog.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_role("alert")).to_contain_text("uni-hpc asked")
    expect(dialog).to_contain_text("Your pause is added to that of bob")
    dialog.get_by_role("button", name="Take over").click()
    expect(dialog).not_to_be_visible()
    assert ["revision" in url for url in sent] == [True, False]
    assert place.ask(f"/v1/campaigns/{campaign}")["state"] == "Paused"


@pytest.mark.long
def test_two_operators_see_each_other(
    place: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open(f"campaigns/{campaign}")
    place.ask("/v1/campaign-pause", {"campaign": campaign, "reason": "uni-hpc asked"})
    expect(page.get_by_text("Paused by")).to_contain_text("uni-hpc asked")
    page.get_by_role("button", name="Resume…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why?").fill("they are done")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()


def test_narrow_page_has_stop_under_the_thumb(
    shared: Place, watched: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared, viewport=NARROW).open(f"campaigns/{watched}")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_in_viewport()
    box = stop.bounding_box()
    assert box is not None
    assert box["y"] > NARROW["height"] * 0.8
    assert box["height"] >= 36
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= NARROW["width"]
