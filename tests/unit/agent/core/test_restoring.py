"""Recovery after a lost journal: what is `always`, once, when all events have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.model import Memory, NoteKind, StepState
from forewarn.agent.core.policy import Handler, Policy
from forewarn.agent.core.restoring import RETRY_FIRST
from forewarn.instants import HOUR, MINUTE, SECOND
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    START,
    Life,
    gone,
    notice,
    policy,
    prepare,
    started,
)

FIRST = notice("E1")

ALWAYS = Handler(name="drain", always=True)
LAST = Handler(name="flush", always=True)


def lost(settings: Policy, name: str = "vm1") -> Life:
    life = Life(settings, name=name, memory=Memory(lost_journal=True))
    life.restart()
    life.give()
    return life


@pytest.mark.clause("8.8")
def test_always_handlers_recover_once_after_a_lost_journal() -> None:
    life = lost(policy(ALWAYS, LAST, Handler(name="other")))
    life.poll()
    assert life.runs == [], "it is not yet known whether an event continues"
    assert life.wants_answers
    life.poll()
    assert not life.wants_answers
    assert life.begun() == [("", "recover", "flush")]
    life.end("flush")
    assert life.begun()[1:] == [("", "recover", "drain")]
    life.end("drain")
    assert not life.memory.lost_journal
    life.restart()
    life.poll(times=5)
    assert len(life.runs) == 2


def test_without_always_handlers_nothing_is_restored() -> None:
    life = lost(policy(DRAIN, Handler(name="flush", always=True, recovers=False)))
    life.poll()
    assert life.runs == []
    assert not life.memory.lost_journal


def test_restore_waits_for_the_current_event() -> None:
    life = lost(policy(ALWAYS))
    life.poll(started(FIRST))
    life.end("drain")
    life.sleep(HOUR)
    assert [phase for _, phase, _ in life.begun()] == ["prepare"]
    gone(life)
    assert life.begun()[1][1] == "recover"


def test_restore_waits_while_the_vm_name_is_unknown() -> None:
    life = lost(policy(ALWAYS), name="")
    life.poll(started(FIRST), times=2)
    assert life.runs == []
    gone(life)
    life.poll()
    assert life.begun() == [("", "recover", "drain")]


def test_failed_restore_is_retried_and_resumed_after_a_restart() -> None:
    life = lost(policy(ALWAYS, LAST))
    life.poll(times=2)
    life.end("flush", StepState.FAILED, "down")
    assert life.told(NoteKind.HANDLER) == [(NoteKind.HANDLER, "failed: down")]
    assert "down" in {step.detail for step in life.memory.restored}
    assert [run.handler for run in life.running.values()] == ["drain"]
    life.sleep(RETRY_FIRST)
    assert len(life.runs) == 2, "one after the other"
    life.restart()
    (again,) = life.running.values()
    assert again.resumes
    life.poll(times=2)
    life.end("drain")
    assert life.begun()[2:] == [("", "recover", "flush")]
    life.end("flush")
    assert not life.memory.lost_journal


def test_restored_handler_is_not_repeated_while_another_fails() -> None:
    life = lost(policy(ALWAYS, LAST))
    life.poll(times=2)
    life.end("flush")
    for _ in range(3):
        life.end("drain", StepState.FAILED)
        life.sleep(HOUR)
    assert [run.handler for run in life.runs] == ["flush", *["drain"] * 4]
    assert [run.attempt for run in life.runs] == [1, 1, 2, 3, 4]
    first = life.runs[0]
    assert first.run_id == f"restore.{START + SECOND}.1.flush"


def test_end_of_another_run_does_not_end_the_restore() -> None:
    life = lost(policy(FLUSH, replace(ALWAYS, prepares=False)))
    life.poll(times=2)
    life.poll(FIRST)
    life.end("flush")
    (restored,) = life.memory.restored
    assert restored.state is StepState.RUNNING
    life.end("drain")
    (restored,) = life.memory.restored
    assert restored.state is StepState.DONE


def test_restoring_does_not_wait_for_unrelated_events() -> None:
    """Another VM's event, and one whose preparation begins later."""
    later = prepare(("drain",), start_before=MINUTE)
    for shown in (started(notice(resources=("vm2",))), FIRST):
        life = lost(policy(ALWAYS, rules=(later,)))
        life.poll(shown, times=2)
        assert life.begun() == [("", "recover", "drain")]


