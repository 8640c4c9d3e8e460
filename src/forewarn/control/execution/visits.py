"""Visits: the host steps around the maintenance of a host.

Order of effects, and the state after a crash:

1. A host that may be announced gets a visit. Its step `needed` runs before any notice;
   meanwhile, the host holds its slot. Then the rollout considers the host again.
2. The operation is announced and starts as without a visit. Its start makes Started
   durable and calls no driver: the visit cordons the host and runs `enter` first.
3. The operation affects the VMs. `work` begins when its impact has ended and, if the VMs
   move away, when the driver observes none of them on the host. If they stay, the first
   half of the operation pauses or stops them before `work`, and the second half resumes
   or starts them after it, even if `work` failed. If there is a step `answers`, they wait
   until the host answers. Both halves are driver calls of the
   operation, whose events stay Started. If it is unknown whether `work` still runs, the
   VMs wait for an operator.
   A campaign that was halted or aborted stops the host before `work`: VMs that have not
   moved stay, and the host is opened as after `exit`.
4. `verify` must succeed several times, then `exit` runs, and the host is opened.

Each step is a call that is durable before it is made, like the calls of operations
(`visit_calls`). A change of the operation continues its visit in a transaction of its
own. After a crash in between, the next start of the service continues all open visits.
A failed step is never repeated by itself: the host stays cordoned until an operator
retries or skips the visit.
"""

from dataclasses import replace

from forewarn.control.execution import (
    calls,
    campaign_ends,
    cordoning,
    ending,
    replanning,
    visit_slots,
)
from forewarn.control.execution.visit_steps import (
    begin_step,
    bound_pause,
    end_of_step,
    owner_of,
    subjects,
    take_step,
)
from forewarn.control.rules import campaign_gate, waits
from forewarn.control.transactions.inquiries import ASK_AGAIN_AFTER, ClearQuestion
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import hosts_of
from forewarn.fleet.model import Host
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.frozen import changed
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.lifecycle import VisitInput
from forewarn.protocol.notes import (
    AnyNote,
    Cancelled,
    DrainStopped,
    TargetChanged,
)
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    STARTED_STATES,
    UNSTARTED_STATES,
    Action,
    CallState,
    Operation,
    OperationState,
    is_in_halves,
)
from forewarn.protocol.verbs import TargetKind
from forewarn.protocol.visits import (
    ENTERED_VISITS,
    SkipReason,
    StepOutcome,
    Visit,
    VisitState,
)
from forewarn.store import kinds

CLEAR_AGAIN: Micros = 10 * SECOND
"""Pause between two observations of a host that VMs have not left yet."""

ANSWER_AGAIN: Micros = 10 * SECOND
"""Pause between two runs of `answers` while a host does not answer."""

CLEAR_WITHIN: Micros = 15 * MINUTE
"""Maximum time for which moved VMs may still be observed on the host. Their moves have
ended, so this takes seconds unless the driver is wrong."""


# Before the notice


def admit(work: Work, operation: Operation) -> Operation | None:
    """Return a host's operation that is announced now; None: `needed` runs first.

    An operation of a request without steps is returned unchanged.
    """
    request = work.request(operation.request)
    if not request.steps:
        return operation
    if not operation.visit:
        operation = visit_slots.create(work, request, operation)
    visit = visit_slots.hold(work, work.tx.get(Visit, operation.visit))
    if visit.is_needed:
        take_step(work, visit, VisitInput.ANNOUNCE)
        return operation
    work.save_operation(
        operation,
        replace(
            operation,
            waits_for=(waits.for_visit(visit.visit_id),),
            held_by=(),
            due_at=0,
        ),
    )
    begin_step(work, visit, StepKind.NEEDED)
    return None


def is_needed(work: Work, visit: Visit) -> None:
    """Let the rollout consider a host that needs the work again: much may have changed."""
    work.save_visit(visit, changed(visit, is_needed=True))
    visit_slots.leave(work, visit_slots.current(work, visit))
    operation = work.operation(visit.operation)
    if operation.state is OperationState.PLANNED:
        turns = replanning.turns_of(work, operation)
        work.save_operation(operation, replace(operation, waits_for=turns))
        work.take_turn(operation.request)


def follow(work: Work, visit_id: str, operation: Operation) -> None:
    """Let a visit follow an operation that was announced again."""
    visit = work.tx.get(Visit, visit_id) if visit_id else None
    if visit is not None:
        work.save_visit(visit, changed(visit, operation=operation.operation_id))


# Transitions


