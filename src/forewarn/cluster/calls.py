"""When a driver call may begin: no replica may still serve the document before it. Pure.

The lease says whether this replica may begin calls at all (`lease.may_call`). This module
says whether the documents with the status Started have reached all replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import Times


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
    # A row that was missing or older before the commit says nothing about it. At the same
    # reading of the clock, either can have been first.
    if positions is None or positions.asked <= commit.at:
        return Wait(replicas=(), until=until)
    behind = tuple(
        row.name
        for row in positions.rows
        if row.key != key and row.position < commit.number
    )
    return Wait(replicas=behind, until=until) if behind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """The beats of the other replicas, each with the time when the leader saw it first."""

    first_seen: Mapping[str, tuple[int, float]] = field(
        default_factory=dict[str, tuple[int, float]]
    )


def watched(beats: Beats, rows: tuple[ReplicaRow, ...], *, now: float) -> Beats:
    """Return the beats after the answer `rows`, which came at `now`."""
    found: dict[str, tuple[int, float]] = {}
    for row in rows:
        known = beats.first_seen.get(row.key)
        is_same = known is not None and known[0] == row.beat
        found[row.key] = known if known and is_same else (row.beat, now)
    return Beats(first_seen=found)


def silent(
    beats: Beats, rows: tuple[ReplicaRow, ...], times: Times, *, key: str, now: float
) -> tuple[ReplicaRow, ...]:
    """Return the rows of replicas that have ended: their read leases ran out long ago.

    `beats` are watched up to `rows`.
    """
    return tuple(
        row
        for row in rows
        if row.key != key and now >= beats.first_seen[row.key][1] + times.row_ends
    )
