"""Real agents with a lock before the approval: who is away at the same time.

They are judged by the lock service, by the runs of handlers, and by the requests at the
endpoint. Agents that are killed in it are in `test_agent_lock_kills.py`.
"""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forewarn.agent.core.model import Consent, Stage
from forewarn.agent.core.permits import LockState
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.locks.directory import MARKER
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, ground
from tests.support.fake_fleetlock import FakeFleetLock, Odd
from tests.support.lock_benches import (
    EXPIRING,
    KINDS,
    Bench,
    DirectoryBench,
    FleetLockBench,
    bench_of,
    lock_of,
)
from tests.support.locked import Locked, judge_held, locked, spells
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.profiles import some
from tests.support.pythons import Python

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

VMS = tuple(f"web_{number}" for number in range(5))

FLEET = "".join(
    f'[[host]]\nname = "h_{vm}"\n[[vm]]\nname = "{vm}"\nhost = "h_{vm}"\n' for vm in VMS
)


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    with ground(loop, tmp_path, fleet=FLEET, python=python) as new_ground:
        yield new_ground


@pytest.fixture(params=some(KINDS, usual=["fleetlock"]))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(request.param, tmp_path) as new_bench:
        yield new_bench


@pytest.fixture(params=some(EXPIRING, usual=["consul"]))
def expiring(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(request.param, tmp_path) as new_bench:
        yield new_bench


@pytest.fixture
def fleetlock() -> Iterator[FleetLockBench]:
    with FakeFleetLock() as fake:
        yield FleetLockBench(fake)


def free(bench: Bench, group: str = "web") -> None:
    """Wait until the lock is free."""
    eventually(lambda: bench.holders(group), lambda found: found == set())


# How it goes


def test_number_of_vms_away_equals_the_number_of_slots(
    place: Ground, bench: Bench
) -> None:
    """All have an event at the same time; each holds the lock, recovers and pauses in
    turn."""
    agents = {
        vm: locked(place, vm, bench, holders=2, at_deadline="withhold") for vm in VMS
    }
    for agent in agents.values():
        agent.wait_lock(LockState.FREE)
    events = {vm: place.event("Reboot", [vm]) for vm in VMS}
    for vm, agent in agents.items():
        agent.wait_stage(events[vm], Stage.FINISHED)
        agent.wait_lock(LockState.FREE)
        assert place.approvals(events[vm]) == [vm]
    assert max(len(holders) for _, holders in bench.past()) == 2
    for vm, agent in agents.items():
        judge_held(bench, agent, vm)
        task = agent.task(events[vm])
        assert task is not None
        [(_, released)] = spells(bench, vm)
        # The pause is counted by the agent: a file system's clock is a tick behind.
        assert released >= task.over + 300 * MILLISECOND - SECOND // 50


def test_two_agents_with_one_slot_take_turns(place: Ground, bench: Bench) -> None:
    first = locked(place, "web_0", bench)
    second = locked(place, "web_1", bench)
    first.hold("drain.recover")
    event = place.event("Reboot", ["web_0"])
    first.wait_did("begun recover drain")
    other = place.event("Reboot", ["web_1"])
    second.wait_stage(other, Stage.PREPARED)
    refusal = second.wait_refused()
    assert "web_0" in refusal or "slots" in refusal
    message = second.command("status").stdout
    assert f"waits for the {second.memory().lock.label}" in message
    assert refusal in message
    assert place.approvals(other) == []
    first.release("drain.recover")
    second.wait_stage(other, Stage.FINISHED)
    free(bench)
    for vm, agent in (("web_0", first), ("web_1", second)):
        judge_held(bench, agent, vm)
    assert place.approvals(event) == ["web_0"]
    assert place.approvals(other) == ["web_1"]


@pytest.mark.parametrize("then", ["approve", "withhold"])
def test_busy_lock_delays_the_approval_only_until_its_deadline(
    place: Ground, fleetlock: FleetLockBench, then: str
) -> None:
    assert lock_of(fleetlock).take("another", context_for(30, SystemClock())).is_held
    # Two seconds until the deadline; who withholds waits for NotBefore, too.
    notice, margin = ("20s", "18s") if then == "approve" else ("6s", "4s")
    agent = locked(place, "web_0", fleetlock, at_deadline=then, margin=margin)
    agent.wait_ready()
    event = place.event("Reboot", ["web_0"], notice=notice)
    agent.wait_refused()
    agent.wait_stage(event, Stage.FINISHED)
    task = agent.task(event)
    assert task is not None
    if then == "approve":
        assert place.approvals(event) == ["web_0"]
        assert "not available in time, so approved without it" in agent.log()
    else:
        # The event started at NotBefore, and was recovered from anyway.
        assert place.approvals(event) == []
        assert task.consent is Consent.NONE
    assert agent.wait_did("done recover drain")
    # It did not have the lock, so it took it from no other VM.
    assert fleetlock.holders() == {"another"}


def test_hanging_server_does_not_delay_past_the_deadline(
    place: Ground, fleetlock: FleetLockBench
) -> None:
    agent = locked(place, "web_0", fleetlock, margin="18s", timeout="2m")
    agent.wait_lock(LockState.FREE)
    fleetlock.fake.odd = [Odd(hangs_seconds=PATIENCE_SECONDS)]
    event = place.event("Reboot", ["web_0"], notice="20s")
    place.wait_approved(event, "web_0")
    assert "not available in time, so approved without it" in agent.log()
    agent.wait_stage(event, Stage.FINISHED)
    # It ends with a request that hangs, and knows later that it may have the lock.
    assert agent.terminate() == 0
    agent.again()
    agent.wait_lock(LockState.FREE)
    assert fleetlock.holders() == set()


# The lock service is unreachable


def test_unreachable_lock_is_waited_for_in_each_phase(
    place: Ground, bench: Bench
) -> None:
    agent = locked(place, "web_0", bench, at_deadline="withhold")
    agent.wait_lock(LockState.FREE)
    agent.hold("drain.recover")
    with bench.away():
        event = place.event("Reboot", ["web_0"])
        trouble = agent.wait_trouble()
        agent.wait_stage(event, Stage.PREPARED)
        assert place.posts(event) == []
        assert trouble in agent.command("status").stdout
    agent.wait_did("begun recover drain")
    assert bench.holders() == {"web_0"}
    # An agent that begins confirms the lock that it holds.
    agent.kill()
    with bench.away():
        agent.again()
        agent.wait_trouble()
        assert agent.memory().lock.state is LockState.HELD
    agent.wait(lambda agent: not agent.memory().lock.trouble)
    with bench.away():
        agent.release("drain.recover")
        agent.wait_stage(event, Stage.FINISHED)
        agent.wait_lock(LockState.RELEASING)
        agent.wait_trouble()
    agent.wait_lock(LockState.FREE)
    assert bench.holders() == set()
    judge_held(bench, agent, "web_0")
    assert place.approvals(event) == ["web_0"]
    assert [run[:2] for run in agent.did()] == [
        ("begun", "prepare"),
        ("done", "prepare"),
        ("begun", "recover"),
        ("done", "recover"),
    ]


# A holder that never returns


def gone_for_good(place: Ground, bench: Bench) -> tuple[Locked, Locked, str]:
    """Have an agent that never comes back hold the lock, and another wait for it."""
    lost = locked(place, "web_0", bench)
    other = locked(place, "web_1", bench)
    lost.hold("drain.recover")
    place.event("Reboot", ["web_0"])
    lost.wait_did("begun recover drain")
    lost.kill()
    event = place.event("Reboot", ["web_1"])
    other.wait_stage(event, Stage.PREPARED)
    other.wait_refused()
    assert bench.holders() == {"web_0"}
    return lost, other, event


def test_slot_of_a_vm_that_never_returns_expires(
    place: Ground, expiring: Bench
) -> None:
    lost, other, event = gone_for_good(place, expiring)
    assert place.approvals(event) == []
    expiring.let_expire()
    other.wait_stage(event, Stage.FINISHED)
    assert place.approvals(event) == ["web_1"]
    # It comes back after all, and takes nothing from others.
    lost.release("drain.recover")
    lost.again()
    lost.wait(lambda agent: agent.memory().tasks[0].stage is Stage.FINISHED)
    free(expiring)


def test_slot_that_cannot_expire_is_released_by_hand(
    place: Ground, fleetlock: FleetLockBench
) -> None:
    _, other, event = gone_for_good(place, fleetlock)
    assert place.approvals(event) == []
    body = {"client_params": {"id": "web_0", "group": "web"}}
    request = urllib.request.Request(
        f"{fleetlock.fake.url}/v1/steady-state",
        data=json.dumps(body).encode(),
        headers={"fleet-lock-protocol": "true"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 200
    other.wait_stage(event, Stage.FINISHED)
    assert place.approvals(event) == ["web_1"]
    free(fleetlock)


# A directory that takes no files

SMALL_KIB = 64
"""The size of the file system of the directory."""


@pytest.fixture
def small(place: Ground, tmp_path: Path) -> "Small":
    """Have an agent whose lock is in a small file system that it alone sees."""
    trial = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    programs = ("unshare", "nsenter", "mount")
    if missing := [name for name in programs if not shutil.which(name)]:
        pytest.skip(f"needs {' and '.join(missing)}")
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs a user namespace: {done.stderr.strip()}")
    return Small(place, DirectoryBench(tmp_path))


class Small:
    """An agent, and the small file system of its lock."""

    def __init__(self, place: Ground, bench: DirectoryBench) -> None:
        directory = bench.directory
        mount = f"mount -t tmpfs -o size={SMALL_KIB}k tmpfs {directory}"
        mount += f" && touch {directory / MARKER}"
        under = ("unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', "sh")
        self.agent = locked(place, "web_0", bench, under=under, at_deadline="withhold")
        self.agent.wait_lock(LockState.FREE)
        self._under = ["nsenter", "-t", f"{self.agent.process.pid}", "-U", "-m"]
        self._directory = directory
        self._python = place.python
        # As seen from outside.
        root = Path(f"/proc/{self.agent.process.pid}/root")
        self.seen = DirectoryBench(root / directory.parent.relative_to("/"))

    def fill(self) -> None:
        """Write until nothing more fits."""
        file = self.seen.directory / "filler"
        with suppress(OSError), file.open("ab", buffering=0) as filler:
            while True:
                filler.write(b"x" * 1024)

    def make_room(self) -> None:
        (self.seen.directory / "filler").unlink()

    def mount(self, mode: str) -> None:
        arguments = [*self._under, "--preserve-credentials"]
        arguments += ["mount", "-o", f"remount,{mode}", str(self._directory)]
        subprocess.run(arguments, check=True, capture_output=True)

    def unmount(self) -> None:
        """Take the file system away, as with a share whose server has gone."""
        (self.below / MARKER).unlink()
        arguments = [*self._under, "--preserve-credentials", "umount", "-l"]
        subprocess.run(
            [*arguments, str(self._directory)], check=True, capture_output=True
        )

    @property
    def below(self) -> Path:
        """Return the directory that is there where nothing is mounted."""
        return self._directory

    def check(self) -> str:
        """Return what `check` says there."""
        python = self._python.agent
        arguments = [
            *self._under,
            "--preserve-credentials",
            f"--wd={self.agent.directory}",
        ]
        done = subprocess.run(
            [*arguments, *python, "check", "--config", "agent.toml"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_unwritable_lock_directory_is_reported_and_awaited(
    place: Ground, small: Small, how: str
) -> None:
    agent = small.agent
    message = "No space left on device" if how == "full" else "Read-only file system"

    def spoil() -> None:
        small.fill() if how == "full" else small.mount("ro")

    def fix() -> None:
        small.make_room() if how == "full" else small.mount("rw")

    agent.hold("drain.recover")
    spoil()
    event = place.event("Reboot", ["web_0"])
    assert message in agent.wait_trouble()
    agent.wait_stage(event, Stage.PREPARED)
    assert place.posts(event) == []
    assert message in small.check()
    fix()
    agent.wait_did("begun recover drain")
    assert small.seen.holders() == {"web_0"}
    spoil()
    agent.release("drain.recover")
    agent.wait_stage(event, Stage.FINISHED)
    agent.wait_lock(LockState.RELEASING)
    assert message in agent.wait_trouble()
    assert small.seen.holders() == {"web_0"}
    fix()
    agent.wait_lock(LockState.FREE)
    assert small.seen.holders() == set()
    # Drafts that could not be written are not left behind.
    names = {path.name for path in small.seen.directory.iterdir()} - {MARKER}
    assert all(name.startswith("web.") for name in names), names


def test_unmounted_share_gives_no_lock(place: Ground, small: Small) -> None:
    """The directory below the mount is empty, and takes files."""
    agent = small.agent
    small.unmount()
    event = place.event("Reboot", ["web_0"])
    assert "is the share mounted?" in agent.wait_trouble()
    agent.wait_stage(event, Stage.PREPARED)
    assert place.posts(event) == []
    assert "is the share mounted?" in small.check()
    assert not list(small.below.glob("web.*"))
