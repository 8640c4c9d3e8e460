"""Recovery: what prepare did is undone, once, when the last event has gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.model import Consent, NoteKind, Stage, StepState
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule
from forewarn.agent.core.recovering import GIVE_WAY_GRACE
from forewarn.agent.core.restoring import RETRY_FIRST, RETRY_MAX
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    Life,
    gone,
    notice,
    policy,
    prepare,
    started,
)

FIRST, SECOND_ = notice("E1"), notice("E2")


@pytest.mark.clause("8.3", "8.7")
def test_preparation_is_undone_in_reverse_order() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST)
    life.end("drain")
    life.end("flush")
    life.answer()
    life.poll(started(FIRST), times=3)
    gone(life)
    assert life.begun()[2:] == [("E1", "recover", "flush")]
    life.end("flush")
    assert life.begun()[3:] == [("E1", "recover", "drain")]
    life.end("drain")
    assert life.stage() is Stage.FINISHED
    assert [kind for kind, _ in life.told()][-5:] == [
        NoteKind.GONE,
        NoteKind.RECOVERING,
        NoteKind.HANDLER,
        NoteKind.HANDLER,
        NoteKind.RECOVERED,
    ]
    life.poll(times=5)
    assert len(life.runs) == 4


def test_unprepared_event_is_not_recovered() -> None:
    life = Life(policy(Handler(name="undo", prepares=False)))
    life.poll(FIRST)
    gone(life)
    assert life.runs == []
    assert life.stage() is Stage.FINISHED
    assert NoteKind.RECOVERED not in dict(life.told())


def test_failed_preparation_is_recovered() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain", StepState.FAILED)
    gone(life)
    assert life.begun()[1:] == [("E1", "recover", "drain")]


def test_handler_without_recovery_has_none_pending() -> None:
    life = Life(policy(Handler(name="drain", recovers=False)))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    assert life.stage() is Stage.FINISHED
    assert life.told(NoteKind.FAILED) == []


@pytest.mark.clause("8.7")
def test_recovery_waits_for_the_last_of_overlapping_events() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    life.poll(FIRST, SECOND_)
    life.end("drain")
    gone(life, SECOND_)
    life.sleep(HOUR)
    assert life.stage("E1") is Stage.RECOVERING
    assert all(phase == "prepare" for _, phase, _ in life.begun())
    gone(life)
    assert life.begun()[2:] == [("E2", "recover", "drain")]
    life.end("drain")
    # Once for both.
    assert life.stage("E1") is life.stage("E2") is Stage.FINISHED
    assert len(life.runs) == 3
    assert len(life.told(NoteKind.RECOVERED)) == 2


def test_event_without_handlers_does_not_delay_recovery() -> None:
    life = Life(policy(DRAIN, rules=(prepare(("drain",), max_resources=1),)))
    life.poll(FIRST, notice("E2", resources=("vm1", "vm2")))
    life.end("drain")
    gone(life, notice("E2", resources=("vm1", "vm2")))
    assert life.begun()[1:] == [("E1", "recover", "drain")]


@pytest.mark.clause("8.7")
def test_event_approved_unprepared_does_not_delay_recovery() -> None:
    at_once = Rule(name="short", types=frozenset({"Freeze"}), approve=Approve.AT_ONCE)
    life = Life(policy(DRAIN, rules=(at_once, prepare(("drain",)))))
    freeze = notice("E2", event_type="Freeze")
    life.poll(FIRST, freeze)
    life.end("drain")
    gone(life, freeze)
    assert life.begun()[1:] == [("E1", "recover", "drain")]


WARN = Handler(name="warn", required=False)
THEIRS = notice("E9", resources=("vm9",))
WARNED_OF = policy(
    DRAIN, WARN, rules=(prepare(("warn",), mine=False), prepare(("drain",)))
)


@pytest.mark.clause("8.3", "8.7")
def test_event_of_other_vms_delays_only_handlers_that_prepared_for_it() -> None:
    life = Life(WARNED_OF)
    life.poll(FIRST, THEIRS)
    life.end("drain")
    life.end("warn")
    gone(life, THEIRS)
    assert life.begun()[2:] == [("E1", "recover", "drain")]
    life.end("drain")
    assert life.stage("E1") is Stage.FINISHED
    assert life.stage("E9") is Stage.PREPARED
    gone(life)
    assert life.begun()[3:] == [("E9", "recover", "warn")]


def test_handler_prepared_for_another_vms_event_recovers_after_it() -> None:
    life = Life(
        policy(
            DRAIN,
            FLUSH,
            rules=(prepare(("drain",), mine=False), prepare(("drain",), ("flush",))),
        )
    )
    life.poll(FIRST, THEIRS)
    for handler in ("drain", "drain", "flush"):
        life.end(handler)
    gone(life, THEIRS)
    assert life.begun()[3:] == [("E1", "recover", "flush")]
    life.end("flush")
    assert life.stage("E1") is Stage.RECOVERING
    gone(life)
    assert life.begun()[4:] == [("E9", "recover", "drain")]
    life.end("drain")
    assert life.owed() == []


def test_next_fault_domain_is_prepared_before_recovery_continues() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST)
    life.end("drain")
    life.end("flush")
    gone(life)
    assert life.begun()[-1] == ("E1", "recover", "flush")
    life.poll(SECOND_)
    assert life.begun()[-1] == ("E2", "prepare", "drain")
    life.end("flush")
    life.end("drain")
    assert life.begun()[-1] == ("E2", "prepare", "flush")
    life.end("flush")
    gone(life)
    for handler in ("flush", "drain"):
        assert life.begun()[-1] == ("E2", "recover", handler)
        life.end(handler)
    assert life.owed() == []
    assert len(life.runs) == 7


def test_older_event_does_not_recover_out_of_order() -> None:
    """Two events owe the same: nothing is undone out of its order."""
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST, SECOND_)
    for handler in ("drain", "drain", "flush", "flush"):
        life.end(handler)
    gone(life)
    assert [run.handler for run in life.running.values()] == ["flush"]
    life.end("flush")
    assert [run.handler for run in life.running.values()] == ["drain"]
    life.end("drain")
    assert life.owed() == []


def test_one_recovery_covers_a_returned_event_and_other_events() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST, SECOND_)
    life.end("drain")
    life.end("drain")
    gone(life)
    life.restart(policy(DRAIN, rules=()))
    life.poll(SECOND_, times=2)
    assert life.stage("E2") is Stage.SEEN
    assert life.begun()[2:] == [("E2", "recover", "drain")]
    life.end("drain")
    assert life.stage("E1") is Stage.FINISHED
    assert len(life.runs) == 3


def test_failed_recovery_is_retried_without_limit_at_growing_intervals() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    pause = RETRY_FIRST
    for attempt in range(1, 30):
        life.end("drain", StepState.FAILED, "still down")
        life.sleep(pause - 1)
        assert not life.running
        life.sleep(1)
        assert life.runs[-1].attempt == attempt + 1
        pause = min(2 * pause, RETRY_MAX)
    assert len(life.task().steps) == 2, "the past attempts take no memory"
    life.end("drain")
    assert life.stage() is Stage.FINISHED


def test_next_retry_of_any_handler_sets_the_wake_time() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST)
    life.end("drain")
    life.end("flush")
    gone(life)
    life.end("flush", StepState.FAILED)
    life.sleep(500_000)
    life.end("drain", StepState.FAILED)
    assert life.wake == life.now + RETRY_FIRST - 500_000


def test_failed_recovery_does_not_delay_other_handlers() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST)
    life.end("drain")
    life.end("flush")
    gone(life)
    life.end("flush", StepState.FAILED)
    assert [run.handler for run in life.running.values()] == ["drain"]


@pytest.mark.clause("8.8")
def test_lost_recovery_is_repeated_at_once() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    life.restart()
    life.end("drain", StepState.LOST)
    assert life.begun()[1:] == [("E1", "recover", "drain")] * 2


@pytest.mark.clause("8.8")
def test_event_removed_while_the_agent_was_down_is_recovered() -> None:
    life = Life(policy(DRAIN))
    life.poll(started(FIRST))
    life.end("drain")
    life.now += 10 * MINUTE
    life.restart()
    gone(life)
    assert life.begun()[1:] == [("E1", "recover", "drain")]


def test_missing_handler_leaves_its_recovery_pending_and_is_reported() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    life.restart(policy(FLUSH))
    gone(life)
    # It stays pending, so that a handler renamed by mistake can be restored.
    assert life.stage() is Stage.RECOVERING
    life.sleep(life.policy.forget_after)
    assert life.stage() is Stage.FINISHED
    detail = "handler drain is no longer in the settings, so it cannot recover"
    assert life.told(NoteKind.FAILED) == [(NoteKind.FAILED, detail)]


def test_handler_restored_to_the_settings_recovers() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    life.restart(policy(FLUSH))
    gone(life)
    life.sleep(HOUR)
    life.restart(policy(DRAIN))
    life.poll()
    assert life.begun()[-1:] == [("E1", "recover", "drain")]
    life.end("drain")
    assert life.stage() is Stage.FINISHED
    assert life.told(NoteKind.FAILED) == []


def test_handler_of_another_kind_with_the_same_name_does_not_recover() -> None:
    units, program = (replace(DRAIN, kind=kind) for kind in ("systemd", "exec"))
    life = Life(policy(units))
    life.poll(FIRST)
    life.end("drain")
    life.restart(policy(program))
    gone(life)
    assert life.stage() is Stage.RECOVERING
    assert life.begun()[1:] == []
    life.restart(policy(units))
    life.poll()
    assert life.begun()[1:] == [("E1", "recover", "drain")]


# Cancelled during the preparation.


@pytest.mark.clause("8.3")
def test_preparation_of_a_cancelled_event_is_stopped_and_undone() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(FIRST)
    gone(life)
    (stop,) = life.stops
    assert stop.kill_at == life.now + life.policy.stop_grace
    assert life.told(NoteKind.CANCELLED) == [(NoteKind.CANCELLED, "")]
    life.sleep(MINUTE)
    assert len(life.runs) == 1
    life.end("drain", StepState.STOPPED)
    assert life.begun()[1:] == [("E1", "recover", "drain")]
    life.end("drain")
    assert life.sent == []
    assert life.stage() is Stage.FINISHED


def test_run_that_is_being_stopped_is_not_stopped_again() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.now = life.runs[0].stop_at
    gone(life)
    assert life.stops == []


def test_event_that_returns_in_time_repeats_the_stopped_run() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    gone(life)
    life.poll(FIRST, times=2)
    assert life.stage() is Stage.PREPARING
    life.end("drain", StepState.STOPPED)
    assert life.begun() == [("E1", "prepare", "drain")] * 2
    assert [run.attempt for run in life.runs] == [1, 2]
    life.end("drain")
    assert life.sent == ["E1"]


# A hurried preparation needs the handler.


def test_recovery_is_stopped_for_an_eviction() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    evicted = notice("E2", event_type="Preempt", not_before=life.now + 30 * SECOND)
    life.poll(evicted)
    (stop,) = life.stops
    assert stop.kill_at == life.now + GIVE_WAY_GRACE
    life.now += SECOND
    life.end("drain", StepState.STOPPED)
    assert life.begun()[-1] == ("E2", "prepare", "drain")
    life.end("drain")
    gone(life)
    life.end("drain")
    assert life.owed() == []


def test_recovery_is_not_stopped_for_an_event_that_can_wait() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    life.poll(SECOND_)
    assert life.stops == []
    assert len(life.runs) == 2
    life.end("drain")
    assert life.begun()[-1] == ("E2", "prepare", "drain")


def test_only_recoveries_of_needed_handlers_are_stopped() -> None:
    freeze, reboot, hurried = (
        prepare((handler,), name=event_type, types=frozenset({event_type}))
        for handler, event_type in (
            ("flush", "Freeze"),
            ("drain", "Reboot"),
            ("drain", "Preempt"),
        )
    )
    life = Life(policy(DRAIN, FLUSH, rules=(freeze, reboot, hurried)))
    life.poll(FIRST, notice("E2", event_type="Freeze"))
    life.end("drain")
    life.end("flush")
    gone(life)
    assert set(life.running) == {"E1.1.1.recover.1.drain", "E2.2.1.recover.1.flush"}
    life.poll(notice("E3", event_type="Preempt", not_before=life.now + 30 * SECOND))
    assert [stop.run_id for stop in life.stops] == ["E1.1.1.recover.1.drain"]


def test_a_recovery_that_has_ended_is_not_stopped() -> None:
    life = Life(policy(DRAIN))
    for event_id in ("E1", "E2"):
        life.poll(notice(event_id))
        life.end("drain")
        gone(life)
        if event_id == "E1":
            life.end("drain")
    life.poll(notice("E3", event_type="Preempt", not_before=life.now + 30 * SECOND))
    assert [stop.run_id for stop in life.stops] == ["E2.2.1.recover.1.drain"]


def test_kill_time_of_a_stopped_run_is_stored() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    gone(life)
    (stop,) = life.stops
    assert life.task().steps[-1].kill_at == stop.kill_at
    life.end("drain", StepState.STOPPED)
    life.poll(notice("E2", event_type="Preempt", not_before=life.now + 30 * SECOND))
    assert life.task().steps[-1].kill_at == life.stops[-1].kill_at


# An ended event is forgotten.


def test_finished_event_is_forgotten_after_a_day() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    life.end("drain")
    life.now += DAY - 1
    life.give()
    assert life.memory.find("E1") is not None
    life.now += 1
    life.give()
    assert life.memory.find("E1") is None


def test_number_of_remembered_events_is_limited() -> None:
    life = Life(Policy())
    many = [notice(f"E{number}") for number in range(230)]
    life.poll(*many)
    gone(life)
    assert [task.event_id for task in life.memory.tasks] == [
        f"E{number}" for number in range(30, 230)
    ]


def test_pending_recovery_is_never_forgotten() -> None:
    life = Life(policy(DRAIN))
    life.poll(FIRST)
    life.end("drain")
    gone(life)
    life.memory = replace(
        life.memory, tasks=tuple(replace(task, gone=1) for task in life.memory.tasks)
    )
    life.now += 30 * DAY
    life.give()
    assert life.stage() is Stage.RECOVERING
    assert life.task().consent is Consent.WANTED


def test_a_clock_that_is_set_back_does_not_hold_up_the_next_recovery() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain")
    life.poll(times=2)
    life.end("drain", StepState.FAILED)
    life.now -= HOUR
    life.give()
    assert life.begun()[-1] == ("E1", "recover", "drain")
    assert len(life.runs) == 3


def test_failing_recovery_is_reported_once() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain")
    life.poll(times=2)
    for _ in range(3):
        life.end("drain", StepState.FAILED, "down")
        life.sleep(MINUTE)
    detail = "its recovery failed and is retried: down"
    assert life.told(NoteKind.FAILED) == [(NoteKind.FAILED, detail)]
