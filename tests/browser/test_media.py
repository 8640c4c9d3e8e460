"""A campaign on paper, in the colors of the system, and without movement."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually

LIGHTNESS = """(each) => {
  const of = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
  };
  const style = getComputedStyle(each);
  return [of(style.color), of(style.backgroundColor)];
}"""


@pytest.fixture(scope="module")
def running(shared: Place) -> Place:
    """Return a service with a campaign."""
    shared.start_campaign()
    return shared


def grounds(page: Page, selector: str) -> tuple[float, float]:
    """Return the lightness of an element's text and of its ground, from 0 to 1."""
    text, ground = page.locator(selector).first.evaluate(LIGHTNESS)
    return text, ground


@pytest.mark.long
def test_campaign_is_printed_dark_on_light_as_a_table(
    running: Place, new_tab: Callable[..., Tab]
) -> None:
    low = {"width": 1000, "height": 500}
    page = new_tab(running, viewport=low, color_scheme="dark").open(
        "campaigns/microcode"
    )
    page.get_by_role("button", name="Open all").click()
    last = page.locator('.row[data-id="h:c2-r1-2"]')
    expect(last).to_be_visible()
    text, ground = grounds(page, "body")
    assert text > ground
    page.emulate_media(media="print")
    for selector in ("body", ".card", ".hosts-table tbody th"):
        text, ground = grounds(page, selector)
        assert text < 0.3, selector
    assert grounds(page, "body")[1] > 0.9
    expect(page.get_by_role("heading", name="microcode")).to_be_visible()
    # What only a screen needs is not on paper.
    assert page.locator("button:visible, nav:visible, input:visible").count() == 0
    expect(page.get_by_role("treegrid")).to_have_count(0)
    expect(page.locator(".hosts-table tbody tr")).to_have_count(12)


@pytest.mark.long
def test_system_colors_keep_what_is_chosen_apart(
    running: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(running).open("campaigns/microcode")
    page.emulate_media(forced_colors="active")
    spans = page.get_by_role("group", name="Span").get_by_role("button")
    expect(spans).to_have_count(5)
    looks = spans.evaluate_all(
        "all => all.map((each) => getComputedStyle(each).backgroundColor)"
    )
    assert len(set(looks)) == 2, looks
    # The states of hosts are told by their colors and forms.
    forms = page.get_by_role("group", name="Legend").locator("rect")
    fills = forms.evaluate_all("all => all.map((each) => getComputedStyle(each).fill)")
    assert len(set(fills)) >= 6, fills


@pytest.mark.long
def test_nothing_moves_for_who_wants_no_movement(
    running: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(running).open("campaigns/microcode")
    page.emulate_media(reduced_motion="no-preference")
    moving = "() => document.getAnimations().length"
    eventually(lambda: page.evaluate(moving), bool, what="a movement")
    page.emulate_media(reduced_motion="reduce")
    eventually(lambda: page.evaluate(moving), lambda count: count == 0)
    for path in ("", "wall"):
        page.goto(f"{running.url}/console/{path}")
        expect(page.locator(".live.live")).to_be_visible()
        assert page.evaluate(moving) == 0
