"""The feed in PostgreSQL, in the same transactions as the records."""

import json
from collections.abc import Iterable

from forewarn.cluster.port import FeedRow
from forewarn.store.cache import Committed, RememberingTransaction
from forewarn.store.feed import FEED_KEYS, FOLLOWED_KINDS, changes_of
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.lease import CHANNEL
from forewarn.store.questions import Record


class FeedingTransaction(RememberingTransaction):
    """A transaction that remembers which records it wrote."""

    def __init__(self, connection: PostgresConnection, committed: Committed) -> None:
        """Begin without written records."""
        super().__init__(connection, committed)
        self._written: dict[tuple[type[Record], str], None] = {}

    def _follow(self, old: Record | None, new: Record | None) -> None:
        record = new or old
        assert record is not None
        # With one more than FEED_KEYS, no more are needed: followers read everything.
        if type(record) in FOLLOWED_KINDS and len(self._written) <= FEED_KEYS:
            self._written[type(record), record.key] = None
        super()._follow(old, new)

    @property
    def addresses(self) -> Iterable[tuple[type[Record], str]]:
        """Return the kinds and keys of the written records that followers read.

        If they are more than FEED_KEYS, some of the rest are missing.
        """
        return self._written


def write(
    connection: PostgresConnection,
    transaction: FeedingTransaction,
    *,
    number: int,
    term: int,
) -> None:
    """Write the changes of a transaction, if followers read any of them."""
    changes = changes_of(transaction.addresses)
    if changes == ():
        return
    text = None if changes is None else json.dumps(changes, separators=(",", ":"))
    connection.raw(
        "WITH added AS (INSERT INTO feed (number, term, changes) VALUES (%s, %s, %s))"
        " SELECT pg_notify(%s, '')::text",
        (number, term, text, CHANNEL),
    )


def rows_after(
    connection: PostgresConnection, after: int
) -> tuple[FeedRow, ...] | None:
    """Return the rows after a number; None if some were removed."""
    [(floor,)] = connection.raw("SELECT number FROM feed_floor")
    if after < floor:
        return None
    rows = connection.raw(
        "SELECT number, term, changes FROM feed WHERE number > %s ORDER BY number",
        (after,),
    )
    return tuple(
        FeedRow(
            number=number,
            term=term,
            changes=None
            if changes is None
            else tuple((kind, key) for kind, key in json.loads(changes)),
        )
        for number, term, changes in rows
    )


def prune(connection: PostgresConnection, number: int) -> None:
    """Remove the rows up to a number."""
    connection.run(
        "WITH floor AS (UPDATE feed_floor SET number = %s WHERE number < %s)"
        " DELETE FROM feed WHERE number <= %s",
        (number, number, number),
    )
