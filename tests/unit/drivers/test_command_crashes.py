"""After a kill of the service at any moment, each program runs once."""

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.port import Call, CallVm, Report, Verdict
from forewarn.drivers.programs import Programs
from forewarn.protocol.operations import Action
from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

CALLS, VMS = 3, ("a", "b", "c")

SERVICE = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.drivers.test_command_crashes import begin_all, open_driver
driver = open_driver(Path(sys.argv[1]))
print("open", flush=True)
begin_all(driver)
threading.Event().wait()
"""


def open_driver(directory: Path) -> CommandDriver:
    """Open a driver whose programs write a line each."""
    command = (
        "/bin/sh",
        "-c",
        f'echo "$1" >> {directory}/log',
        "x",
        "{operation} {vm}",
    )
    return CommandDriver(
        Programs(actions={Action.REBOOT: command}, timeouts={}, parallel=2),
        records=directory / "records",
        clock=SystemClock(),
    )


def begin_all(driver: CommandDriver) -> None:
    """Begin some calls, as a service does again after a crash."""
    for number in range(CALLS):
        call = Call(
            operation_id=f"op-{number}",
            generation=1,
            action=Action.REBOOT,
            host="h1",
            vms=tuple(CallVm(vm=vm) for vm in VMS),
            duration_seconds=-1,
        )
        driver.begin(call, now=0)


@pytest.mark.parametrize("seed", range(6))
def test_each_program_runs_once_even_if_the_service_is_killed(
    tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    root = Path(__file__).resolve().parents[3]
    for _ in range(2):
        service = subprocess.Popen(
            [sys.executable, "-c", SERVICE, str(tmp_path), str(root)],
            stdout=subprocess.PIPE,
        )
        assert service.stdout is not None
        with service.stdout as stdout:
            assert stdout.readline() == b"open\n"
            # When it dies is the very thing that varies.
            threading.Event().wait(source.uniform(0, 0.4))
            service.send_signal(signal.SIGKILL)
            assert service.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    driver = open_driver(tmp_path)
    begin_all(driver)
    reports: list[Report] = []

    def collect() -> int:
        reports.extend(driver.reports(now=0))
        return len(reports)

    eventually(collect, lambda count: count == CALLS, what="the reports")
    driver.close()
    assert {report.verdict for report in reports} == {Verdict.DONE}
    assert sorted((tmp_path / "log").read_text().splitlines()) == sorted(
        f"op-{number} {vm}" for number in range(CALLS) for vm in VMS
    )
