"""The read lease: until when a replica may answer from the documents that it has. Pure.

A replica writes its row, and then reads a snapshot and applies it. From the moment before
the write, its documents are complete for READ_LEASE seconds: a commit that the snapshot
does not include came later, and the leader of that commit sees the row. It begins no
driver call until the row has the commit's number, or the read lease has run out. So a VM
never gets a document from before a driver call that has begun.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forewarn.cluster.lease import Seat
from forewarn.cluster.port import ReplicaRow
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


def may_answer(reading: Reading, now: float) -> bool:
    """Return whether a follower may answer from its documents."""
    return now < reading.until


def leader_may_answer(seat: Seat, now: float) -> bool:
    """Return whether a leader may answer from its documents.

    It was the only writer until its last renewal, so they were complete then.
    """
    return seat.leads and now < seat.renewed + READ_LEASE


def prune_to(rows: Iterable[ReplicaRow], number: int) -> int:
    """Return the number up to which the feed is removed, at the number of the lease."""
    slowest = min((row.position for row in rows), default=number)
    return max(slowest, number - FEED_KEPT)
