"""End operations, and wake operations that waited for them.

The end of an operation removes its events and frees its VMs. The end of the last
operation of a request closes the request. Waiting operations in the scopes are checked
again.
"""

from collections.abc import Collection

from forewarn.control.execution import campaign_ends, downtime
from forewarn.control.rules import waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.protocol.actors import Actor
from forewarn.protocol.events import EventStatus, Outcome
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import EventInput, OperationInput, RequestInput
from forewarn.protocol.notes import AnyNote, DrainStopped, RolloutStopped
from forewarn.protocol.operations import (
    Action,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every


def impact_over(
    work: Work, operation: Operation, *, note: AnyNote | None = None
) -> None:
    """End the impact; the events stay for the recovery time (clause 4.6)."""
    if operation.action is Action.DELETE or not work.policy.recovery:
        finish(work, operation, note=note)
        return
    recovering = work.step(operation, OperationInput.IMPACT_OVER, note=note)
    work.save_operation(
        recovering, changed(recovering, due_at=work.now + work.policy.recovery)
    )
    work.take_visit(recovering.visit)
    # The driver no longer works on its VMs; other operations can wait for that.
    work.free(operation.scopes, operation.vms)


def recovered(work: Work, operation_id: str) -> None:
    """End an operation whose recovery time has passed, if it is still Recovering."""
    operation = work.operation(operation_id)
    if operation.state is OperationState.RECOVERING:
        work.lock_scopes(operation.scopes)
        finish(work, operation)


def finish(work: Work, operation: Operation, *, note: AnyNote | None = None) -> None:
    """End a started operation as Done."""
    _end(work, operation, OperationInput.FINISH, Outcome.COMPLETED, note)


def fail(
    work: Work, operation: Operation, *, note: AnyNote, down: Collection[str] = ()
) -> None:
    """End a started operation as Failed; its rollout stops.

    `down` are the VMs that it, or a failure meanwhile, left down. The caller must record
    failures of them: they need their own events, because the events of this operation are
    removed (clause 4.3).
    """
    request = work.request(operation.request)
    if not request.campaign:
        # The tolerance of a campaign decides whether it continues.
        work.step_request(request, RequestInput.OPERATION_FAILED)
    moves = tuple(
        changed(move, is_down=move.is_down or move.vm in down)
        for move in operation.moves
    )
    if moves != operation.moves:
        operation = work.save_operation(operation, changed(operation, moves=moves))
    _end(work, operation, OperationInput.FAIL, Outcome.FAILED, note)
    if request.is_rollout and not request.campaign:
        _stop_rollout(work, operation)


def stop_for_visit(work: Work, operation: Operation) -> None:
    """Stop a rollout because the visit of an operation failed after its end."""
    request = work.request(operation.request)
    if not request.campaign:
        work.step_request(request, RequestInput.OPERATION_FAILED)
        _stop_rollout(work, operation)


def _stop_rollout(work: Work, failed: Operation) -> None:
    """Cancel the operations of a rollout that have not started."""
    for sibling in list(every(work.tx, kinds.ANNOUNCED_OF_REQUEST, failed.request)):
        cancel(work, sibling, note=RolloutStopped(failed=failed.operation_id))
    # Planned hosts are cancelled in steps, because there can be many.
    work.take_turn(failed.request)


def cancel(
    work: Work, operation: Operation, *, note: AnyNote, by: Actor | None = None
) -> None:
    """Cancel a waiting operation without impact (clause 4.1); `by` requested it."""
    if by is not None:
        operation = work.save_operation(operation, changed(operation, cancelled_by=by))
    _end(work, operation, OperationInput.CANCEL, Outcome.CANCELLED, note)


def _end(
    work: Work,
    operation: Operation,
    given: OperationInput,
    outcome: Outcome,
    note: AnyNote | None,
) -> None:
    events = work.events_of(operation)
    for event in events:
        if event.status is EventStatus.SCHEDULED:
            work.step_event(event, EventInput.CANCEL, outcome=outcome)
        elif event.status is EventStatus.STARTED:
            work.step_event(event, EventInput.FINISH, outcome=outcome)
    for name in operation.vms:
        take_off(work, operation, name)
    was_planned = operation.state is OperationState.PLANNED
    ended = work.step(replace_call(work, operation, CallState.NONE), given, note=note)
    work.free(ended.scopes, ended.vms)
    if was_planned:
        _leave_turn(work, operation)
        if operation.is_emergency:
            # The host can wait in a routine campaign, behind the emergency.
            work.free_host(operation.host)
    else:
        if ended.is_host_bound:
            work.free_room(ended.host)
            work.free_budgets(ended.host, (event.tenant for event in events))
        if not ended.visit:
            work.count_in_flight(ended.request, -1)
    # The host stays in flight until its visit has ended.
    work.take_visit(ended.visit)
    campaign_ends.host_ended(work, ended, outcome, note)
    close_request(work, ended.request)


def _leave_turn(work: Work, operation: Operation) -> None:
    """Check the hosts that wait behind a Planned host, which has ended.

    It can be the one host of its rollout that waits for the end of the brake or of
    blackouts, or have reserved scopes.
    """
    if {waits.TURN_BRAKE, waits.TURN_BLACKOUTS} & set(operation.waits_for):
        work.take_turn(operation.request)
    work.free_turns(filter(None, map(waits.reserved_by, operation.waits_for)))


def take_off(work: Work, operation: Operation, name: str) -> None:
    """Remove an operation from one of its VMs, with the reserved capacity."""
    vm = work.tx.get(Vm, name)
    if vm is None:
        return
    is_started = operation.operation_id in vm.started
    still_moves = vm.moving_to != "" and any(
        move.vm == name
        and move.to_host == vm.moving_to
        and (is_started or not move.done)
        for move in operation.moves
    )
    if not is_started and not still_moves:
        return
    started = tuple(other for other in vm.started if other != operation.operation_id)
    work.save_vm(
        vm, changed(vm, started=started, moving_to="" if still_moves else vm.moving_to)
    )
    if still_moves:
        work.free_room(vm.moving_to)
    if is_started:
        downtime.taken_off(work, operation, vm)


def replace_call(work: Work, operation: Operation, state: CallState) -> Operation:
    """Return the operation with another state of its driver call."""
    if operation.call_state is state:
        return operation
    return work.save_operation(operation, changed(operation, call_state=state))


def close_request(work: Work, request_id: str) -> None:
    """Close a request if its last operation or visit has ended."""
    request = work.request(request_id)
    # One sibling is enough: reading all would be slow in a large request.
    left = work.tx.select(kinds.OPEN_OPERATIONS_OF_REQUEST, request_id, limit=1)
    has_visit = bool(
        request.steps
        and work.tx.select(kinds.OPEN_VISITS_OF_REQUEST, request_id, limit=1)
    )
    if not left and not request.hosts_unplanned and not has_visit:
        if campaign_ends.may_close(work, request):
            work.step_request(request, RequestInput.ALL_ENDED)
            campaign_ends.closed(work, request)
    elif request.together:
        # The other operations may have waited only for its approval (3.6). They all
        # start with the first of them.
        for sibling in left:
            work.revisit(sibling.operation_id)


def stop_drain(work: Work, operation: Operation, *, why: DrainStopped) -> None:
    """End a started operation whose host gets no work, because its campaign was halted.

    No driver call of it runs.
    """
    _end(work, operation, OperationInput.FAIL, Outcome.FAILED, why)


def is_failure(operation: Operation) -> bool:
    """Return whether the operation is a failure."""
    return operation.verb is Verb.FAIL
