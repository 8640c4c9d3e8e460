"""`forewarn serve` with the operator's programs and crashes during calls."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers import shim
from forewarn.service.settings import load_settings
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "drivers"

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(**settings: str) -> Serving:
        command = [sys.executable, str(EXAMPLES / "harmless.py"), str(tmp_path / "vms")]
        waiting = ["--wait-for", str(tmp_path / "go")]
        usual = {
            "driver_kind": "command",
            "driver_command_reboot": shlex.join(
                [*command, "{action}", "{vm}", *waiting]
            ),
            "driver_command_observe": shlex.join([*command, "observe", "{vm}"]),
            "driver_retry_delay": "100ms",
            "timing_recovery": "200ms",
        }
        started.append(Serving(tmp_path, FLEET, **{**usual, **settings}))
        return started[-1]

    yield begin
    (tmp_path / "go").touch()
    for service in started:
        service.process.kill()
        service.process.wait()


def log_of(directory: Path) -> list[str]:
    """Return the first words of the lines in the program's log."""
    log = directory / "vms" / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition(" ")[0] for line in lines]


def order(service: Serving) -> str:
    """Request a reboot and approve it; return the operation."""
    service.document("web_0")
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    [event] = service.document("web_0")["Events"]
    assert service.approve("web_0", event["EventId"]) == 200
    [operation] = service.admin("/v1/operations?vm=web_0")["operations"]
    return operation["operation"]


def operation_of(service: Serving, name: str) -> dict[str, Any]:
    return service.admin(f"/v1/operations/{name}")


def wait_ended(service: Serving, name: str) -> str:
    """Wait for the end of an operation; return its state."""
    ended = eventually(
        lambda: operation_of(service, name),
        lambda operation: operation["state"] in {"Done", "Failed", "Cancelled"},
        what="the end of the operation",
    )
    return ended["state"]


def record(directory: Path, operation: str, name: str) -> dict[str, Any]:
    """Wait for the record of the operation's first call and return it."""
    file = directory / "forewarn.db.command" / f"{operation}.1" / name
    eventually(file.exists, bool, what=name)
    return json.loads(file.read_text())


@pytest.mark.parametrize("ends_meanwhile", some([True, False], usual=[False]))
def test_program_continues_while_the_service_is_down(
    start: Start, tmp_path: Path, ends_meanwhile: bool
) -> None:
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    service.kill()
    if ends_meanwhile:
        (tmp_path / "go").touch()
        record(tmp_path, operation, "0.end")
    service = start().wait_ready()
    if not ends_meanwhile:
        [event] = service.document("web_0")["Events"]
        assert event["EventStatus"] == "Started"
        (tmp_path / "go").touch()
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun", "done"]
    history = str(service.admin("/v1/history?vm=web_0"))
    assert "driver done" in history
    assert "driver failed" not in history
    assert "Traceback" not in service.log()


def test_unknown_outcome_is_resolved_by_an_operator(
    start: Start, tmp_path: Path
) -> None:
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    service.kill()
    for name in ("0.start", "0.program"):
        pid = record(tmp_path, operation, name)["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: shim.identity(pid), lambda alive: alive is None)
    (tmp_path / "go").touch()
    service = start().wait_ready()
    [why] = operation_of(service, operation)["blocked_by"]
    assert why.startswith("the driver cannot tell whether the call completed")
    [event] = service.document("web_0")["Events"]
    assert event["EventStatus"] == "Started"
    url = ("--url", service.urls["operators"])
    subprocess.run(
        [sys.executable, "-m", "forewarn", "resolve", operation, "done", *url],
        check=True,
        timeout=PATIENCE_SECONDS,
        capture_output=True,
    )
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun"], "it was never run again"
    assert "Traceback" not in service.log()


def test_driver_does_not_judge_calls_of_another_driver_kind(
    start: Start, tmp_path: Path
) -> None:
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    assert service.terminate() == 0
    service = start(driver_kind="simulated", driver_simulated_reboot="100ms")
    service.wait_ready()
    [why] = operation_of(service, operation)["blocked_by"]
    assert "the call was given to the command driver, and the service was" in why
    [event] = service.document("web_0")["Events"]
    assert event["EventStatus"] == "Started"
    assert service.terminate() == 0
    assert "the call was given to the command driver" in service.log()
    # The operator notices the mistake and starts the former kind again.
    service = start().wait_ready()
    (tmp_path / "go").touch()
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun", "done"]
    assert "Traceback" not in service.log()


@pytest.mark.parametrize(
    "removed", some(["all", "calls", "directory"], usual=["calls"])
)
def test_program_is_not_run_twice_after_records_are_emptied(
    start: Start, tmp_path: Path, removed: str
) -> None:
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    service.kill()
    records = tmp_path / "forewarn.db.command"
    if removed == "directory":
        shutil.rmtree(records)
    for path in list(records.iterdir()) if removed != "directory" else []:
        if path.is_dir():
            shutil.rmtree(path)
        elif removed == "all":
            path.unlink()
    service = start().wait_ready()
    [why] = eventually(
        lambda: operation_of(service, operation)["blocked_by"], bool, what="the reason"
    )
    assert "the driver's memory is not the one that the call was given to" in why
    (tmp_path / "go").touch()
    eventually(lambda: log_of(tmp_path), lambda log: log[-1] == "done")
    service.admin("/v1/resolve", {"operation": operation, "outcome": "done"})
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun", "done"], "the program ran once"


def test_records_of_an_earlier_version_get_an_identity_and_are_used(
    start: Start, tmp_path: Path
) -> None:
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    service.kill()
    # The state of the first version, which has no identity.
    identity = tmp_path / "forewarn.db.command" / "memory.json"
    identity.unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "forewarn.db")) as store:
        store.execute("UPDATE operations SET driver_memory = ''")
        store.commit()
    service = start().wait_ready()
    assert json.loads(identity.read_text())["used"] is True
    (tmp_path / "go").touch()
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun", "done"]


