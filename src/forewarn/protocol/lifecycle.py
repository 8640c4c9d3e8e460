"""The tables that decide: every status changes here and nowhere else.

Rule 1: everything that affects where an event, operation, request or view
stands is in this file. Rule 2: this file does not know who asks, what time it
is, or what follows from a step. An input that a table lacks is a bug of the
program and raises `IllegalTransitionError`; input from outside is checked
before it gets here. The diagrams in the documents are generated from these
tables.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)


class EventInput(enum.Enum):
    """What can happen to an event."""

    PUBLISH = "publish"
    APPROVE = "approve"
    START = "start"
    CANCEL = "cancel"
    FINISH = "finish"


EVENT_STEPS: Mapping[EventStatus, Mapping[EventInput, EventStatus]] = {
    EventStatus.NEW: {
        EventInput.PUBLISH: EventStatus.SCHEDULED,
        # Failures, and user operations that nobody has to approve (4.1).
        EventInput.START: EventStatus.STARTED,
    },
    EventStatus.SCHEDULED: {
        EventInput.APPROVE: EventStatus.SCHEDULED,
        EventInput.START: EventStatus.STARTED,
        EventInput.CANCEL: EventStatus.REMOVED,
    },
    EventStatus.STARTED: {
        # An approval that comes late is answered and changes nothing (3.2).
        EventInput.APPROVE: EventStatus.STARTED,
        EventInput.FINISH: EventStatus.REMOVED,
    },
    EventStatus.REMOVED: {EventInput.APPROVE: EventStatus.REMOVED},
}


class OperationInput(enum.Enum):
    """What can happen to an operation."""

    NOTICE = "notice"
    RELEASE = "release"
    START = "start"
    IMPACT_OVER = "impact over"
    FINISH = "finish"
    CANCEL = "cancel"
    FAIL = "fail"


OPERATION_STEPS: Mapping[OperationState, Mapping[OperationInput, OperationState]] = {
    OperationState.PLANNED: {
        OperationInput.NOTICE: OperationState.ANNOUNCED,
        # A host of a rollout whose turn has not come: nobody was told of it.
        OperationInput.CANCEL: OperationState.CANCELLED,
    },
    OperationState.ANNOUNCED: {
        # All its events are approved, or NotBefore has come (4.2).
        OperationInput.RELEASE: OperationState.READY,
        OperationInput.CANCEL: OperationState.CANCELLED,
    },
    OperationState.READY: {
        OperationInput.START: OperationState.IMPACTING,
        OperationInput.CANCEL: OperationState.CANCELLED,
    },
    OperationState.IMPACTING: {
        OperationInput.IMPACT_OVER: OperationState.RECOVERING,
        # A deleted VM does not recover, nor one whose failure has ended.
        OperationInput.FINISH: OperationState.DONE,
        OperationInput.FAIL: OperationState.FAILED,
    },
    OperationState.RECOVERING: {
        OperationInput.FINISH: OperationState.DONE,
        # Its host failed before the recovery time was over.
        OperationInput.FAIL: OperationState.FAILED,
    },
    OperationState.DONE: {},
    OperationState.CANCELLED: {},
    OperationState.FAILED: {},
}


class RequestInput(enum.Enum):
    """What can happen to a request."""

    CANCEL = "cancel"
    OPERATION_FAILED = "operation failed"
    ALL_ENDED = "all ended"


REQUEST_STEPS: Mapping[RequestState, Mapping[RequestInput, RequestState]] = {
    RequestState.OPEN: {
        RequestInput.CANCEL: RequestState.CANCELLED,
        RequestInput.OPERATION_FAILED: RequestState.STOPPED,
        RequestInput.ALL_ENDED: RequestState.CLOSED,
    },
    RequestState.STOPPED: {
        RequestInput.OPERATION_FAILED: RequestState.STOPPED,
        RequestInput.ALL_ENDED: RequestState.STOPPED,
    },
    RequestState.CANCELLED: {
        RequestInput.OPERATION_FAILED: RequestState.CANCELLED,
        RequestInput.ALL_ENDED: RequestState.CANCELLED,
    },
    RequestState.CLOSED: {},
}


class ViewState(enum.Enum):
    """Whether somebody listens (section 7)."""

    DISABLED = "Disabled"
    ENABLED = "Enabled"


class ViewInput(enum.Enum):
    """What can happen to a view."""

    ASKED = "asked"
    SILENT = "silent"


VIEW_STEPS: Mapping[ViewState, Mapping[ViewInput, ViewState]] = {
    ViewState.DISABLED: {ViewInput.ASKED: ViewState.ENABLED},
    ViewState.ENABLED: {
        ViewInput.ASKED: ViewState.ENABLED,
        # No request for the time after which Azure forgets a service (7.3).
        ViewInput.SILENT: ViewState.DISABLED,
    },
}

_State = TypeVar("_State", bound=enum.Enum)
_Input = TypeVar("_Input", bound=enum.Enum)


def look_up(
    table: Mapping[_State, Mapping[_Input, _State]], state: _State, given: _Input
) -> _State:
    """Return the state that `given` leads to; raises IllegalTransitionError."""
    try:
        return table[state][given]
    except KeyError:
        raise IllegalTransitionError(
            f"{type(state).__name__} {state.value} does not take {given.value}"
        ) from None


def step_event(
    event: Event,
    given: EventInput,
    *,
    now: Micros,
    by: Actor | None = None,
    outcome: Outcome | None = None,
) -> Event:
    """Return the event after `given`.

    `by` is who approves; only the first approval of a Scheduled event leaves a
    trace, so that approving is idempotent and commutative (clause 3.2).
    `outcome` says how an event ends, for CANCEL and FINISH.
    """
    status = look_up(EVENT_STEPS, event.status, given)
    if given is EventInput.APPROVE:
        if event.is_approved or event.status is not EventStatus.SCHEDULED:
            return event
        return changed(event, approver=by, approved_at=now)
    if given is EventInput.START:
        return changed(event, status=status, started_at=now)
    if status is EventStatus.REMOVED:
        return changed(event, status=status, removed_at=now, outcome=outcome)
    return changed(event, status=status)


def step_operation(
    operation: Operation,
    given: OperationInput,
    *,
    now: Micros,
    note: AnyNote | None = None,
) -> Operation:
    """Return the operation after `given`; `note` says why."""
    state = look_up(OPERATION_STEPS, operation.state, given)
    stepped = changed(
        operation, state=state, note=note or operation.note, held_by=(), waits_for=()
    )
    if given is OperationInput.START:
        return changed(stepped, started_at=now)
    if given is OperationInput.IMPACT_OVER:
        return changed(stepped, impact_ended_at=now)
    if not OPERATION_STEPS[state]:
        return changed(
            stepped,
            ended_at=now,
            due_at=0,
            impact_ended_at=_impact_end(stepped, now),
        )
    return stepped


def _impact_end(operation: Operation, now: Micros) -> Micros:
    if not operation.started_at:
        return 0
    return operation.impact_ended_at or now


def step_request(request: Request, given: RequestInput) -> Request:
    """Return the request after `given`."""
    return changed(request, state=look_up(REQUEST_STEPS, request.state, given))
