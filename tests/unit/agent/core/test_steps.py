"""Runs of handlers: what they are called, and what is owed after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core import steps
from forewarn.agent.core.model import Phase, Step, StepState, Task
from tests.unit.agent.core.support import START, notice


def step(handler: str, phase: Phase = Phase.PREPARE, **values: object) -> Step:
    step = Step(
        handler=handler,
        phase=phase,
        attempt=1,
        state=StepState.DONE,
        began=START,
        stop_at=START,
        kill_at=START,
    )
    return replace(step, **values)


def task(*runs: Step, event_id: str = "E1") -> Task:
    return Task(
        event_id=event_id, notice=notice(event_id), mine=True, seen=START, steps=runs
    )


@pytest.mark.parametrize(
    ("event_id", "wanted"),
    [
        ("E1", "E1.2.prepare.3.drain"),
        ("A-" * 32, f"{'A-' * 32}.2.prepare.3.drain"),
        # IDs that are not file names, or too long for one.
        ("../é", "2e2e2fc3a9-84f22069.2.prepare.3.drain"),
        ("", "-00000000.2.prepare.3.drain"),
        ("a" * 65, f"{'61' * 32}-f33faf5d.2.prepare.3.drain"),
    ],
)
def test_a_run_has_the_same_name_in_every_version(event_id: str, wanted: str) -> None:
    """A later agent finds by it what an earlier one has begun."""
    run = step("drain", round=2, attempt=3)
    assert steps.run_id(task(event_id=event_id), run) == wanted


def test_long_ids_with_the_same_prefix_get_different_run_ids() -> None:
    names = {
        steps.run_id(task(event_id="x" * 100 + end), step("drain")) for end in "ab"
    }
    assert len(names) == 2


def test_handler_prepared_last_recovers_first() -> None:
    again = step("drain", attempt=2)
    assert steps.unrecovered(task(step("drain"), step("flush"), again)) == [
        "drain",
        "flush",
    ]
    assert steps.unrecovered(task(step("drain"), step("flush"))) == ["flush", "drain"]


def test_recovery_is_pending_until_it_succeeds() -> None:
    tried = step("drain", Phase.RECOVER, state=StepState.FAILED)
    assert steps.unrecovered(task(step("drain", state=StepState.FAILED), tried)) == [
        "drain"
    ]
    paid = step("drain", Phase.RECOVER)
    assert steps.unrecovered(task(step("drain"), paid)) == []
    # It prepared once more afterwards.
    assert steps.unrecovered(task(step("drain"), paid, step("drain"))) == ["drain"]
