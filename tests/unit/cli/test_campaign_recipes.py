"""docs/how-to/operate/campaign-recipes.md: its files are planned, and its commands run."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.campaigns.file import read_campaign
from tests.support.pages import OPERATE
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

PAGE = OPERATE / "campaign-recipes.md"

FILE = """\
[campaign]
name = "bios-2.19"
reason = "CVE-2026-1234"
impact = "freeze"
select = { all = true }
"""

REFUSED = {
    "forewarn campaign retry bios-2.19 --failed": "has no failed host",
    "forewarn campaign skip bios-2.19 h2 --reason 'checked by hand'": "does not wait",
    "forewarn campaign resume bios-2.19 --reason 'boards replaced'": "is neither paused nor halted",
    "forewarn upgrade-os web_0 web_1 web_2 --reason 'image 2027.03'": (
        "is not a scale-set instance"
    ),
    "forewarn brake off --reason 'power is back'": "the brake is not on",
    "forewarn campaign resume bios-2.19 --despite error-rate "
    "--reason 'known error of the shop'": "error-rate",
}
"""Commands that need a failure, a brake or a scale set: this test has none."""


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks("toml"))
def test_each_campaign_file_is_valid(text: str) -> None:
    name = tomllib.loads(text)["campaign"]["name"]
    assert read_campaign(text, name="page").name == name


def test_each_command_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: Served,
    forewarn: Run,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bios.toml").write_text(FILE)
    plan = json.loads(forewarn("campaign", "plan", "bios.toml", "--json").out)
    started = forewarn("campaign", "start", "bios.toml", "--plan", plan["digest"])
    assert started.status == 0, started.err
    messages: list[str] = []
    for line in "".join(blocks("sh")).splitlines():
        ended = forewarn(*shlex.split(line)[1:])
        why = REFUSED.get(shlex.join(shlex.split(line)))
        if why is not None:
            assert (ended.status, why in ended.err) == (4, True), (line, ended.err)
        elif ended.status != 0 and line != "forewarn problems":
            messages.append(f"{line}: {ended.status} {ended.err}")
    assert messages == []