def test_probe_program_resolves_a_lost_call(start: Start, tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "harmless.py", tmp_path / "vms", "probe"]
    probe = shlex.join([*map(str, command), "{vm}", "--operation", "{operation}"])
    service = start().wait_ready()
    operation = order(service)
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun"])
    service.kill()
    pid = record(tmp_path, operation, "0.start")["pid"]
    os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    eventually(lambda: log_of(tmp_path), lambda log: log == ["begun", "done"])
    program = record(tmp_path, operation, "0.program")["pid"]
    eventually(lambda: shim.identity(program), lambda alive: alive is None)
    service = start(driver_command_probe=probe).wait_ready()
    assert wait_ended(service, operation) == "Done"
    assert log_of(tmp_path) == ["begun", "done"]


def test_failing_program_is_retried_and_then_fails_the_operation(
    start: Start, tmp_path: Path
) -> None:
    log = f'echo "begun $1" >> {tmp_path}/vms/log; echo no power; exit 3'
    (tmp_path / "vms").mkdir()
    service = start(
        driver_command_reboot=shlex.join(["/bin/sh", "-c", log, "x", "{vm}"]),
        driver_attempts="2",
    ).wait_ready()
    operation = order(service)
    assert wait_ended(service, operation) == "Failed"
    assert log_of(tmp_path) == ["begun", "begun"]
    assert "exit status 3: no power" in str(service.admin("/v1/history?vm=web_0"))
    [event] = service.document("web_0")["Events"]
    assert (event["EventType"], event["EventStatus"]) == ("Reboot", "Started")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"driver_command_reboot": "/no/such/program"},
            'flag --driver-command-reboot: there is no executable program "/no/such/program"',
        ),
        (
            {"driver_command_reboot": "", "driver_command_freeze": ""},
            "[driver.command] names no program for any action",
        ),
    ],
)
def test_missing_programs_prevent_the_start(
    start: Start, settings: dict[str, str], said: str
) -> None:
    service = start(**settings)
    assert service.ended() == 2
    assert said in service.log()
    assert "Traceback" not in service.log()


def test_action_without_a_program_is_refused(start: Start) -> None:
    service = start().wait_ready()
    service.document("web_0")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "forewarn", "maintain", "h1", "--impact", "freeze"),
            *("--url", service.urls["operators"]),
        ],
        check=False,
        timeout=PATIENCE_SECONDS,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 4
    assert "the driver of this service does not support" in ended.stderr


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda f: f.stem)
def test_example_files_are_valid_settings(file: Path) -> None:
    settings = load_settings(file=file, environ={}, flags={})
    if file.stem == "reboot-hosts":
        # Host steps alone: they stand next to the programs of any driver.
        assert {"reboot-host", "host-answers"} <= {
            step.name for step in settings.host_step
        }
    else:
        assert settings.driver.kind == "command"
        assert settings.command.reboot
