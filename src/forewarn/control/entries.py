"""What the history has of the steps of operations and events: kinds and values. Pure."""

from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store.audit import AuditKind, Facts, Task

OPERATION_KINDS = {
    state: AuditKind[f"OPERATION_{state.name}"] for state in OperationState
}
"""By the state that the step leads to."""

EVENT_KINDS = {
    status: AuditKind[f"EVENT_{status.name}"]
    for status in EventStatus
    if status is not EventStatus.NEW
}


def subjects_of(operation: Operation) -> tuple[str, ...]:
    """Return what a line of the trail about the operation is found by."""
    return (
        f"operation:{operation.operation_id}",
        f"request:{operation.request}",
        f"host:{operation.host}",
        *(f"scope:{scope}" for scope in operation.scopes),
        *(f"vm:{vm}" for vm in operation.vms),
    )


def task_of(operation: Operation) -> Facts:
    """Return what the history says of a step that was due: what is done to what."""
    return Facts(
        task=Task(
            verb=operation.verb,
            action=operation.action,
            target_kind=operation.target_kind,
            target=operation.target,
        )
    )
