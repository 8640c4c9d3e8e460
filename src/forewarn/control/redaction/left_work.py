"""Operations that a tenant has left: the last of its VMs is no longer part of them.

For the tenant, such an operation ended at that moment. All later steps are about the host
and about others. Pure.
"""

from collections.abc import Collection
from dataclasses import replace

from forewarn.instants import Micros, cut_to_second
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.operations import CallState, Operation, OperationState

_STATES = {
    Outcome.COMPLETED: OperationState.DONE,
    Outcome.FAILED: OperationState.FAILED,
}
"""The state of an operation by the outcome of its event; else it was cancelled."""


def left_at(operation: Operation, own: Collection[Event], *, has_vms: bool) -> Micros:
    """Return when a tenant left the operation, and it went on; 0: it did not.

    `own` are the events of the tenant. `has_vms`: it has VMs in the operation now.
    """
    if has_vms or not own:
        return 0
    if any(event.status is not EventStatus.REMOVED for event in own):
        return 0
    at = max(event.removed_at for event in own)
    # With its last VM, an operation ends for everyone.
    ended_together = not operation.moves and operation.ended_at == at
    return 0 if ended_together else at


def as_left(operation: Operation, own: Collection[Event], *, at: Micros) -> Operation:
    """Return the operation as it was for a tenant that left it at a time."""
    last = max(own, key=lambda event: (event.removed_at, event.event_id))
    started = max(event.started_at for event in own)
    impact_ended = operation.impact_ended_at
    return replace(
        operation,
        state=_STATES.get(last.outcome or Outcome.CANCELLED, OperationState.CANCELLED),
        not_before=last.not_before,
        due_at=0,
        call_state=CallState.NONE,
        # A started operation without VMs had a call.
        generation=1 if started else 0,
        started_at=cut_to_second(started),
        impact_ended_at=(
            cut_to_second(impact_ended) if started and impact_ended <= at else 0
        ),
        ended_at=cut_to_second(at),
        note=None,
        cancelled_by=None,
    )
