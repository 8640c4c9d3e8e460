"""`kill -9` at random instants under load: every response stays true.

The programs of the driver record their actions and are not killed, like a hypervisor.
`--kills=100` searches longer.
"""

import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from forewarn.instants import SECOND
from tests.support.processes import Serving
from tests.system.aftermath import end_all, judge
from tests.system.conftest import KILLED
from tests.system.crowd import Crowd, fleet

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.amounts]

LIFE_SECONDS = (0.1, 1.2)
"""Seconds from readiness to the kill."""
BIRTH_SECONDS = (0.02, 0.4)
"""Seconds from the start to the kill, if it is killed during the start. Its modules are
loaded already, so most of this time it opens its store and begins to serve."""
BIRTHS = 0.2
"""The share of kills during the start."""

OFFSETS = (-20.0, -3.0, 0.0, 3.0, 20.0)
"""Seconds of a step of the wall clock; notices last one second."""

LIVES_PER_KILL_MAX = 10
"""Maximum lives of a run until it has as many approvals and requests as kills."""

PROGRAM = """
printf 'begun %s %s %s\\n' "$1" "$2" "$3" >> "$0.log"
sleep 0.1
printf 'done %s %s %s\\n' "$1" "$2" "$3" >> "$0.log"
"""

ACTIONS = ("freeze", "live_migrate", "reboot", "redeploy", "reimage", "delete")


class Lives:
    """A sequence of services with the same store."""

    def __init__(self, directory: Path, seed: int, *, is_stepped: bool = False) -> None:
        """Start without a service; with `is_stepped`, the wall clock is set at random."""
        self.directory = directory
        self._offset = directory / "offset" if is_stepped else None
        self.set_clock(0)
        self.rng = Random(seed)
        self.crowd = Crowd(seed)
        self.services: list[Serving] = []
        program = directory / "program"
        program.write_text(PROGRAM)
        command = ["/bin/sh", str(program), "{vm}", "{operation}", "{generation}"]
        self._settings = {
            "metadata_listen": "127.0.0.1:0",
            "metadata_rate_limit": "100000",
            # A notice of 15 minutes is one second, and a recovery a third of one.
            "timing_speed": "900",
            "timing_recovery": "5m",
            "driver_kind": "command",
            **{f"driver_command_{name}": shlex.join(command) for name in ACTIONS},
        }

    def begin(self) -> Serving:
        """Start a service with the store of the last one."""
        text, clock = fleet(self.crowd.lives), str(self._offset or "")
        self.services.append(
            Serving(self.directory, text, clock=clock, **self._settings)
        )
        return self.services[-1]

    @property
    def is_stepped(self) -> bool:
        """Return whether the wall clock is set in this life."""
        return self._offset is not None

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock of the services."""
        if self._offset is not None:
            fresh = self._offset.with_suffix(".new")
            fresh.write_text(str(seconds), encoding="ascii")
            fresh.replace(self._offset)

    def _step(self) -> None:
        """Set the wall clock forward or back, if it is stepped in this life."""
        if self._offset is not None:
            seconds = self.rng.choice(OFFSETS)
            self.crowd.ahead = max(self.crowd.ahead, round(seconds * SECOND))
            sys.stderr.write(f"the clock is off by {seconds} s\n")
            self.set_clock(seconds)

    def live_and_die(self) -> None:
        """Start a service, load it, and kill it."""
        service = self.begin()
        if self.crowd.lives and self.rng.random() < BIRTHS:
            self._wait(service, "after its start", self.rng.uniform(*BIRTH_SECONDS))
            self.crowd.lives += 1
            return
        service.wait_ready()
        self.crowd.meet(service)
        self._wait(service, "after ready", self.rng.uniform(*LIFE_SECONDS))
        self.crowd.part()

    def _wait(self, service: Serving, since: str, seconds: float) -> None:
        threading.Event().wait(seconds / 2)
        self._step()
        threading.Event().wait(seconds / 2)
        assert service.process.poll() is None, service.log()
        service.kill()
        # Shown where the test fails.
        sys.stderr.write(f"life {self.crowd.lives}: killed {seconds:.3f} s {since}\n")
        assert "Traceback" not in service.log(), service.log()
        self._step()

    def judge(self) -> None:
        """Check the store of the dead service."""
        judge(
            self.directory / "forewarn.db", self.crowd, self.directory / "program.log"
        )


@pytest.fixture(params=[False, True], ids=["steady", "stepped"])
def lives(
    tmp_path: Path, kill_seed: int, request: pytest.FixtureRequest
) -> Iterator[Lives]:
    new_lives = Lives(tmp_path, kill_seed, is_stepped=request.param)
    yield new_lives
    for service in new_lives.services:
        service.process.kill()
        service.process.wait()


def test_approvals_and_requests_survive_every_kill(
    lives: Lives,
    kills: int,
    kill_seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    if lives.is_stepped:
        kills //= 2
    crowd, done = lives.crowd, 0
    # On a slow machine, some lives end before anything is approved.
    while done < kills or min(len(crowd.acknowledged), crowd.given.total()) < kills:
        lives.live_and_die()
        lives.judge()
        done += 1
        assert done < LIVES_PER_KILL_MAX * kills, "too few approvals to tell anything"
    # All operations that wait for NotBefore can start.
    lives.set_clock(max(OFFSETS))
    service = lives.begin().wait_ready()
    end_all(lambda: service)
    assert service.terminate() == 0
    assert "Traceback" not in service.log()
    lives.judge()
    orders = ", ".join(f"{verb} {count}" for verb, count in sorted(crowd.given.items()))
    record_property(
        KILLED,
        f"{done} kills, seed {kill_seed}{', clock stepped' * lives.is_stepped}: {len(crowd.acknowledged)} approvals and "
        f"{sum(crowd.given.values())} orders outlived them ({orders})",
    )