def go_on(work: Work, visit_id: str) -> None:
    """Continue a visit whose operation may have changed; it does nothing twice."""
    visit = work.tx.get(Visit, visit_id)
    if visit is None or visit.ended_at:
        return
    operation = work.tx.get(Operation, visit.operation)
    match visit.state:
        case VisitState.WAITING:
            if operation is None or operation.ended_at:
                skip(work, visit, SkipReason.CANCELLED)
        case VisitState.ANNOUNCED:
            _start(work, visit, operation)
        case VisitState.DRAINING:
            _after_drain(work, visit, operation)
        case VisitState.RESTORING:
            _after_restore(work, visit, operation)
        case VisitState.VERIFYING if visit.call_state is CallState.NONE:
            bound_pause(work, visit, work.policy.verify_settle)
        case VisitState.ANSWERING if visit.call_state is CallState.NONE:
            bound_pause(work, visit, ANSWER_AGAIN)
        case _:
            pass


def _start(work: Work, visit: Visit, operation: Operation | None) -> None:
    """Enter the host of a started operation; skip that of a cancelled one."""
    if operation is None or operation.state in UNSTARTED_STATES:
        return
    # An empty host is worked on as well.
    was_left = (
        isinstance(operation.note, TargetChanged)
        and operation.note.target_kind is TargetKind.VM
    )
    if operation.state is OperationState.CANCELLED and not was_left:
        skip(work, visit, SkipReason.CANCELLED)
        return
    entered = take_step(work, visit, VisitInput.ENTER)
    _cordon(work, entered)
    if not begin_step(work, entered, StepKind.ENTER):
        drain(work, entered)


def _cordon(work: Work, visit: Visit) -> None:
    host = work.tx.get(Host, visit.host)
    if host is not None:
        reason = work.request(visit.request).reason
        owner = owner_of(visit)
        cordoning.add(work, host, owner=owner, reason=reason, subjects=subjects(visit))


def drain(work: Work, visit: Visit) -> None:
    """Let the operation affect the VMs, after the host was entered."""
    draining = take_step(work, visit, VisitInput.DRAIN)
    operation = work.tx.get(Operation, visit.operation)
    if operation is not None and operation.state is OperationState.IMPACTING:
        work.lock_scopes(operation.scopes)
        why = campaign_gate.why_drain_stops(work.tx, visit.request)
        if why is not None:
            ending.stop_drain(work, operation, why=why)
        elif operation.action is Action.NONE:
            ending.finish(work, operation)
        elif not operation.moves:
            ending.impact_over(work, operation)
        elif is_in_halves(operation.action, visit.steps):
            calls.take_down(work, operation)
        else:
            calls.issue(work, operation, attempts=1)
        operation = work.operation(visit.operation)
    _after_drain(work, draining, operation)


def _after_drain(work: Work, visit: Visit, operation: Operation | None) -> None:
    if operation is None or not operation.moves or operation.holds_vms:
        _work_unless_stopped(work, visit, operation)
    elif isinstance(operation.note, DrainStopped):
        _stop(work, visit)
    elif operation.state is OperationState.FAILED:
        defer(work, visit)
    elif operation.state is not OperationState.IMPACTING:
        if operation.action in MOVING_ACTIONS:
            ask_clear(work, visit, operation)
        else:
            _work_unless_stopped(work, visit, operation)


def _work_unless_stopped(work: Work, visit: Visit, operation: Operation | None) -> None:
    """Begin the work, unless the campaign has been halted or aborted since the start.

    VMs that are paused or stopped for the work then run again.
    """
    why = campaign_gate.why_drain_stops(work.tx, visit.request)
    if operation is not None and isinstance(operation.note, DrainStopped):
        why = operation.note
    if why is None:
        _work(work, visit)
    elif operation is not None and operation.holds_vms:
        work.save_visit(visit, changed(visit, skipped=SkipReason.HALTED))
        not_taken_down(work, operation, why)
    else:
        _stop(work, visit)


def _stop(work: Work, visit: Visit) -> None:
    """Open a host without work, because its campaign was halted or aborted."""
    defer(work, work.save_visit(visit, changed(visit, skipped=SkipReason.HALTED)))


def ask_clear(work: Work, visit: Visit, operation: Operation) -> None:
    """Ask the driver whether the VMs have left the host."""
    work.save_visit(
        visit,
        changed(
            visit,
            due_at=work.now + ASK_AGAIN_AFTER,
            give_up_at=visit.give_up_at or work.now + CLEAR_WITHIN,
        ),
    )
    vms = (*operation.vms, *operation.left_vms)
    moved = {move.vm: move.to_host for move in operation.moves}
    expected = {vm: hosts_of(moved.get(vm, ""), visit.host) for vm in vms}
    work.ask(
        ClearQuestion(
            visit_id=visit.visit_id, host=visit.host, vms=vms, expected=expected
        )
    )


