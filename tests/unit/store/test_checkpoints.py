"""Checkpoints of the write-ahead log in parallel with the writer."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.fleet.model import Host
from forewarn.store import checkpoints, kinds
from forewarn.store.backup import backup
from forewarn.store.checkpoints import Checkpoints
from forewarn.store.connection import Connection
from forewarn.store.port import StoreError, Transaction
from forewarn.store.snapshot import reading
from forewarn.store.sqlite import SqliteStore

ROWS = 50


def add_hosts(tx: Transaction, letter: str = "h") -> None:
    for number in range(ROWS):
        tx.add(Host(name=f"{letter}{number}"))


def hosts_without_the_log(path: Path, directory: Path) -> int:
    """Return how many hosts the file alone has, as a copy of it shows."""
    copy = directory / "copy.db"
    copy.write_bytes(path.read_bytes())
    database = sqlite3.connect(copy)
    try:
        [[found]] = database.execute("SELECT count(*) FROM hosts")
    finally:
        database.close()
    return found


@pytest.mark.parametrize("between", [ROWS, ROWS + 1])
def test_log_is_checkpointed_after_enough_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", between)
    monkeypatch.setattr(checkpoints, "ROWS_OF_COMMIT", 0)
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    try:
        add_and_wait(store)
        # A file that nothing was brought into may not even have its tables.
        assert (path.stat().st_size > ROWS * 100) is (between == ROWS)
        if between == ROWS:
            assert hosts_without_the_log(path, tmp_path) == ROWS
        add = store.transact(lambda tx: tx.add(Host(name="later")))
        assert store.read(lambda reader: reader.get(Host, "later")) == add
    finally:
        store.close()


def test_small_commits_count_towards_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes pages of its own to the log."""
    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", 10 * checkpoints.ROWS_OF_COMMIT)
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    try:
        for number in range(10):
            name = f"h{number}"
            store.transact(lambda tx, name=name: tx.add(Host(name=name)))
        assert store._checkpoints
        store._checkpoints.wait()
        assert hosts_without_the_log(path, tmp_path) >= 5
    finally:
        store.close()


def test_leftover_log_is_checkpointed_at_the_next_start(
    tmp_path: Path,
) -> None:
    path, left = tmp_path / "store.db", tmp_path / "left.db"
    store = SqliteStore(path)
    try:
        store.transact(add_hosts)
        # As a process that is killed leaves them.
        for end in ("", "-wal"):
            left.with_name(f"left.db{end}").write_bytes(
                path.with_name(f"store.db{end}").read_bytes()
            )
    finally:
        store.close()
    again = SqliteStore(left)
    try:
        assert again._checkpoints
        again._checkpoints.wait()
        assert hosts_without_the_log(left, tmp_path) == ROWS
    finally:
        again.close()


def add_and_wait(store: SqliteStore) -> None:
    store.transact(add_hosts)
    assert store._checkpoints
    store._checkpoints.wait()


class Gate(Connection):
    """A connection that brings nothing into the file before it is let."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Event()
        self.may_go_on = threading.Event()
        self.times = 0

    def checkpoint(self) -> None:
        self.times += 1
        self.begun.set()
        assert self.may_go_on.wait(60)
        super().checkpoint()


@pytest.fixture
def gated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SqliteStore, Gate]]:
    """Yield a store whose checkpoints wait at a gate."""
    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", ROWS)
    store = SqliteStore(tmp_path / "store.db")
    assert store._checkpoints
    store._checkpoints.close()
    gate = Gate(tmp_path / "store.db")
    store._checkpoints = Checkpoints(gate)
    yield store, gate
    gate.may_go_on.set()
    store.close()


def test_writer_does_not_wait_for_a_checkpoint_or_start_a_second(
    gated: tuple[SqliteStore, Gate],
) -> None:
    store, gate = gated
    store.transact(add_hosts)
    assert gate.begun.wait(60)
    for name in ("a", "b"):
        store.transact(lambda tx, name=name: add_hosts(tx, name))
    assert gate.times == 1
    gate.may_go_on.set()
    assert store._checkpoints
    store._checkpoints.wait()
    # Rows that are written meanwhile count for the next one.
    store.transact(lambda tx: tx.add(Host(name="later")))
    store._checkpoints.wait()
    assert gate.times == 2


def test_closing_store_waits_for_a_checkpoint_and_leaves_one_file(
    gated: tuple[SqliteStore, Gate], tmp_path: Path
) -> None:
    store, gate = gated
    store.transact(add_hosts)
    assert gate.begun.wait(60)
    closing = threading.Thread(target=store.close)
    closing.start()
    assert closing.is_alive()
    assert hosts_with_the_log(tmp_path / "store.db") == ROWS
    gate.may_go_on.set()
    closing.join()
    assert not (tmp_path / "store.db-wal").exists()
    assert hosts_without_the_log(tmp_path / "store.db", tmp_path) == ROWS


def test_backup_and_check_during_a_checkpoint_see_all_records(
    gated: tuple[SqliteStore, Gate], tmp_path: Path
) -> None:
    store, gate = gated
    store.transact(add_hosts)
    assert gate.begun.wait(60)
    with reading(tmp_path / "store.db") as reader:
        gate.may_go_on.set()
        assert store._checkpoints
        store._checkpoints.wait()
        backup(tmp_path / "store.db", tmp_path / "backup.db")
        assert len(reader.select(kinds.ALL_HOSTS)) == ROWS
    assert hosts_with_the_log(tmp_path / "backup.db") == ROWS


def hosts_with_the_log(path: Path) -> int:
    with reading(path) as reader:
        return len(reader.select(kinds.ALL_HOSTS))


def test_failed_checkpoint_is_logged_and_the_store_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", ROWS)
    store = SqliteStore(tmp_path / "store.db")
    try:
        assert store._checkpoints
        store._checkpoints._connection.close()
        add_and_wait(store)
        assert "checkpoint of the write-ahead log failed" in caplog.text
        assert hosts_with_the_log(tmp_path / "store.db") == ROWS
    finally:
        store.close()


def test_commit_succeeds_if_no_checkpoint_thread_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", ROWS)
    store = SqliteStore(tmp_path / "store.db")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            store.transact(add_hosts)
        assert "can't start new thread" in caplog.text
        assert hosts_with_the_log(tmp_path / "store.db") == ROWS
    finally:
        store.close()


def test_log_is_not_written_into_a_replaced_store_file(
    gated: tuple[SqliteStore, Gate], tmp_path: Path
) -> None:
    """A backup restored under a running service keeps its own bytes."""
    store, gate = gated
    path = tmp_path / "store.db"
    backup(path, tmp_path / "backup.db")
    store.transact(add_hosts)
    assert gate.begun.wait(60)
    (tmp_path / "backup.db").replace(path)
    before = path.read_bytes()
    gate.may_go_on.set()
    assert store._checkpoints
    store._checkpoints.wait()
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="has replaced"):
        store.transact(lambda tx: tx.add(Host(name="lost")))
    store.close()
    assert path.read_bytes() == before


def test_write_to_a_removed_store_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    try:
        path.unlink()
        with pytest.raises(StoreError, match="was removed"):
            store.transact(add_hosts)
        assert not path.exists(), "an empty store would hide that"
    finally:
        store.close()
