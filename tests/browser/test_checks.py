"""A campaign that a check has halted shows its answer, and asks again at the press of a button."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.consoles import Place, Tab, campaign_text
from tests.support.processes import eventually

SETTINGS = """
[check.errors]
kind = "command"
every = "1h"
program = ["sh", "-c", "test -e {file} || {{ echo 'error rate 7 %'; exit 1; }}"]
[check.other]
kind = "command"
every = "1h"
program = ["false"]
"""

CHECKED = """\
[[campaign.check]]
use = "errors"
"""


@pytest.fixture
def repaired(tmp_path: Path) -> Path:
    """Return the file that lets the check pass as soon as it is there."""
    return tmp_path / "repaired"


@pytest.fixture
def checked(tmp_path: Path, repaired: Path) -> Iterator[Place]:
    directory = tmp_path / "service"
    directory.mkdir()
    text = SETTINGS.format(file=repaired)
    (directory / "forewarn.toml").write_text(text, encoding="utf-8")
    place = Place(directory)
    yield place
    place.kill()


@pytest.mark.long
def test_check_that_halted_a_campaign_is_asked_again(
    checked: Place, repaired: Path, new_tab: Callable[..., Tab]
) -> None:
    campaign = checked.start(campaign_text(name="bios") + CHECKED)
    eventually(
        lambda: checked.ask(f"/v1/campaigns/{campaign}"),
        lambda shown: shown["state"] == "Halted",
        what="the halt by the check",
    )
    page = new_tab(checked).open(f"campaigns/{campaign}")
    line = page.get_by_text(re.compile("Check errors:"))
    expect(line).to_contain_text("error rate 7 %")
    override = page.get_by_role("button", name="Override errors…")
    expect(override).to_be_visible()
    # Another check fails too, but the campaign does not have it.
    expect(page.get_by_text("Check other")).to_have_count(0)
    repaired.touch()
    page.get_by_role("button", name="Check again").click()
    expect(line).to_contain_text("passes")
    expect(override).to_have_count(0)
    expect(page.get_by_role("button", name="Check again")).to_have_count(0)
    expect(page.get_by_role("button", name="Resume…")).to_be_visible()
