"""The right to write: the lease's term, and the outcome of the last commit.

Each writing transaction first changes the row of the table `fence` if it still has the
writer's term. A takeover changes the term in the same row, so no transaction of an earlier
term commits after it. If the connection is lost during a commit, the row shows whether
the transaction was committed.

A store without a cluster also holds a session-level advisory lock, which keeps other such
stores away, and begins a term when no replica leads.
"""

import contextlib
import secrets

from forewarn.clock import Clock
from forewarn.cluster.lease import free_at
from forewarn.cluster.port import LeaseRow
from forewarn.cluster.times import Times
from forewarn.store.port import NotLeaderError, StoreBusyError, StoreError
from forewarn.store.postgres import lease
from forewarn.store.postgres.connection import PostgresConnection

SETTLE_MILLISECONDS = 2_000
"""Maximum wait for the end of a commit whose connection was lost. The store then tries
again, unless it is to stop."""

LATE_SECONDS = 1.6
"""Maximum time between the end of a lease and the look that finds it ended: the next one
comes after a pause, and with a connection of its own."""

LOCK = 0x666F7265
"""The advisory lock of a service without a cluster: "fore" in ASCII."""


class Fence:
    """The right of one store object to write, and the number of its last transaction."""

    def __init__(self, place: str, clock: Clock, term: int | None = None) -> None:
        """Name the store `place` in messages. `term` is that of a replica that leads."""
        self._place, self._clock = place, clock
        self._writer = secrets.token_hex(8)
        self._has_cluster, self._term = term is not None, term
        self._watched: tuple[int, int, float] | None = None
        """The term and beat of a lease, and when they were first seen."""
        self.wait_until = 0.0
        """When a lease without renewals has ended at the latest; 0 if it is renewed, or if
        none was found."""
        self._number: int | None = None
        """The number of the last transaction of this store, or of the one before it."""

    @property
    def feeds(self) -> bool:
        """Return whether transactions write the feed."""
        return self._has_cluster

    @property
    def term(self) -> int:
        """Return the term."""
        assert self._term is not None, "the row was read"
        return self._term

    @property
    def number(self) -> int:
        """Return the number of the last commit, at least that of the takeover."""
        assert self._number is not None, "the row was read"
        return self._number

    def take(self, connection: PostgresConnection) -> None:
        """Let `connection` write; raises StoreBusyError if another service does."""
        connection.raw(
            "SELECT set_config('application_name', %s, false)", (lease.LEADER_NAME,)
        )
        if self._has_cluster:
            return
        [(is_mine,)] = connection.raw("SELECT pg_try_advisory_lock(%s)", (LOCK,))
        if not is_mine:
            raise StoreBusyError(
                f"another service uses the store {self._place}",
                hint="Stop it, or name another database in [store] url.",
            )
        if self._term is None and lease.exists(connection):
            self._begin(connection)

    def _begin(self, connection: PostgresConnection) -> None:
        """Begin a term without a cluster, if no replica renews the lease."""
        row = lease.read(connection)
        taken = None
        if not row.holder or self._is_silent(row):
            taken = lease.take(connection, row, holder="", url="")
        if taken is None:
            raise StoreBusyError(
                f"replica {row.holder} at {row.url} uses the store {self._place}",
                hint="Stop all replicas, or name another database in [store] url.",
            )
        self._term = taken.term

    def _is_silent(self, row: LeaseRow) -> bool:
        now = self._clock.monotonic()
        is_first = self._watched is None
        if self._watched is None or self._watched[:2] != (row.term, row.beat):
            self._watched = row.term, row.beat, now
            # A row that has changed is that of a replica that runs.
            end = free_at(row, Times(), now) + LATE_SECONDS
            self.wait_until = end if is_first else 0.0
        return now >= free_at(row, Times(), self._watched[2])

    def release(self, connection: PostgresConnection) -> None:
        """Let others write before `connection` is closed, which the server sees later."""
        if not self._has_cluster:
            with contextlib.suppress(StoreError):
                connection.raw("SELECT pg_advisory_unlock(%s)", (LOCK,))

    def read(self, connection: PostgresConnection) -> None:
        """Read the row, which `connection` alone may change from now on.

        Raises NotLeaderError if the term has ended.
        """
        if self._term is None:
            self._begin(connection)
        [(number, term)] = connection.raw("SELECT number, term FROM fence")
        if term != self._term:
            raise self._ended()
        if self._number is None:
            self._number = number
        self._check(number, self.number)

    def enter(self, connection: PostgresConnection) -> int:
        """Begin a writing transaction, and return its number; raises NotLeaderError."""
        fed = ", fed = number + 1" if self.feeds else ""
        rows = connection.raw(
            f"UPDATE fence SET number = number + 1, writer = %s{fed}"  # noqa: S608
            " WHERE term = %s RETURNING number",
            (self._writer, self._term),
        )
        if not rows:
            raise self._ended()
        [(number,)] = rows
        self._check(number - 1, self.number)
        return number

    def skip(self, connection: PostgresConnection, count: int) -> None:
        """Leave out the next numbers; raises NotLeaderError if the term has ended."""
        rows = connection.raw(
            "UPDATE fence SET number = number + %s WHERE term = %s RETURNING number",
            (count, self._term),
        )
        if not rows:
            raise self._ended()
        [(self._number,)] = rows

    def leave(self, number: int) -> None:
        """Note that the transaction with this number was committed."""
        self._number = number

    def settle(self, connection: PostgresConnection, number: int) -> bool:
        """Return whether the transaction that was last entered is committed, for good.

        Its session can still be at the commit, without a connection. The write waits for
        its end, and the commit of the write for the standbys: they then have all before it.
        Raises ConflictError if that session does not end soon, and NotLeaderError if the
        term has ended: the outcome is then unknown.
        """
        connection.begin()
        connection.run(f"SET LOCAL lock_timeout = {SETTLE_MILLISECONDS}")
        rows = connection.raw(
            "UPDATE fence SET writer = writer WHERE term = %s RETURNING number, writer",
            (self._term,),
        )
        if not rows:
            raise self._ended()
        connection.commit()
        [(found, writer)] = rows
        is_committed = (found, writer) == (number, self._writer)
        self._check(found, number if is_committed else self.number)
        return is_committed

    def _check(self, found: int, expected: int) -> None:
        if found != expected:
            raise NotLeaderError(
                f"term {self._term} of the store {self._place} has ended: the database is"
                f" at transaction {found}, and this service at {expected}",
                hint="Check whether it was restored, or a standby without the last"
                " transactions was promoted; start this service again.",
            )

    def _ended(self) -> NotLeaderError:
        return NotLeaderError(
            f"term {self._term} of the store {self._place} has ended: another service"
            " has written to it",
            hint="Start this service again; only one may write to the database.",
        )
