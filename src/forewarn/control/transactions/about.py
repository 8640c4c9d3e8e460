"""The subjects and facts of audit entries about operations. Pure."""

from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation
from forewarn.store.records import NOTHING, Facts, Task


def subjects_of(operation: Operation) -> tuple[str, ...]:
    """Return the subjects of an audit entry about the operation."""
    return (
        f"operation:{operation.operation_id}",
        f"request:{operation.request}",
        f"host:{operation.host}",
        *[f"scope:{scope}" for scope in operation.scopes],
        *[f"vm:{move.vm}" for move in operation.moves],
    )


def task_of(operation: Operation) -> Facts:
    """Return the facts of an audit entry about a normal step: the operation's task."""
    task = Task(
        verb=operation.verb,
        action=operation.action,
        target_kind=operation.target_kind,
        target=operation.target,
    )
    return changed(NOTHING, task=task)
