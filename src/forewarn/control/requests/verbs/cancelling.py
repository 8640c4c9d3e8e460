"""Taking an order back, until its point of no return (4.1)."""

from forewarn.control.execution import ending
from forewarn.control.requests import rollouts
from forewarn.control.transactions.work import Work
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.lifecycle import RequestInput
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.operations import (
    ENDED_STATES,
    UNSTARTED_STATES,
    WAITING_STATES,
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.store import kinds
from forewarn.store.port import every


def cancel(work: Work, name: str, *, note: AnyNote) -> list[Operation]:
    """Cancel an operation, or what has not started of a request.

    Return the operations that were cancelled. Refused: unknown; past the point
    of no return, which is Started; ended.
    """
    request = work.tx.get(Request, name)
    if request is None:
        operation = work.operation(name)
        if operation.state not in UNSTARTED_STATES:
            raise RefusedError(
                _too_late(work, operation), hint=_what_became(work, operation)
            )
        work.lock_scopes(operation.scopes)
        ending.cancel(work, operation, note=note, by=work.who.actor)
        return [work.operation(name)]
    siblings = list(every(work.tx, kinds.OPERATIONS_OF_REQUEST, name))
    waiting = [op for op in siblings if op.state in WAITING_STATES]
    planned = [op for op in siblings if op.state is OperationState.PLANNED]
    if not waiting and not planned and not request.unplanned:
        raise RefusedError(
            f"nothing of {work.called(name)} can be cancelled: "
            + "; ".join(_too_late(work, operation) for operation in siblings),
            hint=f"`forewarn history --operation {work.called(name)} --summary` tells "
            "what became of it",
        )
    work.lock_scopes(scope for operation in waiting for scope in operation.scopes)
    if request.state is RequestState.OPEN:
        work.step_request(request, RequestInput.CANCEL)
    for operation in waiting:
        ending.cancel(
            work, work.operation(operation.operation_id), note=note, by=work.who.actor
        )
    # Of hosts whose turn had not come there may be many: the rest follows in steps.
    unannounced = rollouts.cancel_planned(work, request, note=note, by=work.who.actor)
    return [
        *(work.operation(operation.operation_id) for operation in waiting),
        *unannounced,
    ]


def _too_late(work: Work, operation: Operation) -> str:
    name = work.called(operation.operation_id)
    if operation.state in {OperationState.IMPACTING, OperationState.RECOVERING}:
        return f"{name} has started, which is its point of no return"
    return f"{name} is {operation.state.value} already"


def _what_became(work: Work, operation: Operation) -> str:
    name = work.called(operation.operation_id)
    if operation.state in ENDED_STATES:
        return (
            f"`forewarn history --operation {name} --summary` tells what became of it"
        )
    return f"`forewarn explain {name}` says where it stands"
