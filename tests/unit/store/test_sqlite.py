"""The SQLite store, with errors and changes of its file."""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.fleet.model import Host, Tenant
from forewarn.store import kinds
from forewarn.store.port import (
    ConflictError,
    Store,
    StoreBusyError,
    StoreError,
    Transaction,
)
from forewarn.store.sqlite import SqliteStore
from tests.support.hand_transactions import begin

HOST = Host(name="h1")


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


def names(store: Store) -> list[str]:
    hosts = store.read(lambda reader: reader.select(kinds.ALL_HOSTS))
    return [host.name for host in hosts]


# -- it lasts ----------------------------------------------------------------------


def test_committed_data_remains_after_reopening(path: Path) -> None:
    with opened(path) as store:
        store.transact(lambda tx: tx.add(HOST))
        tx = begin(store)
        tx.add(replace(HOST, name="h2"))
        tx.commit()
        tx = begin(store)
        tx.add(replace(HOST, name="h3"))
        tx.rollback()
    assert not path.with_name("store.db-wal").exists()
    with opened(path) as store:
        assert names(store) == ["h1", "h2"]


def test_a_commit_waits_for_the_disk(path: Path) -> None:
    with opened(path) as store:
        store.transact(lambda tx: tx.add(HOST))
        assert store._writer
        assert store._writer.rows("PRAGMA synchronous") == [(2,)]  # FULL
        assert store._writer.rows("PRAGMA journal_mode") == [("wal",)]


WRITER = """
import os, signal, sys
from pathlib import Path
from forewarn.fleet.model import Host
from forewarn.store.sqlite import SqliteStore

store = SqliteStore(Path(sys.argv[1]))
store.transact(lambda tx: tx.add(Host(name="h1")))

def work(tx):
    tx.add(Host(name="h2"))
    os.kill(os.getpid(), signal.SIGKILL)

store.transact(work)
"""

OPENER = """
import sys
from pathlib import Path
from forewarn.store.port import StoreBusyError
from forewarn.store.sqlite import SqliteStore

try:
    SqliteStore(Path(sys.argv[1]))
except StoreBusyError as error:
    print(error.message, error.hint)
"""


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.system
def test_only_committed_data_survives_a_kill(path: Path) -> None:
    ended = run(WRITER, path)
    assert ended.returncode == -9, ended.stderr
    with opened(path) as store:
        assert names(store) == ["h1"]
        store.transact(lambda tx: tx.add(replace(HOST, name="h2")))


# -- one process -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.system
def test_second_process_gets_the_process_id_of_the_owner(path: Path) -> None:
    with opened(path):
        ended = run(OPENER, path)
    assert f"in use by process {os.getpid()}" in ended.stdout, ended.stderr
    assert "Stop that process" in ended.stdout


