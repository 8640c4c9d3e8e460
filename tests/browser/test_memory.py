"""A tab that is open for a shift of twelve hours does not grow with its messages."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import CDPSession, expect

from tests.browser.test_redraws import CHANGING, HOSTS, ROWS, SCRIPT, fleet
from tests.support.consoles import Place, Tab
from tests.support.processes import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

WARM = 100
"""Changes until lists of a fixed length are full."""
CHANGES = 480
"""Changes of twelve hours, with one in each minute and a half."""
NODES_MORE = 200
LISTENERS_MORE = 50
"""Allowed difference between two moments: rows that show one more word."""
BYTES_MORE = 4 << 20
"""A kilobyte kept of each row that changed would be 19 MiB."""
BYTES_MAX = 80 << 20
"""Maximum growth of the memory of scripts in these hours."""

Measures = dict[str, float]


def measured(session: CDPSession) -> Measures:
    """Return the memory of the page after a garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in metrics}


def change_hosts(tab: Tab, changes: int) -> None:
    """Let 40 hosts change so many times; each is drawn before the next."""
    shown = tab.page.evaluate(
        """async ([changes, changing]) => {
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          for (let change = 0; change < changes; change += 1) {
            redraws.tick(changing);
            for (let wait = 0; wait < 6; wait += 1) await frame();
          }
          return redraws.ticks;
        }""",
        [changes, CHANGING],
    )
    expect(tab.page.locator(".card.tl")).to_contain_text(f"moves {shown}/")


def test_tab_keeps_nothing_of_twelve_hours_of_changes(
    tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    place = Place(tmp_path / "service", fleet_text=fleet())
    try:
        campaign = place.start_campaign()
        eventually(
            lambda: place.ask(f"/v1/campaigns/{campaign}"),
            lambda shown: shown["hosts"] == HOSTS,
            what="the campaign",
        )
        tab = new_tab(place, alone=True)
        tab.page.add_init_script(SCRIPT)
        page = tab.open(f"campaigns/{campaign}")
        page.get_by_role("button", name="Open all").click()
        expect(page.get_by_role("treegrid")).to_have_attribute("aria-rowcount", ROWS)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        change_hosts(tab, WARM)
        before = measured(session)
        change_hosts(tab, CHANGES)
        after = measured(session)
    finally:
        place.kill()
    more = {
        name: after[name] - before[name]
        for name in ("Nodes", "JSEventListeners", "JSHeapUsedSize")
    }
    assert more["Nodes"] <= NODES_MORE, more
    assert more["JSEventListeners"] <= LISTENERS_MORE, more
    assert more["JSHeapUsedSize"] <= BYTES_MORE, more
    assert after["JSHeapUsedSize"] <= BYTES_MAX, after
