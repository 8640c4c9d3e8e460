"""Starts of `forewarn serve`: VMs get responses first, despite other problems."""

import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers import shim
from tests.support.processes import FreshServing, Serving, eventually
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLEET = "".join(
    f"""
[[host]]
name = "h{number}"
[[vm]]
name = "vm_{number}"
host = "h{number}"
listen = "127.0.0.1:0"
"""
    for number in range(3)
)

BROKEN = {
    "syntax": "[[host",
    "meaning": FLEET + '[[vm]]\nname = "x"\nhost = "nil"\n',
    "missing": None,
}

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(
        fleet: str | None = FLEET, *, is_forked: bool = True, **settings: str
    ) -> Serving:
        kind = Serving if is_forked else FreshServing
        started.append(kind(tmp_path, fleet, **settings))
        return started[-1]

    yield begin
    (tmp_path / "go").touch()
    for service in started:
        service.process.kill()
        service.process.wait()


def words(script: str) -> str:
    """Return the setting of a shell program with the VM in `$1`."""
    return shlex.join(["/bin/sh", "-c", script, "program", "{vm}"])


def settings(directory: Path, **more: str) -> dict[str, str]:
    # The programs end with the test.
    wait = f"until test -e {directory}/go || ! test -d {directory}; do sleep 0.05; done"
    return {
        "driver_kind": "command",
        "driver_command_reboot": words(f'echo "$1" >> {directory}/begun; {wait}'),
        "timing_recovery": "200ms",
        **more,
    }


def order(service: Serving, *numbers: int) -> dict[int, str]:
    """Request a reboot of hosts and approve it; return the operations."""
    for number in numbers:
        service.document(f"vm_{number}")
        service.admin("/v1/maintain", {"hosts": [f"h{number}"], "impact": "reboot"})
        [event] = service.document(f"vm_{number}")["Events"]
        assert service.approve(f"vm_{number}", event["EventId"]) == 200
    return {
        number: service.admin(f"/v1/operations?vm=vm_{number}")["operations"][0][
            "operation"
        ]
        for number in numbers
    }


def operation(service: Serving, name: str) -> dict[str, Any]:
    return service.admin(f"/v1/operations/{name}")


def kill_all_shims(directory: Path, count: int) -> None:
    """Kill the processes that record exits, as in a power failure."""
    records = directory / "forewarn.db.command"
    files: list[Path] = []
    # A shim that is killed early does not record its program.
    for name in ("0.start", "0.program"):
        files += eventually(
            lambda what=name: list(records.glob(f"*/{what}")),
            lambda values: len(values) == count,
            what=name,
        )
    for file in files:
        pid = json.loads(file.read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: shim.identity(pid), lambda alive: alive is None)


def test_hanging_probes_delay_neither_the_start_nor_other_requests(
    start: Start, tmp_path: Path
) -> None:
    service = start(**settings(tmp_path)).wait_ready()
    names = order(service, 0, 1)
    begun = tmp_path / "begun"
    eventually(
        lambda: begun.read_text().split() if begun.exists() else [],
        lambda lines: len(lines) == 2,
        what="both programs",
    )
    service.kill()
    kill_all_shims(tmp_path, 2)
    hang = words(f'echo "$1" >> {tmp_path}/asked; exec sleep 600')
    service = start(**settings(tmp_path, driver_command_probe=hang)).wait_ready()
    # Documents, requests and explain work while the probes hang.
    for number in names:
        [event] = service.document(f"vm_{number}")["Events"]
        assert event["EventStatus"] == "Started"
    blockers = [operation(service, name)["blocked_by"] for name in names.values()]
    order(service, 2)
    assert eventually(
        lambda: [operation(service, name)["blocked_by"] for name in names.values()],
        lambda found: all("cannot tell whether" in item[0] for item in found),
        what="unknown outcomes",
    )
    assert all(
        "was asked for the outcome of call 1" in item[0]
        or "cannot tell whether" in item[0]
        for item in blockers
    )
    assert begun.read_text().split().count("vm_0") == 1
    assert service.terminate() == 0
    assert "Traceback" not in service.log()


@pytest.mark.long
def test_hung_observe_delays_no_other_report(start: Start, tmp_path: Path) -> None:
    observe = words(f'test "$1" = vm_0 && echo >> {tmp_path}/hung && exec sleep 600')
    service = start(**settings(tmp_path, driver_command_observe=observe)).wait_ready()
    names = order(service, 0, 1, 2)
    (tmp_path / "go").touch()
    eventually((tmp_path / "hung").exists, bool, what="a look that hangs")
    for number in (1, 2):
        eventually(
            lambda name=names[number]: operation(service, name)["state"],
            lambda state: state == "Done",
            what="the end of the others",
        )
    # It hangs for 10 s; after that the exit status of its program counts.
    eventually(
        lambda: operation(service, names[0])["state"],
        lambda state: state == "Done",
        what="the end of the first",
    )
    assert "Traceback" not in service.log()


@pytest.mark.parametrize("broken", some(BROKEN, usual=["meaning"]))
def test_stored_fleet_is_served_after_a_refused_fleet_file(
    start: Start, broken: str
) -> None:
    service = start().wait_ready()
    assert service.terminate() == 0
    service = start(BROKEN[broken]).wait_ready()
    assert service.document("vm_0")["Events"] == []
    health = service.admin("/readyz")
    assert health["ready"] is True
    [problem] = health["problems"]
    assert "was refused, and the stored fleet is used" in problem
    assert "fleet.toml" in problem
    assert "was refused, and the stored fleet is used" in service.log()
    # An accepted file ends the problem.
    service.admin("/v1/fleet/apply", {"text": FLEET})
    assert service.admin("/readyz")["problems"] == []
    assert service.terminate() == 0


@pytest.mark.parametrize("broken", some(BROKEN, usual=["missing"]))
def test_refused_fleet_file_without_a_stored_fleet_prevents_the_start(
    start: Start, broken: str
) -> None:
    service = start(BROKEN[broken], is_forked=False)
    assert service.ended() == 2
    assert "fleet.toml" in service.log()
    assert "Traceback" not in service.log()
