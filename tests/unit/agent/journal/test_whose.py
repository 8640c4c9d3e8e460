"""Another program's file is refused and not changed."""

import os
import sqlite3
from pathlib import Path

import pytest

from forewarn.agent.journal.opening import open_journal
from forewarn.agent.journal.port import JournalRefusedError
from forewarn.agent.journal.sqlite import SqliteJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir()
    return directory / "agent.db"


_THEIRS = (
    "PRAGMA journal_mode = DELETE; CREATE TABLE theirs (x)",
    "PRAGMA journal_mode = WAL; CREATE TABLE theirs (x)",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 7",
)


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.mark.parametrize("script", _THEIRS)
def test_another_programs_database_is_refused_and_left_alone(
    path: Path, script: str
) -> None:
    file = sqlite3.connect(path)
    file.executescript(script)
    file.close()
    before = contents(path.parent)
    with pytest.raises(JournalRefusedError, match="another program"):
        open_journal(path)
    assert contents(path.parent) == before
    # Nor by opening it without the check.
    with pytest.raises(JournalRefusedError, match="another program"):
        SqliteJournal(path)
    assert contents(path.parent) == before


def test_database_of_another_program_with_a_wal_is_not_changed(
    path: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first.db"
    file = sqlite3.connect(first)
    file.executescript("PRAGMA journal_mode = WAL; CREATE TABLE theirs (x)")
    for ending in ("", "-wal"):
        copied = first.with_name(f"first.db{ending}").read_bytes()
        path.with_name(f"{path.name}{ending}").write_bytes(copied)
    file.close()
    before = contents(path.parent)
    with pytest.raises(JournalRefusedError, match="another program"):
        open_journal(path)
    after = contents(path.parent)
    # SQLite creates the index of the log for every reader.
    after.pop("agent.db-shm", None)
    assert after == before


def test_file_of_another_kind_is_refused_and_unchanged(path: Path) -> None:
    path.write_text("[Unit]\nDescription=not a database at all, but a text\n" * 30)
    before = contents(path.parent)
    with pytest.raises(JournalRefusedError, match="nor an agent journal"):
        open_journal(path)
    assert contents(path.parent) == before
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(JournalRefusedError, match="is not a regular file"):
        open_journal(path)
    assert [file.name for file in path.parent.iterdir()] == ["agent.db"]
