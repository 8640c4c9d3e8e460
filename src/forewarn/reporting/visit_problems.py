"""Problems of visits: those that are late, and those that only an operator can end."""

from forewarn.control.rules import campaign_gate
from forewarn.instants import Micros
from forewarn.protocol.operations import CallState
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.reporting import visited
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store.port import Reader
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


def problem_of(reader: Reader, visit: Visit, *, now: Micros) -> Problem | None:
    """Return the problem of an open visit; None: it has none.

    The host of a failed visit stays cordoned until an operator acts, with the commands of
    its campaign if it has one.
    """
    is_stuck = visit.state in STUCK_VISITS
    if not is_stuck and not is_late(visit, now=now):
        return None
    kind = ProblemKind.VISIT_FAILED if is_stuck else ProblemKind.VISIT_LATE
    standing = visited.standing(reader, visit, now=now)
    campaign = campaign_gate.name_of_open(reader, visit)
    verb = "campaign" if campaign else "visit"
    is_state = (
        f"is {visit.state.value}" if is_stuck else (f"is late in {visit.state.value}")
    )
    return Problem(
        kind=kind,
        name=visit.visit_id,
        text=f"the visit of host {visit.host} {is_state}: {standing}",
        short=f"host {visit.host}: {visits.failure(visit)}; it stays cordoned"
        if is_stuck
        else "",
        since=visit.since or visit.created,
        operation=visit.operation,
        request=visit.request,
        target=visit.host,
        hosts=(visit.host,),
        vms=visited.vms_not_running(reader, visit),
        campaign=campaign,
        actions=(f"{verb} retry", f"{verb} skip") if is_stuck else ("explain",),
    )
