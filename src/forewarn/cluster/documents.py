"""The read lease: until when a replica may answer from the documents that it has. Pure.

A replica writes its row, and then reads a snapshot and applies it. From the moment before
the write, its documents are complete for READ_LEASE seconds: a commit that the snapshot
does not include came later, and the leader of that commit sees the row. It begins no
driver call until the row has the commit's number, or the read lease has run out. So a VM
never gets a document from before a driver call that has begun.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import ReplicaRow, Role
from forewarn.cluster.times import FEED_KEPT, READ_LEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How far the documents of a replica are complete."""

    position: int = 0
    """The number of the last transaction that the published documents include."""
    written: float | None = None
    """When it began the last write of its row that has succeeded."""
    until: float = 0.0
    """When the read lease ends."""


def wrote(reading: Reading, *, asked: float) -> Reading:
    """Return the reading after a write of the row that was sent at `asked`."""
    return replace(reading, written=asked)


def published(reading: Reading, number: int) -> Reading:
    """Return the reading after everything up to `number` was published.

    The snapshot was opened after the last successful write of the row. A snapshot that
    is older than the documents extends nothing: the database has lost transactions.
    """
    if number < reading.position:
        return reading
    end = 0.0 if reading.written is None else reading.written + READ_LEASE
    return replace(reading, position=number, until=max(reading.until, end))


def answers_until(reading: Reading, lease_state: LeaseState, published: int) -> float:
    """Return the time until which a replica may answer from its documents.

    A leader was the only writer until its last renewal, so its documents were complete
    then, if it has published those of its term: `published` is the last such term. Until
    then, it has the documents of a follower. If the database has lost transactions, none
    are right.
    """
    if lease_state.role is Role.BEHIND:
        return 0.0
    if lease_state.leads and lease_state.term == published:
        return max(reading.until, lease_state.renewed + READ_LEASE)
    return reading.until


def prune_to(rows: Iterable[ReplicaRow], number: int, *, key: str) -> int:
    """Return the number up to which the feed is removed, at the number of the lease.

    `key` is the leader's: it needs no feed, and its position stays where it took the lease.
    """
    slowest = min((row.position for row in rows if row.key != key), default=number)
    return max(slowest, number - FEED_KEPT)
