"""The page "Run maintenance" is true: its commands are run, and print what it shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import OPERATE, ROOT, TUTORIALS
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGE = OPERATE / "run-maintenance.md"
UNKNOWN = "## Set an unknown outcome"
"""From this heading on, the page is about an operation with an unknown outcome."""

CONSOLE = re.compile(r"^```console\n\$ forewarn (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
CHANGING = re.compile(
    r"(?P<id>\b(?:op|ro)-\w{16}\b|\b[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\b)"
    r"|(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)|(?P<length>\d+ (?:ms|s|m)\b(?: \d+ s\b)?)"
    r"|(?P<gap>  +)"
)
SECONDS_MAX = 60
"""Maximum seconds of one command, for slow machines."""


class Reader:
    """Follows the page: what it calls an operation is one of the service."""

    def __init__(self, service: Serving) -> None:
        self.service = service
        self.ids: dict[str, str] = {}
        """The ids of the page, with those of this service."""

    def run(self, words: str) -> str:
        """Run a command of the page, and return what it prints."""
        for shown, real in self.ids.items():
            words = words.replace(shown, real)
        done = subprocess.run(
            f"{sys.executable} -m forewarn {words}",
            shell=True,
            cwd=ROOT,
            env={**os.environ, "FOREWARN_URL": self.service.urls["operators"]},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def learn(self, shown: str, printed: str) -> None:
        """Learn the ids that the page shows in the places of those of this service."""
        pairs = zip(ids_in(shown), ids_in(printed), strict=False)
        for ours, real in pairs:
            self.ids.setdefault(ours, real)


def ids_in(text: str) -> Iterator[str]:
    return (found["id"] for found in CHANGING.finditer(text) if found["id"])


def steady(text: str) -> str:
    """Return a text without what differs from run to run."""
    return CHANGING.sub(lambda found: f"<{found.lastgroup}>", text).rstrip()


def fleet() -> str:
    text = (TUTORIALS / "first-maintenance.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", found[1])


def check(reader: Reader, part: str) -> None:
    blocks = CONSOLE.findall(part)
    assert blocks
    for words, shown in blocks:
        printed = reader.run(words)
        if shown:
            reader.learn(shown, printed)
            assert steady(printed) == steady(shown), words


def test_daily_commands_print_the_documented_output(
    tmp_path: Path,
) -> None:
    page, _, _ = PAGE.read_text(encoding="utf-8").partition(UNKNOWN)
    service = Serving(tmp_path, fleet(), timing_speed="5").wait_ready()
    try:
        for vm in ("web_0", "web_1"):
            service.document(vm)
        check(Reader(service), page)
    finally:
        service.kill()


def test_unknown_outcome_is_shown_and_resolved_as_documented(
    tmp_path: Path,
) -> None:
    """The driver's memory is lost while it works, and the VMs keep no marks."""
    _, _, page = PAGE.read_text(encoding="utf-8").partition(UNKNOWN)
    slow = {
        "timing_speed": "300",
        "driver_simulated_reboot": "10h",
        "driver_simulated_marks": "false",
    }
    service = Serving(tmp_path, fleet(), **slow).wait_ready()
    try:
        for vm in ("web_0", "web_1"):
            service.document(vm)
        order = service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
        operation = order["operations"][0]["operation"]
        path = f"/v1/operations/{operation}"
        eventually(
            lambda: service.admin(path)["state"], lambda state: state == "Impacting"
        )
    finally:
        service.kill()
    for file in tmp_path.glob("*.simulated*"):
        file.unlink()
    service = Serving(tmp_path, fleet(), **slow).wait_ready()
    try:
        reader = Reader(service)
        reader.learn(page, operation)
        eventually(
            lambda: service.admin(path)["blocked_by"], bool, what="the unknown outcome"
        )
        check(reader, page)
    finally:
        service.kill()
