"""A cluster in memory: the reference for others, and for tests on a virtual clock.

`SharedMemory` stands for the database. Each replica has a `MemoryCluster`, and the leader
opens a `MemoryLeaderStore` with its term.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from forewarn.cluster.port import (
    BEAT_BITS,
    Condition,
    FeedRow,
    LeaseRow,
    Moment,
    ReplicaRow,
    StandbyState,
)
from forewarn.store.feed import changes_of
from forewarn.store.memory import Address, MemoryStore, State
from forewarn.store.port import NotLeaderError, Reader, StoreError

T = TypeVar("T")

FIRST = LeaseRow(term=0, holder="", url="", beat=0, number=0)


def _nothing(_stage: str) -> None:
    """Let a request pass."""


class SharedMemory:
    """The rows that replicas share, with the records."""

    def __init__(self) -> None:
        """Start with a free lease and no records."""
        self.state = State()
        self.lease = FIRST
        self.replicas: dict[str, ReplicaRow] = {}
        self.rows_made = 0
        """The number of rows of replicas that were ever made."""
        self.feed: list[FeedRow] = []
        self.standby = StandbyState.NOT_SET
        self.floor = 0
        """The number up to which the feed was removed."""
        self.changed = threading.Condition(self.state.lock)
        self.bells = 0
        """It goes up with each commit and each confirmed position."""

    def ring(self) -> None:
        """End the waits of all replicas."""
        with self.changed:
            self.bells += 1
            self.changed.notify_all()


class MemoryCluster:
    """One replica's connection to the shared rows.

    `fault` is called with "send" and the name of a request before it is done, and with
    "answer" and the name afterwards. A test raises StoreError there, or lets time pass.
    """

    def __init__(
        self, shared: SharedMemory, *, fault: Callable[[str], None] = _nothing
    ) -> None:
        """Connect to `shared`."""
        self._shared = shared
        self._fault = fault
        self._bells = shared.bells
        self._woken = False
        self._is_closed = False

    def _do(self, name: str, work: Callable[[SharedMemory], T]) -> T:
        if self._is_closed:
            raise StoreError("the cluster is closed")
        self._fault(f"send {name}")
        with self._shared.changed:
            result = work(self._shared)
        self._fault(f"answer {name}")
        return result

    def lease(self) -> LeaseRow:
        """Return the row of the lease."""
        return self._do("lease", lambda shared: shared.lease)

    def take(
        self, seen: LeaseRow, *, holder: str, url: str, seconds: float = 0.0
    ) -> LeaseRow | None:
        """Begin a new term if the row still has the term and beat of `seen`."""

        def take(shared: SharedMemory) -> LeaseRow | None:
            row = shared.lease
            if (row.term, row.beat) != (seen.term, seen.beat):
                return None
            shared.lease = replace(
                row,
                term=row.term + 1,
                beat=row.beat + 1,
                holder=holder,
                url=url,
                seconds=seconds,
            )
            shared.ring()
            return shared.lease

        return self._do("take", take)

    def renew(self, term: int) -> LeaseRow | None:
        """Raise the beat if the row has this term; return the row, or None."""

        def renew(shared: SharedMemory) -> LeaseRow | None:
            row = shared.lease
            if row.term != term:
                return None
            shared.lease = replace(row, beat=row.beat + 1)
            return shared.lease

        return self._do("renew", renew)

    def release(self, term: int) -> bool:
        """Clear the holder if the row has this term; return whether it had."""

        def release(shared: SharedMemory) -> bool:
            if shared.lease.term != term:
                return False
            shared.lease = replace(shared.lease, holder="")
            shared.ring()
            return True

        return self._do("release", release)

    def replicas(self) -> tuple[ReplicaRow, ...]:
        """Return the rows of all replicas, in the order of their keys."""
        return self._do(
            "replicas",
            lambda shared: tuple(row for _, row in sorted(shared.replicas.items())),
        )

    def write_replica(self, row: ReplicaRow) -> None:
        """Write the row of this replica, and raise its beat."""

        def write(shared: SharedMemory) -> None:
            old = shared.replicas.get(row.key)
            if old is None:
                shared.rows_made += 1
                beat = shared.rows_made << BEAT_BITS
                shared.replicas[row.key] = replace(row, beat=beat)
                shared.ring()
                return
            position = max(old.position, row.position)
            shared.replicas[row.key] = replace(
                row, beat=old.beat + 1, position=position
            )
            if position > old.position:
                shared.ring()

        self._do("write_replica", write)

    def remove_replica(self, row: ReplicaRow) -> bool:
        """Remove a row if it still has the beat of `row`; return whether it had."""

        def remove(shared: SharedMemory) -> bool:
            stored = shared.replicas.get(row.key)
            if stored is None or stored.beat != row.beat:
                return False
            del shared.replicas[row.key]
            shared.ring()
            return True

        return self._do("remove_replica", remove)

    def condition(self) -> Condition:
        """Return the state of the database, for operators."""

        def condition(shared: SharedMemory) -> Condition:
            return Condition(standby=shared.standby, feed_rows=len(shared.feed))

        return self._do("condition", condition)

    def prune(self, number: int) -> None:
        """Remove the rows of the feed up to this number."""

        def prune(shared: SharedMemory) -> None:
            shared.floor = max(shared.floor, number)
            shared.feed = [row for row in shared.feed if row.number > shared.floor]

        self._do("prune", prune)

    def follow(self, after: int | None, work: Callable[[Reader, Moment], T]) -> T:
        """Run `work` on a snapshot, with the rows of the feed after a number."""

        def follow(reader: Reader) -> T:
            shared = self._shared
            with shared.changed:
                # The view was opened before, so nothing may have been committed since.
                rows = None
                if after is not None and after >= shared.floor:
                    rows = tuple(row for row in shared.feed if row.number > after)
                moment = Moment(lease=shared.lease, rows=rows)
            return work(reader, moment)

        def snapshot(shared: SharedMemory) -> T:
            return shared.state.read(follow)

        return self._do("follow", snapshot)

    def wait(self, seconds: float) -> bool:
        """Wait for a commit, a takeover or a confirmed position."""
        shared = self._shared
        with shared.changed:
            shared.changed.wait_for(
                lambda: self._woken or shared.bells != self._bells, seconds
            )
            was_rung = shared.bells != self._bells
            self._bells, self._woken = shared.bells, False
            return was_rung

    def wake(self) -> None:
        """End the wait of another thread, or the next one."""
        with self._shared.changed:
            self._woken = True
            self._shared.changed.notify_all()

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True


class MemoryLeaderStore(MemoryStore):
    """The store of the leader of one term."""

    def __init__(self, shared: SharedMemory, term: int) -> None:
        """Open the shared records for writing in this term; raises NotLeaderError."""
        super().__init__(state=shared.state, committing=self._fence)
        self._shared, self._term = shared, term
        self._number = self._check().number

    @property
    def number(self) -> int:
        """Return the number of its last commit, at least that of the takeover."""
        return self._number

    def stop_waiting(self) -> None:
        """Do nothing: memory always answers."""

    def _check(self) -> LeaseRow:
        with self._shared.changed:
            row = self._shared.lease
        if row.term != self._term:
            raise NotLeaderError(
                f"term {self._term} has ended: replica {row.holder} leads in term"
                f" {row.term}"
            )
        return row

    def _fence(self, written: Collection[Address]) -> None:
        shared = self._shared
        row = self._check()
        if row.number != self._number:
            raise NotLeaderError(
                f"term {self._term} has ended: the database is at transaction {row.number},"
                f" and this replica at {self._number}"
            )
        self._number = row.number + 1
        shared.lease = replace(row, number=self._number)
        changes = changes_of(written)
        if changes != ():
            shared.feed.append(
                FeedRow(number=self._number, term=self._term, changes=changes)
            )
        shared.ring()

    def close(self) -> None:
        """Leave the records to the next leader."""
