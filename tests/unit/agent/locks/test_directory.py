"""Behavior that only a lock in a directory that VMs share has."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.locks.directory import MARKER
from forewarn.agent.locks.port import LockError, make_lock
from forewarn.agent.locks.register import RegisterLock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import SystemClock

pytestmark = pytest.mark.slow


def context(seconds: float = 30.0) -> RunContext:
    return context_for(seconds, SystemClock())


def directory_lock(directory: Path, **more: Any) -> RegisterLock:
    settings = LockSettings(kind="directory", path=str(directory), **more)
    if directory.exists():
        (directory / MARKER).touch()
    lock = make_lock(settings, {}, SystemClock())
    assert isinstance(lock, RegisterLock)
    return lock


def names(directory: Path) -> list[str]:
    files = {path.name for path in directory.iterdir()}
    return sorted(files - {MARKER})


def test_each_state_is_a_separate_file(tmp_path: Path) -> None:
    lock = directory_lock(tmp_path)
    lock.take("web_0", context())
    lock.release("web_0", context())
    assert names(tmp_path) == ["default.000000000001", "default.000000000002"]
    assert json.loads((tmp_path / "default.000000000002").read_text()) == {
        "holders": {}
    }
    assert (tmp_path / "default.000000000002").stat().st_mode & 0o777 == 0o644


def test_old_states_and_drafts_are_removed_later(tmp_path: Path) -> None:
    lock = directory_lock(tmp_path)
    for _ in range(20):
        lock.take("web_0", context())
    draft = tmp_path / ".default.1-ab.draft"
    draft.touch()
    foreign = tmp_path / "default.txt"
    foreign.touch()
    assert len(names(tmp_path)) == 22
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    lock.take("web_0", context())
    states = [f"default.{number:012d}" for number in range(14, 22)]
    assert names(tmp_path) == [*states, "default.txt"]


def test_writer_with_an_outdated_state_changes_nothing(tmp_path: Path) -> None:
    """The state that was read is so old that the file of the next state is removed."""
    lock, other = directory_lock(tmp_path), directory_lock(tmp_path)
    read = lock._register.read
    page = read(context())
    for _ in range(20):
        other.take("web_1", context())
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    other.take("web_1", context())
    assert not (tmp_path / "default.000000000001").exists()
    text = '{"holders": {}}'
    assert not lock._register.write(text, page, context())
    assert not lock.take("web_0", context()).is_held


def test_link_with_a_lost_answer_is_recognized_by_its_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does: the request is sent again, and finds what the first one made."""
    link = os.link

    def lost(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(17, "File exists", source)

    monkeypatch.setattr(os, "link", lost)
    assert directory_lock(tmp_path).take("web_0", context()).is_held


def test_file_system_without_hard_links_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted", source, None, target)

    monkeypatch.setattr(os, "link", refuse)
    for ask in (
        lambda lock: lock.take("web_0", context()),
        lambda lock: lock.describe(context()),
    ):
        with pytest.raises(LockError, match="has no hard links, which this lock needs"):
            ask(directory_lock(tmp_path))
    assert names(tmp_path) == []


def test_look_creates_no_files(tmp_path: Path) -> None:
    assert directory_lock(tmp_path).describe(context()) == "the lock is free"
    assert names(tmp_path) == []


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(LockError, match="No space left on device"):
        directory_lock(tmp_path).take("web_0", context())
    assert names(tmp_path) == []


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="No such file or directory"):
        directory_lock(tmp_path / "away").take("web_0", context())


def test_directory_of_an_unmounted_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = directory_lock(tmp_path)
    assert lock.take("web_0", context()).is_held
    for path in tmp_path.iterdir():
        path.unlink()
    for ask in (
        lambda: lock.take("web_1", context()),
        lambda: lock.release("web_0", context()),
        lambda: lock.describe(context()),
    ):
        with pytest.raises(LockError, match="no file forewarn-locks: is the share mou"):
            ask()
    assert names(tmp_path) == []
    # In the middle of a request, too.
    (tmp_path / MARKER).touch()
    link = os.link

    def unmounted(source: str, target: str) -> None:
        link(source, target)
        (tmp_path / MARKER).unlink(missing_ok=True)

    monkeypatch.setattr(os, "link", unmounted)
    with pytest.raises(LockError, match="no file forewarn-locks"):
        lock.take("web_1", context())


def test_killed_processes_leave_a_working_lock(
    tmp_path: Path,
) -> None:
    """Killed at any moment; what they leave is a state of before or after."""
    code = f"""
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.locks.port import make_lock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import SystemClock
clock = SystemClock()
lock = make_lock(LockSettings(kind="directory", path={str(tmp_path)!r}), {{}}, clock)
print("ready", flush=True)
while True:
    lock.take("victim", context_for(30, clock))
    lock.release("victim", context_for(30, clock))
"""
    lock = directory_lock(tmp_path, holders=2)
    for round_number in range(5):
        with subprocess.Popen([sys.executable, "-c", code], stdout=-1) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            threading.Event().wait(0.02 * round_number)
            process.kill()
        assert lock.take("web_0", context()).is_held
        lock.release("web_0", context())
        lock.release("victim", context())
        assert lock.describe(context()) == "the lock is free"
