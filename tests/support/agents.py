"""Agents as real processes, their handlers, and what was done by either."""

import json
import signal
import socket
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

from forewarn.agent.core.model import Memory, NoteKind, Stage, Task
from forewarn.agent.journal import sqlite
from forewarn.agent.journal.port import JournalError
from forewarn.sim.loop import LoopThread
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.simulator import Terms
from forewarn.testing.client import HttpClient
from tests.support.forked import AGENT, Forked, Program, ran
from tests.support.processes import PATIENCE_SECONDS, eventually, http
from tests.support.pythons import THIS, Python
from tests.support.residents import SOON
from tests.support.simulators import ANYWHERE, Simulation, simulation

WHOLE_LIFE = [
    *("seen", "preparing", "handler", "prepared", "approved", "started", "gone"),
    *("recovering", "handler", "recovered"),
]
"""The history of an event that is prepared for, approved and recovered from."""


def approved_first(kinds: Sequence[str]) -> list[str]:
    """Return the kinds with the approval before the start, where they are neighbours.

    The event starts as the service takes the approval. The next poll may tell so before
    the answer to the approval has come.
    """
    ordered = list(kinds)
    for place in range(1, len(ordered)):
        if ordered[place - 1 : place + 1] == ["started", "approved"]:
            ordered[place - 1 : place + 1] = ["approved", "started"]
    return ordered


SPEED = 3_000.0
"""Speed of the simulator: a recovery of ten minutes takes a fifth of a second. An
explicit notice is not divided."""

_ACT = """
say() { echo "$1 $FOREWARN_PHASE $FOREWARN_HANDLER $FOREWARN_EVENT_ID" >> did; }
name=$FOREWARN_HANDLER.$FOREWARN_PHASE
say begun
trap 'say stopped; exit 7' TERM
while [ -e "$name.hold" ] || [ -e "$FOREWARN_EVENT_ID.$name.hold" ]; do sleep 0.02; done
[ -e "$name.fail" ] && { say failed; echo "it was made to fail"; exit 1; }
say done
"""
"""A handler that notes what it does, and is held up or fails where a file says so."""


class Did(NamedTuple):
    """A line that a handler has written."""

    what: str
    """begun, done, failed or stopped."""
    phase: str
    handler: str
    event_id: str


def handler(name: str, **more: object) -> str:
    """Return the settings of a handler that notes what it does."""
    keys: dict[str, object] = {
        "name": name,
        "kind": "exec",
        "prepare": ["/bin/sh", "act"],
        "recover": ["/bin/sh", "act"],
        **more,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items() if value]
    return "\n".join(["[[handler]]", 'directory = "DIRECTORY"', *lines, ""])


DRAIN = handler("drain")


CONFIG = ("--config", "agent.toml")


PORTS = range(20_000, 32_000)
"""Ports below those that Linux gives to connections and to listeners that ask for any:
no other program gets one of these between its choice and its use."""


def free_port(*, following: int = 0) -> int:
    """Return a port that no program uses now, as none of the `following` next ones is."""
    while True:
        # Not the shared generator: hypothesis seeds it alike in each worker.
        first = SystemRandom().choice(PORTS)
        with ExitStack() as stack:
            try:
                for port in range(first, first + following + 1):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first


