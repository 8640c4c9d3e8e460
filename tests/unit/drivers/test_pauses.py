"""Pauses of VMs: which drivers measure them, and which do not."""

import pytest

from forewarn.drivers import program_output
from forewarn.drivers.port import Call, CallVm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import CALL_DURATIONS
from forewarn.instants import HOUR, MILLISECOND, SECOND, Micros
from forewarn.protocol.operations import KEEPING_ACTIONS, MOVING_ACTIONS, Action
from tests.unit.drivers.test_command import Bench, bench, call_of, report_of

__all__ = ["bench"]


@pytest.mark.parametrize(
    ("output", "pause"),
    [
        ("", None),
        ("paused: 850ms\n", 850 * MILLISECOND),
        ("paused:2s", 2 * SECOND),
        ("moving\npaused: 1.5s\r\ndone\n", 1500 * MILLISECOND),
        ("paused: 1s\npaused: 3s\n", 3 * SECOND),
        ("paused: 0\n", 0),
        ("paused: soon\n", None),
        ("it was paused: 1s\n", None),
        ("paused: 1s or so\n", None),
        ("paused: -1s\n", None),
        ("Paused: 1s\n", None),
    ],
)
def test_program_reports_a_pause_on_a_separate_line(
    output: str, pause: Micros | None
) -> None:
    assert program_output.pause_in(output) == pause


def test_program_reports_the_pause_of_its_vm(bench: Bench) -> None:
    driver = bench.open('test "$1" = web_1 || echo "paused: 850ms"')
    driver.begin(call_of("web_0", "web_1", action=Action.FREEZE), now=0)
    assert report_of(driver).paused == (("web_0", 850 * MILLISECOND),)


def test_failed_call_has_no_pause(bench: Bench) -> None:
    driver = bench.open('echo "paused: 850ms"; exit 1')
    driver.begin(call_of(action=Action.FREEZE), now=0)
    assert report_of(driver).paused == ()


@pytest.mark.parametrize("action", list(CALL_DURATIONS))
def test_a_simulated_pause_is_as_long_as_its_call(action: Action) -> None:
    driver = SimulatedDriver()
    to_host = "h2" if action in MOVING_ACTIONS else ""
    driver.begin(
        Call(
            operation_id="op-1",
            generation=1,
            action=action,
            host="h1",
            vms=(CallVm(vm="a", to_host=to_host), CallVm(vm="b", to_host=to_host)),
            duration_seconds=-1,
        ),
        now=0,
    )
    [report] = driver.reports(now=HOUR)
    measured = dict.fromkeys(("a", "b"), CALL_DURATIONS[action])
    assert dict(report.paused) == (measured if action in KEEPING_ACTIONS else {})


@pytest.mark.parametrize(
    ("output", "host"),
    [
        ("", ""),
        ("vm-host: h2\n", "h2"),
        ("moving\nvm-host:h2\r\ndone", "h2"),
        ("vm-host: h1\nvm-host: h2\n", "h2"),
        ("the vm-host: h2\n", ""),
        ("vm-host: h2 or h3\n", ""),
        ("vm-host: -rf\n", ""),
        ("vm-host: a/b\n", ""),
    ],
)
def test_program_reports_the_host_of_its_vm_on_a_separate_line(
    output: str, host: str
) -> None:
    assert program_output.host_in(output) == host
