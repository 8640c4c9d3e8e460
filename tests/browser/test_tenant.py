"""The page of a tenant has what its own token reads, and no word of others."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.support.consoles import (
    AXE,
    LOOKS,
    NARROW,
    Place,
    Tab,
    changed,
    findings,
)

OTHERS = ("quokka", "walrus", "narwhal", "axolotl", "platypus", "okapi", "tapir")
"""Words that are only in the names, reasons and texts of others."""

VMS = 4
_SCOPES = {"shop": ("shop-web", "shop-db"), "quokka": ("walrus-web", "walrus-db")}


def fleet() -> str:
    """Return a fleet whose hosts, racks and second tenant have words of their own."""
    lines = [f'[[tenant]]\nname = "{tenant}"\n' for tenant in _SCOPES]
    lines += [
        f'[[scope]]\nname = "{scope}"\ntenant = "{tenant}"\nkind = "availability-set"\n'
        for tenant, scopes in _SCOPES.items()
        for scope in scopes
    ]
    for number in range(VMS):
        lines.append(
            f'[[host]]\nname = "narwhal-{number}"\ncluster = "axolotl"\n'
            f'rack = "axolotl-{number}"\nzone = "tapir"\n'
        )
        lines += [
            f'[[vm]]\nname = "{scope}-{number}"\nhost = "narwhal-{number}"\n'
            f'scope = "{scope}"\nfault_domain = {number}\nlisten = "127.0.0.1:0"\n'
            for scopes in _SCOPES.values()
            for scope in scopes
        ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Home:
    """A service with work on the VMs of two tenants, and the token of one."""

    place: Place
    token: str


READ = "async (path) => (await fetch(path)).json()"


def told(page: Page, path: str) -> Any:
    """Return what the API answers to the holder of the page's token."""
    return page.evaluate(READ, path)


