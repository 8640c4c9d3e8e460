"""Preparations that get less time than they were promised, and those that give way."""

from __future__ import annotations

import pytest

from forewarn.agent.core.model import NoteKind, StepState
from forewarn.agent.core.policy import Policy
from forewarn.agent.core.preparing import LATE_GRACE
from forewarn.agent.core.recovering import GAVE_WAY, GIVE_WAY_GRACE
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.notices import Notice
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    START,
    Life,
    notice,
    policy,
    prepare,
    started,
)

# The deadline comes nearer while a handler runs.


@pytest.mark.clause("8.5")
@pytest.mark.parametrize(
    ("shown", "left"),
    [
        (notice(not_before=START + 40 * SECOND), 28),
        (started(notice()), 10),
        (notice(not_before=START + 11 * SECOND), 1),
    ],
    ids=["moved", "started", "all but now"],
)
def test_run_is_limited_to_the_remaining_time(shown: Notice, left: int) -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.now += 10 * SECOND
    life.poll(shown)
    (run,) = life.running.values()
    assert run.kill_at == life.now + left * SECOND
    assert life.now < run.stop_at < run.kill_at or left == 1
    assert life.task().steps[0].stop_at == run.stop_at
    assert life.stops == [], "its event has not gone"
    # Nothing more is said of it, whatever the clock does.
    for step in (SECOND, -HOUR, 2 * HOUR):
        life.now += step
        life.poll(shown)
        assert life.running[run.run_id].kill_at <= run.kill_at
    life.end("drain", StepState.FAILED, "its time was up")
    assert life.task().withheld == "drain failed: its time was up"


def test_run_without_time_left_is_stopped_at_once() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.now += MINUTE
    life.poll(notice(not_before=life.now + SECOND))
    (run,) = life.running.values()
    assert (run.stop_at, run.kill_at) == (life.now, life.now + LATE_GRACE)


def test_shorter_remaining_time_is_shared_again() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice(not_before=START + 8 * MINUTE))
    (before,) = life.running.values()
    life.poll(notice(not_before=START + 6 * MINUTE))
    (run,) = life.running.values()
    assert before.kill_at == START + 4 * MINUTE - SECOND
    assert run.kill_at == START + 3 * MINUTE - SECOND


@pytest.mark.parametrize("settings", [policy(FLUSH), policy(DRAIN, FLUSH)])
def test_run_of_a_removed_handler_is_shortened(settings: Policy) -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.restart(settings)
    life.poll(started(notice()))
    assert life.running["E1.1.1.prepare.1.drain"].kill_at == life.now + 10 * SECOND


def test_run_keeps_its_time_while_its_deadline_is_unchanged() -> None:
    shown = notice(not_before=START + 4 * MINUTE)
    life = Life(policy(DRAIN, FLUSH))
    life.poll(shown)
    before = dict(life.running)
    for seconds in (1, 30, 150, 3600, 24 * 3600):
        # Also where a step of the clock has jumped over the deadline.
        life.now = START + seconds * SECOND
        life.poll(shown)
        assert life.running == before


@pytest.mark.parametrize("not_before", [START + HOUR, None])
def test_later_deadline_does_not_extend_a_run(
    not_before: Micros | None,
) -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice(not_before=START + 4 * MINUTE))
    before = dict(life.running)
    life.now += MINUTE
    life.poll(notice(not_before=not_before))
    assert life.running == before


# A hurried preparation needs a handler that another one holds.


@pytest.mark.clause("8.5")
def test_preparation_with_time_left_is_stopped_for_an_eviction() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("E1"))
    evicted = notice("E2", event_type="Preempt", not_before=START + 30 * SECOND)
    life.poll(notice("E1"), evicted)
    (stop,) = life.stops
    assert stop.run_id == "E1.1.1.prepare.1.drain"
    assert stop.kill_at == life.now + GIVE_WAY_GRACE
    life.poll(notice("E1"), evicted)
    assert len(life.stops) == 1
    life.end("drain", StepState.STOPPED, "its event has gone")
    assert life.begun()[1:] == [("E2", "prepare", "drain")]
    # This is not a failure of the other handler, which starts again.
    assert life.told(NoteKind.HANDLER) == [
        (NoteKind.HANDLER, f"prepare: stopped: {GAVE_WAY}")
    ]
    life.end("drain")
    assert life.begun()[2:] == [("E1", "prepare", "drain")]
    life.end("drain")
    assert life.sent == ["E2", "E1"]


def test_preparation_is_not_stopped_if_its_handler_is_not_needed() -> None:
    rules = (
        prepare(("flush",), types=frozenset({"Preempt"})),
        prepare(("drain",)),
    )
    life = Life(policy(DRAIN, FLUSH, rules=rules))
    life.poll(notice("E1"))
    life.poll(notice("E1"), notice("E2", event_type="Preempt"))
    assert life.stops == []
    assert {run.handler for run in life.running.values()} == {"drain", "flush"}
