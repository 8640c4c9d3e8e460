"""The port to the database that replicas share: the lease, and the rows of replicas.

One contract suite tests every implementation. All methods raise StoreError if the
database does not answer; then the outcome of a write is unknown. Each write is one
transaction, and all of them together have one order.
"""

import enum
from dataclasses import dataclass
from typing import Protocol

BEAT_BITS = 32
"""A new row of a replica begins at its number among all that were ever made, shifted by
these bits: room for 68 years of writes at two a second."""


class Role(enum.Enum):
    """The part of a replica in its cluster; `lease` has the table of its changes."""

    FOLLOWS = "Follows"
    LEADS = "Leads"
    UNSURE = "Unsure"
    """It has a term, but no right to begin driver calls: its renewals fail."""
    BEHIND = "Behind"
    """The database has lost transactions that the replica has seen, so it neither leads nor
    answers VMs."""
    STOPPED = "Stopped"


class StandbyState(enum.Enum):
    """Whether a fail-over of the database can lose commits that were answered."""

    STREAMING = "streaming"
    """A synchronous standby confirms each commit."""
    MISSING = "missing"
    """A synchronous standby is demanded, and none streams: commits wait."""
    NOT_SET = "not set"
    """No synchronous standby is demanded."""
    UNKNOWN = "unknown"
    """The database does not tell this user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """The only row of the lease, with the number of the last committed transaction."""

    term: int
    """It goes up with each takeover."""
    holder: str
    """The key of the replica that leads; empty: the last leader has released the lease."""
    url: str
    """The URL at which the leader answers other replicas."""
    beat: int
    """It goes up with each renewal and takeover."""
    number: int
    """It goes up with each writing transaction, over all terms."""
    seconds: float = 0.0
    """The lease of the last leader, which can differ from that of a candidate."""
    database: str = ""
    """The name that the database got when its tables were made: a restored backup and a
    standby have it too. Empty: it is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """A replica that serves documents."""

    key: str
    """Unique for each process, so that a restarted replica does not speak for its
    predecessor, which may still run."""
    name: str
    url: str
    position: int
    """The number of the last transaction that its documents include."""
    beat: int = 0
    """It goes up with each write of the row. A row that was removed and is written again
    begins higher than it ever was, so that it is never taken for the removed one."""
    role: Role = Role.FOLLOWS
    version: str = ""
    """The version of forewarn that it runs."""
    led_for: float | None = None
    """Seconds since it took the lease, by its monotonic clock; None: it does not lead."""
    lease: float | None = None
    """Its setting of the lease in seconds; None: its version does not write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """The kinds and keys of the records that one transaction changed."""

    number: int
    term: int
    changes: tuple[tuple[str, str], ...] | None
    """Pairs of a kind and a key. None: too many, so that a follower reads everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The place of a snapshot in the feed."""

    lease: LeaseRow
    rows: tuple[FeedRow, ...] | None
    """The rows after the position that was asked for. None: some were removed."""

    @property
    def number(self) -> int:
        """Return the number of the last transaction that the snapshot includes."""
        return self.lease.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The state of the database, for operators."""

    standby: StandbyState = StandbyState.UNKNOWN
    feed_rows: int = 0
    """Transactions in the feed that were not removed yet."""


class Cluster(Protocol):
    """One replica's connection to the shared rows; only one thread at a time uses it."""

    def lease(self) -> LeaseRow:
        """Return the row of the lease."""
        ...

    def take(
        self, seen: LeaseRow, *, holder: str, url: str, seconds: float = 0.0
    ) -> LeaseRow | None:
        """Begin a new term if the row still has the term and beat of `seen`.

        `seconds` is the lease of the new leader. Return the new row, or None. Afterwards,
        no transaction of an earlier term commits.
        """
        ...

    def renew(self, term: int) -> LeaseRow | None:
        """Raise the beat if the row has this term; return the row, or None.

        It does not wait for a transaction of the leader.
        """
        ...

    def release(self, term: int) -> bool:
        """Clear the holder if the row has this term; return whether it had."""
        ...

    def replicas(self) -> tuple[ReplicaRow, ...]:
        """Return the rows of all replicas, in the order of their keys."""
        ...

    def write_replica(self, row: ReplicaRow) -> None:
        """Write the row of this replica, and raise its beat; the given beat is ignored.

        The position of a stored row never goes down.
        """
        ...

    def remove_replica(self, row: ReplicaRow) -> bool:
        """Remove a row if it still has the beat of `row`; return whether it had."""
        ...

    def condition(self) -> Condition:
        """Return the state of the database, for operators."""
        ...

    def prune(self, number: int) -> None:
        """Remove the rows of the feed up to this number."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a commit, or a confirmed or removed position.

        It returns whether there was one, at once if that was since the last call. `wake`
        ends it.
        """
        ...

    def wake(self) -> None:
        """End the wait of another thread, or the next one."""
        ...

    def close(self) -> None:
        """Close the connection; a second call has no effect."""
        ...
