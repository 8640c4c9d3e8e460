"""Follow docs/tutorials/protect-a-service.md and docs/how-to/agent/handlers.md as a
reader.

The agent is the command line's, with the settings and handlers of examples/agent; only
the places are the test's own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, approved_first, free_port, ground
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.receivers import receiving
from tests.support.recipes import toml_blocks

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "agent"
HANDLERS_PAGE = ROOT / "docs" / "how-to" / "agent" / "handlers.md"


@pytest.fixture
def place(loop: LoopThread, tmp_path: Path) -> Iterator[Ground]:
    fleet = fleets.fleet_text(2)
    # Events advance only when the test moves them, after it has queried the status.
    with ground(loop, tmp_path, fleet=fleet, speed=1) as new_ground:
        yield new_ground


class Reader:
    """A reader of the page, with a directory instead of `/etc/forewarn`."""

    def __init__(self, directory: Path, endpoint: str, settings: str) -> None:
        self.directory = directory
        shutil.copytree(EXAMPLES / "handlers", directory / "handlers")
        text = settings.replace("/etc/forewarn", str(directory))
        (directory / "agent.toml").write_text(text)
        self.pool = directory / "run" / "ready"
        self.pool.parent.mkdir()
        self.pool.touch()
        self.saved = directory / "job" / "checkpoint.json"
        listen = f"127.0.0.1:{free_port()}"
        self.words = [
            *("--config", "agent.toml", "--endpoint", endpoint),
            *("--state", "agent.db", "--listen", listen, "--poll", "100ms"),
        ]
        self.environ = {
            **os.environ,
            "READY": str(self.pool),
            "CHECKPOINT": str(self.saved),
        }

    def forewarn(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forewarn", "agent", *words, *self.words],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def started(self) -> "subprocess.Popen[bytes]":
        with (self.directory / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "forewarn", "agent", *self.words],
                cwd=self.directory,
                env=self.environ,
                stdout=log,
                stderr=log,
            )

    def kinds(self) -> list[str]:
        """Return the history in the status, the oldest entry first."""
        done = self.forewarn("status", "--json")
        history = json.loads(done.stdout)["history"] if done.returncode == 0 else []
        kinds = [line["kind"] for line in reversed(history)]
        return approved_first([kind for kind in kinds if kind != "handler"])


@pytest.mark.clause("8.2", "8.5")
def test_example_works_from_check_to_recovery(place: Ground, tmp_path: Path) -> None:
    """Check, run, an event, and the status after each."""
    directory = tmp_path / "etc"
    directory.mkdir()
    settings = (EXAMPLES / "agent.toml").read_text()
    reader = Reader(directory, place.world.url("web_0"), settings)
    checked = reader.forewarn("check")
    assert checked.returncode == 0, checked.stdout
    assert "ok   handler checkpoint: no problem found" in checked.stdout
    assert "ok   name: web_0, by the endpoint" in checked.stdout

    agent = reader.started()
    try:
        event = place.event()
        place.wait_approved(event, "web_0")
        assert not reader.pool.exists()
        assert json.loads(reader.saved.read_text())["for"] == event
        shown = reader.forewarn("status").stdout
        assert "prepare     pool done: out of the pool for a Reboot, 0" in shown
        assert f"prepare     checkpoint done: saved {reader.saved}" in shown
        assert "approval    given" in shown

        place.move(event, "removed")
        messages = eventually(reader.kinds, lambda kinds: "recovered" in kinds)
        assert messages[:4] == ["seen", "preparing", "prepared", "approved"]
        assert messages[-3:] == ["gone", "recovering", "recovered"]
        assert reader.pool.exists()
        assert not reader.saved.exists()
    finally:
        agent.terminate()
        agent.wait(PATIENCE_SECONDS)

    remembered = reader.forewarn("status")
    assert remembered.returncode == 3
    assert "agent     no answer" in remembered.stdout
    assert "Reboot recovered" in remembered.stdout


def test_documented_command_tests_a_handler_by_hand(tmp_path: Path) -> None:
    """The command that the page shows for it."""
    text = HANDLERS_PAGE.read_text(encoding="utf-8")
    match = re.search(r"^```sh\n(READY=.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    ready = tmp_path / "ready"
    ready.touch()
    command = match[1].replace("/etc/forewarn", str(EXAMPLES))
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", command.replace("/tmp/ready", str(ready))],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert "out of the pool for a Reboot" in done.stdout
    assert not ready.exists()


@pytest.mark.long
def test_documented_webhook_request_is_sent(place: Ground, tmp_path: Path) -> None:
    """The page's webhook, to a balancer that is busy at first."""
    text = HANDLERS_PAGE.read_text(encoding="utf-8")
    section = text.partition("## A request")[2]
    shown = toml_blocks(section)[0]
    directory = tmp_path / "etc"
    directory.mkdir()
    (directory / "balancer.key").write_text("s3cret\n")
    (directory / "balancer.key").chmod(0o600)
    with receiving() as balancer:
        balancer.script = [503, 200]
        settings = shown.replace("https://lb.example.com", balancer.url)
        reader = Reader(directory, place.world.url("web_0"), settings)
        checked = reader.forewarn("check")
        assert checked.returncode == 0, checked.stdout
        agent = reader.started()
        try:
            event = place.event(kind="Redeploy")
            place.wait_approved(event, "web_0")
            place.move(event, "removed")
            eventually(lambda: len(balancer.came), lambda count: count >= 3)
        finally:
            agent.terminate()
            agent.wait(PATIENCE_SECONDS)
        assert "s3cret" not in (directory / "log").read_text()
    assert [request.target for request in balancer.came] == [
        *["/api/members/web_0/drain"] * 2,
        "/api/members/web_0/enable",
    ]
    for request in balancer.came:
        assert request.method == "PUT"
        assert request.headers["X-Api-Key"] == "s3cret"
    # Once it has started, an event has no NotBefore.
    for request in balancer.came[:2]:
        assert json.loads(request.body)["reason"].startswith("Redeploy at 20")
