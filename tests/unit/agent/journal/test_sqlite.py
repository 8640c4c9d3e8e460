"""The journal's file beyond the port: faults of the disk, other programs."""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import Memory
from forewarn.agent.journal import schema, sqlite
from forewarn.agent.journal.file import BUSY_SECONDS, BUSY_SECONDS_AGAIN
from forewarn.agent.journal.lock import AgentLock
from forewarn.agent.journal.opening import boot_id, open_journal
from forewarn.agent.journal.port import (
    JournalError,
    JournalRefusedError,
    Limits,
    MemoryJournal,
)
from forewarn.agent.journal.sqlite import SqliteJournal, set_aside
from tests.support.agent_journals import START, is_new, note_of, task_of

MEMORY = Memory(tasks=(task_of("E1"), task_of("E2")), name="web_1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def saved(path: Path, memory: Memory = MEMORY) -> None:
    journal = SqliteJournal(path)
    journal.load()
    journal.save(memory, [note_of()])
    journal.close()


def test_saved_data_is_loaded_after_reopening(path: Path) -> None:
    saved(path)
    journal = SqliteJournal(path)
    assert journal.load() == MEMORY
    assert list(journal.history()) == [note_of()]
    journal.close()


def test_save_without_changes_writes_nothing(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save(MEMORY)
    log = path.with_name("agent.db-wal")
    before = log.stat()
    journal.save(Memory(tasks=(task_of("E1"), task_of("E2")), name="web_1"))
    assert (log.stat().st_size, log.stat().st_mtime_ns) == (
        before.st_size,
        before.st_mtime_ns,
    )
    journal.close()


def test_journal_is_accessible_only_to_its_owner(path: Path) -> None:
    saved(path)
    assert path.stat().st_mode & 0o077 == 0


def test_journal_stores_the_boot_in_which_it_was_written(path: Path) -> None:
    first = SqliteJournal(path, boot="one")
    first.save(MEMORY)
    first.close()
    second = SqliteJournal(path, boot="two")
    second.load()
    assert second.boot_before == "one"
    second.close()
    # It was not written in the second: that is as if it had not been.
    for boot, was_rebooted in (("three", True), ("one", False), ("", False)):
        opened = open_journal(path, boot=boot)
        assert opened.was_rebooted is was_rebooted
        opened.close()


def test_boot_id_is_read_if_the_system_has_one(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    assert boot_id(file) == ""
    file.write_text("abc\n", encoding="ascii")
    assert boot_id(file) == "abc"


def test_requested_approvals_survive_a_crash_until_decided(path: Path) -> None:
    saved(path)
    sqlite.order_approval(path, "E1", now=START)
    for _ in range(2):
        journal = SqliteJournal(path)
        journal.load()
        assert list(journal.take_orders()) == ["E1"]
        # The agent dies here, before it saved what follows from the order.
        journal.close()
    journal = SqliteJournal(path)
    memory = journal.load()
    assert list(journal.take_orders()) == ["E1"]
    sqlite.order_approval(path, "E2", now=START)
    journal.save(memory)
    # A command that came meanwhile stays.
    assert list(journal.take_orders()) == ["E2"]
    journal.save(memory)
    journal.close()
    journal = SqliteJournal(path)
    assert not journal.take_orders()
    journal.close()


def test_failed_save_changes_nothing_and_the_next_one_writes_all(
    path: Path,
) -> None:
    journal = SqliteJournal(path)
    journal.save(Memory(name="web_1"))
    other = sqlite3.connect(path, isolation_level=None)
    [(page_count,)] = other.execute("PRAGMA page_count").fetchall()
    other.close()
    # As full as a disk can be.
    journal._file.run(f"PRAGMA max_page_count = {page_count}")
    big = Memory(tasks=tuple(task_of(f"E{n}") for n in range(100)), name="web_1")
    with pytest.raises(JournalError, match="full") as caught:
        journal.save(big, [note_of()])
    assert "space" in caught.value.hint
    assert journal.load() == Memory(name="web_1")
    assert not journal.history()
    journal._file.run("PRAGMA max_page_count = 100000")
    journal.save(big, [note_of()])
    assert journal.load() == big
    assert list(journal.history()) == [note_of()]
    journal.close()


def test_long_lock_delays_only_one_save(
    path: Path,
) -> None:
    def patience() -> float:
        [(milliseconds,)] = journal._file.rows("PRAGMA busy_timeout")
        return milliseconds / 1_000

    journal = SqliteJournal(path)
    assert patience() == BUSY_SECONDS
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(JournalError, match="locked") as caught:
            journal.save(MEMORY, [note_of()])
        assert "Stop the other process" in caught.value.hint
        assert patience() == BUSY_SECONDS_AGAIN
    other.execute("ROLLBACK")
    other.close()
    journal.save(MEMORY, [note_of()])
    assert patience() == BUSY_SECONDS
    assert journal.load() == MEMORY
    journal.close()


def damage(path: Path) -> None:
    """Overwrite everything but the head, as a dying disk might."""
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xee" * (len(content) - 100))


def test_a_damaged_file_is_set_aside_at_the_start(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(path)
    damage(path)
    opened = open_journal(path)
    assert not opened.fault
    assert is_new(opened.journal.load())
    assert path.with_name("agent.db.damaged-1").exists()
    assert "agent.db.damaged-1" in caplog.text
    opened.close()


def zero_head(content: bytes) -> bytes:
    return bytes(16) + content[16:]


def zeros(content: bytes) -> bytes:
    return bytes(len(content))


def zero_page(content: bytes) -> bytes:
    return bytes(4096) + content[4096:]


def garbage(content: bytes) -> bytes:
    return bytes(range(256)) * (len(content) // 256)


def worked(path: Path) -> None:
    """Have an agent work with the journal, and end."""
    opened = open_journal(path)
    opened.journal.save(MEMORY, [note_of()])
    opened.close()


@pytest.mark.parametrize("spoil", [zero_head, zeros, zero_page, garbage])
def test_journal_without_a_valid_header_is_set_aside_at_startup(
    path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[bytes], bytes]
) -> None:
    worked(path)
    spoilt = spoil(path.read_bytes())
    path.write_bytes(spoilt)
    opened = open_journal(path)
    assert is_new(opened.journal.load())
    assert path.with_name("agent.db.damaged-1").read_bytes() == spoilt
    assert "it was set aside as agent.db.damaged-1" in caplog.text
    opened.close()


@pytest.mark.parametrize("spoil", [zero_head, zeros])
def test_journal_with_a_zeroed_header_is_set_aside_without_its_lock(
    path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """The lock file that shows that it is a journal is lost, too."""
    worked(path)
    path.write_bytes(spoil(path.read_bytes()))
    path.with_name("agent.db.lock").unlink()
    open_journal(path).close()
    assert path.with_name("agent.db.damaged-1").exists()


def test_journal_is_recognized_by_the_files_next_to_it(path: Path) -> None:
    path.write_bytes(garbage(bytes(5_000)))
    with pytest.raises(JournalRefusedError, match="nor an agent journal"):
        open_journal(path)
    path.with_name("agent.db.runs").mkdir()
    open_journal(path).close()
    assert path.with_name("agent.db.damaged-1").exists()


def test_text_file_is_refused_and_not_moved(path: Path) -> None:
    worked(path)
    path.write_text("[Unit]\nDescription=ein Dienst für\talle\n" * 200)
    for _ in range(2):
        with pytest.raises(JournalRefusedError) as caught:
            open_journal(path)
        assert "was not changed" in caught.value.hint
    assert path.read_text().startswith("[Unit]")
    assert not path.with_name("agent.db.damaged-1").exists()


@pytest.mark.parametrize("is_gone", [False, True])
def test_empty_or_missing_journal_is_reported(
    path: Path, caplog: pytest.LogCaptureFixture, *, is_gone: bool
) -> None:
    worked(path)
    assert not caplog.text
    path.write_bytes(b"")
    if is_gone:
        path.unlink()
    opened = open_journal(path)
    assert is_new(opened.journal.load())
    assert f"the journal {path} is empty or missing" in caplog.text
    opened.close()


def test_header_lost_while_running_leads_to_a_new_file(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save(MEMORY, [note_of()])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    with path.open("r+b") as file:
        file.write(bytes(8_192))
    # Entries that were read are not read again, until memory is short.
    journal._file.run("PRAGMA shrink_memory")
    assert not journal.take_orders()
    assert journal.load() == MEMORY
    more = Memory(tasks=(*MEMORY.tasks, task_of("E3")), name="web_1")
    journal.save(more, [note_of("E3")])
    journal.close()
    again = SqliteJournal(path)
    assert again.load() == more
    again.close()
    assert path.with_name("agent.db.damaged-1").exists()


def test_unreadable_entry_counts_as_damage(path: Path) -> None:
    saved(path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE tasks SET body = 'x'")
    file.close()
    opened = open_journal(path)
    assert is_new(opened.journal.load())
    opened.close()


def test_file_damaged_while_running_is_replaced(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save(MEMORY, [note_of()])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.execute("PRAGMA writable_schema = ON")
    other.execute("UPDATE sqlite_master SET rootpage = 9999 WHERE name = 'tasks'")
    other.execute("PRAGMA schema_version = 99")  # all connections read it again
    other.close()
    more = Memory(tasks=(*MEMORY.tasks, task_of("E3")), name="web_1")
    journal.save(more, [note_of("E3")])
    assert journal.load() == more
    assert list(journal.history()) == [note_of("E3")]
    assert path.with_name("agent.db.damaged-1").exists()
    journal.close()


def test_number_of_damaged_files_is_limited(path: Path) -> None:
    for number in range(1, 12):
        path.write_text(str(number), encoding="ascii")
        set_aside(path)
    paths = sorted(path.parent.glob("agent.db.damaged-*"))
    assert len(paths) == 9
    assert paths[-1].read_text(encoding="ascii") == "11"


def test_a_newer_file_is_refused(path: Path) -> None:
    saved(path)
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {len(schema.STEPS) + 1}")
    file.close()
    with pytest.raises(JournalRefusedError, match="newer version of forewarn"):
        open_journal(path)
    # The refusal released the lock.
    AgentLock(path).release()


def test_second_agent_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    first = open_journal(path)
    with pytest.raises(JournalRefusedError, match=f"process {os.getpid()}$"):
        open_journal(path)
    # By another name it is the same journal.
    name = path.with_name("link.db")
    name.symlink_to(path)
    with pytest.raises(JournalRefusedError, match=f"process {os.getpid()}$"):
        open_journal(name)
    first.close()
    open_journal(name).close()
    assert not path.with_name("link.db.lock").exists()


def test_directory_is_created_but_not_its_parents(tmp_path: Path) -> None:
    open_journal(tmp_path / "forewarn" / "agent.db").close()
    with pytest.raises(JournalRefusedError, match="does not exist"):
        open_journal(tmp_path / "a" / "b" / "agent.db")
    (tmp_path / "file").touch()
    with pytest.raises(JournalRefusedError):
        open_journal(tmp_path / "file" / "agent.db")
    with pytest.raises(JournalRefusedError):
        open_journal(tmp_path)


def test_agent_uses_a_memory_journal_if_the_disk_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: AgentLock, path: Path) -> None:
        raise JournalError(f"the lock {path} cannot be taken: No space left on device")

    monkeypatch.setattr(AgentLock, "__init__", broken)
    opened = open_journal(path)
    assert isinstance(opened.journal, MemoryJournal)
    assert "No space left" in opened.fault
    opened.close()


class TestGateway:
    def test_memory_and_notes_are_read_from_the_file(self, path: Path) -> None:
        journal = SqliteJournal(path)
        assert sqlite.read_memory(path) == Memory(lost_journal=True)
        journal.save(MEMORY, [note_of("E1"), note_of("E2")])
        assert sqlite.read_memory(path) == MEMORY
        assert list(sqlite.read_notes(path)) == [note_of("E2"), note_of("E1")]
        assert list(sqlite.read_notes(path, event_id="E1")) == [note_of("E1")]
        journal.close()
        assert sqlite.read_memory(path) == MEMORY

    @pytest.mark.parametrize("content", [None, b""])
    def test_missing_journal_is_reported(
        self, path: Path, content: bytes | None
    ) -> None:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(JournalRefusedError, match="there is no journal"):
            sqlite.order_approval(path, "E1", now=START)
        with pytest.raises(JournalRefusedError, match="there is no journal"):
            sqlite.read_memory(path)
        assert path.exists() is (content is not None)


@pytest.mark.slow
def test_ten_thousand_events_are_loaded_quickly(path: Path) -> None:
    journal = SqliteJournal(path, limits=Limits())
    journal.save(
        MEMORY,
        [note_of(f"E{number // 5}", detail=str(number)) for number in range(50_000)],
    )
    journal.close()
    journal = SqliteJournal(path)
    assert journal.load() == MEMORY
    assert len(journal.history(limit=200)) == 200
    assert len(journal.history(event_id="E5000")) == 5
    journal.close()


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_file_deleted_while_running_is_written_again(
    path: Path, caplog: pytest.LogCaptureFixture, *, is_exchanged: bool
) -> None:
    journal = SqliteJournal(path)
    journal.save(MEMORY, [note_of()])
    for part in path.parent.iterdir():
        part.unlink()
    if is_exchanged:
        saved(path, Memory(name="web_7"))
    assert not journal.take_orders()
    assert "deleted or replaced" in caplog.text
    other = SqliteJournal(path)
    assert other.load() == MEMORY
    other.close()
    assert path.with_name("agent.db.damaged-1").exists() is is_exchanged
    journal.save(replace(MEMORY, name="web_2"))
    assert journal.load().name == "web_2"
    journal.close()


def test_removed_directory_is_waited_for(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.save(MEMORY, [note_of()])
    away = path.parent.with_name("away")
    path.parent.rename(away)
    for _ in range(2):
        with pytest.raises(JournalError):
            journal.take_orders()
        with pytest.raises(JournalError):
            journal.save(MEMORY, [note_of()])
    path.parent.mkdir()
    journal.save(MEMORY, [note_of()])
    assert journal.load() == MEMORY
    assert list(journal.history()) == [note_of()]
    journal.close()
