"""Requests about host steps: their checks, and the ways out of a failed visit."""

from forewarn.campaigns import commands
from forewarn.control.execution import campaign_ends, cordoning, visits
from forewarn.control.rules import campaign_gate
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
    step = VisitInput.VERIFY if only_verify else _repeatable(visit)
    if visit.failed_in is VisitState.RESTORING:
        raise RefusedError(
            f"the VMs of host {host} could not be resumed or started after the work",
            hint="Start them, report each with `forewarn restore`, then run "
            f"`{campaign_gate.skip_command(work.tx, visit)}`.",
        )
    if step is None:
        raise RefusedError(
            f"the visit of host {host} failed before its work, and its VMs got no "
            "further notice",
            hint=_begin_again(work, visit),
        )
    if step is VisitInput.WORK:
        _check_clear(work, visit)
    visits.repeat(work, visit, step)
    return visit


def _check_clear(work: Work, visit: Visit) -> None:
    """Refuse to repeat the work while VMs run that must not run meanwhile."""
    there, host = _in_the_way(work, visit), visit.host
    if not there:
        return
    if visit.failed_in is VisitState.VERIFYING:
        raise RefusedError(
            f"the VMs of host {host} run again, so the work cannot be repeated"
            if _is_in_place(work, visit)
            else f"VM {there[0].name} is on host {host}, which must be empty for the work",
            hint=f"{_begin_again(work, visit)} If you did the work by hand, run `forewarn "
            f"visit retry {host} --only-verify`.",
        )
    raise RefusedError(
        f"the VMs of host {host} run again, so the work cannot be repeated"
        if _is_in_place(work, visit)
        else f"VM {there[0].name} is on host {host}, which must be empty for the work",
        hint=_begin_again(work, visit),
    )


def _begin_again(work: Work, visit: Visit) -> str:
    """Return the hint to visit a host again from the beginning."""
    name = campaign_gate.name_of_open(work.tx, visit)
    if name:
        command = commands.retry_visit(visit.host, name)
        return f"Run `{command}`: the host gets another visit, with a full notice."
    command = commands.skip_visit(visit.host, name)
    return f"Run `{command}`, then maintain the host again."


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
    """Give up the failed visit of a host, and open the host.

    Raises RefusedError for a host of an open campaign: `campaign skip` gives it up there,
    with a reason, and decides what becomes of its cordon.
    """
    visit = _stuck(work, host)
    name = campaign_gate.name_of_open(work.tx, visit)
    if name:
        raise RefusedError(
            f"host {host} belongs to campaign {name}",
            hint=f"Run `{commands.skip_visit(host, name)}`. The host stays cordoned "
            f"until `forewarn host open {host} --all-owners`.",
        )
    visits.skip(work, visit, SkipReason.GIVEN_UP)
    ended = campaign_gate.campaign_of(work.tx, work.request(visit.request))
    if ended is not None:
        # No verb of a campaign that has ended opens it any more.
        cordoning.remove(work, host, owner=campaign_ends.owner_of(ended))
    return visit


def _stuck(work: Work, host: str) -> Visit:
    work.host(host)
    open_visits = work.tx.select(kinds.OPEN_VISITS_OF_HOST, host, limit=1)
    if not open_visits:
        raise RefusedError(
            f"host {host} has no open visit",
            hint="Run `forewarn rollout list` to see the rollouts and their hosts.",
        )
    stuck = [visit for visit in open_visits if visit.state in STUCK_VISITS]
    if not stuck:
        state = open_visits[0].state
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
            hint=_ways_out(work, visit)
            if is_stuck
            else "Try again after the visit ends.",
        )


def _ways_out(work: Work, visit: Visit) -> str:
    name = campaign_gate.name_of_open(work.tx, visit)
    retry = commands.retry_visit(visit.host, name)
    return f"Run `{retry}` or `{commands.skip_visit(visit.host, name)}`."
