"""Shocks of a machine during a campaign: processes are killed and the clock is set.

`test_campaign_kills` kills the service. Here it lives, and other things happen while the
program of a host waits: the operator API's process is killed, a driver program is killed,
and the wall clock is set forward and back.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import eventually
from tests.system.racks import NEW, Racks, twice
from tests.system.test_api_process import children

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOSTS = 4
FORWARD, BACK = 6 * 3_600.0, -30 * 3_600.0
"""Steps of the clock in seconds: further than a window, and than a day."""


class Shocks:
    """A campaign whose hosts with VMs wait in `work` until something has happened."""

    def __init__(self, directory: Path) -> None:
        self.racks = Racks(directory, HOSTS)
        self._offset = directory / "offset"
        self.set_clock(0)
        self.service = self.racks.begin(clock=str(self._offset))
        [self.api] = children(self.service.process.pid)
        for host in self.racks.hosts[1:]:
            self.racks.hold("work", host)
        self.racks.start(stages='[[campaign.stage]]\nhosts = "100%"\n')
        listed = self.service.admin("/v1/operations")["operations"]
        self.order = [host["host"] for host in listed if host["host"] != "h0"]

    def set_clock(self, seconds: float) -> None:
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(str(seconds), encoding="ascii")
        fresh.replace(self._offset)

    def kill_api(self) -> None:
        """Kill the process of the operator API, and wait for the next one."""
        os.kill(self.api, signal.SIGKILL)
        eventually(self._is_answering, bool, what="another API process")

    def _is_answering(self) -> bool:
        try:
            campaign = self.racks.campaign()
        except OSError:
            return False
        return campaign["state"] == "Running" and self.api not in children(
            self.service.process.pid
        )

    def step_clock(self, seconds: float, times: int) -> None:
        """Set the clock, and wait until the service has logged so many steps."""
        self.set_clock(seconds)
        eventually(
            self.service.log,
            lambda log: log.count("the wall clock was set") >= times,
            what="the step in the log",
        )

    def kill_program(self, host: str) -> None:
        """Kill the program that works on a host."""
        [process] = programs(self.racks.room / "program", "work", host)
        os.kill(process, signal.SIGKILL)

    def release(self, host: str) -> None:
        self.racks.release("work", host)


def programs(program: Path, step: str, host: str) -> list[int]:
    """Return the processes of a program of a step.

    A child of the shell has the same command line until it runs its own program.
    """
    wanted = f"{program}\0{step}\0{host}\0".encode()
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command_line = path.read_bytes()
            stat = path.with_name("stat").read_text("utf-8", "replace")
        except OSError:
            continue
        if command_line.startswith(b"/bin/sh\0" + wanted):
            parents[int(path.parent.name)] = int(stat.rpartition(")")[2].split()[1])
    return [pid for pid, parent in parents.items() if parent not in parents]


@pytest.fixture
def shocks(tmp_path: Path) -> Iterator[Shocks]:
    new_shocks = Shocks(tmp_path)
    yield new_shocks
    new_shocks.racks.end()


def ran(racks: Racks) -> Counter[tuple[str, str]]:
    """Return how often each host was worked on to its end, and entered."""
    return Counter(
        (line.step, line.host)
        for line in racks.journal()
        if line.what == "done" and line.step in {"enter", "drain", "work", "exit"}
    )


def test_a_campaign_outlives_killed_processes_and_steps_of_the_clock(
    shocks: Shocks,
) -> None:
    racks = shocks.racks
    first, second, third = shocks.order

    racks.wait_held("work", first)
    shocks.kill_api()
    shocks.release(first)

    racks.wait_held("work", second)
    shocks.step_clock(FORWARD, times=1)
    shocks.step_clock(BACK, times=2)
    shocks.release(second)

    racks.wait_held("work", third)
    shocks.step_clock(0, times=3)
    shocks.kill_program(third)
    failed = eventually(racks.campaign, lambda campaign: bool(campaign["failed"]))
    assert [failed["done"], failed["state"]] == [HOSTS - 1, "Running"], failed
    shocks.release(third)
    racks.order("retry", hosts=[third], reason="its program was killed")
    campaign = racks.wait_for("Done")
    assert campaign["done"] == HOSTS, campaign
    judge(racks)


def judge(racks: Racks) -> None:
    """Judge what the programs did, and the store of the dead service."""
    racks.services[-1].kill()
    steps: dict[tuple[str, str], int] = {
        (step, host): 1
        for host in racks.hosts
        for step in ("enter", "drain", "work", "exit")
        if (step, host) != ("drain", "h0")
    }
    done: dict[Any, int] = dict(ran(racks))
    # A host is entered again for another attempt, and its VM stays where it is.
    entered = {key: min(times, 1) for key, times in done.items() if key[0] == "enter"}
    assert done | entered == steps
    assert not twice(racks.journal()), "a program ran twice for one call"
    assert set(racks.firmware().values()) == {NEW}
    rows = racks.stored()
    assert not [name for name, host in rows.hosts.items() if host.cordons]
    for vm in rows.vms.values():
        events = [event for event in rows.events.values() if event.scope == vm.scope]
        assert len(events) == 1, f"{vm.name} got one notice"
