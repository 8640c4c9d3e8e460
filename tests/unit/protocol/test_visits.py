"""Visits as values, and the table of their states."""

import pytest

from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.frozen import changed
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.lifecycle import VISIT_STEPS, VisitInput, step_visit
from forewarn.protocol.operations import CallState
from forewarn.protocol.visits import (
    ENDED_VISITS,
    STEP_OF_STATE,
    STUCK_VISITS,
    StepOutcome,
    StepResult,
    Visit,
    VisitState,
)

WORK = HostStep(kind=StepKind.WORK, name="flash")


def visit(state: VisitState = VisitState.WORKING, **more: object) -> Visit:
    new_visit = Visit(
        visit_id="vi-1",
        request="ro-1",
        operation="op-1",
        host="h1",
        state=state,
        steps=(WORK,),
        created=1,
        call_state=CallState.ISSUED,
        due_at=5,
        give_up_at=6,
        verified=2,
    )
    return changed(new_visit, **more)


@pytest.mark.parametrize("state", VisitState)
@pytest.mark.parametrize("trigger", VisitInput)
def test_every_input_has_the_transition_of_the_table(
    state: VisitState, trigger: VisitInput
) -> None:
    target = VISIT_STEPS[state].get(trigger)
    if target is None:
        with pytest.raises(IllegalTransitionError):
            step_visit(visit(state), trigger, now=9)
        return
    stepped = step_visit(visit(state), trigger, now=9)
    assert stepped.state is target
    assert stepped.call_state is CallState.NONE
    assert (stepped.due_at, stepped.give_up_at, stepped.verified) == (0, 0, 0)
    assert stepped.ended_at == (9 if target in ENDED_VISITS else 0)
    assert stepped.failed_in is (state if target in STUCK_VISITS else None)


def test_ended_states_have_no_way_out() -> None:
    assert {state for state, steps in VISIT_STEPS.items() if not steps} == ENDED_VISITS


def test_visit_finds_its_steps() -> None:
    one_visit = visit()
    assert one_visit.key == "vi-1"
    assert one_visit.step(StepKind.WORK) is WORK
    assert one_visit.step(StepKind.EXIT) is None
    assert one_visit.current_kind is StepKind.WORK
    assert visit(VisitState.DRAINING).current_kind is None
    assert set(STEP_OF_STATE.values()) == set(StepKind)


def test_visit_finds_its_newest_result() -> None:
    assert visit().last_result is None
    old = StepResult(kind=StepKind.WORK, outcome=StepOutcome.DONE, at=1)
    new = StepResult(kind=StepKind.ENTER, outcome=StepOutcome.FAILED, at=2)
    assert visit(results=(new, old)).last_result is new
