"""The records of the command driver that remain when the disk has no room for them."""

import json
import resource
import sys
from pathlib import Path

import pytest

from forewarn.drivers import shim
from forewarn.drivers.port import Call, CallVm
from forewarn.drivers.programs import start_shim
from forewarn.drivers.records import (
    CallDirectories,
    CallDirectory,
    Plan,
    Run,
    RunState,
)
from forewarn.protocol.operations import Action
from tests.support.processes import eventually

FILLS_THE_DISK = """
import os, resource, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
shim = os.getppid()
_, most = resource.prlimit(shim, resource.RLIMIT_FSIZE)
resource.prlimit(shim, resource.RLIMIT_FSIZE, (0, most))
print("version 2.19 is there")
"""
"""A program whose shim can write no file from now on, as on a full disk."""

FULL = OSError(28, "No space left on device")


def accepted(records: Path, *words: str) -> CallDirectory:
    call = Call(
        operation_id="op-1",
        generation=1,
        action=Action.REBOOT,
        host="h1",
        vms=(CallVm(vm="a"),),
        duration_seconds=-1,
    )
    run = Run(vm="a", to_host="", words=words)
    plan = Plan(call=call, runs=(run,), timeout=None, grace=1.0)
    return CallDirectories(records).accept(plan)


def pid_of(record: Path) -> int:
    return int(json.loads(record.read_text())["pid"])


@pytest.mark.system
def test_the_end_of_a_program_is_recorded_when_there_is_room_again(
    tmp_path: Path,
) -> None:
    records = tmp_path / "records"
    recorded = str(records / "op-1.1" / "0.program")
    directory = accepted(records, sys.executable, "-c", FILLS_THE_DISK, recorded)
    start_shim(directory.path, 0)
    watching = pid_of(directory.path / "0.start")

    def limit() -> int:
        return resource.prlimit(watching, resource.RLIMIT_FSIZE)[0]

    eventually(limit, lambda bytes_most: bytes_most == 0)
    program = pid_of(directory.path / "0.program")
    eventually(lambda: shim.identity(program), lambda found: found is None)
    [progress] = directory.progress()
    assert (progress.state, progress.is_watched) == (RunState.RUNNING, True)

    _, most = resource.prlimit(watching, resource.RLIMIT_FSIZE)
    resource.prlimit(watching, resource.RLIMIT_FSIZE, (most, most))
    [progress] = eventually(
        directory.progress, lambda runs: runs[0].state is not RunState.RUNNING
    )
    assert (progress.state, progress.reason) == (RunState.DONE, "version 2.19 is there")


@pytest.mark.system
def test_a_program_runs_on_if_its_process_cannot_be_recorded(tmp_path: Path) -> None:
    directory = accepted(tmp_path / "records", "cat")
    # No file can take the place of a directory.
    (directory.path / "0.program").mkdir()
    start_shim(directory.path, 0)
    [progress] = eventually(
        directory.progress, lambda runs: runs[0].state is not RunState.RUNNING
    )
    assert progress.state is RunState.DONE
    assert '"vm": "a"' in progress.reason


def test_the_end_of_a_program_is_written_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = shim.write, [FULL, FULL]

    def full_at_first(path: Path, note: dict[str, object]) -> None:
        if left:
            raise left.pop()
        write(path, note)

    monkeypatch.setattr(shim, "write", full_at_first)
    monkeypatch.setattr(shim, "WRITE_AGAIN_SECONDS", 0.0)
    shim.write_when_possible(tmp_path / "0.end", {"end": "exited"})
    assert (tmp_path / "0.end").exists()


def test_a_shim_ends_if_the_records_were_removed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        shim.write_when_possible(tmp_path / "gone" / "0.end", {"end": "exited"})


def test_a_program_that_was_not_started_is_known_although_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is the last record that the disk takes."""
    directory = accepted(tmp_path / "records", "true")

    def write(_path: Path, _note: object) -> None:
        raise FULL

    monkeypatch.setattr(shim, "write", write)
    directory.record_unstarted(0, end="unstartable", output="the shim failed")
    [progress] = directory.progress()
    assert progress.state is RunState.FAILED
    assert progress.reason == "the program could not be started: the shim failed"
    # No shim starts it later.
    assert not shim.claim(directory.path / "0.start", {"pid": 1, "identity": ""})
