"""`campaign simulate` from the command line."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn import cli
from forewarn.campaigns.plan_progress import Part, Progress
from forewarn.campaigns.text import CampaignText
from forewarn.cli import stopping
from tests.unit.cli.conftest import Ended, Screen, Served

Run = Callable[..., Ended]

TEXT = """\
[campaign]
name = "kernel"
reason = "CVE-2026-1234"
impact = "reboot"
select = { all = true }
[campaign.budget]
in_flight = "50%"
[[campaign.window]]
start = "06:00"
length = "12h"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.toml"
    path.write_text(TEXT)
    return path


def test_simulation_shows_stages_nights_and_budgets(
    file: Path, service: Served, forewarn: Run
) -> None:
    ended = forewarn("campaign", "simulate", str(file), "--approve", "50%")
    assert ended.status == 0, ended.err
    document = json.loads(
        forewarn("campaign", "simulate", str(file), "--approve", "50%", "--json").out
    )
    lines = ended.out.splitlines()
    hosts = document["host_count"]
    assert lines[0].startswith(f"campaign kernel: reboot of {hosts} hosts with ")
    assert lines[1] == (
        "assumed: 50 % of the scopes approve, 0 % of the hosts fail; stages are "
        "approved at once"
    )
    assert lines[2].startswith("ended at ")
    assert f": {hosts} done, 0 failed, 0 left" in lines[2]
    assert lines[-1] == "seed 1; nothing was announced or changed"
    for stage in document["stages"]:
        # People get whole seconds.
        assert f"{stage['ends'][:19]}Z" in ended.out
    (opening,) = [period for period in document["periods"] if period["done"]]
    assert opening["opens"].endswith("T06:00:00Z")
    assert forewarn("campaign", "list").out == "no open campaigns\n"


def test_halt_is_shown_with_what_was_left(
    file: Path, service: Served, forewarn: Run
) -> None:
    file.write_text(f"{TEXT}[campaign.tolerance]\nfailures = 0\nin_a_row = 0\n")
    ended = forewarn("campaign", "simulate", str(file), "--failures", "100%")
    document = json.loads(
        forewarn("campaign", "simulate", str(file), "--failures", "100%", "--json").out
    )
    assert ended.status == 0, ended.err
    assert f"halted at {document['ends'][:19]}Z, " in ended.out
    assert f"1 failed, {document['left']} left" in ended.out
    assert f"failed: {document['failed'][0]}" in ended.out


def test_page_has_the_hosts_and_the_sentences_of_the_terminal(
    tmp_path: Path, file: Path, service: Served, forewarn: Run
) -> None:
    page = tmp_path / "kernel.html"
    ended = forewarn("campaign", "simulate", str(file), "--html", str(page))
    assert ended.status == 0, ended.err
    document = json.loads(forewarn("campaign", "simulate", str(file), "--json").out)
    text = page.read_text(encoding="utf-8")
    assert "<title>simulation: kernel</title>" in text
    match = re.search(
        r'<script type="application/json" id="sheet-data">(.*?)</script>', text
    )
    assert match is not None
    shown = json.loads(match[1])
    names = [host["host"] for host in document["hosts"]]
    assert [host["host"] for host in shown["simulation"]["hosts"]] == names
    assert set(shown["facts"]) <= set(ended.out.splitlines())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--approve", "0.7"), "--approve: '0.7' is not a percentage"),
        (("--failures", "101%"), "--failures: '101%' is not a percentage"),
        (("--seed", "one"), "--seed: 'one' is not a whole number"),
    ],
)
def test_invalid_assumption_is_refused(
    given: tuple[str, str], said: str, file: Path, forewarn: Run
) -> None:
    ended = forewarn("campaign", "simulate", str(file), *given)
    assert ended.status == 2
    assert said in ended.err


SHOWN_WITHIN = 60
"""Maximum seconds until the line is shown, on a busy machine."""


class WatchedScreen(Screen):
    """A screen that says when a text was written."""

    def __init__(self, text: str) -> None:
        """Wait for `text`."""
        super().__init__()
        self._text = text
        self.is_shown = threading.Event()

    def write(self, text: str, /) -> int:
        """Write, and set `is_shown` once the screen contains the expected text."""
        written = super().write(text)
        if self._text in self.getvalue():
            self.is_shown.set()
        return written


DOING = {
    "plan": "planning {file}: ",
    "simulate": "simulating {file}, which takes at most 10 minutes: ",
}


@pytest.mark.parametrize("verb", DOING)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_is_shown_on_a_terminal_until_it_has_ended(
    verb: str,
    file: Path,
    service: Served,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_terminal: bool,
) -> None:
    message = DOING[verb].format(file=file)
    screen = WatchedScreen(message)
    name = f"{verb}_campaign"
    work = getattr(service.gateway, name)

    async def wait(*given: object, **options: object) -> str:
        if is_terminal:
            await asyncio.to_thread(screen.is_shown.wait, SHOWN_WITHIN)
        return await work(*given, **options)

    monkeypatch.setattr(service.gateway, name, wait)
    monkeypatch.setattr(stopping, "PATIENCE_SECONDS", 0.001)
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    assert cli.main(["campaign", verb, str(file)]) == 0
    shown = screen.getvalue()
    # The line is removed at the end; without a terminal, nothing is printed.
    if is_terminal:
        assert message in shown
        assert shown.endswith("\r\x1b[K")
    else:
        assert shown == ""


@pytest.mark.parametrize("verb", DOING)
@pytest.mark.parametrize("is_json", [False, True])
def test_terminal_gets_a_bar_and_json_gets_none(
    verb: str,
    file: Path,
    service: Served,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_json: bool,
) -> None:
    key = "one-key"
    service.gateway.progress[key] = Progress(part=Part.PLAYING, done=5, of=20)
    message = "s [#####...............] 5 of 20 hosts done"
    screen = WatchedScreen("simulating" if is_json else message)
    name = f"{verb}_campaign"
    work = getattr(service.gateway, name)
    keys: list[str] = []

    async def wait(text: CampaignText, *given: object, **options: object) -> str:
        keys.append(text.key)
        if not is_json:
            await asyncio.to_thread(screen.is_shown.wait, SHOWN_WITHIN)
        return await work(text, *given, **options)

    monkeypatch.setattr(service.gateway, name, wait)
    monkeypatch.setattr(stopping, "PATIENCE_SECONDS", 0.001)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("FOREWARN_IDEMPOTENCY_KEY", key)
    arguments = ["campaign", verb, str(file), *(["--json"] if is_json else [])]
    assert cli.main(arguments) == 0
    assert keys == [key]
    assert (message in screen.getvalue()) is not is_json
