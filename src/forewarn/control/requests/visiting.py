"""Requests about host steps: their checks, and the ways out of a failed visit."""

from forewarn.control.execution import visits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.lifecycle import VisitInput
from forewarn.protocol.operations import (
    HALVES,
    MOVING_ACTIONS,
    Operation,
)
from forewarn.protocol.visits import (
    STUCK_VISITS,
    SkipReason,
    Visit,
    VisitState,
)
from forewarn.store import kinds

_REPEATABLE = {
    VisitState.WORKING: VisitInput.WORK,
    VisitState.ANSWERING: VisitInput.AWAIT,
    # The outcome of `verify` is unknown, or there is no step `work`.
    VisitState.VERIFYING: VisitInput.VERIFY,
    VisitState.EXITING: VisitInput.EXIT,
}
"""The input that repeats the step in which a visit stands still."""


def retry(work: Work, host: str, *, only_verify: bool = False) -> Visit:
    """Repeat the step in which the visit of a host has failed.

    After a failed `verify`, `work` is repeated too, because it may have reported work
    that it did not do. `only_verify` leaves that out: an operator did the work by hand.
    """
    visit = _stuck(work, host)
    if only_verify and visit.failed_in is not VisitState.VERIFYING:
        raise RefusedError(
            f"the step verify of host {host} has not failed",
            hint=f"Run `forewarn visit retry {host}` without --only-verify.",
        )
    given = VisitInput.VERIFY if only_verify else _repeatable(visit)
    if visit.failed_in is VisitState.RESTORING:
        raise RefusedError(
            f"the VMs of host {host} could not be resumed or started after the work",
            hint=f"Start them, report each with `forewarn restore`, then run `forewarn "
            f"visit skip {host}`.",
        )
    if given is None:
        raise RefusedError(
            f"the visit of host {host} failed before its work, and its VMs got no "
            "further notice",
            hint=f"Run `forewarn visit skip {host}`, then maintain the host again.",
        )
    if given is VisitInput.WORK:
        _check_clear(work, visit)
    visits.repeat(work, visit, given)
    return visit


def _check_clear(work: Work, visit: Visit) -> None:
    """Refuse to repeat the work beside VMs that must not run meanwhile."""
    there, host = _in_the_way(work, visit), visit.host
    if not there:
        return
    if visit.failed_in is VisitState.VERIFYING:
        raise RefusedError(
            f"the VMs of host {host} run again, so the work cannot be repeated"
            if _is_in_place(work, visit)
            else f"VM {there[0].name} is on host {host}, which must be empty for the work",
            hint=f"Run `forewarn visit skip {host}`, then maintain the host again. If you "
            f"did the work by hand, run `forewarn visit retry {host} --only-verify`.",
        )
    raise RefusedError(
        f"the VMs of host {host} run again, so the work cannot be repeated"
        if _is_in_place(work, visit)
        else f"VM {there[0].name} is on host {host}, which must be empty for the work",
        hint=f"Run `forewarn visit skip {host}`, then maintain the host again.",
    )


def can_repeat(work: Work, visit: Visit) -> bool:
    """Return whether the step of a failed visit can be repeated."""
    return _repeatable(visit) is not None and not _in_the_way(work, visit)


def _repeatable(visit: Visit) -> VisitInput | None:
    """Return the input that repeats a failed visit; None: it cannot be repeated."""
    is_refuted = (
        visit.state is VisitState.FAILED and visit.failed_in is VisitState.VERIFYING
    )
    if is_refuted and visit.step(StepKind.WORK) is not None:
        return VisitInput.WORK
    return None if visit.failed_in is None else _REPEATABLE.get(visit.failed_in)


def _in_the_way(work: Work, visit: Visit) -> list[Vm]:
    """Return a VM that runs on the host, and must not run there during the work."""
    operation = work.tx.get(Operation, visit.operation)
    if operation is None or _repeatable(visit) is not VisitInput.WORK:
        return []
    has_room = operation.action in {*MOVING_ACTIONS, *HALVES}
    if not has_room or operation.holds_vms:
        return []
    return work.tx.select(kinds.VMS_ON_HOST, visit.host, limit=1)


def _is_in_place(work: Work, visit: Visit) -> bool:
    operation = work.tx.get(Operation, visit.operation)
    return operation is not None and operation.action in HALVES


def skip(work: Work, host: str) -> Visit:
    """Give up the failed visit of a host, and open the host."""
    visit = _stuck(work, host)
    visits.skip(work, visit, SkipReason.GIVEN_UP)
    return visit


def _stuck(work: Work, host: str) -> Visit:
    work.host(host)
    found = work.tx.select(kinds.OPEN_VISITS_OF_HOST, host, limit=1)
    if not found:
        raise RefusedError(
            f"host {host} has no open visit",
            hint="Run `forewarn rollout list` to see the rollouts and their hosts.",
        )
    stuck = [visit for visit in found if visit.state in STUCK_VISITS]
    if not stuck:
        state = found[0].state
        raise RefusedError(
            f"the visit of host {host} has not failed: it is {state.value}",
            hint=f"Run `forewarn explain {host}` to see what it waits for.",
        )
    return stuck[0]


def check_not_visited(work: Work, host: str) -> None:
    """Refuse a host that a visit works on."""
    for visit in work.tx.select(kinds.OPEN_VISITS_OF_HOST, host, limit=1):
        is_stuck = visit.state in STUCK_VISITS
        raise RefusedError(
            f"host {host} has visit {visit.visit_id} ({visit.state.value})",
            hint=f"Run `forewarn visit retry {host}` or `forewarn visit skip {host}`."
            if is_stuck
            else "Try again after the visit ends.",
        )
