"""The agent in the demo: it prepares, approves and recovers in one VM.

`forewarn agent` runs as in a VM, with a handler that removes the VM from a pool and adds
it again. The timeline shows the agent's notifications, which it writes to a file.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo_parts.clients import Vm
from demo_parts.timeline import Timeline

SETTINGS = """\
endpoint = "http://127.0.0.1:{port}"
poll = "200ms"                  # once a second is usual
state = "{directory}/agent.db"
listen = ""

[gone_after]
started = "1s"                  # 30 s are usual: here all goes faster

[[handler]]
name = "pool"
kind = "exec"
prepare = ["/bin/sh", "-c", "sleep 1; rm {pool}; echo out of the pool"]
recover = ["/bin/sh", "-c", "touch {pool}; echo back in the pool"]

[[notify]]
kind = "file"
path = "{directory}/told.jsonl"
"""

READY_SECONDS = 15
LOOK_SECONDS = 0.1
QUIET = {"seen", "started", "gone"}
"""Notifications that the timeline already shows from the VM's view."""


class Agent:
    """A running agent and its notifications."""

    def __init__(self, directory: Path, timeline: Timeline) -> None:
        """Read the notifications in this directory."""
        self.pool = directory / "in-the-pool"
        self._told = directory / "told.jsonl"
        self._timeline = timeline
        self._read = 0
        self.kinds: list[str] = []

    def look(self) -> None:
        """Show the notifications since the last call."""
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        for line in lines[self._read :]:
            told: dict[str, Any] = json.loads(line)
            self.kinds.append(told["kind"])
            if told["kind"] not in QUIET:
                what = " ".join(filter(None, (told["kind"], told["handler"])))
                detail = f": {told['detail']}" if told["detail"] else ""
                self._timeline.say("agent", f"  {what}{detail}")
        self._read = len(lines)

    def wait(self, kind: str, *, within: float) -> bool:
        """Wait for a notification."""
        return wait_for(lambda: self._has_told(kind), within)

    def _has_told(self, kind: str) -> bool:
        self.look()
        return kind in self.kinds


def wait_for(happened: Callable[[], bool], within: float) -> bool:
    """Wait until a condition holds; return whether it does."""
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(LOOK_SECONDS)
    return True


@contextmanager
def running(directory: Path, port: int, timeline: Timeline) -> Generator[Agent]:
    """Run `forewarn agent` in the VM whose metadata address has this port."""
    agent = Agent(directory, timeline)
    agent.pool.touch()
    settings = directory / "agent.toml"
    settings.write_text(
        SETTINGS.format(port=port, directory=directory, pool=agent.pool)
    )
    timeline.say("you", "$ forewarn agent --config agent.toml", bold=True)
    with (directory / "agent.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "forewarn", "agent", "--config", str(settings)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        is_up = wait_for(
            lambda: "this VM's name is" in (directory / "agent.log").read_text(),
            READY_SECONDS,
        )
        if not is_up:
            raise SystemExit(f"no agent:\n{(directory / 'agent.log').read_text()}")
        yield agent
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()


def play(
    order: Callable[..., Any],
    vm: Vm,
    *,
    place: tuple[Path, int],
    timeline: Timeline,
    within: float,
) -> None:
    """Restart the VM with the agent as its user."""
    timeline.head(f"5  The agent in {vm.name}: prepares, approves, recovers")
    with running(*place, timeline) as agent:
        order("reboot", vm.name)
        event = vm.wait_event("Scheduled", "Reboot", vm.name, within=within)
        timeline.check(
            "its handler prepares, and then it approves",
            seen=agent.wait("approved", within=within)
            and not agent.pool.exists()
            and agent.kinds.index("prepared") < agent.kinds.index("approved"),
        )
        timeline.check(
            "approved in time: it starts early",
            seen=vm.wait_status(event, "Started", within=within),
        )
        timeline.check(
            "the event is gone: the handler recovers",
            seen=vm.wait_gone(event, within=within)
            and agent.wait("recovered", within=within)
            and agent.pool.exists(),
        )
