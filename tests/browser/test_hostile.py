"""Texts of others stay texts on each page: no markup, and no character that deceives."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from forewarn.console.single import single_page
from forewarn.service.listening import url_of
from forewarn.sim.loop import LoopThread
from tests.support.consoles import Place, Tab, campaign_text, fleet, left_out
from tests.support.simulators import EVENTS, simulation

WORD = "quokka"
"""The pages get a hostile text in its place, wherever the service answers it."""
SCRIPT = (Path(__file__).parent / "hostile.js").read_text(encoding="utf-8")

TEXT = "<img src=x onerror='document.title=1'>\u202e\u2066\u200b\u0007\u3164\U000e0041"
SHOWN = "<img src=x onerror='document.title=1'>" + 6 * "\ufffd"

DECEIVING = re.compile(
    "[\u0007\u200b-\u200f\u202a-\u202e\u2066-\u2069\u3164\U000e0041]"
)


def check(page: Page) -> None:
    """Fail unless the page shows the hostile text as it is meant to be shown."""
    expect(page.get_by_text(SHOWN).filter(visible=True).first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert page.locator("img").count() == 0
    found = DECEIVING.findall(page.content() + page.title())
    assert found == []
    assert page.title() != "1"


NAMED = f"""
[[scope]]
name = "{WORD}-db"
tenant = "shop"
kind = "availability-set"
[[vm]]
name = "{WORD}-1"
host = "c1-r0-0"
scope = "{WORD}-db"
listen = "127.0.0.1:0"
"""
"""A VM and a scope with the word in their names."""


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a service where each text that a person can write has the word."""
    place = Place(tmp_path_factory.mktemp("talked"), fleet_text=fleet() + NAMED)
    place.serving.document("shop-c1-r0-0")
    campaign = place.start_campaign(f"{WORD} 1", name=WORD)
    down = {"names": ["bank-c2-r1-2"], "reason": f"{WORD} 2"}
    place.ask("/v1/fail", down)
    place.ask("/v1/host-cordon", {"hosts": ["c1-r0-0"], "reason": f"{WORD} 3"})
    order = {"campaign": campaign, "reason": f"{WORD} 4"}
    place.ask("/v1/campaign-pause", order)
    yield place
    place.kill()


PATHS = (
    "",
    "campaigns",
    f"campaigns/{WORD}?host=c1-r0-0",
    f"campaigns/{WORD}?as=table",
    f"campaigns/{WORD}/report",
    "reports",
    "history?all=yes",
    "hosts?host=c1-r0-0",
    f"find?q={WORD}",
    "wall",
    f"wall/{WORD}",
)
TENANT_PATHS = ("", "vms?show=all", "availability", "history?all=yes", "find?q=%3Cimg")


def test_pages_of_operators_show_hostile_texts_as_texts(
    talked: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(talked, alone=True)
    tab.page.add_init_script(SCRIPT)
    for path in PATHS:
        check(tab.open(path))
    page = tab.open("plan")
    text = campaign_text(f"{WORD} 6", name=f"{WORD}-2")
    page.get_by_label("The file, in TOML").fill(text)
    page.get_by_role("button", name="Plan", exact=True).click()
    check(page)
    # The events of the campaign have no VM with the word, so the list of those that wait has
    # none either.
    assert left_out(page, (*PATHS, "plan", "waits"), who="operator") == []


@pytest.mark.long
def test_pages_of_a_tenant_show_hostile_texts_as_texts(
    talked: Place,
    new_tab: Callable[..., Tab],
) -> None:
    answer = talked.ask("/v1/tokens", {"name": "ci", "tenant": "shop"})
    headers = {"Authorization": f"Bearer {answer['token']}"}
    tab = new_tab(talked, alone=True, extra_http_headers=headers)
    defer = {"names": ["shop-c1-r0-1"], "until": "+5d", "reason": f"{WORD} 5"}
    assert tab.page.request.post(f"{talked.url}/v1/defer", data=defer).ok
    tab.page.add_init_script(SCRIPT)
    for path in TENANT_PATHS:
        check(tab.open(path))
    assert left_out(tab.page, TENANT_PATHS, who="tenant") == []


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


def test_page_of_a_simulation_shows_hostile_texts_as_texts(
    loop: LoopThread, new_tab: Callable[..., Tab]
) -> None:
    with simulation(loop) as running:
        event = {"type": "Reboot", "vms": ["web_0"], "description": f"{WORD} 1"}
        running.document()
        running.sim("events", event)
        running.ask(f"{running.url()}{EVENTS}&{WORD}=2")
        address = running.simulator.admin_address
        assert address is not None
        tab = new_tab(type("At", (), {"url": url_of(address)}), alone=True)
        tab.page.add_init_script(SCRIPT)
        page = tab.open()
        check(page)
        page.get_by_role("button", name=re.compile("^all ")).click()
        check(page)
        # Also the picture that is saved of it.
        with page.expect_download() as found:
            page.get_by_role("button", name="Save as picture").click()
        picture = Path(found.value.path()).read_text(encoding="utf-8")
        assert "<img" not in picture
        assert DECEIVING.findall(picture) == []


def test_dialog_of_an_order_shows_hostile_texts_as_texts(
    talked: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(talked, alone=True)
    tab.page.add_init_script(SCRIPT)
    refusal = {"error": WORD, "hint": f"{WORD} {WORD}", "kind": "conflict"}
    tab.page.route(
        "**/v1/campaign-resume",
        lambda route: route.fulfill(status=409, json=refusal),
    )
    page = tab.open(f"campaigns/{WORD}")
    page.get_by_role("button", name="Resume…").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(SHOWN)
    check(page)


def test_file_shows_hostile_texts_as_texts(
    talked: Place, tmp_path: Path, new_context: Callable[..., BrowserContext]
) -> None:
    campaign = talked.ask(f"/v1/campaigns/{WORD}")
    sums = talked.ask(f"/v1/campaigns/{WORD}/sums")
    told = {
        "campaign": {**campaign, "reason": TEXT},
        "sums": sums,
        "at": campaign["created"],
    }
    file = tmp_path / "report.html"
    text = single_page(f"<b>{TEXT}", module="js/paper.js", view="paper", data=told)
    file.write_text(text, encoding="utf-8")
    page = new_context().new_page()
    page.goto(file.as_uri())
    expect(page.get_by_text(SHOWN)).to_be_visible()
    assert page.locator("img, main b:has-text('<')").count() == 0
    assert page.title() != "1"
