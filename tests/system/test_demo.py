"""The program of `make demo`."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.demo_parts import console
from examples.demo_parts.timeline import Timeline

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 280

pytestmark = pytest.mark.system


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo with its console, where no browser can be opened."""
    screens = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {
        key: value for key, value in os.environ.items() if key not in screens
    }
    with subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "demo.py"), "--console"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment, "TMPDIR": str(tmp_path)},
        text=True,
    ) as process:
        yield process
        # It stops the services that it has started.
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE_SECONDS)


def test_the_demo_sees_everything_on_the_wire_and_opens_its_console(
    demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    """All seven parts with real servers and clients, without colors, until Ctrl-C."""
    assert demo.stdout is not None
    output, link = "", ""
    for line in demo.stdout:
        output += line
        if line.startswith("http://"):
            link = line.strip()
        if line.startswith("Ctrl-C"):
            break

    assert "All of it was seen on the wire" in output, output
    assert console.OPENED in output
    assert "not seen" not in output
    assert "\x1b[" not in output
    assert link.endswith("/console/"), output
    with urllib.request.urlopen(link) as page:
        assert b"forewarn" in page.read()
    campaigns = link.replace("/console/", "/v1/campaigns")
    with urllib.request.urlopen(campaigns) as answer:
        (campaign,) = json.load(answer)["campaigns"]
    # The first sight is of work that runs.
    assert (campaign["name"], campaign["state"]) == (console.NAME, "Running")
    assert campaign["hosts"] == len(console.CLUSTERS) * console.RACKS * console.HOSTS

    demo.send_signal(signal.SIGINT)

    assert demo.wait(timeout=PATIENCE_SECONDS) == 0, demo.stdout.read()
    assert list(tmp_path.iterdir()) == []


def test_the_demo_without_its_console_offers_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    timeline = Timeline()
    timeline.check("a thing", seen=True)
    timeline.end(console.OFFER)

    assert "make demo CONSOLE=1" in capsys.readouterr().out
    process = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/server.stamp", "demo", "CONSOLE=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.endswith("examples/demo.py --console\n")
