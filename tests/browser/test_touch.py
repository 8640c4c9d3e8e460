"""On a touch screen, everything that one can press is large enough for a finger."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.consoles import NARROW, WIDE, Place, Tab

pytestmark = pytest.mark.long

PX_MIN = 36
"""The least height of a target: half a centimetre on a usual phone."""

PATHS = (
    "",
    "campaigns",
    "campaigns/microcode?host=c1-r0-0",
    "campaigns/microcode?as=timeline",
    "campaigns/microcode/report",
    "reports",
    "plan",
    "hosts?host=c1-r0-0",
    "history",
)

SMALL = """(least) => [...document.querySelectorAll(
  "button, .btn, summary, select, textarea, input:not(.vh), [role=row], nav a, .quiet")]
  .filter((each) => each.checkVisibility({visibilityProperty: true}))
  // A small box is pressed by its label or cell.
  .map((each) => [each.type === "checkbox" ? each.closest("label, td, th") : each, each])
  .filter(([each]) => each.getBoundingClientRect().height < least - 0.5)
  .map(([box, each]) => `${each.outerHTML.slice(0, 120)}: ${box.getBoundingClientRect().height}`)
"""

SIDEWAYS = """() => [...document.querySelectorAll("main *")]
  .filter((each) => /auto|scroll/.test(getComputedStyle(each).overflowX))
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 120))
"""
"""Script: parts that one must scroll to the side."""

WIDTH = "() => document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def busy(shared: Place) -> Place:
    """Return a service with something in each list."""
    shared.start_campaign()
    shared.ask("/v1/fail", {"names": ["shop-c1-r0-0", "bank-c2-r1-2"]})
    return shared


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(NARROW, id="phone"),
        pytest.param(WIDE, id="tablet"),
    ],
)
def test_targets_are_large_enough_for_a_finger(
    busy: Place, new_tab: Callable[..., Tab], size: dict[str, int]
) -> None:
    tab = new_tab(busy, viewport=size, has_touch=True, is_mobile=True)
    page = tab.page
    for path in PATHS:
        tab.open(path)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate(SMALL, PX_MIN) == [], path
        assert page.evaluate(WIDTH) <= size["width"], path
        assert page.evaluate(SIDEWAYS) == [], path


def test_pages_of_a_tenant_fit_a_phone(
    busy: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    token = busy.ask("/v1/tokens", {"name": "ci", "tenant": "shop"})["token"]
    headers = {"Authorization": f"Bearer {token}"}
    phone = new_context(
        viewport=NARROW, has_touch=True, is_mobile=True, extra_http_headers=headers
    )
    tab = new_tab(busy, phone)
    for path in ("vms", "availability", "history"):
        page = tab.open(path)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate(SMALL, PX_MIN) == [], path
        assert page.evaluate(WIDTH) <= NARROW["width"], path
        assert page.evaluate(SIDEWAYS) == [], path
