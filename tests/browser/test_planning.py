"""A campaign is planned from its file and started, and roles decide what is offered."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab, campaign_text, changed

FILE = campaign_text("CHG-7", approval=True)


def test_campaign_is_planned_and_started(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(place, statuses=[400, 404]).open("campaigns")
    page.get_by_role("link", name="New campaign…").click()
    text = page.get_by_label("The file, in TOML")
    text.fill(FILE.replace("reboot", "rebot"))
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("rebot")
    text.fill(FILE)
    page.get_by_role("button", name="Plan", exact=True).click()
    sheet = page.get_by_role("article")
    expect(sheet).to_contain_text("Nothing was announced or changed")
    expect(sheet).to_contain_text("12hosts")
    assert place.ask("/v1/campaigns")["campaigns"] == []
    page.get_by_role("button", name="Start…").click()
    dialog = page.get_by_role("dialog", name="Start microcode?")
    expect(dialog).to_contain_text(
        "reboot of 12 hosts, in 2 stages: 24 VMs of 2 tenants"
    )
    dialog.get_by_label("Why?").fill("CHG-7 approved")
    dialog.get_by_role("button", name="Start 12 hosts").click()
    expect(page.get_by_role("heading", name="microcode Running")).to_be_visible()
    (started,) = place.ask("/v1/campaigns")["campaigns"]
    assert page.url.endswith(started["campaign"])
    assert started["reason"] == "CHG-7"


def test_file_that_was_changed_after_its_plan_cannot_be_started(
    shared: Place, new_tab: Callable[..., Tab]
) -> None:
    page = new_tab(shared, statuses=[404]).open("plan")
    text = page.get_by_label("The file, in TOML")
    text.fill(FILE)
    page.get_by_role("button", name="Plan", exact=True).click()
    start = page.get_by_role("button", name="Start…")
    expect(start).to_be_enabled()
    text.fill(FILE + "\n")
    expect(page.get_by_text("plan it again")).to_be_visible()
    start.click(force=True)
    expect(page.get_by_role("dialog", name=re.compile("^Start"))).to_have_count(0)


def test_orders_that_the_roles_refuse_are_not_offered(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign()

    tab = new_tab(place, statuses=[404])
    orders = ["campaign-pause", "campaigns/plan"]
    changed(tab.page, "/v1/session$", lambda session: session.update(orders=orders))
    page = tab.open(f"campaigns/{campaign}?host=c1-r0-0")
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    drawer = page.get_by_role("complementary", name="c1-r0-0")
    expect(drawer.get_by_role("heading", name="VMs")).to_be_visible()
    for name in ("Stop", "Skip host…", "Expedite…", "Cancel…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    tab.open("plan")
    page.get_by_label("The file, in TOML").fill(FILE)
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_text("Your roles start none.")).to_be_visible()


@pytest.mark.long
def test_host_is_expedited_from_its_drawer(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign(approval=True)
    page = new_tab(place).open(f"campaigns/{campaign}?host=c2-r1-2")
    drawer = page.get_by_role("complementary", name="c2-r1-2")
    drawer.get_by_role("button", name="Expedite…").click()
    dialog = page.get_by_role("dialog", name="Expedite c2-r1-2?")
    dialog.get_by_label("Why?").fill("agreed with shop and bank")
    dialog.get_by_role("button", name="Expedite 2 VMs").click()
    expect(dialog).not_to_be_visible()
    choices = place.ask("/v1/tenant/deferrals")["deferrals"]
    assert {choice["vm"] for choice in choices} == {"shop-c2-r1-2", "bank-c2-r1-2"}
