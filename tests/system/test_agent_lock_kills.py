"""`kill -9` of a real agent wherever it waits for the lock, holds it or releases it.

One simulator has a VM for each place where an agent dies, with a lock of its own, which
another holder has at first. The same is enumerated with fakes, at each write of the
journal, in `tests/unit/agent/locks/test_crashes.py`.
"""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from forewarn.agent.core import steps
from forewarn.agent.core.model import Consent, Stage
from forewarn.agent.core.permits import LockState
from forewarn.agent.handlers.run_context import context_for
from forewarn.clock import SystemClock
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, ground
from tests.support.lock_benches import KINDS, Bench, bench_of, lock_of
from tests.support.locked import Locked, judge_held, locked
from tests.support.processes import eventually
from tests.support.profiles import amounts
from tests.support.pythons import Python

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.clause("8.8"),
    pytest.mark.amounts,
]

WAITING = (
    *("wanted before", "wanted after"),
    *("TakeLock before", "TakeLock after", "refused answered"),
)
"""The points at which an agent is killed while another holds the lock; `locked` defines
them."""

LATER = (
    *("taken answered", "held before", "held after", "approve before"),
    *("pausing before", "pausing after", "releasing before", "releasing after"),
    *("ReleaseLock before", "ReleaseLock after", "free before", "free after"),
)

RIVAL = "another"


def vm_of(death: str) -> str:
    return death.replace(" ", "_")


FLEET = "".join(
    f'[[host]]\nname = "h_{vm_of(death)}"\n'
    f'[[vm]]\nname = "{vm_of(death)}"\nhost = "h_{vm_of(death)}"\n'
    for death in (*WAITING, *LATER)
)


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    with ground(loop, tmp_path, fleet=FLEET, python=python) as new_ground:
        yield new_ground


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bench(kind: str, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(kind, tmp_path) as new_bench:
        yield new_bench


@pytest.fixture
def deaths(kind: str) -> Sequence[str]:
    """Return the places for the kind of lock: in a usual run, each is of one kind.

    The kinds differ in what they ask their server, which `test_crashes.py` enumerates.
    """
    step = amounts().deaths
    return (*WAITING, *LATER)[KINDS.index(kind) % step :: step]


def group_of(death: str) -> str:
    return death.replace(" ", "-").lower()


class Company:
    """An agent for each place where one dies."""

    def __init__(self, place: Ground, bench: Bench, deaths: Sequence[str]) -> None:
        self.place = place
        self.deaths = deaths
        self.bench = bench
        self.agents: dict[str, Locked] = {}
        for death in deaths:
            self.agents[death] = locked(
                place,
                vm_of(death),
                bench,
                group=group_of(death),
                dies=death,
                at_deadline="withhold",
            )
        for death, agent in self.agents.items():
            agent.wait_lock(LockState.FREE)
            rival = lock_of(bench, group_of(death))
            assert rival.take(RIVAL, context_for(30, SystemClock())).is_held
            (agent.directory / "armed").touch()
        self.events = {
            death: place.event("Reboot", [vm_of(death)]) for death in self.agents
        }

    def revive(self) -> None:
        """Start again what was killed."""
        for agent in self.agents.values():
            status = agent.process.poll()
            if status is not None:
                assert status == -signal.SIGKILL, agent.log()
                agent.again()

    def have_died(self, *deaths: str) -> bool:
        return all((self.agents[death].directory / "died").exists() for death in deaths)

    def all_wait(self) -> bool:
        """Return whether all wait for the lock, after those that die in it have."""
        self.revive()
        return self.have_died(
            *(moment for moment in WAITING if moment in self.deaths)
        ) and all(
            agent.process.poll() is None and agent.memory().lock.refusal
            for agent in self.agents.values()
        )

    def all_are_done(self) -> bool:
        self.revive()
        return self.have_died(*self.deaths) and all(
            agent.process.poll() is None
            and agent.memory().lock.state is LockState.FREE
            and all(task.stage is Stage.FINISHED for task in agent.memory().tasks)
            for agent in self.agents.values()
        )

    def judge(self, death: str) -> None:
        agent, vm, group = self.agents[death], vm_of(death), group_of(death)
        description = f"{death}: {agent.did()}\n{agent.log()}"
        judge_held(self.bench, agent, vm, group)
        assert self.bench.holders(group) == set(), description
        [task] = agent.memory().tasks
        assert list(steps.unrecovered(task)) == [], description
        assert task.consent is Consent.GIVEN, description
        assert [run[:2] for run in agent.did()] == [
            ("begun", "prepare"),
            ("done", "prepare"),
            ("begun", "recover"),
            ("done", "recover"),
        ], description
        approvals = self.place.approvals(self.events[death])
        assert 1 <= len(approvals) <= 2, description
        assert set(approvals) == {vm}, description


@pytest.mark.timeout(240)
def test_agent_killed_at_any_point_is_away_only_with_the_lock_and_releases_it(
    place: Ground, bench: Bench, deaths: Sequence[str]
) -> None:
    company = Company(place, bench, deaths)
    eventually(company.all_wait, bool, what="all who wait for the lock")
    assert place.posts() == []
    for death in company.agents:
        lock_of(bench, group_of(death)).release(RIVAL, context_for(30, SystemClock()))
    eventually(company.all_are_done, bool, what="the end of all events")
    for death in company.agents:
        company.judge(death)