def take_clear(work: Work, question: ClearQuestion, *, is_clear: bool) -> None:
    """Begin the work on a host that is clear; otherwise observe it again later."""
    visit = work.tx.get(Visit, question.visit_id)
    if visit is None or visit.state is not VisitState.DRAINING or not visit.due_at:
        return
    is_clear = is_clear and not work.tx.select(kinds.VMS_ON_HOST, visit.host, limit=1)
    if is_clear or campaign_gate.why_drain_stops(work.tx, visit.request):
        _work_unless_stopped(work, visit, work.tx.get(Operation, visit.operation))
    elif work.now >= visit.give_up_at:
        defer(work, visit)
    else:
        work.save_visit(visit, changed(visit, due_at=work.now + CLEAR_AGAIN))


def _work(work: Work, visit: Visit) -> None:
    working = take_step(work, visit, VisitInput.WORK)
    if not begin_step(work, working, StepKind.WORK):
        verify(work, working)


def worked(work: Work, visit: Visit, *, is_done: bool) -> None:
    """Wait for the host after its work; if that failed, let the VMs run again."""
    if is_done and visit.step(StepKind.ANSWERS) is not None:
        await_host(work, visit)
    else:
        _release_vms(work, visit, is_done=is_done)


def await_host(work: Work, visit: Visit) -> None:
    """Wait until the host answers, because its work can have rebooted it."""
    waiting = take_step(work, visit, VisitInput.AWAIT)
    until = work.now + work.policy.answers_within
    waiting = work.save_visit(waiting, changed(waiting, give_up_at=until))
    begin_step(work, waiting, StepKind.ANSWERS)


def answered(work: Work, visit: Visit, *, is_good: bool) -> None:
    """Go on if the host answers; otherwise ask again, or fail after the deadline.

    VMs that are stopped cannot start on a host that is away: they wait for an operator.
    """
    if is_good:
        _release_vms(work, visit, is_done=True)
    elif work.now >= visit.give_up_at:
        fail(work, visit, VisitInput.FAIL)
    else:
        work.save_visit(visit, changed(visit, due_at=work.now + ANSWER_AGAIN))


def _release_vms(work: Work, visit: Visit, *, is_done: bool) -> None:
    """Let VMs that were paused or stopped for the work run again, then verify it."""
    operation = work.tx.get(Operation, visit.operation)
    if operation is not None and operation.holds_vms:
        _restore(work, visit, operation)
    elif is_done:
        verify(work, visit)
    else:
        fail(work, visit, VisitInput.FAIL)


def _restore(work: Work, visit: Visit, operation: Operation) -> None:
    take_step(work, visit, VisitInput.RESTORE)
    work.lock_scopes(operation.scopes)
    calls.bring_up(work, operation, note=operation.note)


def not_taken_down(work: Work, operation: Operation, note: AnyNote) -> None:
    """Let all VMs of a host run again: some could not be paused or stopped, or the
    campaign was halted.

    The host is then opened without any work.
    """
    visit = work.tx.get(Visit, operation.visit)
    assert visit is not None, "only a visit takes VMs down"
    deferred = work.save_visit(visit, changed(visit, is_deferred=True))
    take_step(work, deferred, VisitInput.RESTORE)
    calls.bring_up(work, operation, note=note)


def _after_restore(work: Work, visit: Visit, operation: Operation | None) -> None:
    """Go on after the second half of an operation, as the work has ended."""
    if operation is not None and operation.state is OperationState.IMPACTING:
        return
    result = visit.result(StepKind.WORK)
    is_worked = result is not None and result.outcome is StepOutcome.DONE
    if visit.skipped is not None and not visit.is_deferred:
        _end(work, visit, VisitInput.SKIP)
    elif operation is not None and operation.state is OperationState.FAILED:
        failed = work.save_visit(visit, changed(visit, is_deferred=False, skipped=None))
        fail(work, failed, VisitInput.FAIL)
    elif visit.is_deferred:
        if operation is not None:
            ending.stop_for_visit(work, operation)
        leave(work, visit_slots.current(work, visit))
    elif is_worked:
        verify(work, visit)
    else:
        fail(work, visit, VisitInput.FAIL, failed_in=VisitState.WORKING)


def verify(work: Work, visit: Visit) -> None:
    """Verify the work, or exit if the request has no step for that."""
    verifying = take_step(work, visit, VisitInput.VERIFY)
    if verifying.step(StepKind.VERIFY) is None:
        leave(work, verifying)
        return
    until = work.now + work.policy.verify_within
    verifying = work.save_visit(verifying, changed(verifying, give_up_at=until))
    begin_step(work, verifying, StepKind.VERIFY)


