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
class Seat:
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


def may_call(seat: Seat, now: float) -> bool:
    """Return whether a driver call may begin now."""
    return seat.role is Role.LEADS and now < seat.until


def may_call_in(seat: Seat, term: int, now: float) -> bool:
    """Return whether a driver call of this term may begin now.

    A call of an earlier term never begins: another replica can have decided about it.
    """
    return seat.term == term and may_call(seat, now)


def at(seat: Seat, now: float) -> Seat:
    """Return the seat at a later time: the leader is unsure when its time has run out."""
    if seat.role is Role.LEADS and now >= seat.until:
        return _stepped(seat, LeaseInput.EXPIRE)
    return seat


def free_at(seen: LeaseRow, times: Times, since: float) -> float:
    """Return when a lease can be taken whose row was first seen at `since`.

    The leader may begin calls for its own lease, so the longer one counts while the
    settings of the replicas differ.
    """
    return since + max(times.lease, seen.seconds)


def may_take(seat: Seat, times: Times, now: float) -> bool:
    """Return whether the replica may try to take the lease."""
    if seat.role is not Role.FOLLOWS or seat.seen is None:
        return False
    return not seat.seen.holder or now >= free_at(seat.seen, times, seat.since)


def saw(seat: Seat, row: LeaseRow, *, now: float, known: int = 0) -> Seat:
    """Return the seat after the answer `row` to a read, which came at `now`.

    `known` is a number that the replica had seen in the database before it asked.
    """
    if _is_behind(seat, row, known):
        return _gone_back(seat, known)
    if seat.leads:
        return lost(seat, row, now=now) if row.term != seat.term else _kept(seat, row)
    return _looked(_stepped(seat, LeaseInput.SEE), row, now)


def took(seat: Seat, row: LeaseRow, times: Times, *, asked: float, now: float) -> Seat:
    """Return the seat after a takeover that was sent at `asked`, with its new row."""
    if _is_behind(seat, row, 0):
        return _gone_back(seat, 0)
    taken = _stepped(_looked(seat, row, now), LeaseInput.TAKE)
    return at(replace(_renewed(taken, times, asked), term=row.term), now)


def renewed(
    seat: Seat,
    row: LeaseRow,
    times: Times,
    *,
    asked: float,
    now: float,
    known: int = 0,
) -> Seat:
    """Return the seat after a renewal that was sent at `asked`, with its new row."""
    if _is_behind(seat, row, known):
        return _gone_back(seat, known)
    stepped = _stepped(_kept(seat, row), LeaseInput.RENEW)
    return at(_renewed(stepped, times, asked), now)


def lost(seat: Seat, row: LeaseRow | None, *, now: float, known: int = 0) -> Seat:
    """Return the seat after a sign that the term has ended.

    The sign is a row with another term, or the refusal of a renewal or a transaction.
    `known` is the number of its last transaction.
    """
    left = _knowing(_without_term(_stepped(seat, LeaseInput.LOSE)), known)
    # After a refusal, the new row is not known yet.
    return replace(left, since=now) if row is None else _looked(left, row, now)


def stopped(seat: Seat) -> Seat:
    """Return the seat of a replica that ends: it begins no more calls."""
    return _stepped(seat, LeaseInput.STOP)


def _without_term(seat: Seat) -> Seat:
    return replace(seat, term=0, renewed=0.0, until=0.0)


def _stepped(seat: Seat, given: LeaseInput) -> Seat:
    return replace(seat, role=look_up(ROLE_STEPS, seat.role, given))


def _is_behind(seat: Seat, row: LeaseRow, known: int) -> bool:
    """Return whether the database has lost a transaction that the replica has seen."""
    if seat.seen is not None and row.term < seat.seen.term:
        return True
    return row.number < max(seat.known, known)


def _gone_back(seat: Seat, known: int) -> Seat:
    return _knowing(_without_term(_stepped(seat, LeaseInput.GO_BACK)), known)


def _knowing(seat: Seat, number: int) -> Seat:
    return replace(seat, known=max(seat.known, number))


def _kept(seat: Seat, row: LeaseRow) -> Seat:
    return _knowing(replace(seat, seen=row), row.number)


def _looked(seat: Seat, row: LeaseRow, now: float) -> Seat:
    last_row = seat.seen
    is_same = last_row and (last_row.term, last_row.beat) == (row.term, row.beat)
    return replace(_kept(seat, row), since=seat.since if is_same else now)


def _renewed(seat: Seat, times: Times, asked: float) -> Seat:
    return replace(seat, renewed=asked, until=asked + times.call_within)
