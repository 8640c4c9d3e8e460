"""The tables: every status is asked about every input."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.protocol.actors import operator, vm_actor
from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Outcome,
    Resource,
)
from forewarn.protocol.lifecycle import (
    EVENT_STEPS,
    OPERATION_STEPS,
    REQUEST_STEPS,
    VIEW_STEPS,
    EventInput,
    OperationInput,
    RequestInput,
    ViewInput,
    ViewState,
    look_up,
    step_event,
    step_operation,
    step_request,
)
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    ENDED_STATES,
    Action,
    Move,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.protocol.views import View, step_view

NOW = 1_000_000

EVENT = Event(
    event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    operation="op-1",
    scope="web",
    tenant="shop",
    status=EventStatus.NEW,
    event_type=EventType.REBOOT,
    source=EventSource.USER,
    resources=(Resource(vm="a", name="a", fault_domain=0),),
    not_before=900,
    description="",
    duration_seconds=-1,
    created=1,
)
OPERATION = Operation(
    operation_id="op-1",
    request="rq-1",
    verb=Verb.REBOOT,
    action=Action.REBOOT,
    target_kind=TargetKind.VM,
    target="a",
    host="h1",
    state=OperationState.PLANNED,
    routine=False,
    not_before=900,
    moves=(Move(vm="a"),),
    scopes=("web",),
    duration_seconds=-1,
    description="",
    created=1,
)
REQUEST = Request(
    request_id="rq-1",
    verb=Verb.REBOOT,
    actor=operator("me"),
    reason="",
    state=RequestState.OPEN,
    together=False,
    is_rollout=False,
    created=1,
)
VIEW = View(view_id="web", scope="web", enabling="web")


def step_of_event(state: Any, given: Any) -> Any:
    return step_event(replace(EVENT, status=state), given, now=NOW).status


def step_of_operation(state: Any, given: Any) -> Any:
    return step_operation(replace(OPERATION, state=state), given, now=NOW).state


def step_of_request(state: Any, given: Any) -> Any:
    return step_request(replace(REQUEST, state=state), given).state


def step_of_view(state: Any, given: Any) -> Any:
    return step_view(replace(VIEW, state=state), given, now=NOW).state


Step = Callable[[Any, Any], Any]

MACHINES: Sequence[
    tuple[type[enum.Enum], type[enum.Enum], Step, Mapping[Any, Mapping[Any, Any]]]
] = (
    (EventStatus, EventInput, step_of_event, EVENT_STEPS),
    (OperationState, OperationInput, step_of_operation, OPERATION_STEPS),
    (RequestState, RequestInput, step_of_request, REQUEST_STEPS),
    (ViewState, ViewInput, step_of_view, VIEW_STEPS),
)
"""The states, inputs, step and table of each machine.

