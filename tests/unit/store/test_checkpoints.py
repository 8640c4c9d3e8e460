"""The log comes into the file beside the writer."""

import sqlite3
from pathlib import Path

import pytest

from forewarn.fleet.model import Host
from forewarn.store import checkpoints
from forewarn.store.checkpoints import Checkpoints
from forewarn.store.port import Transaction
from forewarn.store.sqlite import SqliteStore

ROWS = 50


def add_hosts(tx: Transaction) -> None:
    for number in range(ROWS):
        tx.add(Host(name=f"h{number}"))


def hosts_without_the_log(path: Path, folder: Path) -> int:
    """Return how many hosts the file alone has, as a copy of it shows."""
    copy = folder / "copy.db"
    copy.write_bytes(path.read_bytes())
    database = sqlite3.connect(copy)
    try:
        [[found]] = database.execute("SELECT count(*) FROM hosts")
    finally:
        database.close()
    return found


@pytest.mark.parametrize("between", [ROWS, ROWS + 1])
def test_the_log_is_in_the_file_when_enough_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    monkeypatch.setattr(checkpoints, "ROWS_BETWEEN", between)
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


def add_and_wait(store: SqliteStore) -> None:
    store.transact(add_hosts)
    store._checkpoints.close()


def test_a_file_that_has_gone_is_told_of_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = Checkpoints(tmp_path / "missing" / "store.db")
    waiting.note(checkpoints.ROWS_BETWEEN)
    waiting.close()
    assert "was not brought into the file" in caplog.text
