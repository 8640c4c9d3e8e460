"""The durable store in PostgreSQL: one process, one writer at a time.

A session-level advisory lock keeps other processes away. The connection that holds it is
the one that writes: if the session ends, its lock and its open transaction end with it.
So no transaction of an earlier holder commits after the lock was taken again, and the
cache of records may assume one writer, as in SQLite.

Each writing transaction raises a number in the table `fence`. If the connection is lost
during a commit, the outcome is unknown: the store connects again, and the number tells.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from forewarn.store.cache import Committed, RememberingTransaction
from forewarn.store.migrate import load_steps
from forewarn.store.port import Reader, StoreBusyError, StoreError, Transaction
from forewarn.store.postgres.connection import LostError, PostgresConnection
from forewarn.store.postgres.migrate import count_done, migrate
from forewarn.store.postgres.url import place_of
from forewarn.store.rows import Schema
from forewarn.store.snapshot import SnapshotStore
from forewarn.store.write_lock import WriteLock

T = TypeVar("T")

LOCK = 0x666F7265
"""The advisory lock of the service in its database: "fore" in ASCII."""

IN_DOUBT_SECONDS = 10.0
"""Maximum time to find out whether a commit was done. A database that restarts is back
sooner."""

AGAIN_SECONDS = 0.2
"""Pause between attempts to connect again."""


class PostgresStore:
    """A store in a database, whose tables it creates if they are missing."""

    def __init__(
        self, url: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Connect, lock the database, and bring its schema up to date.

        Raises StoreError, StoreBusyError or StoreTooNewError, and then writes nothing.
        """
        self._url, self._place = url, place_of(url)
        self._sleep = sleep
        self._write_lock = WriteLock()
        self._committed = Committed()
        self._is_closed = False
        self._number = 0
        """The number in `fence` after the last transaction of this store."""
        connection = self._locked()
        try:
            steps = load_steps()
            done = count_done(connection, self._place, steps)
            migrate(connection, steps, done)
            [(self._number,)] = connection.raw("SELECT number FROM fence")
            self._schema = Schema(connection)
        except BaseException:
            connection.close()
            raise
        self._writer: PostgresConnection | None = connection
        self._readers = SnapshotStore(
            lambda: PostgresConnection(url, self._place, read_only=True), self._schema
        )

    def _locked(self) -> PostgresConnection:
        """Return a new connection that holds the lock."""
        connection = PostgresConnection(self._url, self._place)
        try:
            [(is_mine,)] = connection.raw("SELECT pg_try_advisory_lock(%s)", (LOCK,))
            if not is_mine:
                raise StoreBusyError(
                    f"another service uses the store {self._place}",
                    hint="Stop it, or name another database in [store] url.",
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""

        def attempt() -> T:
            self._check_open()
            writer, self._writer = self._writer, None
            if writer is None:
                writer = self._taken_again()
            try:
                writer.begin()
                number = self._raise_number(writer)
                transaction = RememberingTransaction(
                    writer, self._schema, self._committed
                )
                result = work(transaction)
                transaction.send_all()
                self._commit(writer, number)
                self._committed.take(transaction.seen, transaction.answers)
            except StoreError:
                self._committed.forget()
                raise
            finally:
                if writer.end():
                    self._writer = writer
            return result

        return self._write_lock.run(attempt)

    def _raise_number(self, writer: PostgresConnection) -> int:
        [(number,)] = writer.raw(
            "UPDATE fence SET number = number + 1 RETURNING number"
        )
        return number

    def _commit(self, writer: PostgresConnection, number: int) -> None:
        """Commit; find out the outcome if the connection is lost meanwhile."""
        try:
            writer.commit()
        except LostError:
            writer.close()
            if not self._was_committed(number):
                raise
        self._number = number

    def _was_committed(self, number: int) -> bool:
        """Return whether the transaction with this number was committed.

        Raises LostError if the database does not answer in time: the outcome is then
        unknown, and the store must be opened again.
        """
        left = IN_DOUBT_SECONDS
        while True:
            try:
                self._writer = self._locked()
                [(stored,)] = self._writer.raw("SELECT number FROM fence")
            except (LostError, StoreBusyError):
                # The lock of the lost session ends when the server notices the loss.
                left -= AGAIN_SECONDS
                if left <= 0:
                    self._is_closed = True
                    raise
                self._sleep(AGAIN_SECONDS)
            else:
                return stored == number

    def _taken_again(self) -> PostgresConnection:
        """Connect after the last connection was lost outside a commit."""
        connection = self._locked()
        [(stored,)] = connection.raw("SELECT number FROM fence")
        if stored != self._number:
            connection.close()
            self._is_closed = True
            raise StoreError(
                f"another service has written to the store {self._place}",
                hint="Start this service again; only one may use the database.",
            )
        return connection

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        return self._readers.read(work)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the store is closed")

    def close(self) -> None:
        """Wait for the writer, close all connections and release the lock."""
        self._write_lock.run(self._close)

    def _close(self) -> None:
        self._is_closed = True
        self._readers.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
