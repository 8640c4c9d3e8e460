"""Problems of visits: those that are late, and those that only an operator can end."""

from forewarn.instants import Micros
from forewarn.protocol.operations import CallState
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.wording import visits

LATE_SHARE = 4
"""Divisor of the maximum time of a step: it is late in its last quarter. Most steps take
far less, and an operator can still look at the host before the visit fails."""


def is_late(visit: Visit, *, now: Micros) -> bool:
    """Return whether a step of a visit takes longer than expected, and has not failed.

    A step that is repeated until it has succeeded often enough is not late once it
    succeeds.
    """
    if visit.give_up_at:
        ends = 0 if visit.verified else visit.give_up_at
    else:
        ends = 0 if visit.call_state is CallState.NONE else visit.due_at
    if not ends or not visit.since:
        return False
    is_overdue = visit.call_state is CallState.OVERDUE
    return is_overdue or now >= ends - (ends - visit.since) // LATE_SHARE


def problem_of(visit: Visit, *, now: Micros) -> Problem | None:
    """Return the problem of an open visit; None: it has none.

    The host of a failed visit stays cordoned until an operator acts.
    """
    is_stuck = visit.state in STUCK_VISITS
    if not is_stuck and not is_late(visit, now=now):
        return None
    kind = ProblemKind.VISIT_FAILED if is_stuck else ProblemKind.VISIT_LATE
    standing = visits.standing(visit, now=now)
    is_state = (
        f"is {visit.state.value}" if is_stuck else (f"is late in {visit.state.value}")
    )
    return Problem(
        kind=kind,
        name=visit.visit_id,
        text=f"the visit of host {visit.host} {is_state}: {standing}",
        since=visit.since or visit.created,
        operation=visit.operation,
        request=visit.request,
        target=visit.host,
        hosts=(visit.host,),
        actions=("visit retry", "visit skip") if is_stuck else ("explain",),
    )
