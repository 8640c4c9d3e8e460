"""The figures of pages for operators are those of the service, and say what they count."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.support.consoles import Place, Tab, changed


@pytest.fixture(scope="module")
def campaign(shared: Place) -> str:
    """Return a campaign of the shared service."""
    return shared.start_campaign()


def cells(row: Locator) -> list[str]:
    return [text.strip() for text in row.locator("td").all_inner_texts()]


def test_clusters_show_free_slots_and_what_the_next_host_needs(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)

    def need(capacity: Any) -> None:
        capacity["next_hosts"] = [{"cluster": "c2", "zone": "1", "needs": 7}]

    changed(tab.page, "/v1/capacity", need)
    page = tab.open()
    rows = page.get_by_role("region", name="Clusters").get_by_role("row")
    # Each cluster has 24 places and 12 VMs; of a host in work no place counts.
    first, second = rows.nth(1), rows.nth(2)
    expect(second).to_contain_text("7")
    assert cells(second)[-2:] == ["12", "7"]
    assert cells(first)[-1] == "\u2013"
    # The host after the next one may find no room.
    expect(second.locator("td.warn")).to_have_text("12")
    expect(first.locator("td.warn")).to_have_count(0)
    wall = tab.open("wall")
    expect(wall.locator(".say li.w", has_text="c2: 12 free VM slots")).to_be_visible()
    page = tab.open(f"campaigns/{campaign}")
    expect(page.get_by_role("region", name="Stages and budgets")).to_contain_text(
        "c2 12 (next needs 7)"
    )


def test_head_says_what_the_vms_had_and_when_the_campaign_would_halt(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)

    def sum_up(sums: Any) -> None:
        down = {"planned_down_seconds": 2520, "unplanned_down_seconds": 900}
        sums.update(moves_per_vm={"1": 30, "2": 5}, tenants=[down])
        sums["stages"] = {"1": {"Done": 2, "Failed": 1}}

    def grow(outlook: Any) -> None:
        budget = {"subject": None, "failed": 1, "full": False}
        outlook["eta"].update(at="2040-01-15T00:13:00Z", unknown=None)
        outlook["budgets"] = [
            {**budget, "kind": "in-flight", "used": 3, "most": 40},
            {**budget, "kind": "ramp", "used": 3, "most": 32},
            {**budget, "kind": "failures", "used": 1, "most": 4},
        ]

    changed(tab.page, f"/{campaign}/sums", sum_up)
    changed(tab.page, f"/{campaign}/outlook", grow)
    page = tab.open(f"campaigns/{campaign}")
    progress = page.get_by_role("region", name="Progress")
    expect(progress).to_contain_text("35 VMs moved")
    expect(progress).to_contain_text("57 VM minutes down, 42 planned")
    # The day is small beside the hour, so that the figures stay in one line.
    expect(progress.locator(".eta small")).to_have_text("15 Jan 2040")
    terms = page.get_by_role("region", name="Stages and budgets")
    expect(terms).to_contain_text("/32, growing to 40")
    expect(terms).to_contain_text("failed 1, halts at 5")
    heights = progress.locator(".kpis > div:not(.wide)").evaluate_all(
        "all => all.map((each) => Math.round(each.getBoundingClientRect().bottom))"
    )
    assert len(set(heights)) == 1


def test_plan_of_a_campaign_is_made_again_from_its_file(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared).open(f"campaigns/{campaign}")
    page.get_by_role("link", name="Plan", exact=True).click()
    text = page.get_by_label("The file, in TOML")
    expect(text).to_have_value(re.compile('name = "microcode"'))
    # It has the hosts itself, so that the plan cannot be started.
    expect(page.get_by_text("Another campaign has some of the hosts")).to_be_visible()


@pytest.mark.long
def test_selection_says_where_its_vms_would_go_before_one_clicks(
    shared: Place, campaign: str, new_tab: Callable[..., Tab]
) -> None:
    vm = "shop-c2-r1-1"
    shared.ask("/v1/fail", {"names": [vm], "reason": "no memory"})
    page = new_tab(shared).open()
    page.get_by_role("checkbox", name=vm).check()
    down = page.get_by_role("region", name="1 VM down, unplanned")
    expect(down.locator(".bulk")).to_contain_text(re.compile(r"would go to c\d-r\d-\d"))
    down.get_by_role("button", name="Redeploy elsewhere…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"They would go to c\d-r\d-\d"))
    shared.ask("/v1/restore", {"names": [vm]})
