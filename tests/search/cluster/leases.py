"""The lease in small worlds: each replica's decisions are made by `cluster.lease`.

A replica has one request to the database at a time. The database does it at any later
moment or never, and the answer comes at any moment after that or never. A request that
the replica no longer waits for may still be done later. Any replica may be paused at any
point, because nothing forces it to act before the time passes.

All times in a state are relative to the replica's clock, terms and beats are replaced by
their ranks, and values that no decision reads are left out. So there are finitely many
states.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from forewarn.cluster import lease
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import LeaseRow
from forewarn.cluster.times import Times
from forewarn.protocol.frozen import changed

LEASE = Times(lease=50.0)
"""Two ticks of a clock that is right."""

SLOW, FAST = 24.0, 26.0
"""Units of a clock in a tick, at the two ends of `CLOCK_ERROR`; 25 are right."""


class Request(NamedTuple):
    """A request to the database, at a stage."""

    kind: str
    term: int = 0
    beat: int = 0
    asked: float = 0.0
    done: bool = False
    row: LeaseRow | None = None
    """The answer, if it is done."""


class Replica(NamedTuple):
    """A replica, with its requests."""

    lease_state: LeaseState
    request: Request | None = None
    late: Request | None = None
    """A request that the replica has given up, and that may still be done."""


class State(NamedTuple):
    """The row of the database, and the replicas."""

    row: LeaseRow
    replicas: tuple[Replica, ...]
    old_write: bool = False
    """A transaction of a term that had ended was committed."""


@dataclass(frozen=True)
class World:
    """The rules of a world; each planted bug changes one of them."""

    rates: tuple[float, ...]
    times: Times = LEASE
    counts_from_answer: bool = False
    """Bug: the leader counts from the answer to its renewal."""
    watches_from_question: bool = False
    """Bug: a candidate counts from the moment before it asked."""
    wall_clock: float = 0.0
    """Bug: the first replica reads a clock that is set back by this."""
    fenced: bool = True
    compares_beat: bool = True
    """False is a bug: a takeover compares the term only."""
    stops_first: bool = True
    """False is a bug: a leader that ends releases the lease, and then stops its calls."""


def first(world: World) -> State:
    """Return the state in which the first replica leads, and the others have seen it."""
    row = LeaseRow(term=1, holder="0", url="", beat=1, number=0)
    free = LeaseRow(term=0, holder="", url="", beat=0, number=0)
    leads = lease.took(
        lease.saw(LeaseState(), free, now=0.0), row, world.times, asked=0.0, now=0.0
    )
    lease_states = [
        leads,
        *(lease.saw(LeaseState(), row, now=0.0) for _ in world.rates[1:]),
    ]
    return _bare(world, State(row, tuple(map(Replica, lease_states))))


def broken(state: State) -> str:
    """Return the broken invariant."""
    calling = [
        replica
        for replica in state.replicas
        if lease.may_call(replica.lease_state, 0.0)
    ]
    if len(calling) > 1:
        return "two replicas may begin calls"
    if any(replica.lease_state.term != state.row.term for replica in calling):
        return "a replica may begin calls after a takeover"
    return "a write of an old term was committed" if state.old_write else ""


def moves(world: World, state: State) -> Iterator[tuple[str, State]]:
    """Yield each step with the state after it."""
    ticked = [
        _shifted(row, -rate)
        for row, rate in zip(state.replicas, world.rates, strict=True)
    ]
    yield "a tick passes", _bare(world, state._replace(replicas=tuple(ticked)))
    for number, replica in enumerate(state.replicas):
        for name, row, after in _steps(world, number, replica, state.row):
            others = list(state.replicas)
            others[number] = after
            yield (
                f"replica {number} {name}",
                _bare(world, state._replace(row=row, replicas=tuple(others))),
            )
        if replica.lease_state.leads and not world.fenced:
            old = replica.lease_state.term != state.row.term
            yield f"replica {number} writes", state._replace(old_write=old)


def _steps(
    world: World, number: int, replica: Replica, row: LeaseRow
) -> Iterator[tuple[str, LeaseRow, Replica]]:
    lease_state, request, late = replica
    if late is not None:
        after, _ = _done(world, late, row, number)
        yield "has its late request done", after, replica._replace(late=None)
    if request is None:
        for next_request in _requests(world, lease_state, row):
            sending = replica._replace(request=next_request)
            yield (
                f"sends {next_request.kind}",
                row,
                _stopping(world, sending, next_request),
            )
    elif request.done:
        yield "hears", row, _heard(world, replica, request)
        if request.kind != "read":  # as if it had not been sent
            yield "does not hear", row, replica._replace(request=None)
    else:
        after, answer = _done(world, request, row, number)
        done = request._replace(done=True, row=answer)
        yield "has its request done", after, replica._replace(request=done)
        # Other late requests are like those whose answers are not heard.
        if late is None and request.kind == "take":
            yield "gives up", row, replica._replace(request=None, late=request)
    if lease_state.leads or lease_state.role is lease.Role.STOPPED:
        yield "starts again", row, Replica(LeaseState(), None, late)
    if world.wall_clock and not number:
        yield "sets its clock back", row, _shifted(replica, world.wall_clock)


def _stopping(world: World, replica: Replica, request: Request) -> Replica:
    if request.kind != "release" or not world.stops_first:
        return replica
    return replica._replace(lease_state=lease.stopped(replica.lease_state))


def _requests(
    world: World, lease_state: LeaseState, row: LeaseRow
) -> Iterator[Request]:
    if lease_state.leads:
        yield Request("renew", term=lease_state.term)
        yield Request("release", term=lease_state.term)
    elif lease_state.role is not lease.Role.STOPPED:
        # A read counts from its answer, so it may as well be done at once.
        at_once = not world.watches_from_question
        yield Request("read", done=at_once, row=row if at_once else None)
    if lease_state.seen is not None and lease.may_take(lease_state, world.times, 0.0):
        yield Request("take", term=lease_state.seen.term, beat=lease_state.seen.beat)


def _done(
    world: World, request: Request, row: LeaseRow, number: int
) -> tuple[LeaseRow, LeaseRow | None]:
    """Return the row of the database after a request, and the answer."""
    if request.kind == "read":
        return row, row
    same = row.term == request.term
    if request.kind == "renew":
        after = changed(row, beat=row.beat + 1)
    elif request.kind == "release":
        after = changed(row, holder="")
    else:
        same &= row.beat == request.beat or not world.compares_beat
        after = changed(row, term=row.term + 1, beat=row.beat + 1, holder=str(number))
    return (after, after) if same else (row, None)


def _heard(world: World, replica: Replica, request: Request) -> Replica:
    lease_state, row = replica.lease_state, request.row
    sent_at = 0.0 if world.counts_from_answer else request.asked
    now = request.asked if world.watches_from_question else 0.0
    if request.kind == "read":
        assert row is not None
        lease_state = lease.saw(lease_state, row, now=now)
    elif request.kind == "take" and row is not None:
        lease_state = lease.took(lease_state, row, world.times, asked=sent_at, now=0.0)
    elif request.kind == "renew":
        lease_state = (
            lease.renewed(lease_state, row, world.times, asked=sent_at, now=0.0)
            if row is not None
            else lease.lost(lease_state, None, now=0.0)
        )
    return replica._replace(lease_state=lease_state, request=None)


def _shifted(replica: Replica, by: float) -> Replica:
    """Return the replica when its clock has advanced by `-by`."""
    lease_state, request, late = replica
    if lease_state.leads:
        lease_state = changed(
            lease_state, renewed=lease_state.renewed + by, until=lease_state.until + by
        )
    elif lease_state.seen is not None:
        lease_state = changed(lease_state, since=lease_state.since + by)
    if request is not None:
        request = request._replace(asked=request.asked + by)
    return Replica(lease.at(lease_state, 0.0), request, late)


def _bare(world: World, state: State) -> State:
    """Return the state with ranks of terms and beats, and without unread values."""
    replicas = [
        Replica(
            _bare_seat(world, lease_state),
            request and _bare_request(world, request),
            late,
        )
        for lease_state, request, late in state.replicas
    ]
    terms, beats = {0, state.row.term}, {0, state.row.beat}
    for lease_state, request, late in replicas:
        rows = [lease_state.seen, request, request and request.row, late]
        terms |= {lease_state.term, *(row.term for row in rows if row)}
        beats |= {row.beat for row in rows if row}
    term_of = {value: rank for rank, value in enumerate(sorted(terms))}
    beat_of = {value: rank for rank, value in enumerate(sorted(beats))}

    def row_of(row: LeaseRow) -> LeaseRow:
        return changed(row, term=term_of[row.term], beat=beat_of[row.beat])

    def request_of(request: Request | None) -> Request | None:
        return request and request._replace(
            term=term_of[request.term],
            beat=beat_of[request.beat],
            row=request.row and row_of(request.row),
        )

    ranked = [
        Replica(
            changed(
                lease_state,
                seen=lease_state.seen and row_of(lease_state.seen),
                term=term_of[lease_state.term],
            ),
            request_of(request),
            request_of(late),
        )
        for lease_state, request, late in replicas
    ]
    return State(row_of(state.row), tuple(ranked), state.old_write)


def _bare_seat(world: World, lease_state: LeaseState) -> LeaseState:
    lease_row = lease_state.seen
    if lease_state.role is lease.Role.STOPPED:
        return STOPPED
    if lease_row is None:
        return lease_state
    if lease_state.leads:
        lease_row = changed(lease_row, beat=0, holder="x")
        until = max(lease_state.until, 0.0)
        return changed(lease_state, seen=lease_row, since=0.0, renewed=0.0, until=until)
    lease_row = changed(lease_row, holder=lease_row.holder and "x")
    return changed(
        lease_state, seen=lease_row, since=max(lease_state.since, -world.times.lease)
    )


def _bare_request(world: World, request: Request) -> Request:
    row = request.row
    counts = request.kind in {"take", "renew"} or world.watches_from_question
    sent_at = max(request.asked, -world.times.lease) if counts else 0.0
    if row is not None and request.kind != "read":
        # The leader compares the term only.
        row = changed(row, beat=0, holder="x")
    return request._replace(asked=sent_at, row=row)


_ROW = LeaseRow(term=0, holder="x", url="", beat=0, number=0)
STOPPED = lease.stopped(LeaseState(seen=_ROW))
