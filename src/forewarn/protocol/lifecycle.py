"""State tables: every status changes here and nowhere else.

Rule 1: everything that affects the state of an event, operation, request, visit or view
is in this file. Rule 2: this file does not know the caller, the time, or the
consequences of a step. An input that a table does not have is a bug in the program and
raises `IllegalTransitionError`; input from outside is checked before it gets here. The
diagrams in the documents are generated from these tables.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.visits import Visit, VisitState


class EventInput(Enumeration):
    """Input of the event table."""

    PUBLISH = "publish"
    APPROVE = "approve"
    START = "start"
    CANCEL = "cancel"
    FINISH = "finish"


EVENT_STEPS: Mapping[EventStatus, Mapping[EventInput, EventStatus]] = {
    EventStatus.NEW: {
        EventInput.PUBLISH: EventStatus.SCHEDULED,
        # Failures, and user operations that need no approval (4.1).
        EventInput.START: EventStatus.STARTED,
    },
    EventStatus.SCHEDULED: {
        EventInput.APPROVE: EventStatus.SCHEDULED,
        EventInput.START: EventStatus.STARTED,
        EventInput.CANCEL: EventStatus.REMOVED,
    },
    EventStatus.STARTED: {
        # A late approval is answered and changes nothing (3.2).
        EventInput.APPROVE: EventStatus.STARTED,
        EventInput.FINISH: EventStatus.REMOVED,
    },
    EventStatus.REMOVED: {EventInput.APPROVE: EventStatus.REMOVED},
}


class OperationInput(Enumeration):
    """Input of the operation table."""

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
        # A host of a rollout that was not announced yet.
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
        # A deleted VM does not recover, and neither does a VM whose failure ended.
        OperationInput.FINISH: OperationState.DONE,
        OperationInput.FAIL: OperationState.FAILED,
    },
    OperationState.RECOVERING: {
        OperationInput.FINISH: OperationState.DONE,
        # The host of the VM failed during the recovery time.
        OperationInput.FAIL: OperationState.FAILED,
    },
    OperationState.DONE: {},
    OperationState.CANCELLED: {},
    OperationState.FAILED: {},
}


class RequestInput(Enumeration):
    """Input of the request table."""

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


class VisitInput(Enumeration):
    """Input of the visit table."""

    ANNOUNCE = "announce"
    ENTER = "enter"
    DRAIN = "drain"
    WORK = "work"
    AWAIT = "await"
    RESTORE = "restore"
    VERIFY = "verify"
    EXIT = "exit"
    FINISH = "finish"
    DEFER = "defer"
    SKIP = "skip"
    FAIL = "fail"
    LOSE = "lose"


_STUCK_STEPS: Mapping[VisitInput, VisitState] = {
    # An operator repeats the step.
    VisitInput.WORK: VisitState.WORKING,
    VisitInput.VERIFY: VisitState.VERIFYING,
    VisitInput.EXIT: VisitState.EXITING,
    # An operator gives up the visit, and the host is opened.
    VisitInput.SKIP: VisitState.SKIPPED,
    # The same, if VMs are still paused or stopped for the work.
    VisitInput.RESTORE: VisitState.RESTORING,
}

VISIT_STEPS: Mapping[VisitState, Mapping[VisitInput, VisitState]] = {
    VisitState.WAITING: {
        VisitInput.ANNOUNCE: VisitState.ANNOUNCED,
        # The host does not need the work, or cannot tell.
        VisitInput.SKIP: VisitState.SKIPPED,
    },
    VisitState.ANNOUNCED: {
        # The operation has started, or the last VM left before its start.
        VisitInput.ENTER: VisitState.ENTERING,
        VisitInput.SKIP: VisitState.SKIPPED,
    },
    VisitState.ENTERING: {
        VisitInput.DRAIN: VisitState.DRAINING,
        VisitInput.FAIL: VisitState.FAILED,
        VisitInput.LOSE: VisitState.UNKNOWN,
    },
    VisitState.DRAINING: {
        VisitInput.WORK: VisitState.WORKING,
        # Some VMs could not be paused or stopped, or the campaign was halted: all run
        # again, without any work.
        VisitInput.RESTORE: VisitState.RESTORING,
        # VMs could not be moved away, or the campaign was halted: the host is opened
        # without any work.
        VisitInput.EXIT: VisitState.EXITING,
    },
    VisitState.WORKING: {
        # The work is done, and the host may not answer yet.
        VisitInput.AWAIT: VisitState.ANSWERING,
        # VMs that were paused or stopped for the work, even if it failed.
        VisitInput.RESTORE: VisitState.RESTORING,
        VisitInput.VERIFY: VisitState.VERIFYING,
        VisitInput.FAIL: VisitState.FAILED,
        VisitInput.LOSE: VisitState.UNKNOWN,
    },
    VisitState.ANSWERING: {
        VisitInput.RESTORE: VisitState.RESTORING,
        VisitInput.VERIFY: VisitState.VERIFYING,
        # VMs that are stopped stay so: they cannot start on an unreachable host.
        VisitInput.FAIL: VisitState.FAILED,
    },
    VisitState.RESTORING: {
        VisitInput.VERIFY: VisitState.VERIFYING,
        # The VMs could not be paused or stopped, or the campaign was halted; they run
        # again.
        VisitInput.EXIT: VisitState.EXITING,
        # The work failed, or the VMs do not run again.
        VisitInput.FAIL: VisitState.FAILED,
        # An operator gave up work with an unknown outcome.
        VisitInput.SKIP: VisitState.SKIPPED,
    },
    VisitState.VERIFYING: {
        VisitInput.EXIT: VisitState.EXITING,
        VisitInput.FAIL: VisitState.FAILED,
        VisitInput.LOSE: VisitState.UNKNOWN,
    },
    VisitState.EXITING: {
        VisitInput.FINISH: VisitState.DONE,
        VisitInput.DEFER: VisitState.DEFERRED,
        VisitInput.FAIL: VisitState.FAILED,
        VisitInput.LOSE: VisitState.UNKNOWN,
    },
    VisitState.DONE: {},
    VisitState.DEFERRED: {},
    VisitState.SKIPPED: {},
    VisitState.FAILED: {
        **_STUCK_STEPS,
        # The host may answer now.
        VisitInput.AWAIT: VisitState.ANSWERING,
    },
    VisitState.UNKNOWN: _STUCK_STEPS,
}


class ViewState(Enumeration):
    """Whether Scheduled Events are enabled (section 7)."""

    DISABLED = "Disabled"
    ENABLED = "Enabled"


class ViewInput(Enumeration):
    """Input of the view table."""

    ASKED = "asked"
    SILENT = "silent"


VIEW_STEPS: Mapping[ViewState, Mapping[ViewInput, ViewState]] = {
    ViewState.DISABLED: {ViewInput.ASKED: ViewState.ENABLED},
    ViewState.ENABLED: {
        ViewInput.ASKED: ViewState.ENABLED,
        # No request for the time after which Azure disables a service (7.3).
        ViewInput.SILENT: ViewState.DISABLED,
    },
}

_State = TypeVar("_State", bound=enum.Enum)
_Input = TypeVar("_Input", bound=enum.Enum)


def look_up(
    table: Mapping[_State, Mapping[_Input, _State]], state: _State, trigger: _Input
) -> _State:
    """Return the state that `trigger` leads to; raises IllegalTransitionError."""
    try:
        return table[state][trigger]
    except KeyError:
        raise IllegalTransitionError(
            f"{type(state).__name__} {state.value} does not take {trigger.value}"
        ) from None


def step_event(
    event: Event,
    trigger: EventInput,
    *,
    now: Micros,
    by: Actor | None = None,
    outcome: Outcome | None = None,
) -> Event:
    """Return the event after `trigger`.

    `by` is the approver. Only the first approval of a Scheduled event is stored, so
    approvals are idempotent and commutative (clause 3.2). `outcome` is for CANCEL and
    FINISH.
    """
    status = look_up(EVENT_STEPS, event.status, trigger)
    if trigger is EventInput.APPROVE:
        if event.is_approved or event.status is not EventStatus.SCHEDULED:
            return event
        return changed(event, approver=by, approved_at=now)
    if trigger is EventInput.START:
        return changed(event, status=status, started_at=now)
    if status is EventStatus.REMOVED:
        return changed(event, status=status, removed_at=now, outcome=outcome)
    return changed(event, status=status)


def step_operation(
    operation: Operation,
    trigger: OperationInput,
    *,
    now: Micros,
    note: AnyNote | None = None,
) -> Operation:
    """Return the operation after `trigger`, with a note about the reason."""
    state = look_up(OPERATION_STEPS, operation.state, trigger)
    times: dict[str, Micros] = {}
    if trigger is OperationInput.START:
        times["started_at"] = now
    elif trigger is OperationInput.IMPACT_OVER:
        times["impact_ended_at"] = now
    elif not OPERATION_STEPS[state]:
        # If the operation has not started, there was no impact.
        ended = operation.impact_ended_at or now if operation.started_at else 0
        times.update(ended_at=now, due_at=0, impact_ended_at=ended)
    return changed(
        operation,
        state=state,
        note=note or operation.note,
        held_by=(),
        waits_for=(),
        **times,
    )


def step_request(request: Request, trigger: RequestInput) -> Request:
    """Return the request after `trigger`."""
    return changed(request, state=look_up(REQUEST_STEPS, request.state, trigger))


def step_visit(
    visit: Visit,
    trigger: VisitInput,
    *,
    now: Micros,
    failed_in: VisitState | None = None,
) -> Visit:
    """Return the visit after `trigger`; a step starts without a call and a timer.

    `failed_in` is the state of the failure, if that is an earlier one.
    """
    state = look_up(VISIT_STEPS, visit.state, trigger)
    is_stuck = trigger in {VisitInput.FAIL, VisitInput.LOSE}
    return changed(
        visit,
        state=state,
        since=now,
        call_state=CallState.NONE,
        due_at=0,
        give_up_at=0,
        verified=0,
        failed_in=(failed_in or visit.state) if is_stuck else None,
        ended_at=0 if VISIT_STEPS[state] else now,
    )