def open_events(page: Page) -> Sequence[dict[str, Any]]:
    """Return the unapproved events of the token."""
    return [
        event
        for event in told(page, "/v1/events")["events"]
        if event["EventStatus"] == "Scheduled" and not event["approved_by"]
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    place = Place(tmp_path_factory.mktemp("tenant"), fleet_text=fleet())
    for scopes in _SCOPES.values():
        for scope in scopes:
            place.serving.document(f"{scope}-0")
    answer = place.ask("/v1/tokens", {"name": "ci", "tenant": "shop"})
    reason = {"reason": "platypus"}
    for host in ("narwhal-1", "narwhal-2"):
        order = {"hosts": [host], "impact": "reboot", "not_before": "+30m", **reason}
        place.ask("/v1/maintain", order)
    place.ask("/v1/fail", {"names": ["shop-db-3", "walrus-db-3"], **reason})
    place.ask("/v1/host-cordon", {"hosts": ["narwhal-0"], "reason": "okapi"})
    yield Home(place, answer["token"])
    place.kill()


@pytest.fixture
def open_page(home: Home, new_tab: Callable[..., Tab]) -> Callable[..., Page]:
    tabs: list[Tab] = []

    def open_at(path: str = "", statuses: Collection[int] = (), **options: Any) -> Page:
        # A test opens its pages in one tab, one after the other.
        if not tabs:
            headers = {"Authorization": f"Bearer {home.token}"}
            options["extra_http_headers"] = headers
            tabs.append(new_tab(home.place, statuses=statuses, **options))
        return tabs[0].open(path)

    return open_at


def words_of_others(page: Page) -> list[str]:
    """Return the words of others in the page, its attributes and its title."""
    everything = f"{page.content()} {page.title()} {page.url}".lower()
    return [word for word in OTHERS if word in everything]


def card_of(page: Page, event: Mapping[str, Any]) -> Locator:
    """Return the card of an open event."""
    name = re.compile(f"{event['EventType']} of .*{event['vms'][0]}")
    return page.get_by_role("region", name=name)


def test_page_says_what_the_api_says(open_page: Callable[..., Page]) -> None:
    page = open_page()
    missing = open_events(page)
    assert missing
    for event in missing:
        card = card_of(page, event)
        # The events of one operation share a card.
        expect(card).to_have_count(1)
        expect(card).to_contain_text(event["scope"])
        expect(card).to_contain_text("Do nothing: it starts at")
        expect(card.get_by_role("link", name=event["EventId"][-12:])).to_be_visible()
        expect(card.get_by_role("button", name="Approve…")).to_be_visible()
        expect(card.get_by_role("button", name="Restart now…")).to_be_visible()
    operations = {event["operation"] for event in missing}
    assert len(operations) < len(missing)
    expect(page.get_by_text("has approved.", exact=False)).to_have_count(
        len(operations)
    )
    down = page.locator(".note").filter(has_text="shop-db-3 is down")
    expect(down.get_by_role("button", name="Redeploy it elsewhere…")).to_be_visible()
    own = page.get_by_role("region", name="Your VMs")
    expect(own.get_by_role("rowheader", name=re.compile("^shop-db-3"))).to_contain_text(
        "✕ down"
    )
    affected = {
        vm for event in told(page, "/v1/events")["events"] for vm in event["vms"]
    }
    expect(own.get_by_role("button", name=f"Affected {len(affected)}")).to_be_visible()
    own.get_by_role("button", name=f"All {VMS * len(_SCOPES['shop'])}").click()
    for scope in _SCOPES["shop"]:
        for number in range(VMS):
            name = re.compile(f"^{scope}-{number}")
            expect(own.get_by_role("rowheader", name=name)).to_be_visible()
    times = page.get_by_role("region", name="Availability, 7 days")
    expect(times.get_by_role("row", name=re.compile("^shop-web"))).to_contain_text("%")
    expect(
        times.get_by_text("since the oldest of these VMs was created")
    ).to_be_visible()


def test_no_word_of_others_is_on_a_page(open_page: Callable[..., Page]) -> None:
    for path in ("", "vms?show=all&span=week", "availability", "history?all=yes"):
        page = open_page(path)
        expect(page.get_by_text(re.compile("^shop-")).first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert words_of_others(page) == [], path


@pytest.mark.long
def test_page_of_operators_tells_a_tenant_nothing(
    open_page: Callable[..., Page],
) -> None:
    for path in ("hosts?host=narwhal-1", "campaigns", "history?host=narwhal-1"):
        # It asks for the history of the host, which does not exist for this tenant.
        page = open_page(path, statuses=(404,))
        expect(page.get_by_role("alert").first).to_be_visible()
        # The filter and the refusal repeat what the tenant typed itself.
        text = page.locator("body").inner_text().lower().replace("narwhal-1", "")
        assert [word for word in OTHERS if word in text] == [], path


def test_tenant_approves_by_mouse(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport=NARROW)
    event = open_events(page)[0]
    mine = [row for row in open_events(page) if row["operation"] == event["operation"]]
    card = card_of(page, event)
    match = re.search(r"Approve: (.+?)\. Do nothing: (.+?)\.", card.inner_text())
    assert match is not None
    card.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Approve the Reboot of"))
    expect(dialog).to_contain_text(match[1])
    expect(dialog).to_contain_text(f"Without an approval {match[2]}")
    dialog.get_by_label("Why?").fill("drained")
    dialog.get_by_role("button", name=f"Approve {len(mine)} VM").click()
    expect(dialog).not_to_be_visible()
    expect(
        page.get_by_role("region", name=re.compile(f"Reboot of .*{event['vms'][0]}"))
    ).to_contain_text("Approved by shop/ci")
    left = {event["EventId"] for event in open_events(page)}
    assert not left & {event["EventId"] for event in mine}


def test_tenant_restarts_in_its_own_time(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.get_by_role("button", name="Restart now…").first.click()
    dialog = page.get_by_role("dialog", name=re.compile("^Restart .* now"))
    expect(dialog).to_contain_text("It does not replace the maintenance")
    expect(dialog.get_by_role("button", name=re.compile("^Restart"))).to_be_visible()
    dialog.get_by_role("button", name="Back").click()


@pytest.mark.long
def test_planned_work_is_no_failure(open_page: Callable[..., Page]) -> None:
    """The answer is made up: the pause of a real move is over too soon."""
    page = open_page("availability")

    def move(body: Any) -> None:
        for vm in body["vms"]:
            if vm["vm"] == "shop-web-0":
                more = {"down_now": 1, "planned_seconds": 90.0, "at_most_seconds": 90.0}
                vm.update(more)

    changed(page, r"/v1/availability\?", move)
    page.reload()
    vms = page.get_by_role("region", name="Availability by VM")
    moved = vms.get_by_role("row", name="shop-web-0")
    for words in ("in maintenance", "at most 1 min 30 s", "at least"):
        expect(moved).to_contain_text(words)
    expect(moved).not_to_contain_text("down")
    expect(vms.get_by_role("row", name="shop-db-3")).to_contain_text("✕ down")


IS_DRAWN_INSIDE = """row => {
  const [outer, inner] = [row, row.querySelector("svg")].map((each) =>
    each.getBoundingClientRect());
  return inner.height > 0 && inner.bottom <= outer.bottom + 1;
}"""


def test_phone_shows_which_vm_and_what_happens_to_it(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("vms?show=all", viewport=NARROW)
    own = page.get_by_role("region", name="Your VMs")
    label = own.get_by_role("rowheader", name=re.compile("^shop-db-3"))
    expect(label.get_by_text("✕ down")).to_be_visible()
    name = label.get_by_role("link", name="shop-db-3")
    assert name.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    # Its bars are below its name, within the row.
    row = own.get_by_role("row", name=re.compile("^shop-db-3"))
    assert row.evaluate(IS_DRAWN_INSIDE)


@pytest.mark.long
@pytest.mark.skipif(not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js")
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_axe_finds_nothing_on_the_pages_of_a_tenant(
    open_page: Callable[..., Page], size: dict[str, int], scheme: str
) -> None:
    options = {"viewport": size, "color_scheme": scheme, "bypass_csp": True}
    for path in ("vms?show=all", "availability"):
        page = open_page(path, **options)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert findings(page) == [], path


@pytest.mark.long
def test_vm_that_is_added_appears_on_the_open_page(
    tmp_path: Path,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
) -> None:
    place = Place(tmp_path / "service", fleet_text=fleet())
    answer = place.ask("/v1/tokens", {"name": "ci", "tenant": "shop"})
    headers = {"Authorization": f"Bearer {answer['token']}"}
    tab = new_tab(place, new_context(extra_http_headers=headers))
    tab.page.clock.install()
    page = tab.open()
    count = VMS * len(_SCOPES["shop"])
    expect(page.get_by_role("button", name=f"All {count}")).to_be_visible()
    more = '[[vm]]\nname = "shop-new"\nscope = "shop-web"\nhost = "narwhal-0"\n'
    place.ask("/v1/fleet/apply", {"text": f"{fleet()}\n{more}"})
    # No change of the history tells a tenant of it.
    page.clock.fast_forward("01:05")
    expect(page.get_by_role("button", name=f"All {count + 1}")).to_be_visible()
    place.kill()


@pytest.mark.long
def test_tenant_defers_a_scope_to_a_time_of_its_own(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    page.get_by_role("button", name="Defer…").first.click()
    dialog = page.get_by_role("dialog", name=re.compile("^Defer the maintenance of"))
    choices = dialog.get_by_label("What")
    names = choices.get_by_role("option").all_inner_texts()
    until = dialog.get_by_label(re.compile("^Until"))
    first = until.input_value()
    choices.select_option(index=len(names) - 1)
    later = f"{first[:11]}23:58"
    until.fill(later)
    until.press("Tab")
    expect(dialog).to_contain_text("23:58")
    dialog.get_by_label("Why?").fill("month end")
    dialog.get_by_role("button", name=re.compile("^Defer ")).click()
    expect(dialog).not_to_be_visible()
    # The last choice is the scope, whose VMs are in two rollouts.
    deferrals = told(page, "/v1/tenant/deferrals")["deferrals"]
    scope = names[-1].removeprefix("scope ")
    assert scope != names[-1]
    assert {
        (deferral["scope"], deferral["vm"], deferral["until"]) for deferral in deferrals
    } == {(scope, None, f"{later}:00Z")}
    assert {deferral["by"] for deferral in deferrals} == {"shop/ci"}


def test_tenant_sets_and_removes_windows(open_page: Callable[..., Page]) -> None:
    page = open_page()
    card = page.get_by_role("region", name="Maintenance windows")
    card.get_by_role("button", name="Set windows…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Set the windows of shop-db"))
    field = dialog.get_by_label("Windows")
    field.fill("at night")
    field.press("Tab")
    expect(dialog.get_by_role("alert")).to_contain_text("is not a window")
    field.fill("sun 03:00 2h UTC")
    field.press("Tab")
    dialog.get_by_label("Why?").fill("quiet at night")
    dialog.get_by_role("button", name="Set windows").click()
    expect(dialog).not_to_be_visible()
    expect(card).to_contain_text("sun 03:00 2h")
    assert told(page, "/v1/windows")["windows"][0]["scope"] == "shop-db"
    card.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog", name="Remove the windows of shop-db?")
    dialog.get_by_label("Why?").fill("no longer needed")
    dialog.get_by_role("button", name="Remove windows").click()
    expect(card).to_contain_text("at any time")
