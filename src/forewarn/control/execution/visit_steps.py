"""The steps of visits as rows: their calls, their history and their states."""

from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Call
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.actors import Actor, service_part
from forewarn.protocol.frozen import changed
from forewarn.protocol.host_steps import STEP_TIMEOUT, HostStep, StepKind
from forewarn.protocol.lifecycle import VisitInput, step_visit
from forewarn.protocol.notes import AnyNote, StepEnded
from forewarn.protocol.operations import Action, CallState, Operation
from forewarn.protocol.visits import (
    SkipReason,
    StepOutcome,
    StepResult,
    Visit,
    VisitState,
)
from forewarn.store.records import NOTHING, AuditKind, Facts

STEP_SLACK: Micros = MINUTE
"""Time after the timeout of a program in which its driver must report the end."""


def begin_step(work: Work, visit: Visit, kind: StepKind) -> bool:
    """Make the call of a step durable; return False if the visit has no such step."""
    step = visit.step(kind)
    if step is None:
        return False
    issued = work.save_visit(
        visit,
        changed(
            visit,
            generation=visit.generation + 1,
            call_state=CallState.ISSUED,
            driver=work.driver,
            driver_memory=work.memory,
            due_at=work.now + longest(work, visit),
        ),
    )
    work.call(call_of(work, issued, step))
    return True


def bound_pause(work: Work, visit: Visit, pause: Micros) -> None:
    """Limit the rest of a pause: the clock can have been set back meanwhile."""
    if visit.due_at > work.now + pause:
        work.save_visit(visit, changed(visit, due_at=work.now + pause))


def longest(work: Work, visit: Visit) -> Micros:
    """Return the maximum time of the present step, with the slack of its driver."""
    kind = visit.current_kind
    step = None if kind is None else visit.step(kind)
    rule = None if step is None else work.abilities.host_steps.find(step.name)
    # If the settings have no such step any more, the driver refuses the call.
    return (STEP_TIMEOUT if rule is None else rule.timeout) + STEP_SLACK


def call_of(work: Work, visit: Visit, step: HostStep | None) -> Call:
    """Return the driver call of the generation of a visit.

    Programs know a campaign by its name, and another rollout by its ID.
    """
    request = work.request(visit.request)
    name = work.campaign(request.campaign).name if request.campaign else visit.request
    return Call(
        operation_id=visit.visit_id,
        generation=visit.generation,
        action=Action.NONE,
        host=visit.host,
        vms=(),
        duration_seconds=-1,
        step=step,
        campaign=name,
    )


def with_result(visit: Visit, result: StepResult) -> Visit:
    """Return a visit whose call has ended with this result."""
    others = [
        previous for previous in visit.results if previous.kind is not result.kind
    ]
    order = list(StepKind)
    results = sorted([*others, result], key=lambda other: order.index(other.kind))
    return changed(visit, results=tuple(results), call_state=CallState.NONE, due_at=0)


def owner_of(visit: Visit) -> Actor:
    """Return the visit as the owner of a cordon."""
    return service_part(visit.visit_id)


def subjects(visit: Visit) -> tuple[str, ...]:
    """Return the subjects of an audit entry about a visit."""
    return (
        f"visit:{visit.visit_id}",
        f"request:{visit.request}",
        f"host:{visit.host}",
    )


def note(work: Work, visit: Visit) -> None:
    """Store an audit entry about the state of a visit."""
    why = _why_stopped(work, visit)
    facts = NOTHING if why is None else Facts(note=why)
    work.note(AuditKind[f"VISIT_{visit.state.name}"], subjects(visit), facts)


def _why_stopped(work: Work, visit: Visit) -> AnyNote | None:
    """Return why a visit failed or was skipped; None: it continues, or no step is why.

    A step that succeeded is never the reason. A visit before its start ends with its
    operation.
    """
    is_skipped = visit.state is VisitState.SKIPPED
    if not is_skipped and visit.failed_in is None:
        return None
    if visit.skipped is SkipReason.CANCELLED:
        operation = work.tx.get(Operation, visit.operation)
        return None if operation is None else operation.note
    result = visit.last_result
    if result is None or visit.failed_in is VisitState.RESTORING:
        return None
    return None if result.outcome is StepOutcome.DONE else end_of_step(result)


def end_of_step(result: StepResult) -> StepEnded:
    """Return the end of a step as a note."""
    return StepEnded(
        step=result.kind,
        is_needless=result.outcome is StepOutcome.NOT_NEEDED,
        is_unknown=result.outcome is StepOutcome.UNKNOWN,
        end=result.end,
    )


def take_step(
    work: Work,
    visit: Visit,
    given: VisitInput,
    *,
    failed_in: VisitState | None = None,
) -> Visit:
    """Take a visit through the table, with an audit entry."""
    stepped = work.save_visit(
        visit, step_visit(visit, given, now=work.now, failed_in=failed_in)
    )
    note(work, stepped)
    return stepped
