"""All tabs of a browser follow one stream, which is cut and resumed."""

import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest
from playwright.sync_api import BrowserContext, Error, Page, Request, Route, expect

from tests.support.consoles import AXE, Place, Tab, changed, findings

TABS = [
    # One more than the connections that Chromium opens to a server.
    pytest.param(7, id="seven"),
    pytest.param(12, id="twelve", marks=pytest.mark.long),
]


@pytest.mark.parametrize("count", TABS)
def test_tabs_share_one_stream(
    count: int,
    place: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    context = new_context()
    tabs = [new_tab(place, context) for _ in range(count)]
    for tab in tabs:
        tab.open()
    assert [tab.streams for tab in tabs] == [1] + [0] * (count - 1)
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    for tab in tabs:
        expect(tab.page).to_have_title("(1) Now · forewarn")
    # The next tab reads the stream when the first one is closed.
    tabs[0].page.close()
    place.ask("/v1/fail", {"names": ["shop-c1-r0-1"]})
    for tab in tabs[1:]:
        expect(tab.page).to_have_title("(2) Now · forewarn")
    assert sum(tab.streams for tab in tabs[1:]) == 1
    # What ended while the stream was away is gone in all of them.
    place.kill()
    place.restart()
    place.ask("/v1/restore", {"names": ["shop-c1-r0-0", "shop-c1-r0-1"]})
    for tab in tabs[1:]:
        expect(tab.page).to_have_title("Now · forewarn")


def test_lost_stream_is_said_and_resumed(
    place: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place, new_context(bypass_csp=AXE.exists()))
    tab.page.clock.install()
    page = tab.open()
    row = page.get_by_role("row", name="shop-c1-r0-0")
    expect(row).to_be_visible()
    place.kill()
    page.clock.fast_forward("00:20")
    notice = page.locator(".note").filter(has_text="No update for")
    expect(notice).to_be_visible()
    # What is read aloud has no number that changes each second.
    alert = notice.get_by_role("alert")
    expect(alert).to_have_text("No update: what is shown can be old.")
    # What was known stays, and says how old it is.
    expect(row).to_be_visible()
    expect(page.locator(".live.stale")).to_be_visible()
    expect(notice.get_by_role("button", name="Reconnect")).to_be_visible()
    if AXE.exists():
        assert findings(page) == []
    place.restart()
    place.ask("/v1/restore", {"names": ["shop-c1-r0-0"]})
    expect(notice).not_to_be_visible()
    expect(row).not_to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()


@pytest.mark.long
def test_page_of_an_older_version_says_so_after_a_pause_of_the_stream(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(shared)
    text = "id: 0\nevent: ready\ndata: {}\n\n"
    # The first stream ends at once, as that of a service that is replaced.
    tab.page.route(
        "**/v1/watch?*",
        lambda route: route.fulfill(content_type="text/event-stream", body=text),
        times=1,
    )
    page = tab.page
    versions = itertools.chain([{}], itertools.repeat({"version": "9.9.9"}))
    changed(page, "/v1/session$", lambda session: session.update(next(versions)))
    page.goto(f"{shared.url}/console/")
    notice = page.get_by_text("The service is now version 9.9.9.")
    expect(notice).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Reload").click()
    expect(page.locator(".live.live")).to_be_visible()
    expect(notice).to_have_count(0)


@pytest.mark.long
def test_title_counts_while_the_tab_is_hidden(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open()
    # No frame comes in a hidden tab; one can be on its way when it is hidden.
    page.evaluate(
        "() => { window.requestAnimationFrame = () => 0;"
        " Object.defineProperty(document, 'hidden', {get: () => true}); }"
    )
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    expect(page).to_have_title("(1) Now · forewarn")


def is_stream(request: Request) -> bool:
    return "/v1/watch" in request.url


def show(page: Page, state: str) -> None:
    """Let a page believe that its tab is visible or hidden."""
    page.evaluate(
        "state => { const of = (name, get) => Object.defineProperty(document, name,"
        " {get, configurable: true}); of('visibilityState', () => state);"
        " of('hidden', () => state === 'hidden');"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )


@pytest.mark.long
def test_tab_that_is_hidden_for_long_stops_listening_and_reads_all_anew(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    page = tab.open()
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    show(page, "hidden")
    page.clock.fast_forward("04:00")
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    expect(page).to_have_title("(1) Now · forewarn")
    with page.expect_event("requestfailed", is_stream):
        page.clock.fast_forward("01:05")
    place.ask("/v1/fail", {"names": ["bank-c2-r1-2"]})
    with page.expect_request(is_stream):
        show(page, "visible")
    for name in ("shop-c1-r0-0", "bank-c2-r1-2"):
        expect(page.get_by_role("row", name=name)).to_be_visible()
    expect(page).to_have_title("(2) Now · forewarn")
    expect(page.locator(".live.live")).to_be_visible()


@pytest.mark.long
def test_tab_that_leads_and_dies_is_followed_by_another(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    first = new_tab(place)
    first.open()
    other = new_tab(place, first.page.context)
    other.open()
    assert (first.streams, other.streams) == (1, 0)
    with first.page.expect_event("crash"), suppress(Error):
        first.page.goto("chrome://crash")
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    expect(other.page).to_have_title("(1) Now · forewarn")
    assert other.streams == 1


@pytest.mark.long
def test_page_that_loads_slowly_does_not_come_over_the_next(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place)
    page = tab.open()
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    tab.page.route("**/js/pages/wall.js", hold)
    page.get_by_role("link", name="Wall", exact=True).click()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page).to_have_title("History · forewarn")
    (wall,) = late
    with page.expect_response("**/js/pages/wall.js"):
        wall.continue_()
    # A page that is opened after the late one has come.
    page.get_by_role("link", name="Hosts", exact=True).click()
    expect(page).to_have_title("Hosts · forewarn")
    assert page.evaluate("() => document.documentElement.dataset.theme") is None


@pytest.mark.long
def test_switched_zone_is_that_of_all_times(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, timezone_id="Asia/Kolkata")
    page = tab.open("history")
    expect(page.get_by_role("button", name="UTC")).to_be_visible()
    page.get_by_role("button", name="UTC").click()
    expect(page.locator(".zone")).to_contain_text("GMT+5:30")
    tab.open("history")
    expect(page.locator(".zone")).to_contain_text("GMT+5:30")


@pytest.mark.long
def test_stream_that_stays_silent_from_its_beginning_is_opened_again(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, alone=True)
    tab.page.clock.install()
    # As if the server had gone without a word.
    tab.page.route("**/v1/watch?*", lambda _route: None, times=1)
    with tab.page.expect_request("**/v1/watch?*"):
        page = tab.open()
    mark = page.locator(".live")
    expect(mark).to_contain_text("connecting")
    page.clock.fast_forward("00:40")
    expect(mark).not_to_contain_text("connecting")


@pytest.mark.long
def test_list_that_could_not_be_read_is_read_again_in_a_calm_service(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, statuses={500}, alone=True)
    tab.page.clock.install()
    lost = {"error": "the disk is slow"}
    tab.page.route(
        "**/v1/waits*", lambda route: route.fulfill(status=500, json=lost), times=2
    )
    page = tab.open()
    expect(page.get_by_text("the disk is slow")).to_be_visible()
    page.clock.fast_forward("00:06")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
