"""The script that a campaign's page runs when hosts change, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually

pytestmark = pytest.mark.long

HOSTS = 400
PER_RACK = 20
ROWS = str(1 + HOSTS // PER_RACK + HOSTS)
"""Rows of the cluster, of its racks and of its hosts."""

CHANGING = 40
TICKS = 8

REDRAW_MS = 30
"""Maximum script of one redraw. Each one draws as much, so the shortest counts: others
waited for a processor."""

SCRIPT = (Path(__file__).parent / "redraws.js").read_text(encoding="utf-8")


def fleet() -> str:
    """Return the file of a fleet with one cluster, and a VM on its last host."""
    hosts = "\n".join(
        f'[[host]]\nname = "c0-h{number:03}"\nzone = "1"\ncluster = "c0"\n'
        f'rack = "c0-r{number // PER_RACK:02}"\n'
        for number in range(HOSTS)
    )
    return f'{hosts}\n[[vm]]\nname = "vm-0"\nhost = "c0-h{HOSTS - 1:03}"\n'


def measured(tab: Tab, campaign: str, form: str) -> list[float]:
    """Return the milliseconds of the redraws in which hosts have changed."""
    page = tab.page
    page.add_init_script(SCRIPT)
    tab.open(f"campaigns/{campaign}{form}")
    if form:
        expect(page.locator(".hosts-table tbody tr")).to_have_count(HOSTS)
    else:
        page.get_by_role("button", name="Open all").click()
        expect(page.get_by_role("treegrid")).to_have_attribute("aria-rowcount", ROWS)
    for number in range(1, TICKS + 1):
        page.evaluate(f"redraws.tick({CHANGING})")
        expect(page.locator(".card.tl")).to_contain_text(f"moves {number}/99")
    return page.evaluate("redraws.frames")


@pytest.mark.parametrize("form", ["", "?as=table"], ids=["timeline", "table"])
def test_redraw_of_400_hosts_with_40_that_change_is_short(
    form: str, tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    place = Place(tmp_path / "service", fleet_text=fleet())
    try:
        campaign = place.start_campaign()
        eventually(
            lambda: place.ask(f"/v1/campaigns/{campaign}"),
            lambda shown: shown["hosts"] == HOSTS,
            what="the campaign",
        )
        found = measured(new_tab(place, alone=True), campaign, form)
    finally:
        place.kill()
    assert len(found) >= TICKS
    assert min(found) <= REDRAW_MS, found


STANDS = """() => [
  document.activeElement?.dataset?.id ?? document.activeElement?.className,
  document.activeElement?.isConnected,
  Math.round(document.querySelector(".card.tl .rows").scrollTop),
  String(getSelection()),
  location.search,
]"""
"""The row with the focus, where the rows are scrolled to, and the selected text and host."""


def test_focus_selection_and_place_stay_while_40_of_400_hosts_change(
    tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    place = Place(tmp_path / "service", fleet_text=fleet())
    try:
        campaign = place.start_campaign()
        tab = new_tab(place, alone=True)
        page = tab.page
        page.add_init_script(SCRIPT)
        tab.open(f"campaigns/{campaign}")
        page.get_by_role("button", name="Open all").click()
        expect(page.get_by_role("treegrid")).to_have_attribute("aria-rowcount", ROWS)
        page.evaluate(f"redraws.tick({CHANGING})")
        expect(page.locator(".card.tl")).to_contain_text("moves 1/99")
        rows = page.locator(".card.tl .row")
        rows.first.focus()
        for _ in range(CHANGING // 2):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        before = page.evaluate(STANDS)
        assert before[0].startswith("h:c0-h0"), before
        for number in range(2, TICKS + 1):
            page.evaluate(f"redraws.tick({CHANGING})")
            expect(page.locator(".card.tl")).to_contain_text(f"moves {number}/99")
            assert page.evaluate(STANDS) == before
        # The keys continue from where they were.
        page.keyboard.press("ArrowDown")
        below = f"h:c0-h{int(before[0][-3:]) + 1:03}"
        expect(page.locator(f'.row[data-id="{below}"]')).to_be_focused()
    finally:
        place.kill()
