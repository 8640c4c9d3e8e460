"""The durable store in PostgreSQL: one process, one writer at a time.

The right to write is in `fence`. With one writer, the cache of records may assume
the same as in SQLite. A commit is durable before it returns, here and at a synchronous
standby.

If the connection is lost, the store connects again for some time, so that a restart of the
server only delays what it does. A transaction that was not committed runs again, and so
does a read.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from forewarn.clock import Clock, SystemClock
from forewarn.store.cache import Committed, RememberingTransaction
from forewarn.store.migrate import load_steps
from forewarn.store.port import (
    ConflictError,
    InterruptedWorkError,
    LostError,
    NotLeaderError,
    Reader,
    StoreBusyError,
    StoreError,
    StoreGoneError,
    Transaction,
)
from forewarn.store.postgres import feed
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.feed import FeedingTransaction
from forewarn.store.postgres.fence import Fence
from forewarn.store.postgres.migrate import bring_up_to_date
from forewarn.store.postgres.url import place_of
from forewarn.store.snapshot import SnapshotStore
from forewarn.store.write_lock import WriteLock

T = TypeVar("T")

PATIENCE_SECONDS = 20.0
"""Maximum time to connect again. A database that restarts is back sooner, and a service
that ends is started again by systemd."""

BUSY_SECONDS = 4.0
"""Maximum wait at the start for another service. The lock of a service that was killed ends
when the server notices that, mostly at once. A lease that no replica renews is waited for
until it ends, which can be later."""

AGAIN_SECONDS = 0.1
"""Pause between attempts to connect."""


class PostgresStore:
    """A store in a database, whose tables it creates if they are missing."""

    def __init__(
        self,
        url: str,
        *,
        term: int | None = None,
        clock: Clock | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Connect, lock the database, and bring its schema up to date.

        `term` is that of a replica that leads. Without it, the store begins a term.

        Raises StoreError, StoreBusyError, NotLeaderError or StoreTooNewError, and then
        writes no records.
        """
        self._url = url
        self._clock = clock or SystemClock()
        self._is_hurried = threading.Event()
        self._pause = pause or self._is_hurried.wait
        self._write_lock = WriteLock()
        self._committed = Committed()
        self._is_closed = False
        self._fence = Fence(place_of(url), self._clock, term)
        if term is None:
            opened = self._patiently(self._open, BUSY_SECONDS, StoreBusyError)
        else:
            # A replica that takes over runs already: it waits for the database.
            opened = self._patiently(self._open, PATIENCE_SECONDS, LostError)
        self._writer: PostgresConnection | None = opened
        self._readers = SnapshotStore(lambda: PostgresConnection(url, read_only=True))

    def _open(self) -> PostgresConnection:
        """Return a new connection to a database whose tables are up to date."""
        connection = self._connect()
        try:
            connection.limit_statements(is_limited=False)
            bring_up_to_date(connection, place_of(self._url), load_steps())
            connection.limit_statements(is_limited=True)
            self._fence.read(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _patiently(
        self, act: Callable[[], T], seconds: float, *expected: type[StoreError]
    ) -> T:
        """Do something; repeat it for some time after the first of the expected errors.

        The time does not begin before: what takes long may then fail once, too. It lasts
        at least until a lease without renewals has ended.
        """
        until: float | None = None
        while True:
            try:
                return act()
            except expected:
                now = self._clock.monotonic()
                until = now + seconds if until is None else until
                end = max(until, self._fence.wait_until)
                if now >= end or self._is_hurried.is_set():
                    raise
                self._pause(AGAIN_SECONDS)

    def stop_waiting(self) -> None:
        """Wait no more for a database that does not answer, as at a stop; any thread."""
        self._is_hurried.set()

    def _connect(self) -> PostgresConnection:
        """Return a new connection that may write; raises StoreError."""
        connection = PostgresConnection(self._url)
        try:
            self._fence.take(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def number(self) -> int:
        """Return the number of its last commit, at least that of the takeover."""
        return self._fence.number

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""
        return self._write_lock.run(lambda: self._attempt(work))

    def _attempt(self, work: Callable[[Transaction], T]) -> T:
        self._check_open()
        writer, self._writer = self._writer, None
        if writer is None:
            writer, _ = self._again(self._fence.read)
        try:
            writer.begin()
            number = self._fence.enter(writer)
            transaction = FeedingTransaction(writer, self._committed)
            result = work(transaction)
            transaction.send_all()
            if self._fence.feeds:
                term = self._fence.term
                feed.write(writer, transaction, number=number, term=term)
            writer = self._commit(writer, number)
            self._fence.leave(number)
            transaction.remember()
        except LostError as error:
            self._committed.forget()
            raise InterruptedWorkError(error.message, hint=error.hint) from error
        except StoreError:
            self._committed.forget()
            raise
        finally:
            if writer.end():
                self._writer = writer
        return result

    def skip_numbers(self, count: int) -> None:
        """Let the next transaction have a number that is higher by `count`."""

        def skip() -> None:
            self._check_open()
            assert self._writer is not None, "nothing was written yet"
            self._fence.skip(self._writer, count)

        self._write_lock.run(skip)

    def _commit(self, writer: PostgresConnection, number: int) -> PostgresConnection:
        """Commit, and return the connection for the next transaction.

        If the connection is lost meanwhile, this finds out the outcome. It raises
        LostError if the transaction was not committed, StoreGoneError if the database
        does not answer, and NotLeaderError if the term has ended.
        """
        try:
            writer.commit()
        except LostError:
            writer.close()
            another, is_committed = self._again(
                lambda connection: self._fence.settle(connection, number)
            )
            if not is_committed:
                another.close()
                raise
            return another
        return writer

    def _again(
        self, ask: Callable[[PostgresConnection], T]
    ) -> tuple[PostgresConnection, T]:
        """Connect after the connection was lost, and return the answer of `ask` too.

        The lock of a lost connection ends when the server notices the loss. Any error
        closes the store; raises StoreGoneError after some time.
        """

        def connected() -> tuple[PostgresConnection, T]:
            connection = self._connect()
            try:
                return connection, ask(connection)
            except BaseException:
                connection.close()
                raise

        try:
            return self._patiently(
                connected, PATIENCE_SECONDS, LostError, StoreBusyError, ConflictError
            )
        except NotLeaderError:
            self._is_closed = True
            raise
        except StoreError as error:
            self._is_closed = True
            raise StoreGoneError(error.message, hint=error.hint) from error

    def latest(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on the committed state, with what the writer remembers of it.

        It needs no transaction: while this store has the right to write, no other one
        changes the records, and afterwards each of its transactions is refused.
        """
        try:
            return self._write_lock.run(lambda: self._run_read(work))
        except LostError:
            return self.read(work)

    def _run_read(self, work: Callable[[Reader], T]) -> T:
        self._check_open()
        writer = self._writer
        if writer is None:
            return self.read(work)
        reader = RememberingTransaction(writer, self._committed)
        try:
            result = work(reader)
        except StoreError:
            self._committed.forget()
            if not writer.end():
                self._writer = None
            raise
        reader.remember()
        return result

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread.

        It runs again on a new view if the connection is lost.
        """
        return self._patiently(
            lambda: self._readers.read(work), PATIENCE_SECONDS, LostError
        )

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
            self._fence.release(self._writer)
            self._writer.close()
            self._writer = None
