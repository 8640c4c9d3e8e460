"""All tabs of a browser follow one stream, which is cut and resumed."""

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Route, expect

from tests.support.consoles import Place, Tab

TABS = 7
"""One more than the connections that Chromium opens to a server."""


def test_seven_tabs_share_one_stream(
    place: Place,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    context = new_context()
    tabs = [new_tab(place, context) for _ in range(TABS)]
    for tab in tabs:
        tab.open()
    assert [tab.streams for tab in tabs] == [1] + [0] * (TABS - 1)
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
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place)
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
    expect(notice.get_by_role("button", name="Now")).to_be_visible()
    place.restart()
    place.ask("/v1/restore", {"names": ["shop-c1-r0-0"]})
    expect(notice).not_to_be_visible()
    expect(row).not_to_be_visible()
    expect(page.locator(".live.live")).to_be_visible()


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


def test_stream_that_stays_silent_from_its_beginning_is_opened_again(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place)
    tab.page.clock.install()
    # As if the server had gone without a word.
    tab.page.route("**/v1/watch?*", lambda _route: None, times=1)
    with tab.page.expect_request("**/v1/watch?*"):
        page = tab.open()
    mark = page.locator(".live")
    expect(mark).to_contain_text("connecting")
    page.clock.fast_forward("00:40")
    expect(mark).not_to_contain_text("connecting")


def test_list_that_could_not_be_read_is_read_again_in_a_calm_service(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(place, statuses={500})
    tab.page.clock.install()
    lost = {"error": "the disk is slow"}
    tab.page.route(
        "**/v1/waits*", lambda route: route.fulfill(status=500, json=lost), times=2
    )
    page = tab.open()
    expect(page.get_by_role("alert")).to_contain_text("The disk is slow")
    page.clock.fast_forward("00:06")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