def test_restore_waits_for_a_prepared_event_of_another_vm() -> None:
    theirs = notice("E9", resources=("vm2",))
    settings = policy(
        ALWAYS, LAST, rules=(prepare(("drain",), mine=False), prepare(("drain",)))
    )
    life = lost(settings)
    life.poll(theirs, times=2)
    assert life.begun() == [("E9", "prepare", "drain"), ("", "recover", "flush")]
    life.end("drain")
    life.end("flush")
    life.sleep(HOUR)
    assert len(life.runs) == 2
    gone(life)
    assert life.begun()[2:] == [("E9", "recover", "drain")]
    life.end("drain")
    assert life.begun()[3:] == [("", "recover", "drain")]
    life.end("drain")
    assert not life.memory.lost_journal


def test_each_start_first_checks_whether_an_event_continues() -> None:
    life = lost(policy(ALWAYS))
    life.memory = replace(life.memory, has_polled=True)
    life.restart()
    life.give()
    assert life.runs == []
    life.poll(times=2)
    assert len(life.runs) == 1


def test_restore_waits_for_its_retry_time() -> None:
    life = lost(policy(ALWAYS))
    life.poll(times=2)
    life.end("drain", StepState.FAILED)
    assert life.wake == life.now + RETRY_FIRST
    life.sleep(RETRY_FIRST)
    assert len(life.runs) == 2


def test_restore_is_stopped_for_an_eviction() -> None:
    life = lost(policy(ALWAYS))
    life.poll(times=2)
    life.poll(notice(event_type="Preempt", not_before=START + 30 * SECOND))
    (stop,) = life.stops
    assert stop.run_id in life.running


def test_observer_recovers_nothing() -> None:
    life = lost(policy(ALWAYS, is_observer=True))
    life.poll()
    assert life.runs == []


# How long the answers must have been quiet.


def patient(settings: Policy) -> Life:
    """Return an agent with the usual patience, whose journal was lost."""
    lost = Memory(lost_journal=True, journal="j2")
    life = Life(settings, memory=lost, is_patient=True)
    life.restart()
    return life


@pytest.mark.clause("7.1", "8.8")
def test_restore_waits_for_a_time_without_events() -> None:
    life = patient(policy(ALWAYS))
    life.poll(times=30)
    assert life.runs == []
    life.sleep(SECOND)
    life.poll()
    (run,) = life.runs
    assert run.run_id == f"restore.j2.{run.stop_at - ALWAYS.recover_timeout}.1.drain"


def test_time_without_answers_does_not_count_as_quiet_time() -> None:
    life = patient(policy(ALWAYS))
    life.poll()
    life.be_silent(HOUR)
    life.poll()
    assert life.runs == []


def test_restore_waits_longer_after_empty_answers() -> None:
    life = patient(policy(ALWAYS))
    life.poll_empty(times=60)
    assert life.runs == []
    life.sleep(SECOND)
    life.poll_empty()
    assert life.begun() == [("", "recover", "drain")]


def test_late_event_restarts_the_time_before_a_restore() -> None:
    """The service was enabled again, and lists current events some time later."""
    life = patient(policy(ALWAYS, rules=()))
    life.poll(times=20)
    life.poll(started(FIRST), times=20)
    life.poll(times=31)
    assert life.runs == [], "the event counts as gone only now"
    life.poll(times=31)
    assert life.begun() == [("", "recover", "drain")]
