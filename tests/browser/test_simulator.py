"""The page of a simulation shows what a program is told, byte for byte, and acts at once."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from forewarn.service.listening import url_of
from forewarn.sim.loop import LoopThread
from tests.support.consoles import AXE, LOOKS, NARROW, Tab, findings
from tests.support.simulators import EVENTS, Simulation, simulation

BOXES = """(all) => all.map((each) => [each.textContent, each.getBoundingClientRect()])
  .map(([text, {left, right, top, bottom}]) => [text, left, right, top, bottom])"""
"""Script: texts, each with its edges."""


@dataclass(frozen=True)
class At:
    """Where a simulation has its console."""

    url: str


@pytest.fixture(scope="module")
def running() -> Iterator[Simulation]:
    loop = LoopThread()
    with simulation(loop) as sim:
        yield sim
    loop.close()


@pytest.fixture
def open_page(running: Simulation, new_tab: Callable[..., Tab]) -> Callable[..., Page]:
    running.sim("reset", {})
    running.document()
    address = running.simulator.admin_address
    assert address is not None

    def open_at(*, runs: bool = False, **options: object) -> Page:
        # An event must not go on by itself while a slow machine looks at it.
        running.sim("clock", {"do": "resume" if runs else "pause"})
        return new_tab(At(url_of(address)), **options).open()

    return open_at


def card(page: Page, vm: str = "web_0") -> Locator:
    return page.get_by_role("region", name=vm, exact=True)


def test_document_is_byte_for_byte_what_the_program_gets(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    expect(page).to_have_title("simulation: 3 VMs · forewarn")
    expect(page.get_by_role("banner")).to_contain_text("simulation, no login")
    card(page).get_by_role("button", name="Reboot", exact=True).click()
    shown = page.get_by_label("Document of web_0")
    expect(shown).to_contain_text('"EventStatus":"Scheduled"')
    (served,) = (
        document["body"]
        for document in running.sim("documents")["documents"]
        if document["vm"] == "web_0"
    )
    assert shown.evaluate("each => each.textContent") == served
    assert json.loads(served) == running.document()
    expect(card(page)).to_contain_text("polled")
    never = page.get_by_text("web_2 has never polled.")
    expect(never).to_contain_text("FOREWARN_ENDPOINT=http://127.0.0.1:")


def test_page_polls_as_a_vm_that_never_did(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    expect(page.get_by_text("web_2 has never polled.")).to_be_visible()
    page.get_by_role("button", name="Poll as web_2").click()
    expect(card(page, "web_2")).to_contain_text("forewarn-console")
    expect(page.get_by_label("Document of web_2")).to_contain_text('"Events":[]')
    assert running.sim("journal?vm=web_2")["requests"][0]["status"] == 200


@pytest.mark.long
def test_page_plays_a_scenario_with_a_profile(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page(runs=True)
    page.get_by_label("Profile").select_option("strict")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_text("web_0 has never polled.")).to_be_visible()
    assert running.sim("choices")["profile"] == "strict"
    page.get_by_label("Scenario").select_option("user-reboot")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_text("plays user-reboot")).to_be_visible()
    page.get_by_role("button", name="Reset…").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Reset").click()
    refused = page.get_by_role("alert")
    expect(refused).to_contain_text("the scenario user-reboot is running")
    page.get_by_role("button", name="Poll as web_0").click()
    page.get_by_role("button", name="Approve as web_0").click()
    expect(page.get_by_text(re.compile("^user-reboot: .*, in "))).to_be_visible()
    expect(page.get_by_label("Scenario")).to_be_visible()
    assert running.sim("choices")["profile"] == "strict"


@pytest.mark.long
def test_withheld_approval_counts_when_it_is_released(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    locator = card(page)
    locator.get_by_role("button", name="Reboot", exact=True).click()
    locator.get_by_role("button", name="Withhold").click()
    expect(locator.get_by_role("button", name="Release")).to_be_visible()
    (event,) = running.events()
    assert running.approve(event["EventId"]) == 200
    expect(locator).to_contain_text("Scheduled")
    locator.get_by_role("button", name="Release").click()
    expect(page.get_by_label("Document of web_0")).to_contain_text("Started")
    requests = page.get_by_role("region", name="Requests", exact=True)
    expect(requests.get_by_text("approves").first).to_be_visible()


def test_button_approves_as_the_vm(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    card(page).get_by_role("button", name="Reboot", exact=True).click()
    card(page).get_by_role("button", name="Approve as web_0").click()
    expect(page.get_by_label("Document of web_0")).to_contain_text("Started")
    assert running.events()[0]["EventStatus"] == "Started"


@pytest.mark.long
def test_clock_jumps_and_pauses(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    running.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": "10m"})
    document = page.get_by_label("Document of web_0")
    expect(document).to_contain_text("Scheduled")
    expect(page.get_by_text(re.compile("^paused, 60"))).to_be_visible()
    page.get_by_role("button", name="▶ Resume").click()
    expect(page.get_by_text(re.compile("^runs, 60"))).to_be_visible()
    page.get_by_role("button", name="❚❚ Pause").click()
    expect(page.get_by_text(re.compile("^paused, 60"))).to_be_visible()
    page.get_by_role("button", name="+15 min").click()
    expect(document).not_to_contain_text("Scheduled")


@pytest.mark.long
def test_deviation_and_fault_are_named(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    running.ask(running.url() + EVENTS.replace("2020-07-01", "2020-01-01"))
    page.get_by_role("button", name=re.compile("^deviating [1-9]")).click()
    expect(page.get_by_role("row", name=re.compile("deviates"))).to_be_visible()
    card(page).get_by_label("Fault of web_0").click()
    card(page).get_by_role("button", name="500, twice").click()
    expect(card(page).get_by_role("button", name="Clear")).to_be_visible()
    assert running.ask(running.url() + EVENTS)[0] == 500
    with page.expect_download() as found:
        page.get_by_role("button", name="Save as picture").click()
    assert found.value.suggested_filename == "simulation.svg"
    # A refusal is the sentence of the simulator.
    card(page).get_by_label("More for web_0").click()
    card(page).get_by_role("button", name="restore").click()
    expect(page.get_by_role("alert")).to_contain_text("Refused:")


@pytest.mark.long
@pytest.mark.skipif(not AXE.exists(), reason="no axe here: make .build/axe/axe.min.js")
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_axe_finds_nothing_on_the_page_of_a_simulation(
    open_page: Callable[..., Page], size: dict[str, int], scheme: str
) -> None:
    page = open_page(viewport=size, color_scheme=scheme, bypass_csp=True)
    card(page).get_by_role("button", name="Reboot", exact=True).click()
    expect(page.get_by_label("Document of web_0")).to_contain_text("Scheduled")
    assert findings(page) == []


@pytest.mark.long
def test_order_whose_answer_is_lost_is_sent_again_and_carried_out_once(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    keys: list[str] = []

    def lose_the_first(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) > 1:
            route.continue_()
            return
        route.fetch()
        route.abort()

    page.route("**/v1/sim/events", lose_the_first)
    card(page).get_by_role("button", name="Reboot", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The order is sent again.")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(running.events()) == 1


@pytest.mark.long
def test_lane_shows_what_a_vm_was_told_of_another_and_when_it_may_start(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    lanes = page.locator("svg.lanes")
    running.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": "2h"})
    # The stream of the simulation tells the page, which does not ask again and again.
    expect(lanes.get_by_text("sees Reboot of web_0")).to_have_count(2)
    limits = lanes.get_by_text(re.compile("^NotBefore in "))
    expect(limits).to_have_count(3)
    # What is beyond the edge of the picture cannot be read.
    picture, limit = lanes.bounding_box(), limits.first.bounding_box()
    assert picture is not None
    assert limit is not None
    assert limit["x"] + limit["width"] <= picture["x"] + picture["width"]


@pytest.mark.long
def test_texts_of_the_picture_lie_beside_each_other_on_a_phone(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page(viewport=NARROW, has_touch=True)
    running.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": "2h"})
    lanes = page.locator("svg.lanes")
    expect(lanes.get_by_text(re.compile("▸$"))).to_have_count(3)
    texts = lanes.locator("text").evaluate_all(BOXES)
    overlaps = [
        (one[0], other[0])
        for one, other in combinations(texts, 2)
        if one[1] < other[2] and other[1] < one[2] and one[3] < other[4]
        if other[3] < one[4]
    ]
    assert overlaps == []
    journal = page.get_by_role("region", name="Table of requests")
    expect(journal).to_contain_text("reads its document")
    assert journal.evaluate("(each) => each.scrollWidth - each.clientWidth") <= 0


@pytest.mark.long
def test_faults_have_words_and_a_reset_asks_first(
    running: Simulation, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    running.sim("faults", {"vms": ["web_0"], "faults": "500 x2"})
    for _ in range(2):
        running.ask(running.url() + EVENTS)
    expect(page.locator("svg.lanes").get_by_text("500 x2", exact=True)).to_be_visible()
    page.get_by_role("button", name="Reset…").click()
    question = page.get_by_role("alertdialog", name="Reset?")
    question.get_by_role("button", name="Keep it").click()
    expect(question).not_to_be_visible()
    assert running.sim("journal")["requests"]
    page.get_by_text("scenarios: what each does").click()
    play = page.get_by_role("button", name="Play user-reboot")
    expect(play).to_be_visible()