`docs/explanation/event-lifecycle.md` shows the tables, and tests/house compares them.
"""


@pytest.mark.clause("4.1")
@pytest.mark.parametrize(
    ("states", "inputs", "step", "table"),
    MACHINES,
    ids=[states.__name__ for states, *_ in MACHINES],
)
def test_each_status_accepts_only_the_inputs_of_its_row(
    states: type[enum.Enum],
    inputs: type[enum.Enum],
    step: Step,
    table: Mapping[Any, Mapping[Any, Any]],
) -> None:
    for state, what in itertools.product(states, inputs):
        if what in table[state]:
            assert step(state, what) is table[state][what], (state, what)
            continue
        with pytest.raises(IllegalTransitionError) as refused:
            step(state, what)
        assert str(refused.value) == (
            f"{type(state).__name__} {state.value} does not take {what.value}"
        )


@pytest.mark.parametrize(
    ("table", "states"),
    [
        (EVENT_STEPS, EventStatus),
        (OPERATION_STEPS, OperationState),
        (REQUEST_STEPS, RequestState),
        (VIEW_STEPS, ViewState),
    ],
)
def test_a_table_has_a_row_for_each_status(
    table: Mapping[Any, Any], states: type[enum.Enum]
) -> None:
    assert list(table) == list(states)


def test_missing_status_is_an_illegal_transition() -> None:
    with pytest.raises(IllegalTransitionError):
        look_up({}, EventStatus.NEW, EventInput.PUBLISH)


@pytest.mark.clause("4.1", "2.6")
@given(st.lists(st.sampled_from(EventInput), max_size=12))
def test_event_never_returns_to_an_earlier_status(inputs: list[EventInput]) -> None:
    order = list(EventStatus)
    event = EVENT
    for number, input_ in enumerate(inputs):
        try:
            after = step_event(event, input_, now=number)
        except IllegalTransitionError:
            continue
        assert order.index(after.status) >= order.index(event.status)
        assert (after.event_id, after.not_before) == (event.event_id, event.not_before)
        event = after


@pytest.mark.clause("3.2")
@given(st.lists(st.sampled_from(OperationInput), max_size=12))
def test_ended_operation_does_not_change(inputs: list[OperationInput]) -> None:
    operation = OPERATION
    for number, input_ in enumerate(inputs, start=1):
        try:
            after = step_operation(operation, input_, now=number)
        except IllegalTransitionError:
            continue
        assert operation.state not in ENDED_STATES
        assert (after.state in ENDED_STATES) is (after.ended_at == number)
        operation = after


# The fields that a step sets besides the status.


@pytest.mark.clause("3.2", "3.4")
def test_only_the_first_approval_is_recorded() -> None:
    scheduled = step_event(EVENT, EventInput.PUBLISH, now=1)
    assert scheduled == replace(EVENT, status=EventStatus.SCHEDULED)
    approved = step_event(scheduled, EventInput.APPROVE, now=2, by=vm_actor("a"))
    assert approved == replace(scheduled, approver=vm_actor("a"), approved_at=2)
    assert step_event(approved, EventInput.APPROVE, now=3, by=vm_actor("b")) is approved


@pytest.mark.clause("3.2")
@pytest.mark.parametrize("status", [EventStatus.STARTED, EventStatus.REMOVED])
def test_a_late_approval_changes_nothing(status: EventStatus) -> None:
    event = replace(EVENT, status=status)
    assert step_event(event, EventInput.APPROVE, now=2, by=vm_actor("a")) is event


def test_start_and_end_times_of_an_event_are_recorded() -> None:
    started = step_event(EVENT, EventInput.START, now=2)
    assert started == replace(EVENT, status=EventStatus.STARTED, started_at=2)
    removed = step_event(started, EventInput.FINISH, now=3, outcome=Outcome.FAILED)
    assert removed == replace(
        started, status=EventStatus.REMOVED, removed_at=3, outcome=Outcome.FAILED
    )


OLD, NEW = Said(text="old"), Said(text="new")


def test_operation_records_its_times_and_last_note() -> None:
    ready = replace(OPERATION, state=OperationState.READY, note=OLD, due_at=7)
    started = step_operation(ready, OperationInput.START, now=2)
    assert (started.started_at, started.note, started.due_at) == (2, OLD, 7)
    over = step_operation(started, OperationInput.IMPACT_OVER, now=3, note=NEW)
    assert (over.impact_ended_at, over.note) == (3, NEW)
    done = step_operation(over, OperationInput.FINISH, now=9)
    assert (done.ended_at, done.impact_ended_at, done.due_at) == (9, 3, 0)


def test_impact_ends_when_its_operation_fails() -> None:
    impacting = replace(OPERATION, state=OperationState.IMPACTING, started_at=2)
    failed = step_operation(impacting, OperationInput.FAIL, now=5)
    assert (failed.ended_at, failed.impact_ended_at) == (5, 5)


@pytest.mark.clause("4.1")
def test_cancelled_operation_has_no_impact() -> None:
    noticed = replace(OPERATION, state=OperationState.ANNOUNCED)
    cancelled = step_operation(noticed, OperationInput.CANCEL, now=5)
    assert (cancelled.ended_at, cancelled.impact_ended_at) == (5, 0)
