"""Now answers what an operator asks first, and acts only through a dialog."""

import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Request, Response, Route, expect

from tests.support.consoles import Place, Tab
from tests.support.processes import eventually


def section(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("region", name=name)


def asked_to_restore(page: Page) -> Locator:
    """Choose the failed VM, and return the dialog with a reason."""
    page.get_by_role("checkbox", name="shop-c1-r0-0").check()
    page.get_by_role("button", name="Mark restored…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("repaired by hand").click()
    return dialog


def test_calm_page_says_that_nothing_needs_a_person(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open()
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    expect(page).to_have_title("Now · forewarn")
    expect(page.get_by_text("12 hosts and 24 VMs are up")).to_be_visible()


def test_page_shows_what_is_down_waits_and_runs(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).open()
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"], "reason": "no memory"})
    down = section(page, "1 VM down, unplanned")
    row = down.get_by_role("row", name="shop-c1-r0-0")
    expect(row).to_contain_text("shop")
    expect(row).to_contain_text("no memory")
    expect(page).to_have_title("(1) Now · forewarn")
    place.start_campaign()
    waits = section(page, "Waiting for approval")
    expect(waits.get_by_role("row", name=re.compile("^bank"))).to_contain_text("3")
    expect(section(page, "Campaigns").get_by_text("of 12")).to_be_visible()
    expect(section(page, "Activity").get_by_text("no memory")).to_be_visible()
    place.ask("/v1/restore", {"names": ["shop-c1-r0-0"]})
    expect(down).not_to_be_visible()
    expect(page).to_have_title("Now · forewarn")


@pytest.mark.long
def test_change_between_the_list_and_the_stream_is_shown(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place).page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/watch?*", hold)
    with page.expect_response(re.compile("/v1/history")):
        page.goto(f"{place.url}/console/")
    expect(section(page, "Activity").get_by_text("fleet applied")).to_be_visible()
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"], "reason": "no memory"})
    held[0].continue_()
    expect(section(page, "Activity").get_by_text("no memory")).to_be_visible()


# The page of a campaign that is followed live has the same figure.
@pytest.mark.long
def test_card_of_a_campaign_says_when_it_is_expected_to_end(
    tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    place = Place(tmp_path / "service", timing_speed="6000")
    page = new_tab(place).open()
    campaign = place.start_campaign(approval=True)
    told = eventually(
        lambda: place.ask(f"/v1/campaigns/{campaign}/outlook"),
        lambda told: told["eta"]["at"],
        what="an expected end",
    )
    assert told["state"] == "Running"
    for path in ("", "campaigns"):
        if path:
            page.goto(f"{place.url}/console/{path}")
        card = page.locator(".camp").filter(has_text="microcode")
        expect(card).to_contain_text(re.compile(r"ETA (\w+ )?\d\d:\d\d"))
    place.kill()


def test_order_is_given_in_a_dialog_with_a_reason(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    names = ["shop-c1-r0-0", "bank-c2-r1-1"]
    for name in names:
        place.ask("/v1/fail", {"names": [name]})
    page = new_tab(place).open()
    page.get_by_role("checkbox", name="All 2").check()
    page.get_by_role("button", name="Mark restored…").click()
    dialog = page.get_by_role("dialog", name="Mark 2 VMs as restored?")
    expect(dialog).to_contain_text("recorded as up again")
    send = dialog.get_by_role("button", name="Mark 2 restored")
    expect(send).to_have_attribute("aria-disabled", "true")
    send.click(force=True)
    expect(dialog.get_by_label("Why?")).to_be_focused()
    dialog.get_by_label("Why?").fill("cable was loose")
    send.click()
    expect(dialog).not_to_be_visible()
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    told = [entry["why"] for entry in place.ask("/v1/history?since=1h")["entries"]]
    assert told.count("cable was loose") >= len(names)


def test_refusal_is_the_sentence_of_the_service(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    page = new_tab(place).open()
    dialog = asked_to_restore(page)
    # Another operator is quicker.
    place.ask("/v1/restore", {"names": ["shop-c1-r0-0"]})
    dialog.get_by_role("button", name="Mark 1 restored").click()
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("shop-c1-r0-0")
    expect(alert).to_contain_text("Nothing was changed.")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).not_to_be_visible()


def test_order_without_answer_is_sent_again_with_its_key(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place)
    keys: list[str] = []

    def lose_first_answer(route: Route) -> None:
        if "dry_run" in (route.request.post_data or ""):
            route.continue_()
            return
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    tab.page.route("**/v1/restore", lose_first_answer)
    page = tab.open()
    page.get_by_role("button", name="Redeploy…").wait_for()
    dialog = asked_to_restore(page)
    dialog.get_by_role("button", name="Mark 1 restored").click()
    expect(dialog.get_by_role("alert")).to_contain_text("never done twice")
    expect(dialog).not_to_be_visible()
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.long
def test_order_with_unknown_result_keeps_its_dialog_and_its_key(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place, statuses={500})
    keys: list[str] = []
    # No connection, no answer before one gives up, a failure, and that of the service.
    answers = ["abort", "wait", "fail"]

    def answer(route: Route) -> None:
        if "dry_run" in (route.request.post_data or ""):
            route.continue_()
            return
        keys.append(route.request.headers["idempotency-key"])
        way = answers.pop(0) if answers else ""
        if way == "abort":
            route.abort()
        elif way == "fail":
            route.fulfill(status=500, json={"error": "the service failed"})
        elif not way:
            route.continue_()

    def is_second(request: Request) -> bool:
        return "idempotency-key" in request.headers and len(keys) == 1

    tab.page.route("**/v1/restore", answer)
    page = tab.open()
    dialog = asked_to_restore(page)
    send = dialog.get_by_role("button", name="Mark 1 restored")
    with page.expect_request(is_second):
        send.click()
    expect(dialog.get_by_role("button", name="Give up waiting")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Give up waiting").click()
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("not known whether it was done")
    send.click()
    expect(alert).to_contain_text("the service failed")
    expect(alert).not_to_contain_text("Nothing was changed")
    send.click()
    expect(dialog).not_to_be_visible()
    assert len(keys) == 4
    assert len(set(keys)) == 1


@pytest.mark.long
def test_result_of_an_order_that_was_done_is_learned_by_sending_it_again(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place, statuses={400, 404})
    keys: list[str] = []

    def answer(route: Route) -> None:
        if "dry_run" in (route.request.post_data or ""):
            route.continue_()
            return
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            assert route.fetch().ok
            route.abort()
        elif len(keys) == 3:
            route.continue_()

    def is_refused_count(response: Response) -> bool:
        is_count = "dry_run" in (response.request.post_data or "")
        return is_count and response.status >= HTTPStatus.BAD_REQUEST

    tab.page.route("**/v1/restore", answer)
    page = tab.open()
    dialog = asked_to_restore(page)
    send = dialog.get_by_role("button", name="Mark 1 restored")
    send.click()
    with page.expect_response(is_refused_count):
        dialog.get_by_role("button", name="Give up waiting").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not known whether it was done")
    expect(dialog.get_by_label("Why?")).to_be_disabled()
    send.click()
    expect(dialog).not_to_be_visible()
    assert len(keys) == 3
    assert len(set(keys)) == 1


@pytest.mark.long
def test_approval_says_that_its_events_cannot_be_read(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.serving.document("shop-c1-r0-0")
    place.start_campaign()
    tab = new_tab(place, statuses={500})
    fails = [True, True]

    def answer(route: Route) -> None:
        if fails and fails.pop():
            route.fulfill(status=500, json={"error": "the service failed"})
        else:
            route.continue_()

    tab.page.route("**/v1/events*", answer)
    page = tab.open()
    page.get_by_role("button", name="Approve for shop…").click()
    dialog = page.get_by_role("dialog", name="Approve for shop?")
    expect(dialog.get_by_role("alert")).to_contain_text("the service failed")
    # It reads them again while it is open.
    expect(page.get_by_role("dialog")).to_have_accessible_name(
        re.compile(r"Approve \d+ events? for shop\?")
    )


def test_keyboard_alone_is_enough(place: Place, new_tab: Callable[..., Tab]) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    page = new_tab(place).open()
    box = page.get_by_role("checkbox", name="shop-c1-r0-0")
    expect(box).to_be_visible()
    press_until(page, "Tab", "shop-c1-r0-0")
    page.keyboard.press("Space")
    press_until(page, "Tab", "Mark restored…")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Why?")).to_be_focused()
    page.keyboard.type("cable was loose")
    press_until(page, "Tab", "Mark 1 restored")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page).to_have_title("Hosts · forewarn")
    page.keyboard.press("/")
    page.keyboard.type("c1-r1-")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(1 + 3)


def press_until(page: Page, key: str, name: str) -> None:
    """Press a key until something with this name has the focus."""
    for _ in range(60):
        page.keyboard.press(key)
        focused = page.evaluate(
            "() => document.activeElement.getAttribute('aria-label')"
            " || document.activeElement.textContent.trim()"
        )
        if focused == name:
            return
    raise AssertionError(f"{name} does not get the focus")


def test_read_only_page_has_no_buttons_that_act(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.ask("/v1/fail", {"names": ["shop-c1-r0-0"]})
    tab = new_tab(place)
    session = (
        '{"name":"eve","tenant":null,"read_only":true,"roles":["view"],"expires":null}'
    )
    tab.page.route(
        "**/v1/session",
        lambda route: route.fulfill(body=session, content_type="application/json"),
    )
    page = tab.open()
    expect(page.get_by_text("Read-only token.")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("shop-c1-r0-0"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("…$"))).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)


@pytest.mark.long
def test_approval_names_the_vms_whose_agents_may_still_prepare(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.serving.document("shop-c1-r0-0")
    place.start_campaign()
    page = new_tab(place).open()
    page.get_by_role("button", name="Approve for shop…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Agents that may still prepare")).to_have_text(
        re.compile(r"shop-c1-r0-0 for .*,\s+(polled .* ago|not polled yet)")
    )
