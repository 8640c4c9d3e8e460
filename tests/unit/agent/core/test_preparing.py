"""Preparation: groups, retries, what is required, and what was lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.model import NoteKind, Stage, StepState
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule, Window
from forewarn.agent.core.preparing import LOST_MAX, RETRY_PAUSE
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

LEAVE = Handler(name="leave")
NOON = Window(days=frozenset(range(7)), begins=12 * 60, ends=13 * 60)


@pytest.mark.clause("8.5")
def test_handlers_of_a_group_run_in_parallel_and_groups_in_order() -> None:
    both = prepare(("drain", "flush"), ("leave",))
    life = Life(policy(DRAIN, FLUSH, LEAVE, rules=(both,)))
    life.poll(notice())
    assert [run.handler for run in life.runs] == ["drain", "flush"]
    life.end("flush")
    assert len(life.runs) == 2
    life.end("drain")
    assert life.runs[-1].handler == "leave"
    assert life.stage() is Stage.PREPARING
    life.end("leave")
    assert life.stage() is Stage.PREPARED
    assert life.told(NoteKind.PREPARING, NoteKind.PREPARED) == [
        (NoteKind.PREPARING, "rule 1: drain, flush, leave"),
        (NoteKind.PREPARED, ""),
    ]


def test_prepare_runs_once_even_if_the_event_is_seen_repeatedly() -> None:
    life = Life(policy(DRAIN))
    for status in (notice(), started(notice())):
        life.poll(status, times=5)
    life.end("drain")
    life.poll(started(notice()), times=5)
    assert life.begun() == [("E1", "prepare", "drain")]


@pytest.mark.clause("8.4")
def test_failed_required_handler_withholds_approval_and_the_rest_runs() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.end("drain", StepState.FAILED, "exit status 1")
    assert life.runs[-1].handler == "flush"
    life.end("flush")
    assert life.stage() is Stage.WITHHELD
    assert life.sent == []
    assert life.waits == {"E1": "withheld: drain failed: exit status 1"}
    assert life.told(NoteKind.WITHHELD) == [
        (NoteKind.WITHHELD, "drain failed: exit status 1")
    ]
    life.sleep(15 * MINUTE)
    assert life.sent == []


def test_all_failed_handlers_are_reported() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.end("drain", StepState.FAILED)
    life.end("flush", StepState.FAILED, "killed")
    assert life.task().withheld == "drain failed: no reason; flush failed: killed"


def test_failed_optional_handler_does_not_withhold_approval() -> None:
    life = Life(policy(Handler(name="drain", required=False)))
    life.poll(notice())
    life.end("drain", StepState.FAILED, "exit status 1")
    assert life.stage() is Stage.PREPARED
    assert life.sent == ["E1"]


def test_failed_handler_is_retried_after_a_pause() -> None:
    life = Life(policy(Handler(name="drain", retries=1)))
    life.poll(notice())
    life.end("drain", StepState.FAILED)
    assert len(life.runs) == 1
    life.sleep(RETRY_PAUSE)
    assert [run.attempt for run in life.runs] == [1, 2]
    life.end("drain", StepState.FAILED, "again")
    assert life.stage() is Stage.WITHHELD


def test_no_retry_begins_without_time() -> None:
    life = Life(policy(Handler(name="drain", retries=5)))
    life.poll(notice(not_before=START + 10 * SECOND))
    life.now += 7 * SECOND
    life.end("drain", StepState.FAILED, "slow")
    life.sleep(RETRY_PAUSE)
    assert len(life.runs) == 1
    assert life.task().withheld == "drain failed: slow"


@pytest.mark.clause("8.8")
def test_lost_run_is_repeated_a_limited_number_of_times() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    for attempt in range(LOST_MAX):
        decision = life.restart()
        (again,) = decision.commands
        assert again == life.running[life.runs[-1].run_id]
        life.end("drain", StepState.LOST)
        assert len(life.runs) == attempt + 1, "its event may have gone"
        life.poll(notice())
        assert len(life.runs) == attempt + 2
    life.end("drain", StepState.LOST)
    assert len(life.runs) == LOST_MAX + 1
    assert life.stage() is Stage.WITHHELD


def test_lost_run_does_not_count_as_a_failure() -> None:
    life = Life(policy(Handler(name="drain", retries=1)))
    life.poll(notice())
    life.end("drain", StepState.LOST)
    life.end("drain", StepState.LOST)
    life.end("drain", StepState.FAILED)
    life.sleep(RETRY_PAUSE)
    assert len(life.runs) == 4
    life.end("drain")
    assert life.sent == ["E1"]


@pytest.mark.clause("8.8")
def test_a_run_that_outlived_the_agent_is_waited_for() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    decision = life.restart()
    (run,) = life.running.values()
    assert run.resumes
    assert decision.wake == life.now
    life.poll(notice())
    life.end("drain")
    assert len(life.runs) == 1
    assert life.sent == ["E1"]


def test_handler_prepares_for_one_event_at_a_time() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("E1"), notice("E2"))
    assert life.begun() == [("E1", "prepare", "drain")]
    life.end("drain")
    assert life.begun()[1:] == [("E2", "prepare", "drain")]
    life.end("drain")
    assert life.sent == ["E1", "E2"]


def test_wait_for_a_busy_handler_ends_at_the_deadline() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("E1", not_before=None))
    life.poll(notice("E1", not_before=None), notice("E2"))
    life.sleep(15 * MINUTE)
    assert life.stage("E2") is Stage.WITHHELD
    assert life.task("E2").withheld == "there was no time left for drain"
    assert len(life.runs) == 1


def test_wait_for_a_busy_handler_has_no_limit_without_a_deadline() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("E1", not_before=None), notice("E2", not_before=None))
    assert life.begun() == [("E1", "prepare", "drain")]
    life.end("drain")
    assert life.begun()[1:] == [("E2", "prepare", "drain")]


def test_next_retry_in_a_group_sets_the_wake_time() -> None:
    again = [replace(handler, retries=1) for handler in (DRAIN, FLUSH)]
    life = Life(policy(*again, rules=(prepare(("drain", "flush")),)))
    life.poll(notice())
    life.end("drain", StepState.FAILED)
    life.now += SECOND // 2
    life.end("flush", StepState.FAILED)
    assert life.wake == life.now + SECOND // 2


def test_preparation_is_not_stopped_for_another_urgent_event() -> None:
    soon = START + 30 * SECOND
    life = Life(policy(DRAIN))
    life.poll(
        notice("E1", event_type="Preempt", not_before=None),
        notice("E2", event_type="Preempt", not_before=soon),
    )
    assert life.stops == [], "a preparation is not stopped for another"
    life.end("drain")
    assert life.begun()[1] == ("E2", "prepare", "drain")


def test_handlers_without_prepare_are_skipped() -> None:
    undo = Handler(name="undo", prepares=False)
    life = Life(policy(undo))
    life.poll(notice())
    assert life.runs == []
    assert life.stage() is Stage.PREPARED
    assert life.sent == ["E1"]


def test_a_rule_may_prepare_and_never_approve() -> None:
    rule = prepare(("drain",), approve=Approve.NEVER)
    life = Life(policy(DRAIN, rules=(rule,)))
    life.poll(notice())
    life.end("drain")
    assert life.stage() is Stage.PREPARED
    assert life.waits == {"E1": "rule 1 never approves"}


def test_handler_removed_from_the_settings_is_waited_for() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.restart(policy(FLUSH))
    life.poll(notice())
    life.end("flush")
    assert life.stage() is Stage.PREPARING
    life.end("drain")
    assert life.stage() is Stage.PREPARED


def test_handler_added_to_the_settings_counts_as_unprepared() -> None:
    life = Life(policy(Handler(name="drain"), rules=(late(("drain",)),)))
    life.poll(notice())
    life.end("drain")
    assert life.sent == []
    life.restart(policy(DRAIN, FLUSH))
    life.poll(notice())
    assert life.waits == {"E1": "not prepared by flush"}


def late(*groups: tuple[str, ...]) -> Rule:
    """Return a rule that does not approve for now."""
    return prepare(*groups, approve=Approve.NEVER)


def test_observer_runs_no_handlers() -> None:
    life = Life(policy(DRAIN, is_observer=True))
    life.poll(notice())
    gone(life)
    assert life.runs == []
    assert life.sent == []
    assert [kind for kind, _ in life.told()] == [NoteKind.SEEN, NoteKind.CANCELLED]


def test_agent_restarted_as_observer_starts_no_handlers() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.restart(policy(DRAIN, FLUSH, is_observer=True))
    life.poll(notice())
    life.end("drain")
    assert life.stage() is Stage.PREPARING, "flush has not run"
    assert life.waits == {"E1": "this agent only observes"}
    gone(life)
    life.sleep(MINUTE)
    assert life.begun() == [("E1", "prepare", "drain")]
    # Pending recoveries begin when it may act again.
    life.restart(policy(DRAIN, FLUSH))
    life.give()
    assert life.begun()[1:] == [("E1", "recover", "drain")]


def test_without_rules_events_are_only_reported() -> None:
    life = Life(Policy())
    life.poll(notice())
    assert life.waits == {"E1": "no rule matches"}
    assert life.wake is None


def test_a_clock_that_is_set_back_does_not_hold_up_the_next_attempt() -> None:
    life = Life(policy(Handler(name="drain", retries=1)))
    life.poll(notice())
    life.end("drain", StepState.FAILED)
    life.now -= HOUR
    life.give()
    assert len(life.runs) == 2