def verified(work: Work, visit: Visit, *, is_good: bool) -> None:
    """Count a result of `verify`; the visit goes on after enough successes in a row."""
    times = work.policy.verify_times
    count = visit.verified + 1 if is_good else 0
    if count >= times:
        leave(work, visit)
        return
    if work.now >= visit.give_up_at:
        fail(work, visit, VisitInput.FAIL)
        return
    pause = work.policy.verify_settle // max(1, times - 1)
    due_at = work.now + max(pause, 1)
    work.save_visit(visit, changed(visit, verified=count, due_at=due_at))


def leave(work: Work, visit: Visit) -> None:
    """Run `exit`, then open the host."""
    leaving = take_step(work, visit, VisitInput.EXIT)
    if not begin_step(work, leaving, StepKind.EXIT):
        finish(work, leaving)


def defer(work: Work, visit: Visit) -> None:
    """Open a host whose VMs could not be moved away; those that moved stay there."""
    leave(work, work.save_visit(visit, changed(visit, is_deferred=True)))


def finish(work: Work, visit: Visit) -> None:
    """End a visit after `exit`, and open its host."""
    _end(work, visit, VisitInput.DEFER if visit.is_deferred else VisitInput.FINISH)


def skip(work: Work, visit: Visit, why: SkipReason) -> None:
    """End a visit without work, or one that an operator gives up."""
    operation = work.tx.get(Operation, visit.operation)
    skipped = work.save_visit(visit, changed(visit, skipped=why))
    if operation is not None and operation.holds_vms:
        # The outcome of the work is unknown, and the operator takes it as ended.
        campaign_ends.visit_repeated(work, operation)
        _restore(work, visit_slots.hold(work, skipped), operation)
        return
    _end(work, skipped, VisitInput.SKIP)
    if operation is None or operation.state not in UNSTARTED_STATES:
        return
    result = visit.last_result
    if result is None:
        reason = Cancelled(by=work.who.actor, reason=work.who.reason)
        ending.cancel(work, operation, note=reason)
        return
    ending.cancel(work, operation, note=end_of_step(result))


def give_up(work: Work, visit: Visit) -> None:
    """End a failed visit whose host is tried again by another operation."""
    skipped = work.save_visit(visit, changed(visit, skipped=SkipReason.GIVEN_UP))
    _end(work, skipped, VisitInput.SKIP, is_counted=False)


def fail(
    work: Work,
    visit: Visit,
    given: VisitInput,
    *,
    failed_in: VisitState | None = None,
) -> None:
    """Stop a visit, because a step failed or its outcome is unknown.

    `failed_in` is the state of the failure, if that is an earlier one.

    The host stays cordoned and in flight, and the rollout stops. If the VMs have not
    been affected yet, their operation fails, so that no event stays Started.
    """
    failed = take_step(work, visit, given, failed_in=failed_in)
    operation = work.tx.get(Operation, visit.operation)
    result = failed.last_result
    if operation is None:
        return
    is_entering = failed.failed_in is VisitState.ENTERING
    if is_entering and result is not None and operation.state in STARTED_STATES:
        work.lock_scopes(operation.scopes)
        ending.fail(work, operation, note=end_of_step(result))
    elif operation.state is not OperationState.FAILED:
        ending.stop_for_visit(work, operation)
    if campaign_ends.visit_failed(work, work.operation(visit.operation)):
        visit_slots.leave(work, visit_slots.current(work, visit))


def repeat(work: Work, visit: Visit, given: VisitInput) -> None:
    """Repeat the step of a failed visit, with its phase from the beginning."""
    visit = visit_slots.hold(work, visit)
    campaign_ends.visit_repeated(work, work.operation(visit.operation))
    match given:
        case VisitInput.WORK:
            _work(work, visit)
        case VisitInput.AWAIT:
            await_host(work, visit)
        case VisitInput.VERIFY:
            verify(work, visit)
        case _:
            leave(work, visit)


def _end(
    work: Work, visit: Visit, given: VisitInput, *, is_counted: bool = True
) -> None:
    had_entered = visit.state in ENTERED_VISITS
    ended = take_step(work, visit, given)
    visit_slots.leave(work, ended)
    if had_entered:
        owner = owner_of(ended)
        cordoning.remove(work, ended.host, owner=owner, subjects=subjects(ended))
    work.free_host(visit.host)
    if is_counted:
        campaign_ends.visit_ended(work, ended)
    ending.close_request(work, visit.request)
