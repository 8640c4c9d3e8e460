"""docs/tutorials/firmware-campaign.md, followed from its first line to its last one."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from forewarn.store.check import check
from tests.support.pages import TUTORIALS
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGE = TUTORIALS / "firmware-campaign.md"
DIRECTORY = "/tmp/bios"
"""The directory of the page; the test has its own."""

HOSTS = 400
"""The hosts of the page."""

SECONDS_MAX = 900
"""Maximum time for the whole page on a busy machine, where each command takes seconds; on
a free one it takes less than a minute."""

DIGEST = re.compile(r"(?<=--plan )[0-9a-f]{16}")
BLOCK = re.compile(
    r"(?:into `(?P<file>[\w.-]+)`[^`]*)?^```(?P<language>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)

SMALL = (
    ('in "abcd"', 'in "a"'),
    ("range(1, 6)", "range(1, 3)"),
    ("range(1, 21)", "range(11, 21)"),
    ("range(600)", "range(20)"),
    ("% 380", "% 18"),
    ("range(200)", "range(10)"),
    ("% 200", "% 10"),
    ("// 200", "// 10"),
)
"""Changes to the program of the page for a fleet of 20 hosts in 2 racks, whose campaign
ends in seconds. Two of them have the new firmware."""


OF_400_HOSTS = ("400 hosts", "halted at ")
"""Texts that a small fleet does not print: counts, and failures by chance."""


class Follower:
    """A reader who follows the page in a directory of their own."""

    def __init__(self, directory: Path, ends: ExitStack) -> None:
        """Follow it in `directory`; `ends` stops the service."""
        self.directory = directory
        self.service: Serving | None = None
        self.printed = ""
        self._ends = ends
        self._last = ""
        self._digest = ""

    def file(self, name: str, text: str) -> None:
        """Write a file that the page shows."""
        (self.directory / name).write_text(text.replace(DIRECTORY, str(self.directory)))

    def run(self, line: str) -> None:
        """Run a line of a shell."""
        if line.startswith("forewarn serve "):
            fleet = (self.directory / "fleet.toml").read_text()
            self.service = Serving(self.directory, fleet, config="forewarn.toml")
            self._ends.callback(self.service.kill)
            self.service.wait_ready()
            return
        if line.startswith(("mkdir /tmp", "rm -r ", "forewarn campaign watch ")):
            return
        self._last = DIGEST.sub(
            self._digest, line.replace(DIRECTORY, str(self.directory))
        )
        done = self._done()
        assert done.returncode == 0, (line, done.stdout, done.stderr)

    def _done(self) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        url = self.service.urls["operators"] if self.service else ""
        done = subprocess.run(
            ["bash", "-c", self._last],
            cwd=self.directory,
            env={**os.environ, "PATH": path, "FOREWARN_URL": url},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        self.printed = done.stdout
        for digest in re.findall(r"^plan ([0-9a-f]{16});", done.stdout, re.MULTILINE):
            self._digest = digest
        return done

    def wait_for(self, shown: str) -> None:
        """Repeat the last command until it prints each line that the page shows."""
        lines = shown.replace(DIRECTORY, str(self.directory)).splitlines()
        wanted = [
            re.compile(rf"^{re.escape(line).replace('…', '.*')}$", re.MULTILINE)
            for line in lines
        ]

        def asked() -> str:
            self._done()
            return self.printed

        eventually(
            asked, lambda printed: all(pattern.search(printed) for pattern in wanted)
        )


def blocks() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the language and the text of each block of the page."""
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        yield block["file"] or "", block["language"], block["text"]


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def follow(follower: Follower, *, small: bool) -> None:
    """Follow the page; in a small fleet, do not compare the numbers of hosts."""
    for file, language, shown in blocks():
        text = shown
        if file:
            for old, new in SMALL if small and file == "fleet.py" else ():
                assert old in text
                text = text.replace(old, new)
            follower.file(file, text)
        elif language == "sh":
            for line in text.splitlines():
                follower.run(line.replace("d5-", "a2-") if small else line)
        elif not small or not any(phrase in text for phrase in OF_400_HOSTS):
            follower.wait_for(text)


@pytest.mark.long
@pytest.mark.timeout(SECONDS_MAX)
def test_a_small_fleet_has_the_new_firmware_at_the_end(
    tmp_path: Path, ends: ExitStack
) -> None:
    follower = Follower(tmp_path, ends)
    follow(follower, small=True)
    follower.run("forewarn campaign list --all")
    follower.wait_for("bios-2.19  Done  …")
    follower.run("forewarn campaign show bios-2.19")
    assert "18 done, 0 in flight, 0 waiting, 0 failed, 2 skipped" in follower.printed
    versions = {path.read_text().strip() for path in (tmp_path / "firmware").iterdir()}
    assert versions == {"2.19"}
    assert "<html" in (tmp_path / "report.html").read_text().lower()


@pytest.mark.long
@pytest.mark.timeout(3 * SECONDS_MAX)
def test_the_page_shows_what_its_commands_print_and_how_the_campaign_ends(
    tmp_path: Path, ends: ExitStack
) -> None:
    follower = Follower(tmp_path, ends)
    follow(follower, small=False)
    campaign = wait_for_end(follower)
    [told] = re.findall(
        r"^(\d+) hosts are done, and (\d+) are skipped", PAGE.read_text(), re.MULTILINE
    )
    assert (campaign["state"], campaign["failed"]) == ("Done", [])
    assert (str(campaign["done"]), str(campaign["skipped"])) == told
    files = [*(tmp_path / "firmware").iterdir()]
    assert len(files) == HOSTS
    assert {file.read_text().strip() for file in files} == {"2.19"}
    assert follower.service is not None
    assert follower.service.terminate() == 0
    assert list(check(tmp_path / "forewarn.db")) == []


def wait_for_end(follower: Follower) -> dict[str, Any]:
    """Return the campaign when it has ended; fail if no host ends for a long time."""
    assert follower.service is not None
    service, ended = follower.service, -1
    while True:
        response = eventually(
            lambda: service.admin("/v1/campaigns/bios-2.19"),
            lambda response, before=ended: (
                response["ended"] or response["done"] + response["skipped"] > before
            ),
            what=f"more than {ended} hosts that have ended",
        )
        if response["ended"]:
            return response
        ended = response["done"] + response["skipped"]
