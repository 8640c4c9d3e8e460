"""The rows of visits: their creation, and their slots among the hosts in flight."""

from dataclasses import replace

from forewarn.control.execution.visit_steps import note
from forewarn.control.transactions.work import Work
from forewarn.ids import place_in
from forewarn.protocol.frozen import changed
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.visits import VISIT_PREFIX, Visit, VisitState


def create(work: Work, request: Request, operation: Operation) -> Operation:
    """Create the visit of a host that may be announced; return its operation."""
    visit = Visit(
        visit_id=work.ids.short(
            VISIT_PREFIX.removesuffix("-"), place=place_in(operation.operation_id)
        ),
        request=request.request_id,
        operation=operation.operation_id,
        host=operation.host,
        state=VisitState.WAITING,
        steps=request.steps,
        created=work.now,
        since=work.now,
        # Without a step `needed`, every host needs the work.
        is_needed=all(step.kind is not StepKind.NEEDED for step in request.steps),
    )
    work.tx.add(visit)
    note(work, visit)
    return work.save_operation(operation, replace(operation, visit=visit.visit_id))


def hold(work: Work, visit: Visit | None) -> Visit:
    """Count the host of a visit as in flight."""
    assert visit is not None, "an operation names its visit"
    if visit.holds_slot:
        return visit
    work.count_in_flight(visit.request, 1)
    return work.save_visit(visit, changed(visit, holds_slot=True))


def leave(work: Work, visit: Visit) -> Visit:
    """Count the host of a visit as not in flight."""
    if not visit.holds_slot:
        return visit
    work.count_in_flight(visit.request, -1)
    return work.save_visit(visit, changed(visit, holds_slot=False))


def current(work: Work, visit: Visit) -> Visit:
    """Return a visit as it is stored now."""
    stored = work.tx.get(Visit, visit.visit_id)
    assert stored is not None, "a visit is only removed after its end"
    return stored
