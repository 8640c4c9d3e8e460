"""Plans and simulations as one file: opened from a disk, they need nothing else."""

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.consoles import NARROW, Place

CAMPAIGN = """\
[campaign]
name = "kernel"
reason = "<img src=x onerror='document.title=1'>"
impact = "reboot"
select = { all = true }
budget = { in_flight = 3 }
[[campaign.window]]
start = "22:00"
length = "6h"
"""
TOLERANT = """\
[campaign.tolerance]
failures = 11
[[campaign.stage]]
hosts = "100%"
"""
STAGE = """\
[[campaign.stage]]
hosts = 2
soak = "1h"
"""


def written(place: Place, directory: Path, text: str, *words: str) -> Path:
    """Return the page that a command writes about a campaign file."""
    file, page = directory / "kernel.toml", directory / "kernel.html"
    file.write_text(text)
    command = ["campaign", words[0], str(file), "--html", str(page), *words[1:]]
    command += ["--url", place.url]
    subprocess.run(
        [sys.executable, "-m", "forewarn", *command],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return page


@contextmanager
def opened(context: BrowserContext, file: Path) -> Generator[Page]:
    """Open a file; nothing may be said on the browser's console, or asked for."""
    page = context.new_page()
    messages: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert messages == []
    assert asked == [file.as_uri()]


def test_plan_is_a_file_with_waves_hosts_and_constraints(
    shared: Place, tmp_path: Path, new_context: Callable[..., BrowserContext]
) -> None:
    shared.ask("/v1/fail", {"names": ["c2-r1-2"], "kind": "host"})
    file = written(shared, tmp_path, CAMPAIGN + STAGE, "plan")
    shared.ask("/v1/restore", {"names": ["c2-r1-2"], "kind": "host"})
    with opened(new_context(), file) as page:
        expect(page.get_by_text("<img src=x")).to_be_visible()
        expect(page.locator(".waves li")).to_have_count(2)
        expect(page.locator(".waves li").first).to_contain_text("then soak 1 h")
        grid = page.get_by_role("treegrid", name="Hosts over time")
        # A small plan is open.
        host = grid.get_by_role("row", name="c1-r0-0, planned")
        expect(host).to_be_visible()
        cluster = grid.get_by_role("row", name="cluster c1")
        cluster.click()
        expect(host).not_to_be_visible()
        expect(cluster).to_have_attribute("aria-expanded", "false")
        limits = page.get_by_role("region", name="Constraints")
        expect(limits.get_by_role("row").nth(1)).to_contain_text("binds")
        refused = page.get_by_role("region", name="Hosts that cannot be done")
        expect(refused.get_by_role("row", name="c2-r1-2")).to_contain_text("down")


@pytest.mark.long
def test_constraints_of_a_plan_fit_into_a_phone(
    shared: Place, tmp_path: Path, new_context: Callable[..., BrowserContext]
) -> None:
    file = written(shared, tmp_path, CAMPAIGN + STAGE, "plan")
    with opened(new_context(viewport=NARROW), file) as page:
        limits = page.get_by_role("region", name="Constraints")
        expect(limits.get_by_role("columnheader", name="Rounds")).to_be_visible()
        assert limits.evaluate("each => each.scrollWidth - each.clientWidth") == 0
        whole = "() => document.documentElement.scrollWidth - window.innerWidth"
        assert page.evaluate(whole) <= 0


@pytest.mark.long
def test_simulation_is_a_file_with_nights_and_failures(
    shared: Place, tmp_path: Path, new_context: Callable[..., BrowserContext]
) -> None:
    assumed = ("--failures", "20%", "--seed", "3")
    file = written(shared, tmp_path, CAMPAIGN + TOLERANT, "simulate", *assumed)
    with opened(new_context(), file) as page:
        failed = page.get_by_role("region", name="Failed hosts").locator("p")
        names = failed.inner_text().split(", ")
        assert names
        for name in names:
            row = page.get_by_role("row", name=f"{name}, failed")
            expect(row).to_contain_text("✕ failed")
        nights = page.get_by_role("region", name="Nights").get_by_role("row")
        numbers = [text.split("\t") for text in nights.all_inner_texts()[1:]]
        assert sum(int(night[3]) for night in numbers) == len(names)
        cluster = page.get_by_role("row", name="cluster c1")
        expect(cluster).to_have_attribute("aria-expanded", "true")
        cluster.click()
        expect(cluster).to_have_attribute("aria-expanded", "false")
