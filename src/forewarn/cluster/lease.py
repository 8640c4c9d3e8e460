"""The lease: which replica leads, and how long it may begin driver calls. Pure.

A candidate takes the lease when it has seen the same term and beat for a whole lease. It
counts from the moment at which it had the answer, which is after the renewal. The leader
counts from the moment at which it sent the renewal, which is before it, and stops
earlier by a margin. So no two replicas may begin calls at the same time, even if answers
are lost or late and a process is paused. Transactions need no times: each of them checks
the term in the database.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from forewarn.cluster.port import LeaseRow, Role
from forewarn.cluster.times import Times
from forewarn.protocol.lifecycle import look_up


class LeaseInput(enum.Enum):
    """Input of the table of roles."""

    SEE = "see"
    TAKE = "take"
    RENEW = "renew"
    EXPIRE = "expire"
    LOSE = "lose"
    GO_BACK = "go back"
    STOP = "stop"


_LEADING = {
    LeaseInput.RENEW: Role.LEADS,
    LeaseInput.EXPIRE: Role.UNSURE,
    LeaseInput.LOSE: Role.FOLLOWS,
    LeaseInput.GO_BACK: Role.BEHIND,
    LeaseInput.STOP: Role.STOPPED,
}

ROLE_STEPS: Mapping[Role, Mapping[LeaseInput, Role]] = {
    Role.FOLLOWS: {
        LeaseInput.SEE: Role.FOLLOWS,
        LeaseInput.TAKE: Role.LEADS,
        # A transaction of the term before was refused: that is known already.
        LeaseInput.LOSE: Role.FOLLOWS,
        LeaseInput.GO_BACK: Role.BEHIND,
        LeaseInput.STOP: Role.STOPPED,
    },
    Role.LEADS: _LEADING,
    Role.UNSURE: _LEADING,
    Role.BEHIND: {
        LeaseInput.SEE: Role.BEHIND,
        LeaseInput.LOSE: Role.BEHIND,
        LeaseInput.GO_BACK: Role.BEHIND,
        LeaseInput.STOP: Role.STOPPED,
    },
    Role.STOPPED: {
        # Answers that come after the stop.
        LeaseInput.SEE: Role.STOPPED,
        LeaseInput.TAKE: Role.STOPPED,
        LeaseInput.RENEW: Role.STOPPED,
        LeaseInput.EXPIRE: Role.STOPPED,
        LeaseInput.LOSE: Role.STOPPED,
        LeaseInput.GO_BACK: Role.STOPPED,
        LeaseInput.STOP: Role.STOPPED,
    },
}

LEADING = frozenset({Role.LEADS, Role.UNSURE})
"""The roles of a replica that has a term of its own. It decides; the database refuses the
transactions of a term that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The knowledge of one replica about the lease."""

    role: Role = Role.FOLLOWS
    seen: LeaseRow | None = None
    """The newest row that it has seen."""
    since: float = 0.0
    """When it had the first answer with the term and beat of `seen`."""
    known: int = 0
    """The highest number of a transaction that it has seen in the database."""
    term: int = 0
    """Its own term, while it leads."""
    renewed: float = 0.0
    """When it began its last successful renewal or takeover, while it leads."""
    until: float = 0.0
    """When it must not begin driver calls any more."""

    @property
    def leads(self) -> bool:
        """Return whether it has a term of its own."""
        return self.role in LEADING


def may_call(lease_state: LeaseState, now: float) -> bool:
    """Return whether a driver call may begin now."""
    return lease_state.role is Role.LEADS and now < lease_state.until


def may_call_in(lease_state: LeaseState, term: int, now: float) -> bool:
    """Return whether a driver call of this term may begin now.

    A call of an earlier term never begins: another replica can have decided about it.
    """
    return lease_state.term == term and may_call(lease_state, now)


def at(lease_state: LeaseState, now: float) -> LeaseState:
    """Return the state at a later time: the leader is unsure when its time has run out."""
    if lease_state.role is Role.LEADS and now >= lease_state.until:
        return _stepped(lease_state, LeaseInput.EXPIRE)
    return lease_state


def free_at(seen: LeaseRow, times: Times, since: float) -> float:
    """Return when a lease can be taken whose row was first seen at `since`.

    The leader may begin calls for its own lease, so the longer one counts while the
    settings of the replicas differ.
    """
    return since + max(times.lease, seen.seconds)


def may_take(lease_state: LeaseState, times: Times, now: float) -> bool:
    """Return whether the replica may try to take the lease."""
    if lease_state.role is not Role.FOLLOWS or lease_state.seen is None:
        return False
    return not lease_state.seen.holder or now >= free_at(
        lease_state.seen, times, lease_state.since
    )


def saw(
    lease_state: LeaseState, row: LeaseRow, *, now: float, known: int = 0
) -> LeaseState:
    """Return the state after the answer `row` to a read, which came at `now`.

    `known` is a number that the replica had seen in the database before it asked.
    """
    if _is_behind(lease_state, row, known):
        return _gone_back(lease_state, known)
    if lease_state.leads:
        return (
            lost(lease_state, row, now=now)
            if row.term != lease_state.term
            else _kept(lease_state, row)
        )
    return _looked(_stepped(lease_state, LeaseInput.SEE), row, now)


def took(
    lease_state: LeaseState, row: LeaseRow, times: Times, *, asked: float, now: float
) -> LeaseState:
    """Return the state after a takeover that was sent at `asked`, with its new row."""
    if _is_behind(lease_state, row, 0):
        return _gone_back(lease_state, 0)
    taken = _stepped(_looked(lease_state, row, now), LeaseInput.TAKE)
    return at(replace(_renewed(taken, times, asked), term=row.term), now)


def renewed(
    lease_state: LeaseState,
    row: LeaseRow,
    times: Times,
    *,
    asked: float,
    now: float,
    known: int = 0,
) -> LeaseState:
    """Return the state after a renewal that was sent at `asked`, with its new row."""
    if _is_behind(lease_state, row, known):
        return _gone_back(lease_state, known)
    stepped = _stepped(_kept(lease_state, row), LeaseInput.RENEW)
    return at(_renewed(stepped, times, asked), now)


def lost(
    lease_state: LeaseState, row: LeaseRow | None, *, now: float, known: int = 0
) -> LeaseState:
    """Return the state after a sign that the term has ended.

    The sign is a row with another term, or the refusal of a renewal or a transaction.
    `known` is the number of its last transaction.
    """
    left = _knowing(_without_term(_stepped(lease_state, LeaseInput.LOSE)), known)
    # After a refusal, the new row is not known yet.
    return replace(left, since=now) if row is None else _looked(left, row, now)


def stopped(lease_state: LeaseState) -> LeaseState:
    """Return the state of a replica that ends: it begins no more calls."""
    return _stepped(lease_state, LeaseInput.STOP)


def _without_term(lease_state: LeaseState) -> LeaseState:
    return replace(lease_state, term=0, renewed=0.0, until=0.0)


def _stepped(lease_state: LeaseState, given: LeaseInput) -> LeaseState:
    return replace(lease_state, role=look_up(ROLE_STEPS, lease_state.role, given))


def _is_behind(lease_state: LeaseState, row: LeaseRow, known: int) -> bool:
    """Return whether the database has lost a transaction that the replica has seen."""
    if lease_state.seen is not None and row.term < lease_state.seen.term:
        return True
    return row.number < max(lease_state.known, known)


def _gone_back(lease_state: LeaseState, known: int) -> LeaseState:
    return _knowing(_without_term(_stepped(lease_state, LeaseInput.GO_BACK)), known)


def _knowing(lease_state: LeaseState, number: int) -> LeaseState:
    return replace(lease_state, known=max(lease_state.known, number))


def _kept(lease_state: LeaseState, row: LeaseRow) -> LeaseState:
    return _knowing(replace(lease_state, seen=row), row.number)


def _looked(lease_state: LeaseState, row: LeaseRow, now: float) -> LeaseState:
    last_row = lease_state.seen
    is_same = last_row and (last_row.term, last_row.beat) == (row.term, row.beat)
    return replace(_kept(lease_state, row), since=lease_state.since if is_same else now)


def _renewed(lease_state: LeaseState, times: Times, asked: float) -> LeaseState:
    return replace(lease_state, renewed=asked, until=asked + times.call_within)
