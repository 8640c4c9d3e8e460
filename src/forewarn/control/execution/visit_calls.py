"""The driver calls of visits: their results, timeouts and unknown outcomes.

The functions have the names and arguments of those of `outcome`, so that the link to the
driver treats the calls of visits and of operations alike.
"""

from forewarn.control.execution import visit_steps, visits
from forewarn.control.transactions.inquiries import ASK_AGAIN_AFTER, ProbeQuestion
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Report, Verdict
from forewarn.protocol.blockers import SAID_CHARACTERS_MAX, CallEnd
from forewarn.protocol.frozen import changed
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.lifecycle import VisitInput
from forewarn.protocol.operations import ASKED_STATES, CallState
from forewarn.protocol.visits import (
    SkipReason,
    StepOutcome,
    StepResult,
    Visit,
    VisitState,
)

_OUTCOMES = {
    Verdict.DONE: StepOutcome.DONE,
    Verdict.NOT_NEEDED: StepOutcome.NOT_NEEDED,
    Verdict.FAILED: StepOutcome.FAILED,
}


def take_report(work: Work, report: Report) -> None:
    """Process a report about a host step, unless it is outdated."""
    end = CallEnd(said=report.reason[:SAID_CHARACTERS_MAX])
    outcome = _OUTCOMES[report.verdict]
    _ended(work, report.operation_id, report.generation, outcome, end)


def call_not_made(work: Work, visit_id: str, generation: int, end: CallEnd) -> None:
    """Process a call that the driver did not accept, or that was stopped."""
    _ended(work, visit_id, generation, StepOutcome.FAILED, end)


def mark_unknown(work: Work, visit_id: str, generation: int, end: CallEnd) -> None:
    """Record that the outcome of a call is unknown."""
    _ended(work, visit_id, generation, StepOutcome.UNKNOWN, end)


def _ended(
    work: Work, visit_id: str, generation: int, outcome: StepOutcome, end: CallEnd
) -> None:
    visit = _awaited(work, visit_id, generation)
    kind = None if visit is None else visit.current_kind
    if visit is None or kind is None:
        return
    result = StepResult(kind=kind, outcome=outcome, end=end, at=work.now)
    visit = work.save_visit(visit, visit_steps.with_result(visit, result))
    is_done = outcome is StepOutcome.DONE
    match visit.state:
        case VisitState.WAITING if is_done:
            visits.is_needed(work, visit)
        case VisitState.WAITING:
            is_needless = outcome is StepOutcome.NOT_NEEDED
            why = SkipReason.NOT_NEEDED if is_needless else SkipReason.NEEDED_FAILED
            visits.skip(work, visit, why)
        case VisitState.VERIFYING if outcome is not StepOutcome.UNKNOWN:
            visits.verified(work, visit, is_good=is_done)
        case VisitState.ENTERING if is_done:
            visits.drain(work, visit)
        case VisitState.WORKING if outcome is not StepOutcome.UNKNOWN:
            visits.worked(work, visit, is_done=is_done)
        case VisitState.ANSWERING:
            # The step only looks at the host, so it can be repeated after any outcome.
            visits.answered(work, visit, is_good=is_done)
        case VisitState.EXITING if is_done:
            visits.finish(work, visit)
        case _:
            is_unknown = outcome is StepOutcome.UNKNOWN
            step = VisitInput.LOSE if is_unknown else VisitInput.FAIL
            visits.fail(work, visit, step)


def ask_after(work: Work, visit_id: str, generation: int, *, is_late: bool) -> None:
    """Ask the driver for the outcome of a call, in parallel with other work."""
    visit = _awaited(work, visit_id, generation)
    if visit is None:
        return
    kind = visit.current_kind
    step = None if kind is None else visit.step(kind)
    work.ask(
        ProbeQuestion(
            call=visit_steps.call_of(work, visit, step),
            memory=visit.driver_memory,
            is_late=is_late,
        )
    )
    work.save_visit(
        visit,
        changed(visit, call_state=CallState.OVERDUE, due_at=work.now + ASK_AGAIN_AFTER)
        if is_late
        else changed(
            visit,
            call_state=CallState.PROBING,
            # The clock can have been set back while the service was down.
            due_at=min(visit.due_at, work.now + visit_steps.longest(work, visit)),
        ),
    )


def go_on(work: Work, question: ProbeQuestion, *, is_begun: bool) -> None:
    """Wait for the report of a running call, or make a call that was not made."""
    visit = _awaited(work, question.operation_id, question.generation)
    if visit is None or visit.call_state not in ASKED_STATES:
        return
    is_late = visit.call_state is CallState.OVERDUE
    due_at = work.now if is_late else visit.due_at
    issued = work.save_visit(
        visit, changed(visit, call_state=CallState.ISSUED, due_at=due_at)
    )
    kind = issued.current_kind
    step = None if kind is None else issued.step(kind)
    if not is_late and not is_begun and step is not None:
        work.call(visit_steps.call_of(work, issued, step))


def due(work: Work, visit_id: str) -> None:
    """Continue a visit whose pause has passed."""
    visit = work.tx.get(Visit, visit_id)
    if visit is None or not 0 < visit.due_at <= work.now:
        return
    if visit.call_state is not CallState.NONE:
        ask_after(work, visit_id, visit.generation, is_late=True)
    elif visit.state is VisitState.VERIFYING:
        visit_steps.begin_step(work, visit, StepKind.VERIFY)
    elif visit.state is VisitState.ANSWERING:
        visit_steps.begin_step(work, visit, StepKind.ANSWERS)
    else:
        visits.go_on(work, visit_id)


def _awaited(work: Work, visit_id: str, generation: int) -> Visit | None:
    """Return the visit if the call of this generation is running."""
    visit = work.tx.get(Visit, visit_id)
    if visit is None or visit.generation != generation:
        return None
    return None if visit.call_state is CallState.NONE else visit
