"""`kill -9` of a real agent at each save of its journal, before it and after it.

One simulator has a VM for each place where an agent dies, so that all die at once.
The next agents are judged by the runs of handlers and by the requests at the endpoint.
The same is enumerated with fakes, a reboot and a lost journal in
`tests/unit/agent/test_crashes.py`.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forewarn.agent.core import steps
from forewarn.agent.core.model import Consent, Memory, Stage
from forewarn.sim.loop import LoopThread
from tests.support.agents import CONFIG, DRAIN, AgentProcess, Ground, ground, handler
from tests.support.forked import Forked, Program
from tests.support.processes import eventually
from tests.support.pythons import THIS, Python

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.clause("8.8")]

SAVES = 8
"""Maximum saves of a life with one event; an agent with fewer is not killed."""

DYING = """
import os, signal, sys
from forewarn.agent.journal.sqlite import SqliteJournal
at, when = int(sys.argv.pop(1)), sys.argv.pop(1)
count, save = 0, SqliteJournal.save
def dying(journal, memory, notes=()):
    global count
    count += 1
    if count == at and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    save(journal, memory, notes)
    if count == at:
        os.kill(os.getpid(), signal.SIGKILL)
SqliteJournal.save = dying
from forewarn.agent.__main__ import main
from forewarn.agent import unload
unload.shed = lambda: None
sys.exit(main(sys.argv[1:]))
"""
"""An agent that dies at its n-th save."""


@dataclass(frozen=True)
class Death:
    """The point at which an agent is killed."""

    at: int
    when: str

    @property
    def vm(self) -> str:
        return f"{self.when}_{self.at}"


DEATHS = [Death(at, when) for at in range(1, SAVES + 1) for when in ("before", "after")]

FLEET = "".join(
    f'[[host]]\nname = "h_{death.vm}"\n'
    f'[[vm]]\nname = "{death.vm}"\nhost = "h_{death.vm}"\n'
    for death in DEATHS
)


class Mortal(AgentProcess):
    """An agent whose first life ends at a save."""

    def __init__(
        self, directory: Path, endpoint: str, death: Death, python: Python
    ) -> None:
        self.death: Death | None = death
        super().__init__(directory, endpoint, DRAIN, python=python)

    def _started(self) -> Program:
        if self.death is None:
            return super()._started()
        arguments = (str(self.death.at), self.death.when, *CONFIG)
        self.death = None
        if self._python == THIS:
            log = self.directory / "log"
            return Forked(arguments, cwd=self.directory, log=log, program=DYING)
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._python.script(DYING), *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    with ground(loop, tmp_path, fleet=FLEET, python=python) as new_ground:
        yield new_ground


@pytest.mark.timeout(120)
def test_handlers_run_once_and_are_undone_after_a_kill_at_any_save(
    place: Ground,
) -> None:
    agents = {
        death: Mortal(
            place.directory / death.vm, place.world.url(death.vm), death, place.python
        )
        for death in DEATHS
    }
    place.agents += agents.values()
    events = {death: place.event("Reboot", [death.vm]) for death in DEATHS}
    died: set[Death] = set()

    def revive() -> bool:
        """Restart killed agents; return whether all have finished."""
        for death, agent in agents.items():
            status = agent.process.poll()
            if status is not None:
                assert status == -signal.SIGKILL, agent.log()
                died.add(death)
                agent.again()
        return all(is_over(agent, events[death]) for death, agent in agents.items())

    eventually(revive, bool, what="the end of all events")
    # Simultaneous changes are saved together, so a life can have fewer saves.
    assert len(died) >= len(DEATHS) - 4, sorted(death.vm for death in died)
    for death, agent in agents.items():
        judge(place, agent, death, events[death])


def is_over(agent: AgentProcess, event: str) -> bool:
    task = agent.task(event)
    return task is not None and task.stage is Stage.FINISHED


def judge(place: Ground, agent: AgentProcess, death: Death, event: str) -> None:
    """Judge what became of one event, of which an agent died."""
    description = f"{death.vm}: {agent.did()}\n{agent.log()}"
    task = agent.task(event)
    assert task is not None
    assert list(steps.unrecovered(task)) == [], description
    # It may have started before the answer was written down.
    assert task.consent in {Consent.GIVEN, Consent.WANTED}, description
    # No program went down with its agent, so none is run twice.
    assert [run[:2] for run in agent.did()] == [
        ("begun", "prepare"),
        ("done", "prepare"),
        ("begun", "recover"),
        ("done", "recover"),
    ], description
    approvals = place.approvals(event)
    assert 1 <= len(approvals) <= 2, description
    assert set(approvals) == {death.vm}, description


# Lost state


def test_a_program_that_was_killed_with_its_agent_is_run_again(
    lone_place: Ground,
) -> None:
    """As in a VM that stops: its progress is unknown."""
    agent = lone_place.agent().wait_ready()
    agent.hold("drain.prepare")
    event = lone_place.event()
    agent.wait_did("begun prepare drain")
    agent.kill()
    [directory] = (agent.directory / "agent.db.runs").iterdir()
    group = int((directory / "claim").read_text().split()[0])
    os.killpg(group, signal.SIGKILL)
    agent.release("drain.prepare")
    agent.again()
    agent.wait_stage(event, Stage.FINISHED)
    assert [run[:2] for run in agent.did()] == [
        ("begun", "prepare"),
        ("begun", "prepare"),
        ("done", "prepare"),
        ("begun", "recover"),
        ("done", "recover"),
    ]
    assert lone_place.approvals(event) == ["web_0"]


@pytest.fixture
def lone_place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    fleet = '[[host]]\nname = "h0"\n[[vm]]\nname = "web_0"\nhost = "h0"\n'
    with ground(loop, tmp_path, fleet=fleet, python=python) as new_ground:
        yield new_ground


def test_lost_journal_runs_unconditional_recovery_once(
    lone_place: Ground,
) -> None:
    """As after a redeploy, where the VM's disk is a new one."""
    settings = handler("mount", always="-").replace('"-"', "true") + DRAIN
    agent = lone_place.agent(settings=settings)
    agent.wait_did("done recover mount")
    agent.wait(lambda agent: not agent.memory().lost_journal)
    agent.kill()
    agent.again()
    agent.wait(lambda agent: len(agent.log().split("watching ")) == 3)
    event = lone_place.event()
    agent.wait_stage(event, Stage.FINISHED)
    assert [run for run in agent.did("begun") if not run.event_id] == [
        ("begun", "recover", "mount", "")
    ]
    # The disk goes, and the VM with it, while it is prepared.
    following = lone_place.event()
    agent.hold("drain.prepare")
    agent.wait_did("begun prepare drain", "begun prepare drain")
    agent.kill()
    for file in agent.directory.glob("agent.db*"):
        if file.is_file():
            file.unlink()
    assert agent.memory() == Memory()
    lone_place.move(following, "removed")
    agent.release("drain.prepare")
    agent.again()
    agent.wait(lambda agent: len([d for d in agent.did("done") if not d.event_id]) == 2)
