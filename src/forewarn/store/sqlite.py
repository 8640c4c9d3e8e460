"""The durable store: one SQLite file, one process, one writer at a time.

Writers use one connection in turn and first take SQLite's write lock, so they never
conflict. Readers have separate connections and see the state at their beginning. A
commit is on the disk before it returns. If it fails, the transaction is rolled back
before anyone learns of its result. If the connection is then unusable, the next
transaction opens a new one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from forewarn.store.cache import Committed, RememberingTransaction
from forewarn.store.checkpoints import Checkpoints, has_log
from forewarn.store.connection import Connection
from forewarn.store.lock import ProcessLock
from forewarn.store.migrate import count_done, load_steps, migrate
from forewarn.store.port import Reader, StoreError, Transaction
from forewarn.store.snapshot import SnapshotStore, connect
from forewarn.store.write_lock import WriteLock

T = TypeVar("T")

_MOVED = (
    "Stop the service before you move or replace a store. Move its -wal and -shm files"
    " with it, and start no service on another file next to them."
)


class SqliteStore:
    """A store in a file, which it creates if it is missing."""

    def __init__(self, path: Path) -> None:
        """Lock and open the file, and bring its schema up to date.

        Raises StoreError, StoreBusyError or StoreTooNewError, and then writes nothing
        into the file.
        """
        # Two names of one file must use the same lock.
        self._path = path.resolve()
        self._write_lock = WriteLock()
        self._committed = Committed()
        self._checkpoints: Checkpoints | None = None
        self._inode = (0, 0)
        self._is_closed = False
        self._writer: Connection | None = None
        self._readers: SnapshotStore | None = None
        self._lock = ProcessLock(self._path)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        steps = load_steps()
        # A log of an earlier process is truncated below. Without that, a long log would
        # stay until many more writes.
        is_log_left = has_log(self._path)
        connection = Connection(self._path, may_make=True)
        try:
            done = count_done(connection, self._path, steps)
            connection.make_durable()
            migrate(connection, steps[done:])
            self._readers = SnapshotStore(lambda: connect(self._path))
            self._checkpoints = Checkpoints(self._connect())
            # SQLite has opened the file by name, but the lock is on the file itself.
            self._inode = self._lock.inode
            self._check_inode()
            if is_log_left:
                self._checkpoints.begin()
        except BaseException:
            connection.close()
            raise
        self._writer = connection

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""

        def attempt() -> T:
            writer = self._take_writer()
            rows = writer.rows_changed
            try:
                writer.begin(immediate=True)
                if writer.was_changed():
                    # As by a restore into the open file: what is cached may be wrong.
                    self._committed.forget()
                transaction = RememberingTransaction(writer, self._committed)
                result = work(transaction)
                transaction.send_all()
                writer.commit()
                transaction.remember()
                if self._checkpoints:
                    self._checkpoints.note(writer.rows_changed - rows)
            except StoreError:
                self._committed.forget()
                raise
            finally:
                if writer.end():
                    self._writer = writer
            return result

        return self._write_lock.run(attempt)

    def latest(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on the committed state, with what the writer remembers of it."""

        def look() -> T:
            writer = self._take_writer()
            try:
                # Each question sees the last commit, since no other writer has the file.
                reader = RememberingTransaction(writer, self._committed)
                result = work(reader)
                reader.remember()
            finally:
                if writer.end():
                    self._writer = writer
            return result

        return self._write_lock.run(look)

    def _take_writer(self) -> Connection:
        """Return the writer's connection; the caller returns it if it is usable."""
        self._check_open()
        self._check_inode()
        writer, self._writer = self._writer, None
        return writer or self._connect()

    def _connect(self) -> Connection:
        connection = Connection(self._path)
        try:
            connection.make_durable()
        except BaseException:
            connection.close()
            raise
        return connection

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        assert self._readers is not None, "an open store has readers"
        return self._readers.read(work)

    def _find_inode(self) -> tuple[int, int]:
        """Return device and inode of the file with the store's name."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise StoreError(
                f"the store's file {self._path} was removed: {error.strerror}",
                hint=_MOVED,
            ) from error
        return status.st_dev, status.st_ino

    def _check_inode(self) -> None:
        """Raise StoreError if the store's name now belongs to another file.

        Writes to a file without a name would be lost with the process, although the
        service had reported them as durable.
        """
        if self._find_inode() != self._inode:
            raise StoreError(
                f"another file has replaced the store {self._path}",
                hint=_MOVED,
            )

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the store is closed")

    def close(self) -> None:
        """Wait for the writer, close the file and release its lock."""
        self._write_lock.run(self._close)

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._checkpoints:
                self._checkpoints.close()
            if self._readers:
                self._readers.close()
            # Last: this copies the log into the file and deletes the log.
            if self._writer:
                self._writer.close()
        finally:
            self._lock.release()
