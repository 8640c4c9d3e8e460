"""When a driver call may begin: no replica may still serve the document before it. Pure.

The lease says whether this replica may begin calls at all (`lease.may_call`). This module
says whether the documents with the status Started have reached all replicas. The answer to
an approval waits for them too, but only for those that give signs of life (`is_read`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import READ_LEASE, Times

QUIET_SECONDS = READ_LEASE / 5 * 2
"""Seconds without a change of a replica's row after which no approval waits for it: two of
its periods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A transaction with calls, or the takeover after which calls are made again."""

    number: int
    at: float
    """When the answer to the commit came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The rows of all replicas."""

    asked: float
    """When they were asked for."""
    rows: tuple[ReplicaRow, ...]
    quiet: frozenset[str] = frozenset()
    """The keys of replicas that give no signs of life (`quiet`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a call may not begin yet."""

    replicas: tuple[str, ...]
    """The names of the replicas whose documents may be older; empty if the rows were not
    read after the commit."""
    until: float
    """When the call may begin in any case."""


def of_takeover(row: LeaseRow, *, now: float) -> Commit:
    """Return the commit that all calls of earlier terms wait for."""
    return Commit(number=row.number, at=now)


def why_wait(
    commit: Commit, positions: Positions | None, times: Times, *, key: str, now: float
) -> Wait | None:
    """Return why calls of `commit` may not begin yet; None if they may.

    `key` is the leader's own: its documents are published before it asks.
    """
    until = commit.at + times.documents_end
    if now >= until:
        return None
    behind = None if positions is None else _behind(commit, positions, key=key)
    if behind is None:
        return Wait(replicas=(), until=until)
    names = tuple(row.name for row in behind)
    return Wait(replicas=names, until=until) if names else None


def is_read(commit: Commit, positions: Positions, *, key: str) -> bool:
    """Return whether all replicas that give signs of life serve a commit.

    `key` is the leader's own.
    """
    behind = _behind(commit, positions, key=key)
    return behind is not None and all(row.key in positions.quiet for row in behind)


def _behind(
    commit: Commit, positions: Positions, *, key: str
) -> list[ReplicaRow] | None:
    """Return the rows of other replicas that lack a commit; None: that is unknown."""
    # A row that was missing or older before the commit says nothing about it. At the same
    # reading of the clock, either can have been first.
    if positions.asked <= commit.at:
        return None
    return [
        row for row in positions.rows if row.key != key and row.position < commit.number
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """The beats of all replicas, each with the time when this replica saw it first.

    A replica watches them from its start, and not only while it leads: so it knows at once
    which of the others run when it takes the lease.
    """

    first_seen: Mapping[str, tuple[int, float]] = field(
        default_factory=dict[str, tuple[int, float]]
    )
    living: frozenset[str] = frozenset()
    """The replicas whose beat has changed since this replica saw them first: they run."""


def watched(beats: Beats, rows: tuple[ReplicaRow, ...], *, now: float) -> Beats:
    """Return the beats after the answer `rows`, which came at `now`."""
    last_changes: dict[str, tuple[int, float]] = {}
    living = {row.key for row in rows if row.key in beats.living}
    for row in rows:
        known = beats.first_seen.get(row.key)
        if known is not None and known[0] == row.beat:
            last_changes[row.key] = known
            continue
        last_changes[row.key] = row.beat, now
        if known is not None:
            living.add(row.key)
    return Beats(first_seen=last_changes, living=frozenset(living))


def seen_by_others(beats: Beats, rows: tuple[ReplicaRow, ...]) -> int:
    """Return the highest number that another running replica has seen in the database.

    The row of one that has ended can be from before the database was restored.
    """
    return max((row.position for row in rows if row.key in beats.living), default=0)


def quiet(beats: Beats, rows: tuple[ReplicaRow, ...], *, now: float) -> frozenset[str]:
    """Return the keys of replicas that give no signs of life at `now`.

    A replica that runs writes its row each second. `now` is the time when `rows` were asked
    for: they say nothing about a later write. A new row counts as a sign of life.
    """
    return frozenset(
        row.key for row in rows if now >= beats.first_seen[row.key][1] + QUIET_SECONDS
    )


def silent(
    beats: Beats,
    rows: tuple[ReplicaRow, ...],
    times: Times,
    *,
    key: str,
    since: float,
    now: float,
) -> tuple[ReplicaRow, ...]:
    """Return the rows of replicas that have ended: their read leases ran out long ago.

    `beats` are watched up to `rows`. The replica `key` leads since the time `since`: a former
    leader answers VMs for a read lease after its renewals, even if it writes no row.
    """
    return tuple(
        row
        for row in rows
        if row.key != key
        and now >= max(beats.first_seen[row.key][1], since) + times.row_ends
    )
