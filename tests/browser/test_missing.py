"""Missing approvals are listed by event, and chosen ones can be approved."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.consoles import Place, Tab


def test_missing_approvals_are_listed_and_approved(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    place.serving.document("shop-c1-r0-0")
    place.start_campaign()
    # Other changes of the tenant are not in the list.
    place.ask("/v1/fail", {"names": ["shop-c2-r1-1"]})
    page = new_tab(place).open()
    waits = page.get_by_role("region", name="Waiting for approval")
    waits.get_by_role("row", name="shop").get_by_role("link", name="Which?").click()
    missing = page.get_by_role("region", name="1 missing approval of shop")
    row = missing.get_by_role("row", name="shop-c1-r0-0")
    for words in ("shop-c1-00", "c1-r0-0", "Reboot", "in 1", "polled"):
        expect(row).to_contain_text(words)
    expect(missing.get_by_role("row")).to_have_count(2)
    row.get_by_role("checkbox").check()
    missing.get_by_role("button", name="Approve 1 event…").click()
    dialog = page.get_by_role("dialog", name="Approve 1 event for shop?")
    dialog.get_by_label("Why?").fill("agreed by phone")
    dialog.get_by_role("button", name="Approve 1 event").click()
    expect(page.get_by_text("No approval of shop is missing")).to_be_visible()
    (event,) = place.ask("/v1/events?host=c1-r0-0&tenant=shop")["events"]
    assert event["approved_by"]
