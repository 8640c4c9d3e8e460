"""A campaign is followed in one page from its canary to its end, without a reload."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.consoles import Place, Tab

CANARY = 3
HOSTS = 12

WATCH = """() => {
  window.sameDocument = true;
  window.seen = [];
  const note = () => {
    const found = [...document.querySelectorAll(".kpis > div > b")].slice(0, 5);
    const line = found.map((each) => each.innerText).join(" ");
    if (line && window.seen.at(-1) !== line) window.seen.push(line);
  };
  new MutationObserver(note).observe(document.body,
    {subtree: true, childList: true, characterData: true});
  note();
}"""
"""Notes the counts of the head whenever they change: done, running, failed, announced
and left."""


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Place]:
    """Return a service whose clock is 6,000 times as fast."""
    place = Place(tmp_path / "service", timing_speed="6000")
    yield place
    place.kill()


def counts(page: Page) -> list[list[int]]:
    """Return the counts that the page has shown since it was watched."""
    seen: list[str] = page.evaluate("() => window.seen")
    return [[int(word) for word in line.split()] for line in seen]


@pytest.mark.long
def test_campaign_is_followed_from_its_canary_to_its_end(
    quick: Place, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(quick)
    page = tab.open("campaigns")
    expect(page.get_by_text("No campaign runs")).to_be_visible()
    page.evaluate(WATCH)
    campaign = quick.start_campaign(approval=True)
    page.get_by_role("link", name="microcode").click()

    # The canary, whose gate waits for an approval.
    stages = page.get_by_role("region", name="Stages and budgets").get_by_role(
        "listitem"
    )
    current = stages.and_(page.locator("[aria-current=step]"))
    expect(current).to_contain_text("Stage 1")
    expect(current).to_contain_text(f"{CANARY} of {CANARY} done")
    expect(current).to_contain_text("stage 2 waits for approval")
    # It needs a person, which the title counts.
    name = f"(1) microcode: running, {CANARY} of {HOSTS} · forewarn"
    expect(page).to_have_title(name)
    eta = page.locator(".kpis .eta")
    expect(eta).to_have_text(re.compile(r"^\s*(\w+ )?\d\d:\d\dETA"))
    page.get_by_role("button", name="Approve stage 2…").click()
    dialog = page.get_by_role("dialog", name="Begin stage 2 of microcode?")
    dialog.get_by_label("Why?").fill("canary looks well")
    dialog.get_by_role("button", name="Approve stage 2").click()
    expect(dialog).not_to_be_visible()

    # The rest of the hosts, to the end.
    expect(page).to_have_title(f"microcode: done, {HOSTS} of {HOSTS} · forewarn")
    expect(page.get_by_role("heading", name="microcode")).to_contain_text("Done")
    expect(stages.first).to_contain_text("✓")
    expect(eta).to_have_text(re.compile(r"ended\s*$"))
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    # Lines under the pointer would stay as they were.
    page.mouse.move(0, 0)
    activity = page.get_by_role("region", name="Activity")
    expect(activity).to_contain_text("campaign done")
    expect(page.locator(".kpis > div > b").first).to_have_text(str(HOSTS))
    seen = counts(page)
    assert page.evaluate("() => window.sameDocument")
    assert {sum(sample) for sample in seen} == {HOSTS}
    done = [sample[0] for sample in seen]
    assert done == sorted(done)
    assert {CANARY, HOSTS} <= set(done), done
    assert tab.streams == 1

    page.get_by_role("link", name="Report", exact=True).click()
    answer: Any = quick.ask(f"/v1/campaigns/{campaign}")
    assert (answer["state"], answer["done"]) == ("Done", HOSTS)
    entries = quick.ask("/v1/history?since=1h")["entries"]
    assert "canary looks well" in [entry["why"] for entry in entries]
    paper = page.get_by_role("article")
    expect(paper).to_contain_text(f"{HOSTS}of {HOSTS} hosts done")
    assert page.evaluate("() => window.sameDocument")
