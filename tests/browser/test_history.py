"""The history keeps what it has read, and says how far it has searched."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Request, Route, expect

from tests.support.consoles import Place, Tab

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
REQUESTS_MAX = 5
"""Requests of one step."""


def test_rare_filter_says_how_far_it_has_searched(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    """The service finds nothing in its first pages, as in a long history."""
    entry = shared.ask("/v1/history?what=fleet&limit=1")["entries"][0]
    pages: list[str] = []

    def answer(route: Route) -> None:
        after = parse_qs(urlsplit(route.request.url).query).get("after", [""])[0]
        pages.append(after)
        is_last = len(pages) > REQUESTS_MAX
        reached = BEGIN - timedelta(hours=len(pages))
        route.fulfill(
            json={
                "entries": [entry] if is_last else [],
                "searched_to": None
                if is_last
                else reached.isoformat().replace("+00:00", "Z"),
                "next": None if is_last else f"page-{len(pages)}",
            }
        )

    tab = new_tab(shared)
    tab.page.route("**/v1/history?*", answer)
    page = tab.open("history?since=60d&actor=carol")
    status = page.get_by_role("status").filter(has_text="Searched back to")
    expect(status).to_contain_text("No change matches so far.")
    expect(status).to_contain_text(re.compile(r"31 Oct( 2026)? 19:00"))
    assert len(pages) == REQUESTS_MAX
    page.get_by_role("button", name="Search further").click()
    expect(page.locator("#history-lines li")).to_have_count(1)
    expect(page.get_by_role("button", name="Search further")).to_have_count(0)
    assert pages[-1] == f"page-{REQUESTS_MAX}"


def test_changes_are_appended_and_nothing_is_read_again(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    reads: list[str] = []

    def note(request: Request) -> None:
        if urlsplit(request.url).path == "/v1/history":
            reads.append(request.url)

    tab.page.on("request", note)
    page = tab.open()
    # The page waits for the beginning of the stream, after which lists are read once more.
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    there = "/console/history?host=c1-r0-1"
    page.evaluate("(to) => dispatchEvent(new CustomEvent('go', {detail: to}))", there)
    history = page.get_by_role("region", name="History")
    expect(history.get_by_text("No change matches")).to_be_visible()
    before = len(reads)
    for vm in ("c1-r0-1", "c1-r0-2"):
        shared.ask("/v1/host-cordon", {"hosts": [vm], "reason": f"look at {vm}"})
    lines = page.locator("#history-lines li")
    expect(lines).to_have_count(1)
    expect(lines).to_contain_text("look at c1-r0-1")
    shared.ask("/v1/host-open", {"hosts": ["c1-r0-1"], "reason": "looked at"})
    expect(lines).to_have_count(2)
    assert len(reads) == before
