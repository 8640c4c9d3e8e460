"""The right to write: one service at a time, and the outcome of its last commit.

A session-level advisory lock keeps other services away. The connection that holds it is
the one that writes, so its lock and its open transaction end together: no transaction of an
earlier holder commits after the lock was taken.

Each writing transaction changes the row of the table `fence` first. If the connection is
lost during a commit, the row shows whether the transaction was committed.

The store asks only this module, so another rule can take its place.
"""

import contextlib
import secrets

from forewarn.store.port import StoreBusyError, StoreError
from forewarn.store.postgres.connection import PostgresConnection

LOCK = 0x666F7265
"""The advisory lock of the service in its database: "fore" in ASCII."""

SCHEMA = (
    "CREATE TABLE fence (number bigint NOT NULL, writer text NOT NULL)",
    "INSERT INTO fence (number, writer) VALUES (0, '')",
)
"""The table, with its only row."""


class Fence:
    """The right of one store object to write, and the number of its last transaction."""

    def __init__(self, place: str) -> None:
        """Name the store `place` in messages."""
        self._place = place
        self._writer = secrets.token_hex(8)
        self._last: tuple[int, str] | None = None
        """The row after the last transaction; None: it was not read yet."""

    def take(self, connection: PostgresConnection) -> None:
        """Let `connection` write; raises StoreBusyError if another service does."""
        [(is_mine,)] = connection.raw("SELECT pg_try_advisory_lock(%s)", (LOCK,))
        if not is_mine:
            raise StoreBusyError(
                f"another service uses the store {self._place}",
                hint="Stop it, or name another database in [store] url.",
            )

    def release(self, connection: PostgresConnection) -> None:
        """Let others write before `connection` is closed, which the server sees later."""
        with contextlib.suppress(StoreError):
            connection.raw("SELECT pg_advisory_unlock(%s)", (LOCK,))

    def read(self, connection: PostgresConnection) -> None:
        """Read the row, which `connection` alone may change from now on.

        Raises StoreError if another service has changed it since it was last read.
        """
        row = self._row(connection)
        if self._last not in {None, row}:
            raise StoreError(
                f"another service has written to the store {self._place}",
                hint="Start this service again; only one may use the database.",
            )
        self._last = row

    def enter(self, connection: PostgresConnection) -> int:
        """Begin a writing transaction, and return its number."""
        [(number,)] = connection.raw(
            "UPDATE fence SET number = number + 1, writer = %s RETURNING number",
            (self._writer,),
        )
        return number

    def leave(self, number: int) -> None:
        """Note that the transaction with this number was committed."""
        self._last = number, self._writer

    def was_committed(self, connection: PostgresConnection, number: int) -> bool:
        """Return whether the transaction that was last entered was committed."""
        return self._row(connection) == (number, self._writer)

    def _row(self, connection: PostgresConnection) -> tuple[int, str]:
        [(number, writer)] = connection.raw("SELECT number, writer FROM fence")
        return number, writer
