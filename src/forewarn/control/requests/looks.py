"""The hosts that one turn of a rollout looks at, read one after the other.

Most turns announce the first host. The others are then not read: with a database on another
machine, each question is a journey there and back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarn.control.requests import campaign_turns, stops
from forewarn.control.rules import apart, holds, promising, rolling, waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.common_openings import LOOKS_MAX
from forewarn.fleet.model import Capacity, Vm
from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import bounded
from forewarn.protocol.operations import Operation, Request
from forewarn.store import kinds

LOOKED_AT_MAX = 8
"""Maximum waiting hosts per transaction. Hosts that cannot be announced are skipped and
found again by the names of their waits."""


def next_in_turn(work: Work, request: Request, turn: str) -> list[Operation]:
    """Return the hosts to check next: those that tenants have expedited come first."""
    in_turn = work.tx.select(kinds.OPERATIONS_THAT_WAIT, turn, limit=LOOKED_AT_MAX)
    if turn == waits.again_turn(request.request_id):
        return [operation for operation in in_turn if _is_cordoned(work, operation)]
    if not request.has_choices:
        return in_turn
    expedited = work.tx.select(
        kinds.OPERATIONS_THAT_WAIT,
        waits.first_turn(request.request_id),
        limit=LOOKED_AT_MAX,
    )
    first = [operation for operation in expedited if turn in operation.waits_for]
    others = [operation for operation in in_turn if operation not in first]
    return [*first, *others][:LOOKED_AT_MAX]


def _is_cordoned(work: Work, operation: Operation) -> bool:
    """Return whether a host that is tried again is still cordoned, and so away.

    An operator can have opened it: then it waits for the budget `unavailable`, as others.
    """
    room = work.tx.get(Capacity, operation.host)
    if room is not None and room.is_cordoned:
        return True
    again = waits.again_turn(operation.request)
    names = tuple(name for name in operation.waits_for if name != again)
    work.save_operation(operation, replace(operation, waits_for=names))
    return False


def look_at(
    work: Work, found: Sequence[Operation]
) -> Iterator[tuple[Operation, rolling.Waiting]]:
    """Yield hosts as values, each read when it is asked for.

    If the windows of some need many looks, the next turn looks at the others.
    """
    looks = 0
    for operation in found:
        waiting, looked = _waiting(work, operation, rolling.vms_of(work.tx, operation))
        yield operation, waiting
        looks += looked
        if looks >= LOOKS_MAX:
            break


def _waiting(
    work: Work, operation: Operation, vms: tuple[Vm, ...]
) -> tuple[rolling.Waiting, int]:
    """Return a host as a value, and how many openings of windows were looked at."""
    waiting_host = rolling.waiting_host(
        work.tx, operation, vms, reserve=work.policy.reserve
    )
    start = round_up_to_second(earliest(work, operation, vms))
    current_holds = holds.holds_of(work.tx, operation, vms)
    times = holds.HeldTimes(current_holds, start, now=work.now)
    held = bounded(
        apart.with_reason(work.tx, operation, times, times.why_not_announced())
    )
    if not held:
        return waiting_host, times.looks
    notice = stops.notice_of(work, operation, is_empty=not vms)
    look_again = apart.look_at(work.tx, operation, times, held, notice)
    look_again = look_again or times.next_notice(
        notice=notice, not_before=operation.given_time
    )
    waiting = replace(
        waiting_host,
        holds=held,
        look_at=look_again or times.look_again,
        promises=promising.promises_of(work.tx, operation, vms, times, start),
    )
    return waiting, times.looks


@dataclass(slots=True)
class Standings:
    """The scopes of the hosts that one turn looks at, as they were before it."""

    work: Work
    rollout: str
    overlap: int
    known: dict[str, rolling.RolloutState] = field(
        default_factory=dict[str, rolling.RolloutState]
    )

    def of(self, waiting: rolling.Waiting) -> Mapping[str, rolling.RolloutState]:
        """Return the scopes read so far, with those of a host."""
        unread = waiting.domains.keys() - self.known.keys()
        self.work.lock_scopes(unread)
        for scope in unread:
            self.known[scope] = rolling.standing_of(
                self.work.tx,
                scope,
                self.rollout,
                overlap=self.overlap,
                now=self.work.now,
            )
        return self.known


def earliest(work: Work, operation: Operation, vms: tuple[Vm, ...]) -> Micros:
    """Return the end of the notice of a host that is announced now."""
    notice = stops.notice_of(work, operation, is_empty=not vms)
    opening = campaign_turns.opening(work, work.request(operation.request), notice)
    return max(operation.given_time, work.now + notice, opening)
