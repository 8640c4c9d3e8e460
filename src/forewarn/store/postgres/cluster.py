"""One replica's connections to the rows that replicas share in PostgreSQL.

The bell has a connection of its own, and so has the snapshot. A connection that is lost
is made again by the next request.
"""

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

from forewarn.cluster.port import Condition, LeaseRow, Moment, ReplicaRow
from forewarn.store.migrate import load_steps
from forewarn.store.port import Reader, StoreError
from forewarn.store.postgres import condition, feed, lease, replicas
from forewarn.store.postgres.connection import LostError, PostgresConnection
from forewarn.store.postgres.migrate import count_done
from forewarn.store.postgres.url import place_of
from forewarn.store.snapshot import SnapshotReader

T = TypeVar("T")


class PostgresCluster:
    """The cluster in a database whose tables exist."""

    def __init__(self, url: str) -> None:
        """Connect when something is asked."""
        self._url = url
        self._writer: PostgresConnection | None = None
        self._reader: PostgresConnection | None = None
        self._bell: PostgresConnection | None = None
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_closed = False

    def _ask(self, work: Callable[[PostgresConnection], T]) -> T:
        self._check_open()
        if self._writer is None:
            self._writer = PostgresConnection(self._url)
        try:
            return work(self._writer)
        except LostError:
            self._writer.close()
            self._writer = None
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the cluster is closed")

    def lease(self) -> LeaseRow:
        """Return the row of the lease."""
        return self._ask(lease.read)

    def take(
        self, seen: LeaseRow, *, holder: str, url: str, seconds: float = 0.0
    ) -> LeaseRow | None:
        """Begin a new term if the row still has the term and beat of `seen`.

        Raises StoreTooNewError if a newer version has changed the tables: this one could
        not write, and would only interrupt the replica that can.
        """

        def take(connection: PostgresConnection) -> LeaseRow | None:
            count_done(connection, place_of(self._url), load_steps())
            return lease.take(connection, seen, holder=holder, url=url, seconds=seconds)

        return self._ask(take)

    def renew(self, term: int) -> LeaseRow | None:
        """Raise the beat if the row has this term; return the row, or None."""
        return self._ask(lambda it: lease.renew(it, term))

    def release(self, term: int) -> bool:
        """Clear the holder if the row has this term; return whether it had."""
        return self._ask(lambda it: lease.release(it, term))

    def replicas(self) -> tuple[ReplicaRow, ...]:
        """Return the rows of all replicas, in the order of their keys."""
        return self._ask(replicas.read)

    def write_replica(self, row: ReplicaRow) -> None:
        """Write the row of this replica, and raise its beat."""
        self._ask(lambda it: replicas.write(it, row))

    def remove_replica(self, row: ReplicaRow) -> bool:
        """Remove a row if it still has the beat of `row`; return whether it had."""
        return self._ask(lambda it: replicas.remove(it, row))

    def condition(self) -> Condition:
        """Return the state of the database, for operators."""
        return self._ask(condition.read)

    def prune(self, number: int) -> None:
        """Remove the rows of the feed up to this number."""
        self._ask(lambda it: feed.prune(it, number))

    def follow(self, after: int | None, work: Callable[[Reader, Moment], T]) -> T:
        """Run `work` on a snapshot, with the rows of the feed after a number."""
        self._check_open()
        if self._reader is None:
            self._reader = self._connected_reader()
        reader = self._reader
        try:
            reader.begin_snapshot()
            row = lease.read(reader)
            rows = None if after is None else feed.rows_after(reader, after)
            moment = Moment(lease=row, rows=rows)
            return work(SnapshotReader(reader), moment)
        finally:
            if not reader.end():
                self._reader = None

    def _connected_reader(self) -> PostgresConnection:
        """Connect to the server of the writes: a standby can lack what was committed."""
        reader = PostgresConnection(self._url, read_only=True)
        [(is_standby,)] = reader.raw("SELECT pg_is_in_recovery()")
        if is_standby:
            reader.close()
            raise StoreError(
                f"the store {place_of(self._url)} is a standby, whose records can be older",
                hint="Add target_session_attrs=read-write to [store] url.",
            )
        return reader

    def wait(self, seconds: float) -> bool:
        """Wait for a commit, a takeover or a confirmed position.

        If the connection was lost, return at once, since a notification may have been missed.
        """
        self._check_open()
        try:
            if self._bell is None:
                self._bell = PostgresConnection(self._url)
                self._bell.run(f"LISTEN {lease.CHANNEL}")
                return True
            was_rung = self._bell.wait(seconds, self._woken)
        except StoreError:
            if self._bell is not None:
                self._bell.close()
            self._bell = None
            self._pause(min(seconds, 0.2))
            return True
        self._pause(0)
        return was_rung

    def _pause(self, seconds: float) -> None:
        """Wait for `wake` only, and forget it."""
        PostgresConnection.pause(seconds, self._woken)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def wake(self) -> None:
        """End the wait of another thread, or the next one."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wakes, b"x")

    def close(self) -> None:
        """Close the connections; a second call has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        for connection in (self._writer, self._reader, self._bell):
            if connection is not None:
                connection.close()
        os.close(self._wakes)
        os.close(self._woken)
