"""The pictures of the documentation: pages of the console with a fleet of 240 hosts.

`pytest --rewrite` makes the pictures again. Otherwise the tests only compare what the
pages show with what the pictures are there for.
"""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from forewarn.service.listening import url_of
from forewarn.sim.loop import LoopThread
from tests.support.consoles import Tab
from tests.support.pictures import CLUSTERS, HOSTS, RACKS, Night
from tests.support.simulators import simulation

# Other tests show the same pages, with less on them.
pytestmark = pytest.mark.long

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "_static" / "console"
QUALITY = 82
"""Of WebP, in percent: letters stay sharp, and a page takes less than 100 kB."""
BYTES_MAX = 150_000
"""Bytes of a picture."""

CUT = """(all) => all
  .filter((each) => each.scrollWidth > each.clientWidth && each.clientWidth > 0)
  .map((each) => each.innerText)"""

Take = Callable[[str, Page], None]


@pytest.fixture
def take(pytestconfig: pytest.Config) -> Take:
    """Return what writes a picture of a page."""

    def shoot(name: str, page: Page) -> None:
        if not pytestconfig.getoption("--rewrite"):
            return
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        page.mouse.move(0, 0)
        page.evaluate("() => document.fonts.ready")
        made = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
        )
        data = base64.b64decode(made["data"])
        assert len(data) <= BYTES_MAX, f"{name} has {len(data)} bytes"
        DIRECTORY.mkdir(exist_ok=True)
        (DIRECTORY / f"{name}.webp").write_bytes(data)

    return shoot


@pytest.fixture(scope="module")
def night() -> Iterator[Night]:
    loop = LoopThread()
    found = Night(loop)
    yield found
    found.close()
    loop.close()


def test_pages_of_operators(
    night: Night, new_tab: Callable[..., Tab], take: Take
) -> None:
    tab = new_tab(night)
    page = tab.open()
    expect(page.get_by_role("heading", name="Waiting for approval")).to_be_visible()
    take("now", page)
    (campaign,) = night.ask("/v1/campaigns")["campaigns"]
    (failed,) = (failure["host"] for failure in campaign["failed"])
    page = tab.open(f"campaigns/{campaign['campaign']}?host={failed}")
    expect(page.get_by_role("heading", name="bios-2.19")).to_be_visible()
    expect(page.locator(f'.row[data-id="h:{failed}"]')).to_be_visible()
    drawer = page.get_by_role("complementary", name=failed)
    expect(drawer).to_contain_text("the BIOS image has another checksum")
    # No name and no count beside it is cut.
    cut = page.locator(".row .lab > *").evaluate_all(CUT)
    assert cut == []
    # The tools above the hosts take one line, also beside a drawer.
    heads = [
        page.get_by_role("heading", name="Hosts", exact=True),
        page.get_by_role("button", name="Table", exact=True),
    ]
    title, last = (head.bounding_box() for head in heads)
    assert title is not None
    assert last is not None
    assert last["y"] < title["y"] + title["height"]
    take("campaign", page)
    page = tab.open("wall")
    expect(page.get_by_role("heading", name="bios-2.19")).to_be_visible()
    for cluster in range(1, CLUSTERS + 1):
        picture = page.get_by_role("img", name=re.compile(f"^c{cluster}: .* done"))
        expect(picture).to_be_visible()
    take("wall", page)
    # The names of racks are not the beginnings of the names of hosts.
    page = tab.open("hosts?q=c2-r03")
    expect(page.get_by_role("row")).to_have_count(1 + HOSTS)
    expect(page.get_by_text(f"{CLUSTERS * RACKS * HOSTS} hosts")).to_be_visible()


def test_page_of_a_tenant(
    night: Night,
    new_tab: Callable[..., Tab],
    new_context: Callable[..., BrowserContext],
    take: Take,
) -> None:
    answer = night.ask("/v1/tokens", {"name": "ci", "tenant": "games"})
    headers = {"Authorization": f"Bearer {answer['token']}"}
    page = new_tab(night, new_context(extra_http_headers=headers)).open()
    expect(page.get_by_role("button", name="Approve…").first).to_be_visible()
    expect(page.locator(".row .lab").first).to_be_visible()
    assert page.locator(".row .lab > *").evaluate_all(CUT) == []
    take("tenant", page)


def test_page_of_a_simulation(new_tab: Callable[..., Tab], take: Take) -> None:
    loop = LoopThread()
    with simulation(loop) as running:
        for vm in ("web_0", "web_1"):
            running.document(vm)
        # The events must not go on by themselves while a slow machine looks at them.
        running.sim("clock", {"do": "pause"})
        running.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": "10m"})
        running.sim("events", {"type": "Freeze", "vms": ["web_1"], "notice": "15m"})
        for vm in ("web_0", "web_1"):
            running.document(vm)
        (freeze,) = (
            event for event in running.events("web_1") if event["EventType"] == "Freeze"
        )
        running.approve(freeze["EventId"], "web_1")
        address = running.simulator.admin_address
        assert address is not None
        place = type("At", (), {"url": url_of(address)})
        page = new_tab(place).open()
        expect(page.get_by_label("Document of web_0")).to_contain_text("Scheduled")
        expect(page.get_by_label("Document of web_1")).to_contain_text("Started")
        running.sim("clock", {"do": "resume"})
        take("simulator", page)
    loop.close()
