"""How far a host of a campaign is, as values: its state by its operation and its visit."""

import enum
from collections.abc import Iterable, Mapping

from forewarn.protocol.operations import OperationState
from forewarn.protocol.visits import (
    ENDED_VISITS,
    STUCK_VISITS,
    SkipReason,
    VisitState,
)


class HostState(enum.Enum):
    """How far a host is; the value is the name in the API."""

    PLANNED = "planned"
    """It is not announced, or waits for another attempt."""
    ANNOUNCED = "announced"
    """Its VMs have an event that waits for approvals or NotBefore."""
    READY = "ready"
    """It is approved or due, and something holds it."""
    IMPACTING = "impacting"
    """Its VMs are affected, or a host step up to the work runs."""
    RECOVERING = "recovering"
    """Its VMs recover, or a host step after the work runs."""
    FAILED = "failed"
    """It failed, and was neither retried nor skipped."""
    SKIPPED = "skipped"
    """The campaign leaves it out, or has ended before its turn."""
    DONE = "done"

    # There is one object of each state, and 100,000 hosts are counted by their states:
    # the hash of the name takes ten times as long.
    __hash__ = object.__hash__


IN_FLIGHT_STATES = (
    HostState.ANNOUNCED,
    HostState.READY,
    HostState.IMPACTING,
    HostState.RECOVERING,
)
"""States of hosts that are announced or in work."""

_WORST_FIRST = (
    *(HostState.FAILED, HostState.READY, HostState.IMPACTING),
    *(HostState.RECOVERING, HostState.ANNOUNCED, HostState.PLANNED),
    *(HostState.SKIPPED, HostState.DONE),
)
"""The states in the order in which they need attention."""

URGENCY: Mapping[HostState, int] = {
    state: place for place, state in enumerate(_WORST_FIRST)
}
"""The place of each state in this order, from 0."""

_OF_OPERATION = {
    OperationState.PLANNED: HostState.PLANNED,
    OperationState.ANNOUNCED: HostState.ANNOUNCED,
    OperationState.READY: HostState.READY,
    OperationState.IMPACTING: HostState.IMPACTING,
    OperationState.RECOVERING: HostState.RECOVERING,
    OperationState.DONE: HostState.DONE,
    OperationState.CANCELLED: HostState.SKIPPED,
    OperationState.FAILED: HostState.SKIPPED,
}

_OF_VISIT = {
    VisitState.ENTERING: HostState.IMPACTING,
    VisitState.DRAINING: HostState.IMPACTING,
    VisitState.WORKING: HostState.IMPACTING,
    VisitState.ANSWERING: HostState.IMPACTING,
    VisitState.RESTORING: HostState.IMPACTING,
    VisitState.VERIFYING: HostState.RECOVERING,
    VisitState.EXITING: HostState.RECOVERING,
    VisitState.SKIPPED: HostState.SKIPPED,
    VisitState.FAILED: HostState.FAILED,
    VisitState.UNKNOWN: HostState.FAILED,
}
"""The state of a host by its visit. In the others, its operation decides."""


DEFERRED = "Deferred"
"""State of an attempt that could not move the VMs of the host away."""

FAILED_SKIPS = frozenset({SkipReason.NEEDED_FAILED, SkipReason.GIVEN_UP})
"""Reasons for which a host is skipped after one of its steps failed."""


def state_of(operation: OperationState, visit: VisitState | None) -> HostState:
    """Return how far a host is by its last operation, and by its visit if it has one.

    The host is not one of the campaign's failed hosts. Its operation can be done before
    its visit.
    """
    state = _OF_OPERATION[operation]
    if state in {HostState.PLANNED, HostState.SKIPPED} or visit is None:
        return state
    return _OF_VISIT.get(visit, state)


def attempt_state(
    operation: OperationState, visit: VisitState | None, skipped: SkipReason | None
) -> str:
    """Return the state of an attempt by its operation, and by its visit if it has one.

    Its VMs can be through, and their operation Done, while a step on the host runs or
    has failed. A failed attempt stays so after an operator gave it up.
    """
    if visit is None:
        return operation.value
    if visit is VisitState.DEFERRED:
        return DEFERRED
    if visit in STUCK_VISITS or skipped in FAILED_SKIPS:
        return OperationState.FAILED.value
    if operation is OperationState.DONE and visit not in ENDED_VISITS:
        return state_of(operation, visit).value.title()
    return operation.value


def worst(states: Iterable[HostState]) -> HostState:
    """Return the state that needs attention most; Done without states."""
    return min(states, key=URGENCY.__getitem__, default=HostState.DONE)
