"""The identity of the command driver's records after a crash, and after a deletion."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.drivers.port import Call, CallVm
from forewarn.drivers.records import CallDirectories, Plan, Run
from forewarn.protocol.operations import Action
from tests.support.processes import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]

ACCEPTING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from forewarn.drivers.records import CallDirectories
from tests.unit.drivers.test_records import plan
directories = CallDirectories(Path(sys.argv[1]))
print(directories.identity, flush=True)
left = int(sys.argv[2])
def die(event, arguments):
    global left
    if event in {"open", "os.mkdir", "os.rename"}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
directories.accept(plan())
"""
"""A service that accepts its first call, and is killed before one step on the disk."""

STEPS_MAX = 50


def plan(operation_id: str = "op-1") -> Plan:
    call = Call(
        operation_id=operation_id,
        generation=1,
        action=Action.REBOOT,
        host="h1",
        vms=(CallVm(vm="a"),),
        duration_seconds=-1,
    )
    run = Run(vm="a", to_host="", words=("true",))
    return Plan(call=call, runs=(run,), timeout=None, grace=1.0)


def accepted_until(records: Path, step: int) -> tuple[str, int]:
    """Return the identity of the records, and the exit status of a service."""
    done = subprocess.run(
        [sys.executable, "-c", ACCEPTING, str(records), str(step), str(ROOT)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.stdout.strip(), done.returncode


@pytest.mark.slow
@pytest.mark.system
def test_a_crash_during_the_first_call_keeps_the_identity(tmp_path: Path) -> None:
    """Otherwise the call would be unknown, and an operator would have to resolve it."""
    counts: list[int] = []
    for step in range(1, STEPS_MAX):
        records = tmp_path / str(step)
        identity, status = accepted_until(records, step)
        again = CallDirectories(records)
        assert again.identity == identity, step
        counts.append(len(list(again.each())))
        # The next start sees the same, and the next call can be accepted.
        again.accept(plan("op-2"))
        assert CallDirectories(records).identity == identity, step
        if status == 0:
            break
        assert status == -signal.SIGKILL
    else:
        raise AssertionError("the call takes too many steps")
    assert counts == sorted(counts), "an accepted call stays"
    assert (counts[0], counts[-1]) == (0, 1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_records_whose_calls_were_deleted_get_a_new_identity(
    tmp_path: Path, is_restarted: bool
) -> None:
    directories = CallDirectories(tmp_path)
    call = directories.accept(plan())
    if is_restarted:
        assert CallDirectories(tmp_path).identity == directories.identity
    shutil.rmtree(call.path)
    assert CallDirectories(tmp_path).identity != directories.identity


def test_deletion_after_a_crash_during_a_later_call_is_detected(
    tmp_path: Path,
) -> None:
    directories = CallDirectories(tmp_path)
    call = directories.accept(plan())
    (tmp_path / ".new-op-2.1").mkdir()  # a crash during another call
    shutil.rmtree(call.path)
    assert CallDirectories(tmp_path).identity != directories.identity
    assert not (tmp_path / ".new-op-2.1").exists()


def test_first_call_renamed_after_a_restart_gets_a_new_identity(tmp_path: Path) -> None:
    CallDirectories(tmp_path).accept(plan())
    directories = CallDirectories(tmp_path)
    (tmp_path / "op-1.1").rename(tmp_path / ".new-op-1.1")
    assert CallDirectories(tmp_path).identity != directories.identity


def test_a_first_call_that_cannot_be_recorded_keeps_the_identity(
    tmp_path: Path,
) -> None:
    directories = CallDirectories(tmp_path)
    (tmp_path / "op-1.1").mkdir()
    (tmp_path / "op-1.1" / "in the way").touch()
    with pytest.raises(Exception, match="cannot be recorded"):
        directories.accept(plan())
    assert CallDirectories(tmp_path).identity == directories.identity


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("\x1b[1;31mno\x1b[0m disk", "no disk"),
        ("\ufffd" * 900, "(binary data)"),
        ("\ufffd" * 900 + "x" * 300, "x" * 200),
    ],
)
def test_output_that_is_not_text_does_not_fill_the_reason(
    tmp_path: Path, output: str, said: str
) -> None:
    call = CallDirectories(tmp_path).accept(plan())
    call.record_unstarted(0, end="unstartable", output=output)
    assert call.progress_of(0).reason == f"the program could not be started: {said}"