def test_second_store_in_this_process_is_refused(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with opened(path):
        for name in (path, link):
            with pytest.raises(StoreBusyError, match=str(os.getpid())):
                SqliteStore(name)
    with opened(link):
        pass


# -- writers -----------------------------------------------------------------------


def test_writer_waits_briefly_for_another_program(path: Path) -> None:
    with opened(path) as store:
        other = begin(store)
        other.add(HOST)
        attempts: list[int] = []

        def work(tx: Transaction) -> None:
            attempts.append(1)

        # 20 attempts of a tenth of a second would be long for a test.
        assert store._writer
        store._writer.run("PRAGMA busy_timeout = 0")
        with pytest.raises(ConflictError, match="another writer"):
            store.transact(work)
        assert attempts == []
        other.commit()
        store.transact(work)
        assert attempts == [1]


def test_transaction_with_a_suppressed_error_is_not_committed(path: Path) -> None:
    with opened(path) as store:
        first, second = begin(store), begin(store)
        first.add(HOST)
        with pytest.raises(ConflictError):
            second.add(replace(HOST, name="h2"))
        first.commit()
        with pytest.raises(ConflictError):
            second.commit()
        assert names(store) == ["h1"]


# -- the world ---------------------------------------------------------------------


@contextmanager
def no_file_may_grow_beyond(size: int) -> Generator[None]:
    """Stand in for a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_commit_that_the_disk_refuses_is_rolled_back(path: Path) -> None:
    with opened(path) as store:
        store.transact(lambda tx: tx.add(HOST))
        size = path.with_name("store.db-wal").stat().st_size
        done: list[str] = []

        def work(tx: Transaction) -> None:
            tx.add(replace(HOST, name="h2"))
            done.append("all but the commit")

        with (
            no_file_may_grow_beyond(size + 100),
            pytest.raises(StoreError, match="cannot do its work") as caught,
        ):
            store.transact(work)
        assert done
        assert "disk" in caught.value.hint
        assert not isinstance(caught.value, ConflictError)
        assert names(store) == ["h1"]
        store.transact(lambda tx: tx.add(replace(HOST, name="h3")))
    with opened(path) as store:
        assert names(store) == ["h1", "h3"]


def test_full_disk_is_reported(path: Path) -> None:
    with opened(path) as store:
        assert store._writer
        store._writer.rows("PRAGMA max_page_count = 1")  # that is: no more than now

        def work(tx: Transaction) -> None:
            for number in range(100):
                tx.add(Tenant(name=f"tenant {number}", applied="x" * 1000))

        with pytest.raises(StoreError, match="full") as caught:
            store.transact(work)
        assert "space" in caught.value.hint
        assert store.read(lambda reader: reader.select(kinds.ALL_TENANTS)) == []
        store.transact(lambda tx: tx.add(HOST))


def test_broken_writer_is_replaced(path: Path) -> None:
    with opened(path) as store:

        def work(tx: Transaction) -> None:
            tx.add(HOST)
            assert store._writer is None
            tx._connection.close()  # pyright: ignore[reportAttributeAccessIssue]

        with pytest.raises(StoreError):
            store.transact(work)
        store.transact(lambda tx: tx.add(replace(HOST, name="h2")))
        assert names(store) == ["h2"]


def test_read_only_file_is_reported(path: Path) -> None:
    with opened(path) as store:
        assert store._writer
        store._writer.run("PRAGMA query_only = 1")
        with pytest.raises(StoreError, match="readonly") as caught:
            store.transact(lambda tx: tx.add(HOST))
        assert "Allow the service's user to write" in caught.value.hint


def test_file_that_is_not_a_database_is_not_changed(path: Path) -> None:
    path.write_text("name,host\nweb_0,h1\n" * 100)
    with pytest.raises(StoreError, match="not a database") as caught:
        SqliteStore(path)
    assert "another file" in caught.value.hint
    assert path.read_text().startswith("name,host")


def test_damaged_file_is_detected_when_read(path: Path) -> None:
    def work(tx: Transaction) -> None:
        for number in range(2000):
            tx.add(replace(HOST, name=f"h{number}", applied="x" * 100))

    with opened(path) as store:
        store.transact(work)
    damaged = bytearray(path.read_bytes())
    # The last pages have hosts. The first ones have the schema, which opening reads.
    damaged[-8192:] = b"\xff" * 8192
    path.write_bytes(damaged)
    with opened(path) as store:
        with pytest.raises(StoreError) as caught:
            store.read(lambda reader: reader.select(kinds.ALL_HOSTS, limit=5000))
        assert "backup" in caught.value.hint


def test_manually_changed_row_is_detected_when_read(path: Path) -> None:
    with opened(path) as store:
        store.transact(lambda tx: tx.add(HOST))
    database = sqlite3.connect(path)
    database.execute("UPDATE hosts SET state = 'sideways'")
    database.commit()
    database.close()
    with opened(path) as store, pytest.raises(StoreError, match="row of Host"):
        names(store)


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no directory") as caught:
        SqliteStore(tmp_path / "missing" / "store.db")
    assert str(tmp_path / "missing") in caught.value.message
    assert "Create the directory" in caught.value.hint


def test_directory_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened: Is a directory"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="cannot be opened: Not a directory"):
        SqliteStore(Path("/dev/null/store.db"))


def test_unwritable_lock_is_refused(path: Path) -> None:
    path.with_name("store.db.lock").mkdir()
    with pytest.raises(StoreError, match="lock"):
        SqliteStore(path)
    assert not path.exists()
