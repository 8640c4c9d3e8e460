"""The report of a campaign has the sums of the service, and prints on two pages."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from forewarn.console.single import single_page
from tests.support.consoles import Place, Tab
from tests.support.processes import eventually

PDF_PAGE = re.compile(rb"/Type\s*/Page\b")


def saved(page: Page, name: str) -> tuple[str, str]:
    """Return name and text of the file that a button saves."""
    with page.expect_download() as found:
        page.get_by_role("button", name=name).click()
    path = Path(found.value.path())
    return found.value.suggested_filename, path.read_text(encoding="utf-8")


def told_of_nights(at: str) -> dict[str, object]:
    """Return sums of two nights, with a failure that was skipped at an instant."""
    then = {"what": "skipped", "by": "alice", "at": at, "reason": "no DIMM"}
    failure = {
        "host": "n7",
        "operation": "op-7",
        "state": "Failed",
        "note": "no memory",
    }
    return {
        "failures": [{**failure, "then": then}],
        "hours": {"2030-01-14T22:00:00Z": 3, "2030-01-15T23:00:00Z": 9},
        "waiting_seconds": {"turn": 7200, "soak": 36_000, "window": 7200},
        "notice_seconds": {"approval": 3600, "window": 1800, "start": 0},
    }


@pytest.mark.long
def test_report_of_a_campaign_that_has_ended(
    tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    place = Place(tmp_path / "service", timing_speed="6000")
    place.serving.document("shop-c1-r0-0")
    campaign = place.start_campaign("<b>CHG-1</b>")
    told = eventually(
        lambda: place.ask(f"/v1/campaigns/{campaign}"),
        lambda told: told["state"] == "Done",
        what="the end of the campaign",
    )
    page = new_tab(place).open(f"campaigns/{campaign}/report")
    paper = page.get_by_role("article")
    expect(paper.get_by_text("<b>CHG-1</b>")).to_be_visible()
    expect(paper).to_contain_text(f"{told['done']}of {told['hosts']} hosts done")
    sums = place.ask(f"/v1/campaigns/{campaign}/sums")
    for tenant in sums["tenants"]:
        row = paper.get_by_role("region", name="Approvals by tenant").get_by_role(
            "row", name=re.compile(f"^{tenant['tenant']}")
        )
        expect(row).to_contain_text(str(tenant["asked"]))
    hours = ", ".join(str(hosts) for hosts in sums["hours"].values())
    assert sum(sums["hours"].values()) == told["done"], hours
    file = tmp_path / "report.html"
    visit = {"host": "n131", "operation": "op-9", "reason": "the step work failed"}
    sums.update(told_of_nights(told["ended"]))
    sums.update(several_domains_down_count=2, several_domains_down=["web", "<i>db"])
    data = {"campaign": {**told, "failed": [visit]}, "sums": sums, "at": told["ended"]}
    single = single_page("report", module="js/paper.js", view="paper", data=data)
    file.write_text(single, encoding="utf-8")
    page.goto(file.as_uri())
    expect(page.get_by_role("article")).to_contain_text("<b>CHG-1</b>")
    failures = page.get_by_role("region", name="Failures")
    expect(failures.get_by_role("row", name="n131")).to_contain_text("The step work")
    expect(page.get_by_text("down at once of web, <i>db.")).to_be_visible()
    row = failures.get_by_role("row", name="n7")
    expect(row).to_contain_text("Skipped by alice")
    expect(row).to_contain_text("no DIMM")
    # Two nights, each with its sum; each cause of waiting has its hours.
    expect(page.locator(".chart text.lab")).to_have_text(
        ["Mon 14 Jan: 3", "Tue 15 Jan: 9"]
    )
    causes = page.get_by_role("region", name="Host hours by cause")
    for cause, spent in (("soak", "10.0 h"), ("maintenance windows", "2.5 h")):
        expect(causes.get_by_role("row", name=cause)).to_contain_text(spent)
    expect(causes).not_to_contain_text("halted")
    expect(causes).to_contain_text("hosts waited 2.0 h for their turn")
    assert page.get_by_role("link").count() == 0
    page.go_back()
    expect(paper).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Print…")).not_to_be_visible()
    pages = len(PDF_PAGE.findall(page.pdf(format="A4")))
    assert 1 <= pages <= 2
    page.emulate_media(media="screen")
    name, text = saved(page, "CSV")
    assert name == "microcode-report.csv"
    assert len(text.splitlines()) == 1 + sums["attempts"]
    name, text = saved(page, "JSON")
    assert name == "microcode-report.json"
    assert sum(json.loads(text)["sums"]["hours"].values()) == told["done"]
    place.kill()


def test_report_says_that_the_campaign_still_runs(
    place: Place, new_tab: Callable[..., Tab]
) -> None:
    campaign = place.start_campaign()
    page = new_tab(place).open(f"campaigns/{campaign}/report")
    paper = page.get_by_role("article")
    expect(paper).to_contain_text("so far")
    expect(paper).to_contain_text("planned end")
    expect(paper).to_contain_text("0scopes with two fault domains down")
    page.route("**/report?*", lambda route: route.abort())
    page.get_by_role("button", name="CSV").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.get_by_role("link", name=re.compile("forewarn history")).click()
    expect(page).to_have_url(re.compile("history.operation="))
    page.go_back()
    page.get_by_role("link", name=re.compile("Campaign$")).click()
    expect(page.get_by_role("heading", name=re.compile("microcode"))).to_be_visible()
