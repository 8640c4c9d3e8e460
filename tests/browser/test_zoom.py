"""At 200 % a page has half of the pixels: it needs no scrolling to the side, and whatever one
can press at 100 % is there."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import WIDE, Place, Tab

pytestmark = pytest.mark.long

ZOOMED = {"width": WIDE["width"] // 2, "height": WIDE["height"] // 2}
"""Size of a window of 1440 x 900 at 200 %, in px of a style sheet."""

PATHS = (
    "",
    "campaigns",
    "campaigns/microcode?as=timeline",
    "campaigns/microcode/report",
    "reports",
    "waits?tenant=shop",
    "plan",
    "hosts?host=c1-r0-0",
    "find?q=c1-",
    "history",
)

NAMES = """() => [...document.querySelectorAll("a[href], button, select, textarea, input")]
  .filter((each) => each.checkVisibility({visibilityProperty: true}))
  .map((each) => each.textContent.trim() || each.ariaLabel || each.id || each.name || each.type)
"""
"""Script: names of all controls of the page."""

OUTSIDE = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = (each) => each && (/auto|scroll/.test(getComputedStyle(each).overflowX) ||
    scrolls(each.parentElement));
  return [...document.querySelectorAll("main *, header *, nav *")]
    .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.closest("svg"))
    .filter((each) => !each.closest(".vh") && !scrolls(each.parentElement))
    .filter((each) => each.getBoundingClientRect().right > wide + 1)
    .map((each) => each.outerHTML.slice(0, 120));
}"""
"""Script: controls beside the window, and in no part that scrolls by itself."""


def shown(page: Page) -> set[str]:
    """Return the names of controls, without figures that count on."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    names: list[str] = page.evaluate(NAMES)
    return {
        name for name in names if not any(character.isdigit() for character in name)
    }


def test_page_at_200_percent_hides_nothing_and_needs_no_scrolling_to_the_side(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign()
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0", "bank-c2-r1-2"]})
    # The pages must not change between the two readings.
    place.ask("/v1/campaign-pause", {"campaign": campaign, "reason": "to be looked at"})
    tab = new_tab(place, alone=True)
    for path in PATHS:
        tab.page.set_viewport_size(WIDE)
        page = tab.open(path)
        wanted = shown(page)
        page.set_viewport_size({"width": ZOOMED["width"], "height": ZOOMED["height"]})
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= ZOOMED["width"], path
        assert page.evaluate(OUTSIDE) == [], path
        assert wanted - shown(page) == set(), path
