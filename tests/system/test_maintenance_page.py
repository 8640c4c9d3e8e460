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
    """Runs the commands of the page with the IDs of this service."""

    def __init__(self, service: Serving) -> None:
        self.service = service
        self.ids: dict[str, str] = {}
        """For each ID on the page, the ID of this service."""

    def run(self, command: str) -> str:
        """Run a command of the page, and return what it prints."""
        for shown, real in self.ids.items():
            command = command.replace(shown, real)
        process = subprocess.run(
            f"{sys.executable} -m forewarn {command}",
            shell=True,
            cwd=ROOT,
            env={**os.environ, "FOREWARN_URL": self.service.urls["operators"]},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    def pair_ids(self, shown: str, printed: str) -> None:
        """Store which ID of the page stands for which ID that a command printed."""
        pairs = zip(ids_in(shown), ids_in(printed), strict=False)
        for shown_id, real in pairs:
            self.ids.setdefault(shown_id, real)


def ids_in(text: str) -> Iterator[str]:
    return (match["id"] for match in CHANGING.finditer(text) if match["id"])


def steady(text: str) -> str:
    """Return a text without IDs, times and gaps, which differ between runs."""
    return CHANGING.sub(lambda match: f"<{match.lastgroup}>", text).rstrip()


def fleet() -> str:
    text = (TUTORIALS / "first-maintenance.md").read_text(encoding="utf-8")
    match = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", match[1])


def check(reader: Reader, part: str) -> None:
    blocks = CONSOLE.findall(part)
    assert blocks
    for command, shown in blocks:
        printed = reader.run(command)
        if shown:
            reader.pair_ids(shown, printed)
            assert steady(printed) == steady(shown), command


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
        reader.pair_ids(page, operation)
        eventually(
            lambda: service.admin(path)["blocked_by"], bool, what="the unknown outcome"
        )
        check(reader, page)
    finally:
        service.kill()
