"""Now names what needs a person by kind, the worst first, and counts it in the title.

The driver of these services fails in no such way, so their streams are made up.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab


def problem(kind: str, number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "problem": f"{kind}:{number}",
        "kind": kind,
        "since": "2026-11-28T09:00:00Z",
        "text": f"it is {kind}",
        "text_shortly": f"it is {kind}",
        "operation": f"op-{number}",
        "target": "c1-r0-0",
        "actions": [],
        "tenants": ["shop"],
        "scopes": [],
        "hosts": ["c1-r0-0"],
        "events": [],
        "webhook": None,
        "campaign": None,
        "vms": ["shop-c1-r0-0"],
        "sighted": [],
        **more,
    }


def open_with(tab: Tab, *problems: dict[str, Any]) -> Page:
    """Open Now with these problems."""
    news = [*(("problems", each) for each in problems), ("ready", {})]
    body = "".join(
        f"event: {name}\ndata: {json.dumps(message)}\n\n" for name, message in news
    )
    tab.page.route(
        "**/v1/watch?*",
        lambda route: route.fulfill(body=body, content_type="text/event-stream"),
    )
    return tab.open()


def test_unknown_outcome_is_shown_with_what_was_seen_of_its_vms(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    sighting = {
        "vm": "shop-c1-r0-0",
        "running": True,
        "host": "c2-r1-2",
        "at": "2026-11-28T10:00:00Z",
        "text": "",
        "text_shortly": "",
    }
    page = open_with(
        new_tab(shared),
        problem("outcome-unknown", 1, actions=["resolve"], sighted=[sighting]),
        problem("outcome-unknown", 2, actions=["resolve"]),
    )
    unknown = page.get_by_role("region", name=re.compile("did the driver do it or not"))
    expect(unknown.get_by_text("Seen since")).to_have_text(
        re.compile(r"shop-c1-r0-0 runs on c2-r1-2,\s+.* ago")
    )
    expect(
        unknown.get_by_text("Nothing new was seen of its VMs since.")
    ).to_be_visible()


def test_failures_come_before_what_is_held(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    page = open_with(
        new_tab(shared),
        problem("held", 1),
        problem("visit-failed", 2),
        problem("driver-failing", 3),
    )
    titles = page.locator("main .stack").first.get_by_role("heading", level=2)
    expect(titles).to_have_text(["2 failures", "1 thing held"])
    failed = page.get_by_role("region", name="2 failures")
    expect(failed).to_contain_text("it is visit-failed")
    expect(failed).not_to_contain_text("it is held")
    expect(page.locator(".count.urgent")).to_contain_text("3")


def test_page_of_a_host_has_the_verbs_of_its_problems(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    actions = ["visit retry", "visit skip"]
    open_with(tab, problem("visit-failed", 1, actions=actions, vms=[]))
    page = tab.open("hosts?host=c1-r0-0")
    side = page.get_by_role("complementary", name="c1-r0-0")
    expect(side).to_contain_text("it is visit-failed")
    side.get_by_role("button", name="Retry…").click()
    expect(page.get_by_role("dialog")).to_have_accessible_name(
        "Retry the visit of c1-r0-0?"
    )
    page.keyboard.press("Escape")
    expect(side.get_by_role("button", name="Skip…")).to_be_visible()
    # Those of another host are not there.
    page = tab.open("hosts?host=c1-r0-1")
    expect(page.get_by_role("complementary", name="c1-r0-1")).to_be_visible()
    expect(page.get_by_role("button", name="Retry…")).to_have_count(0)


def test_late_approvals_of_a_tenant_count_once(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    page = open_with(
        new_tab(shared),
        problem("approval-late", 1),
        problem("approval-late", 2),
        problem("approval-late", 3, tenants=["bank", "shop"]),
        problem("held", 4),
    )
    expect(page).to_have_title("(3) Now · forewarn")
    expect(page.locator(".count")).to_contain_text("3")
    # Nothing is down, and nothing has failed.
    expect(page.locator(".count.urgent")).to_have_count(0)
