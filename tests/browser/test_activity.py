"""The activity has one line for the approvals of a tenant, and rows keep their place."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab, changed


def approvals(page: Page) -> None:
    """Let the history begin with approvals by three VMs, two of one operation."""

    def entry(number: int, vm: str, operation: str) -> dict[str, Any]:
        return {
            "id": f"9{number}",
            "at": f"2026-11-28T10:00:0{number}.000000Z",
            "actor": f"vm {vm}",
            "actor_kind": "vm",
            "kind": "event-approved",
            "about": "event",
            "what": "event approved",
            "what_shortly": "approved",
            "failure": False,
            "why": "",
            "detail": vm,
            "subjects": [
                f"event:E{number}",
                f"operation:{operation}",
                "tenant:shop",
                f"vm:{vm}",
            ],
        }

    late = entry(0, "shop-c1-r1-0", "op-3")
    entries = [
        entry(3, "shop-c1-r0-0", "op-1"),
        entry(2, "shop-c1-r0-1", "op-2"),
        entry(1, "shop-c1-r0-0", "op-1"),
        {**late, "at": "2026-11-28T09:50:00.000000Z"},
    ]
    orders = [
        {
            **entry(number, "x", "y"),
            "kind": "token-created",
            "about": "token",
            "what": "token created",
            "what_shortly": "created",
            "actor": "operator",
            "actor_kind": "operator",
            "detail": name,
            "subjects": [f"token:{name}"],
        }
        for number, name in ((6, "ci"), (5, "wall"))
    ]

    changed(
        page,
        r"/v1/history\?",
        lambda body: body.update(entries=[*orders, *entries]),
    )


def test_approvals_of_a_tenant_within_a_minute_are_one_line(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    approvals(tab.page)
    page = tab.open()
    lines = page.get_by_role("region", name="Activity").get_by_role("listitem")
    expect(lines).to_have_count(3)
    expect(lines.first).to_contain_text("tokens created: ci, wall")
    both = lines.filter(has_text="approved 3 events:")
    expect(both.locator(".who")).to_have_text("shop")
    for vm in ("shop-c1-r0-0", "shop-c1-r0-1"):
        expect(both.get_by_role("link", name=vm)).to_be_visible()
    # That of ten minutes before is another one.
    one = lines.filter(has_text="approved its event:")
    expect(one.get_by_role("link")).to_have_text("shop-c1-r1-0")
    # The history has each operation.
    lines = tab.open("history").locator("#history-lines").get_by_role("listitem")
    expect(lines.filter(has_text="approved 2 events:")).to_have_count(1)
    expect(lines.filter(has_text="approved its event:")).to_have_count(2)
    ticks = tab.open("wall").locator(".tick")
    expect(ticks).to_contain_text(re.compile(r"shop\s+approved 3 events:"))
    expect(ticks).not_to_contain_text("token")


@pytest.mark.long
def test_row_that_has_the_focus_of_the_keyboard_keeps_its_place(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-1"]})
    page = new_tab(place).open()
    down = page.get_by_role("region", name=re.compile("down, unplanned"))
    rows = page.locator("#down-rows tr")
    expect(rows).to_have_count(1)
    page.get_by_role("checkbox", name="All 1").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("checkbox", name="shop-c1-r0-1")).to_be_focused()
    place.ask("/v1/fail", {"names": ["bank-c1-r0-0"]})
    expect(down.get_by_text("1 new")).to_be_visible()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("checkbox", name="shop-c1-r0-1")).to_be_focused()
    # When the focus has left the rows, the new one is there.
    page.keyboard.press("Shift+Tab")
    expect(rows).to_have_count(2)
