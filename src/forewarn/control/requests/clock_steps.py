"""Handle steps of the wall clock, while the service runs and across a restart.

NotBefore, expiry and retention are wall-clock times. All other timers are durations,
although their ends are stored as times. After a step of the wall clock, this module moves
these ends by the same amount. `NoticeClock` remembers when the current notices end on the
monotonic clock. A restart cannot know how much of a duration has passed; it only limits
the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from forewarn.clock import ClockSteps
from forewarn.control.execution import release
from forewarn.control.requests import rollouts
from forewarn.control.rules import waits
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.inquiries import ASK_AGAIN_AFTER
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Work
from forewarn.instants import SECOND, Micros
from forewarn.protocol.operations import CallState, Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import BRAKE_KEY, Brake, Loss

Timed: TypeAlias = Operation | Brake | Loss
"""A record whose timer is the end of a duration."""


class NoticeClock:
    """Ends, on the monotonic clock, of the notices that were running at a clock step.

    It is in memory only: after a restart, only the wall clock counts.
    """

    def __init__(self) -> None:
        """Start without a reading."""
        self._monotonic: Micros = 0
        self._steps = ClockSteps()
        self._ends: Mapping[str, tuple[Micros, Micros]] = {}
        """NotBefore and the end on the monotonic clock, by operation."""

    def read(self, *, now: Micros, monotonic: float) -> Micros:
        """Take a reading of both clocks; return the size of a step, or 0.

        The step is returned again until `take_step` is called.
        """
        self._monotonic = round(monotonic * SECOND)
        return self._steps.read(now=now, monotonic=monotonic)

    def take_step(self, step: Micros, noticed: Mapping[str, Micros]) -> None:
        """Process a step; `noticed` has the NotBefore of each running notice."""
        skew, known = self._steps.skew, self._ends
        assert skew is not None, "a step is between two readings"
        ends: dict[str, tuple[Micros, Micros]] = {}
        for operation_id, not_before in noticed.items():
            before = known.get(operation_id, (0, 0))
            is_known = before[0] == not_before
            ends[operation_id] = before if is_known else (not_before, not_before - skew)
        self._ends = ends
        self._steps.take(step)

    def left(self, operation: Operation) -> Micros:
        """Return the rest of the notice on the monotonic clock.

        The result is 0 if no step happened since the announcement: then the wall
        clock decides.
        """
        not_before, end = self._ends.get(operation.operation_id, (0, 0))
        if not_before != operation.not_before:
            return 0
        return max(0, end - self._monotonic)


def noticed(reader: Reader) -> dict[str, Micros]:
    """Return the NotBefore of each operation whose notice is running."""
    return {
        operation.operation_id: operation.not_before
        for operation in every(
            reader, kinds.OPERATIONS_IN_STATE, OperationState.ANNOUNCED.value
        )
    }


def move_timers(work: Work, step: Micros) -> None:
    """Move the timers of all open operations, and of the brake, by a step of the wall clock.

    Windows open by the wall clock: operations that wait for one are checked at once.

    A recovery, a timeout, the pause before another attempt and the time to the next check
    are durations, which a step must not change. The timer of a notice stays at NotBefore,
    which is a wall-clock time. A timer later than NotBefore is the end of the notice on
    the monotonic clock, so it moves.
    """
    for operation in list(every(work.tx, kinds.OPEN_OPERATIONS)):
        is_noticed = operation.state is OperationState.ANNOUNCED
        earliest = operation.not_before if is_noticed else 0
        if operation.due_at > earliest:
            moved = max(1, earliest, operation.due_at + step)
            if any(map(waits.is_for_hold, operation.waits_for)):
                moved = work.now
            work.save_operation(operation, replace(operation, due_at=moved))
    for timed in list(_of_brake(work.tx)):
        _save(work, timed, max(1, timed.due_at + step))
    for campaign in list(every(work.tx, kinds.CAMPAIGNS_OPEN)):
        # Windows are wall-clock times, so its gate is asked again at once.
        soaks_until = max(1, campaign.soaks_until + step) if campaign.soaks_until else 0
        since = max(1, campaign.unknown_since + step) if campaign.unknown_since else 0
        work.tx.replace(
            campaign,
            replace(
                campaign,
                soaks_until=soaks_until,
                unknown_since=since,
                due_at=work.now,
            ),
        )
    for visit in list(every(work.tx, kinds.OPEN_VISITS)):
        if visit.due_at:
            give_up_at = visit.give_up_at and max(1, visit.give_up_at + step)
            since = visit.since and max(1, visit.since + step)
            moved = max(1, visit.due_at + step)
            work.save_visit(
                visit,
                replace(visit, due_at=moved, give_up_at=give_up_at, since=since),
            )


def _of_brake(reader: Reader) -> Iterator[Brake | Loss]:
    """Yield the records of the brake that have a timer."""
    brake = reader.get(Brake, BRAKE_KEY)
    if brake is not None and brake.due_at:
        yield brake
    yield from every(reader, kinds.ALL_LOSSES)


def too_far(reader: Reader, policy: Policy, *, now: Micros) -> list[Timed]:
    """Return the records whose timers are further away than their maximum.

    This happens if the clock was set back while the service was down.
    """
    timed = (*every(reader, kinds.OPEN_OPERATIONS), *_of_brake(reader))
    return [timer for timer in timed if timer.due_at > _latest(timer, policy, now=now)]


def bound(work: Work, far: Sequence[Timed]) -> None:
    """Set the timers of these records back to their latest possible time."""
    for timer in far:
        timed = need(work.tx, type(timer), timer.key)
        _save(work, timed, min(timed.due_at, _latest(timed, work.policy, now=work.now)))


def _save(work: Work, timed: Timed, due_at: Micros) -> None:
    if isinstance(timed, Operation):
        work.save_operation(timed, replace(timed, due_at=due_at))
    else:
        work.tx.replace(timed, replace(timed, due_at=due_at))
        work.change_brake()


def _latest(timed: Timed, policy: Policy, *, now: Micros) -> Micros:
    """Return the latest possible time of the timer of the record."""
    if isinstance(timed, Loss):
        return now + policy.brake.within
    if isinstance(timed, Brake):
        return now + policy.brake.calm
    return _latest_of(timed, policy, now=now)


def _latest_of(operation: Operation, policy: Policy, *, now: Micros) -> Micros:
    match operation.state:
        case OperationState.READY:
            return now + release.look_again_at_most(policy)
        case OperationState.PLANNED:
            return now + rollouts.PATIENCE
        case OperationState.RECOVERING:
            return now + policy.recovery
        case OperationState.IMPACTING if operation.call_state is CallState.RETRY:
            return now + policy.retry_delay
        case OperationState.IMPACTING if operation.call_state is CallState.OVERDUE:
            return now + ASK_AGAIN_AFTER
        case OperationState.IMPACTING:
            return now + policy.driver_timeout
        case _:
            return operation.not_before
