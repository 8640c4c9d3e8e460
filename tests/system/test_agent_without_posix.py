"""The agent with nothing of POSIX at hand, as far as that can be had on Linux.

`tests.support.windows_like` takes away what Windows lacks. Nothing here says that the
agent works on Windows: docs/how-to/agent/windows.md lists what was not tested.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import WHOLE_LIFE, AgentProcess, Ground, ground
from tests.support.processes import PATIENCE_SECONDS
from tests.support.receivers import receiving

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "tests.support.windows_like")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

HANDLER = """
[[handler]]
name = "drain"
kind = "exec"
directory = "DIRECTORY"
prepare = ["/bin/sh", "act"]
recover = ["/bin/sh", "act"]
timeout = "2s"
"""
RULE = """
[[rule]]
handlers = ["drain"]
"""


class WindowsLike(AgentProcess):
    """An agent that believes itself to be on Windows."""

    def _started(self) -> "subprocess.Popen[bytes]":
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [*PROGRAM, "--config", "agent.toml"],
                cwd=self.directory,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PROGRAM, *words, "--config", "agent.toml"],
            cwd=self.directory,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


@pytest.fixture
def place(loop: LoopThread, tmp_path: Path) -> Iterator[Ground]:
    with ground(loop, tmp_path, fleet=fleets.fleet_text(2)) as new_ground:
        yield new_ground


@pytest.fixture
def still_place(loop: LoopThread, tmp_path: Path) -> Iterator[Ground]:
    """Run a simulator whose events advance only when the test moves them."""
    with ground(loop, tmp_path, fleet=fleets.fleet_text(2), speed=1) as new_ground:
        yield new_ground


def started(place: Ground, settings: str = HANDLER + RULE) -> WindowsLike:
    directory = place.directory / "web_0"
    agent = WindowsLike(directory, place.world.url("web_0"), settings, pages=True)
    place.agents.append(agent)
    agent.wait_ready()
    return agent


def test_agent_prepares_approves_and_recovers(still_place: Ground) -> None:
    with receiving() as posts:
        expected = f"""
[[handler]]
name = "tell"
kind = "webhook"
prepare = "{posts.url}"
[[rule]]
handlers = ["drain", "tell"]
"""
        agent = started(still_place, HANDLER + expected)
        event = still_place.event()
        still_place.wait_approved(event, "web_0")
        still_place.finish(event, agent)
        assert [step for step in WHOLE_LIFE if step != "handler"] == agent.told()
        assert [run[:2] for run in agent.did("done")] == [
            ("done", "prepare"),
            ("done", "recover"),
        ]
        assert [request.method for request in posts.came] == ["POST"]
    assert agent.status()["vm"] == "web_0"


def test_handler_is_stopped_at_its_timeout(place: Ground) -> None:
    agent = started(place)
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("stopped prepare drain").wait_stage(event, Stage.WITHHELD)
    task = agent.task(event)
    assert task is not None
    assert "timed out" in task.withheld
    assert place.approvals(event) == []


def test_agent_resumes_from_its_journal_and_refuses_a_second_agent(
    place: Ground,
) -> None:
    agent = started(place)
    event = place.event()
    place.wait_approved(event, "web_0")
    second = agent.run()
    assert second.returncode == 1
    assert f"process {agent.process.pid}" in second.stderr
    agent.kill()
    agent.again()
    agent.wait_stage(event, Stage.FINISHED)
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


@pytest.mark.parametrize(
    "arguments", [("check",), ("status",), ("install",), ("status", "--json")]
)
def test_agent_commands_work(place: Ground, arguments: tuple[str, ...]) -> None:
    agent = started(place)
    done = agent.run(*arguments)
    assert "Traceback" not in done.stderr
    if arguments == ("install",):
        assert "Task Scheduler" in done.stdout
    elif arguments == ("status", "--json"):
        assert json.loads(done.stdout)["vm"] == "web_0"


def test_simulated_platform_lacks_posix_modules() -> None:
    """Or the stories above would show nothing."""
    code = (
        "from tests.support import windows_like; windows_like.become_windows()\n"
        "from forewarn.agent.handlers import process\n"
        "import sys\n"
        "assert not hasattr(process.os, 'killpg') and not hasattr(process.signal,"
        " 'SIGKILL')\n"
        "assert process.os.getpid() and not process._HAS_GROUPS\n"
        "try:\n    import fcntl\nexcept ImportError:\n    sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
