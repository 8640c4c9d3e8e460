"""One process per store, under any name and without the lock file."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.fleet.model import Host
from forewarn.store import kinds
from forewarn.store.lock import ProcessLock
from forewarn.store.port import StoreBusyError, StoreError
from forewarn.store.sqlite import SqliteStore

OPENER = """
import sys
from pathlib import Path
from forewarn.store.port import StoreBusyError
from forewarn.store.sqlite import SqliteStore

try:
    SqliteStore(Path(sys.argv[1]))
except StoreBusyError as error:
    print(error.message, error.hint)
else:
    print("opened")
"""

WRITER = """
import sqlite3, sys

database = sqlite3.connect(sys.argv[1], timeout=0)
try:
    database.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
else:
    print("began")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def opened(path: Path) -> Generator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        store.close()


def run(program: str, path: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.slow
@pytest.mark.system
def test_second_process_is_refused_after_lock_file_was_removed(path: Path) -> None:
    with opened(path):
        path.with_name("store.db.lock").unlink()
        assert f"in use by process {os.getpid()}" in run(OPENER, path)
        # The attempt made another lock file, which must not name a wrong process.
        assert f"in use by process {os.getpid()}" in run(OPENER, path)
    assert run(OPENER, path) == "opened"


@pytest.mark.slow
@pytest.mark.system
def test_second_process_is_refused_under_name_of_hard_link(path: Path) -> None:
    with opened(path):
        link = path.with_name("link.db")
        link.hardlink_to(path)
        assert f"in use by process {os.getpid()}" in run(OPENER, link)
    assert run(OPENER, link) == "opened"


@pytest.mark.slow
@pytest.mark.system
def test_refusal_in_same_process_keeps_the_sqlite_locks(path: Path) -> None:
    """Closing any descriptor of a file ends the fcntl locks of the whole process."""
    lock = ProcessLock(path)
    # In this journal mode, SQLite locks the database file itself.
    database = sqlite3.connect(path, isolation_level=None)
    assert database.execute("PRAGMA journal_mode = DELETE").fetchall() == [("delete",)]
    database.execute("BEGIN IMMEDIATE")
    assert run(WRITER, path) == "database is locked"
    path.with_name("store.db.lock").unlink()
    link = path.with_name("link.db")
    link.hardlink_to(path)
    for name in (path, link):
        with pytest.raises(StoreBusyError, match=f"by process {os.getpid()}"):
            SqliteStore(name)
    assert run(WRITER, path) == "database is locked"
    database.close()
    assert run(WRITER, path) == "began"
    lock.release()


def test_store_can_be_opened_again_after_it_was_closed_or_refused(path: Path) -> None:
    for _ in range(2):
        with opened(path) as store, pytest.raises(StoreBusyError):
            SqliteStore(path)
        with pytest.raises(StoreError, match="is closed"):
            store.read(lambda reader: reader.select(kinds.ALL_HOSTS))


def test_failed_start_releases_both_locks(path: Path) -> None:
    path.write_text("name,host\nweb_0,h1\n" * 100)
    with pytest.raises(StoreError, match="not a database"):
        SqliteStore(path)
    path.unlink()
    with opened(path):
        pass


def test_store_files_are_private_to_their_owner(path: Path) -> None:
    before = os.umask(0o022)
    try:
        with opened(path) as store:
            store.transact(lambda tx: tx.add(Host(name="h1")))
            names = sorted(file.name for file in path.parent.iterdir())
            modes = {file.name: mode_of(file) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert names == ["store.db", "store.db-shm", "store.db-wal", "store.db.lock"]
    assert set(modes.values()) == {0o600}, modes


def test_mode_of_existing_store_is_not_changed(path: Path) -> None:
    path.touch()
    path.chmod(0o640)
    with opened(path) as store:
        store.transact(lambda tx: tx.add(Host(name="h1")))
        assert mode_of(path) == 0o640
