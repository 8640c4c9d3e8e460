"""How operations end, and what their end sets free.

An end removes the operation's events, lets go of its VMs, closes its request when
it was the last, and has whoever waits in its scopes looked at again.
"""

from dataclasses import replace

from forewarn.control import downtime
from forewarn.control.work import Work
from forewarn.fleet.model import Vm
from forewarn.protocol.events import EventStatus, Outcome
from forewarn.protocol.lifecycle import EventInput, OperationInput, RequestInput
from forewarn.protocol.operations import (
    ENDED_STATES,
    WAITING_STATES,
    Action,
    CallState,
    Operation,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every


def impact_over(work: Work, operation: Operation) -> None:
    """End the impact; the events stay for the recovery time (clause 4.6)."""
    if operation.action is Action.DELETE or not work.policy.recovery:
        finish(work, operation)
        return
    recovering = work.step(operation, OperationInput.IMPACT_OVER)
    work.save_operation(
        recovering, replace(recovering, due_at=work.now + work.policy.recovery)
    )
    # Its VMs are no longer in the driver's hands, and others may wait for that.
    work.free(operation.scopes)


def finish(work: Work, operation: Operation, *, note: str = "") -> None:
    """End a started operation well: its events go, and others may start."""
    _end(work, operation, OperationInput.FINISH, Outcome.COMPLETED, note)


def fail(work: Work, operation: Operation, *, note: str) -> None:
    """End a started operation badly; a rollout stops with it.

    VMs that the failure left down are the caller's business: they get an event
    of their own, since this one is removed (clause 4.3).
    """
    request = work.request(operation.request)
    work.step_request(request, RequestInput.OPERATION_FAILED)
    _end(work, operation, OperationInput.FAIL, Outcome.FAILED, note)
    if request.is_rollout:
        for sibling in every(work.tx, kinds.OPERATIONS_OF_REQUEST, operation.request):
            if sibling.state in WAITING_STATES:
                cancel(
                    work,
                    sibling,
                    note=f"the rollout stopped because {operation.operation_id} failed",
                )


def cancel(work: Work, operation: Operation, *, note: str) -> None:
    """End a waiting operation without impact (clause 4.1)."""
    _end(work, operation, OperationInput.CANCEL, Outcome.CANCELLED, note)


def _end(
    work: Work,
    operation: Operation,
    given: OperationInput,
    outcome: Outcome,
    note: str,
) -> None:
    for event in work.events_of(operation):
        if event.status is EventStatus.SCHEDULED:
            work.step_event(event, EventInput.CANCEL, outcome=outcome)
        elif event.status is EventStatus.STARTED:
            work.step_event(event, EventInput.FINISH, outcome=outcome)
    for name in operation.vms:
        take_off(work, operation, name)
    ended = work.step(replace_call(work, operation, CallState.NONE), given, note=note)
    work.free(ended.scopes)
    _close_request(work, ended)


def take_off(work: Work, operation: Operation, name: str) -> None:
    """Take a started operation off one of its VMs, with the place it had kept."""
    vm = work.tx.get(Vm, name)
    if vm is not None and operation.operation_id in vm.started:
        started = tuple(
            other for other in vm.started if other != operation.operation_id
        )
        kept = any(
            move.vm == name and move.to_host == vm.moving_to for move in operation.moves
        )
        work.save_vm(
            vm,
            replace(vm, started=started, moving_to="" if kept else vm.moving_to),
        )
        downtime.taken_off(work, operation, vm)


def replace_call(work: Work, operation: Operation, state: CallState) -> Operation:
    """Return the operation with another state of its driver call."""
    if operation.call_state is state:
        return operation
    return work.save_operation(operation, replace(operation, call_state=state))


def _close_request(work: Work, operation: Operation) -> None:
    request = work.request(operation.request)
    siblings = list(every(work.tx, kinds.OPERATIONS_OF_REQUEST, operation.request))
    if all(sibling.state in ENDED_STATES for sibling in siblings):
        work.step_request(request, RequestInput.ALL_ENDED)
    elif request.together:
        # Its companions may have waited for nothing but its approval (3.6).
        for sibling in siblings:
            if sibling.state in WAITING_STATES:
                work.revisit(sibling.operation_id)


def is_failure(operation: Operation) -> bool:
    """Tell whether the operation is a failure that lasts until restored."""
    return operation.verb is Verb.FAIL