class AgentProcess:
    """An agent in a VM, which may end and be started again on its journal."""

    def __init__(
        self,
        directory: Path,
        endpoint: str,
        settings: str = DRAIN,
        *,
        top: str = "",
        pages: bool = False,
        soon: str = SOON,
        python: Python = THIS,
    ) -> None:
        """Start it; `settings` are tables of agent.toml, `top` what comes before.

        `soon` is a table that makes events without an end soon over.
        """
        directory.mkdir(exist_ok=True)
        self._python = python
        self.directory = directory
        self.port = free_port() if pages else 0
        listen = f"127.0.0.1:{self.port}" if pages else ""
        head = (
            f'endpoint = "{endpoint}"\npoll = "100ms"\nstate = "agent.db"\n'
            f'listen = "{listen}"\nmargin = "500ms"\n'
        )
        soon = "" if "[gone_after]" in settings else soon
        text = f"{head}{top}\n{settings}{soon}".replace("DIRECTORY", str(directory))
        (directory / "agent.toml").write_text(text, encoding="utf-8")
        (directory / "act").write_text(_ACT, encoding="utf-8")
        self.process = self._started()

    def _started(self) -> Program:
        if self._python == THIS:
            log = self.directory / "log"
            return Forked(CONFIG, cwd=self.directory, log=log, program=AGENT)
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._python.agent, *CONFIG],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    # Its life

    def again(self, python: Python | None = None) -> None:
        """Start it once more, on what the last one left; maybe another release."""
        assert self.process.poll() is not None
        self._python = python or self._python
        self.process = self._started()

    def terminate(self) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it without a warning; its handlers live on."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the agent's with the same settings."""
        if self._python == THIS:
            return ran([*words, *CONFIG], cwd=self.directory, program=AGENT)
        return subprocess.run(
            [*self._python.agent, *words, *CONFIG],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    # Its handlers

    def hold(self, name: str) -> None:
        """Hold up what is called `drain.prepare` or `E1.drain.prepare`."""
        (self.directory / f"{name}.hold").touch()

    def release(self, name: str) -> None:
        (self.directory / f"{name}.hold").unlink()

    def fail(self, name: str) -> None:
        """Have what is called `drain.prepare` fail."""
        (self.directory / f"{name}.fail").touch()

    def did(self, what: str = "") -> list[Did]:
        """Return what handlers have noted, of one kind or all."""
        file = self.directory / "did"
        lines = file.read_text().splitlines() if file.exists() else []
        runs = [Did(*(*line.split(" "), "")[:4]) for line in lines]
        return [run for run in runs if not what or run.what == what]

    # Its output

    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """Return its log's lines."""
        return [json.loads(line) for line in self.log().splitlines() if line[:1] == "{"]

    def memory(self) -> Memory:
        """Return what its journal has."""
        try:
            return sqlite.read_memory(self.directory / "agent.db")
        except JournalError:
            return Memory()

    def task(self, event_id: str) -> Task | None:
        return self.memory().find(event_id)

    def told(self, event_id: str = "") -> list[str]:
        """Return the kinds of the notifications, the oldest first, without those of
        handlers.

        The approval is before the start (`approved_first`).
        """
        notes = sqlite.read_notes(self.directory / "agent.db", event_id=event_id)
        return approved_first(
            [
                note.kind.value
                for note in reversed(notes)
                if note.kind is not NoteKind.HANDLER
            ]
        )

    def page(self, path: str) -> tuple[int, Any]:
        """Return the answer of one of its pages that are JSON."""
        return http(f"http://127.0.0.1:{self.port}{path}")

    def sentence(self, path: str) -> tuple[int, str]:
        """Return the answer of one of its pages that are a sentence."""
        client = HttpClient(f"http://127.0.0.1:{self.port}", timeout_seconds=5)
        answer = client.ask("GET", path)
        return answer.status, answer.body.decode()

    def status(self) -> dict[str, Any]:
        return self.page("/status")[1]

    # Waiting

    def wait(
        self, is_right: Callable[["AgentProcess"], object], what: str = ""
    ) -> "AgentProcess":
        """Return when something is so; fail with the log if it never is."""

        def ask() -> bool:
            assert self.process.poll() is None, self.log()
            return bool(is_right(self))

        try:
            eventually(ask, bool, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.did()}\n{self.log()}") from None
        return self

    def wait_ready(self) -> "AgentProcess":
        """Return when it watches and knows its name."""
        return self.wait(lambda agent: agent.memory().has_polled, "a first document")

    def wait_did(self, *did: str) -> "AgentProcess":
        """Return when something was noted, such as `"begun prepare drain"`."""

        def has_done(agent: AgentProcess) -> bool:
            noted = [" ".join(run[:3]) for run in agent.did()]
            return all(noted.count(run) >= did.count(run) for run in did)

        return self.wait(has_done, f"{did}")

    def wait_stage(self, event_id: str, stage: Stage) -> "AgentProcess":
        """Return when an event stands so."""

        def is_there(agent: AgentProcess) -> bool:
            task = agent.task(event_id)
            return task is not None and task.stage is stage

        return self.wait(is_there, f"{event_id} {stage.value}")


class Ground:
    """A simulator with agents in its VMs."""

    def __init__(
        self, world: Simulation, directory: Path, python: Python = THIS
    ) -> None:
        self.world = world
        self.directory = directory
        self.python = python
        self.agents: list[AgentProcess] = []

    def agent(
        self, vm: str = "web_0", settings: str = DRAIN, **more: Any
    ) -> AgentProcess:
        """Start an agent in a VM."""
        agent = AgentProcess(
            self.directory / vm,
            more.pop("endpoint", self.world.url(vm)),
            settings,
            python=self.python,
            **more,
        )
        self.agents.append(agent)
        return agent

    def event(
        self,
        kind: str = "Reboot",
        vms: Sequence[str] = ("web_0",),
        *,
        notice: str = "1h",
        **more: object,
    ) -> str:
        """Publish an event by hand; return its id."""
        order = {"type": kind, "vms": list(vms), "notice": notice, **more}
        answer = self.world.sim("events", order)
        [operation] = answer["operations"]
        [event] = operation["events"]
        return event["EventId"]

    def move(self, event_id: str, to: str) -> None:
        """Advance an event: started, recovering, gone or cancelled."""
        self.world.sim(f"operations/{event_id}/move", {"to": to})

    def finish(self, event_id: str, agent: AgentProcess) -> None:
        """End an approved event that stands still, when the agent has seen it Started."""
        agent.wait(lambda agent: "started" in agent.told(event_id), "its start")
        self.move(event_id, "removed")
        agent.wait_stage(event_id, Stage.FINISHED)

    def posts(self, event_id: str = "", vm: str = "") -> list[dict[str, Any]]:
        """Return the approvals that came."""
        query = f"journal?method=POST&vm={vm}&event={event_id}"
        return self.world.sim(query)["requests"]

    def approvals(self, event_id: str) -> list[str]:
        """Return whose approvals of an event came, in their order."""
        return [post["vm"] for post in self.posts(event_id)]

    def wait_approved(self, event_id: str, *vms: str) -> None:
        """Return when these VMs have approved, in this order."""
        eventually(
            lambda: self.approvals(event_id), lambda values: len(values) >= len(vms)
        )
        assert self.approvals(event_id) == list(vms)

    def faults(self, line: str, vm: str = "") -> None:
        """Have answers go wrong."""
        self.world.sim("faults", {"faults": line, "vms": [vm] if vm else []})

    def clear(self) -> None:
        """Have them be good again."""
        self.world.sim("faults/clear", {})

    def end(self) -> None:
        for agent in self.agents:
            agent.process.kill()
            agent.process.wait()
            for held in agent.directory.glob("*.hold"):
                held.unlink()


@contextmanager
def ground(
    loop: LoopThread,
    directory: Path,
    *,
    fleet: str,
    speed: float = SPEED,
    python: Python = THIS,
) -> Generator[Ground]:
    """Have a simulator and agents for as long as the block takes."""
    terms = Terms(setup=Setup(fleet=fleet, speed=speed))
    with simulation(loop, terms, ANYWHERE) as world:
        new_ground = Ground(world, directory, python)
        try:
            yield new_ground
        finally:
            new_ground.end()
