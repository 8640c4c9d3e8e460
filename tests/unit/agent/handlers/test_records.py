"""Tests of the directory of a run."""

import os
from pathlib import Path

import pytest

from forewarn.agent.handlers import records
from forewarn.agent.handlers.records import RunDirectory, RunRecords


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    directory = RunRecords(tmp_path / "runs").directory("r1")
    directory.make(b"{}")
    return directory


def test_run_directory_is_accessible_only_to_its_owner(directory: RunDirectory) -> None:
    assert Path(directory.path).stat().st_mode & 0o077 == 0


def test_a_claim_is_made_once(directory: RunDirectory) -> None:
    assert directory.claimed() is None
    assert directory.claim()
    assert not directory.claim()
    assert directory.claimed() is None


@pytest.mark.parametrize("text", ["", "12", "12\n", "12\n(x) R", "x\n(x) R\n"])
def test_incomplete_claim_is_ignored(directory: RunDirectory, text: str) -> None:
    (Path(directory.path) / "claim").write_text(text)
    assert directory.claimed() is None


def test_claim_identifies_a_process_by_pid_and_start_time(
    directory: RunDirectory,
) -> None:
    stat = f"12 (a ) (b) S {' '.join(str(n) for n in range(4, 30))}"
    (Path(directory.path) / "claim").write_text(f"12\n{stat}\n")
    assert directory.claimed() == records.Claim(pid=12, began="22")


@pytest.mark.parametrize("text", ["", "1", "x\n", "\n", "-1\n"])
def test_incomplete_status_is_ignored(directory: RunDirectory, text: str) -> None:
    (Path(directory.path) / "status").write_text(text)
    assert directory.status() is None


def test_long_output_is_truncated_repeatedly(directory: RunDirectory) -> None:
    file = Path(directory.path) / "output"
    size = records.OUTPUT_BYTES_MAX
    for letter in "abc":
        with file.open("a") as opened:
            opened.write(letter * size + "!")
        assert directory.trim()
        assert not directory.trim()
        assert file.stat().st_size <= records.TAIL_BYTES
    output = directory.output()
    assert output.startswith("a" * records.HEAD_BYTES)
    assert output.endswith("c!")
    # A moment after it was cut, its end is still there.
    assert directory.last_line().startswith("c")


def test_last_line_has_no_control_characters(directory: RunDirectory) -> None:
    (Path(directory.path) / "output").write_bytes(b"one\n\x1b[31mtwo\x00\xff  \n\n \n")
    assert directory.last_line() == "two�"


def test_run_name_cannot_leave_the_run_directory(tmp_path: Path) -> None:
    for name in ("", ".", "..", "../x", "a/b"):
        with pytest.raises(AssertionError):
            RunRecords(tmp_path).directory(name)


def test_active_runs_are_kept_regardless_of_age(tmp_path: Path) -> None:
    runs = RunRecords(tmp_path)
    names = [f"r{number}" for number in range(records.RUNS_KEPT + 2)]
    for age, name in enumerate(names):
        runs.directory(name).make(b"")
        os.utime(tmp_path / name, (age, age))
    runs.clear(["r0"])
    names_left = {path.name for path in tmp_path.iterdir()}
    assert names_left == {*names} - {"r1"}


@pytest.mark.parametrize(
    ("run_id", "wanted"),
    [
        ("E1.j1-2.1.prepare.3.drain", ("E1", "prepare", "drain")),
        ("E1.2.1.recover.3.a.b", ("E1", "recover", "a.b")),
        # As journals of older versions have them.
        ("E1.1.prepare.1.drain", ("E1", "prepare", "drain")),
        ("restore.j1.1772452800000000.2.drain", ("restore", "recover", "drain")),
        ("restore.1772452800000000.2.drain", ("restore", "recover", "drain")),
        ("something else", ("", "", "")),
    ],
)
def test_run_id_is_parsed(run_id: str, wanted: tuple[str, str, str]) -> None:
    assert records.subject_of(run_id) == wanted


def test_directories_of_a_similarly_named_handler_are_excluded(
    tmp_path: Path,
) -> None:
    records = RunRecords(tmp_path / "runs")
    assert records.directories_of("drain") == []
    mine, other = "E1.j1-1.1.prepare.1.drain", "E1.j1-1.1.prepare.1.x.drain"
    for name in (mine, other):
        records.directory(name).make(b"{}")
    assert [directory.name for directory in records.directories_of("drain")] == [mine]
    assert [directory.name for directory in records.directories_of("x.drain")] == [
        other
    ]
