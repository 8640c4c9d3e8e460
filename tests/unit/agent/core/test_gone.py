"""How the agent decides that an event was removed.

The stories: empty responses, resets, other IDs, flapping, silence.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core import rules
from forewarn.agent.core.model import (
    Consent,
    Memory,
    NoteKind,
    Presence,
    Stage,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Policy
from forewarn.instants import HOUR, MINUTE, SECOND
from forewarn.protocol.notices import Notice
from tests.unit.agent.core.support import (
    DRAIN,
    PREPARE,
    RECOVER,
    START,
    Life,
    notice,
    policy,
    prepare,
    started,
)

EVENT = notice()
BEGUN = started(EVENT)


def default_policy() -> Policy:
    """Return the policy of an agent with one handler and no rule of its own."""
    return Policy(handlers=(DRAIN,), rules=rules.default_rules((DRAIN,)))


def patient(*shown: Notice, settings: Policy | None = None) -> Life:
    """Return an agent that has prepared for what each of these documents shows."""
    life = Life(settings or default_policy(), is_patient=True)
    life.incarnation = 7
    for document in shown:
        life.poll(document)
        life.incarnation += 1
        if life.running:
            life.end("drain")
        if life.sent and life.task(life.sent[-1]).consent is Consent.WANTED:
            life.answer(event_id=life.sent[-1])
    return life


def pass_seconds(life: Life, count: int, *shown: Notice) -> None:
    """Read the same document once a second, the last time now."""
    for _ in range(count):
        life.sleep(SECOND)
        life.poll(*shown)


# The content of a document.


@pytest.mark.clause("8.1", "8.7")
def test_started_event_is_recovered_after_30_seconds_of_documents() -> None:
    life = patient(EVENT, BEGUN)
    life.poll()
    pass_seconds(life, 29)
    assert life.stage() is Stage.PREPARED
    assert life.doubts["E1"].startswith(
        "no document lists it for this VM since 2026-03-02T12:00:0"
    )
    assert life.wants_answers
    pass_seconds(life, 1)
    assert life.begun()[-1] == ("E1", RECOVER, "drain")
    assert life.doubts == {}
    assert not life.wants_answers
    assert life.told(NoteKind.GONE) == [(NoteKind.GONE, "")]


def test_a_cancelled_event_is_recovered_from_after_five_seconds() -> None:
    life = patient()
    life.poll(EVENT)
    life.incarnation = 8
    life.poll()
    pass_seconds(life, 4)
    assert life.stage() is Stage.PREPARING
    pass_seconds(life, 1)
    assert life.stage() is Stage.RECOVERING
    assert life.told(NoteKind.CANCELLED) == [(NoteKind.CANCELLED, "")]
    assert len(life.stops) == 1


def test_removed_approved_event_is_recovered_after_30_seconds() -> None:
    life = patient(EVENT)
    life.poll()
    pass_seconds(life, 29)
    assert life.stage() is Stage.PREPARED
    pass_seconds(life, 1)
    assert life.stage() is Stage.RECOVERING
    assert life.told(NoteKind.GONE) == [(NoteKind.GONE, "it was never seen Started")]


@pytest.mark.clause("8.1")
def test_flapping_documents_do_not_end_an_event() -> None:
    life = patient(EVENT, BEGUN)
    for _ in range(100):
        pass_seconds(life, 20)
        pass_seconds(life, 1, BEGUN)
    assert life.stage() is Stage.PREPARED
    assert life.begun() == [("E1", PREPARE, "drain")]


# Silence.


@pytest.mark.clause("8.1")
def test_silence_does_not_end_an_event() -> None:
    life = patient(EVENT, BEGUN)
    life.poll()
    life.be_silent(HOUR)
    life.poll()
    assert life.stage() is Stage.PREPARED
    pass_seconds(life, 29)
    assert life.stage() is Stage.PREPARED
    pass_seconds(life, 1)
    assert life.stage() is Stage.RECOVERING


def test_restart_restarts_the_absence_time() -> None:
    life = patient(EVENT, BEGUN)
    life.poll()
    pass_seconds(life, 29)
    life.restart()
    assert life.task().presence is Presence.MISSING
    life.poll()
    pass_seconds(life, 29)
    assert life.stage() is Stage.PREPARED
    pass_seconds(life, 1)
    assert life.stage() is Stage.RECOVERING


def test_journal_of_an_older_version_gets_presence_from_the_stage() -> None:
    """It knew no presence: what is there is listed, and what is not has gone."""
    tasks = (
        Task(event_id="E1", notice=EVENT, mine=True, stage=Stage.PREPARED),
        Task(event_id="E2", notice=EVENT, mine=True, stage=Stage.FINISHED),
    )
    life = Life(policy(DRAIN), memory=Memory(name="vm1", tasks=tasks))
    life.restart()
    presences = [task.presence for task in life.memory.tasks]
    assert presences == [Presence.LISTED, Presence.GONE]


# Empty bodies.


@pytest.mark.clause("8.1", "8.8")
def test_event_is_recovered_after_a_minute_of_empty_answers() -> None:
    life = patient(EVENT, BEGUN)
    life.poll_empty()
    for _ in range(59):
        life.sleep(SECOND)
        life.poll_empty()
    assert life.stage() is Stage.PREPARED
    assert "answers with an empty body" in life.doubts["E1"]
    life.sleep(SECOND)
    life.poll_empty()
    assert life.begun()[-1] == ("E1", RECOVER, "drain")
    detail = "the endpoint answered with an empty body for 1 m"
    assert life.told(NoteKind.GONE) == [(NoteKind.GONE, detail)]


def test_document_without_the_event_outweighs_empty_bodies() -> None:
    life = patient(EVENT)
    life.poll_empty(times=40)
    life.poll()
    pass_seconds(life, 29)
    assert life.stage() is Stage.PREPARED
    pass_seconds(life, 1)
    assert life.stage() is Stage.RECOVERING


# A metadata server that was restarted.


@pytest.mark.clause("2.10", "8.1")
def test_incarnation_reset_keeps_the_event_prepared() -> None:
    life = patient(EVENT, BEGUN)
    life.incarnation = 1
    life.poll()
    pass_seconds(life, 4 * 60)
    assert "the incarnation was reset" in life.doubts["E1"]
    life.incarnation = 2
    pass_seconds(life, 5, BEGUN)
    assert life.stage() is Stage.PREPARED
    assert life.begun() == [("E1", PREPARE, "drain")]
    # From here the new numbers count.
    life.incarnation = 3
    pass_seconds(life, 31)
    assert life.begun()[1:] == [("E1", RECOVER, "drain")]


@pytest.mark.clause("8.1", "8.3")
def test_returning_event_is_prepared_again() -> None:
    """Also one that is Started by then, which the default rules only log at first."""
    life = patient(EVENT, BEGUN)
    life.incarnation = 1
    pass_seconds(life, 301)
    detail = "the incarnation was reset, and no document listed the event for 5 m"
    assert life.told(NoteKind.GONE) == [(NoteKind.GONE, detail)]
    life.end("drain")
    life.incarnation = 2
    pass_seconds(life, 1, BEGUN)
    assert life.stage() is Stage.FINISHED
    assert life.doubts == {
        "E1": "the last document lists it again; the next one decides"
    }
    pass_seconds(life, 1, BEGUN)
    assert life.begun()[-1] == ("E1", PREPARE, "drain")
    assert life.task().rule == "default: prepare"
    life.end("drain")
    life.incarnation = 3
    pass_seconds(life, 31)
    life.end("drain")
    assert [phase for _, phase, _ in life.begun()] == [PREPARE, RECOVER] * 2
    assert life.stage() is Stage.FINISHED


def test_event_that_returns_scheduled_is_matched_to_rules_again() -> None:
    late = prepare(("drain",), name="late", max_lead=5 * MINUTE)
    early = replace(late, name="early", max_lead=None, min_lead=5 * MINUTE)
    life = patient(EVENT, settings=policy(DRAIN, rules=(late, early)))
    assert life.task().rule == "early"
    pass_seconds(life, 31)
    life.end("drain")
    life.sleep(10 * MINUTE)
    pass_seconds(life, 2, EVENT)
    assert life.task().rule == "late"


# Under another ID.


@pytest.mark.clause("2.3", "8.1")
def test_a_start_under_another_id_is_the_same_maintenance() -> None:
    life = patient(EVENT)
    life.poll(started(notice("E2")))
    assert life.memory.find("E1") is None
    assert life.stage("E2") is Stage.PREPARED
    assert life.begun() == [("E1", PREPARE, "drain")]
    assert life.told(NoteKind.SEEN)[1:] == [
        (NoteKind.SEEN, "the same maintenance as E1")
    ]
    assert len(life.told(NoteKind.STARTED)) == 1
    assert life.sent == ["E1"], "it has started"
    pass_seconds(life, 10, started(notice("E2")))
    life.incarnation = 99
    pass_seconds(life, 31)
    life.end("drain")
    assert life.begun()[1:] == [("E2", RECOVER, "drain")]
    assert life.stage("E2") is Stage.FINISHED
    assert len(life.told(NoteKind.GONE)) == 1


def test_run_continues_under_the_new_event_id() -> None:
    life = patient()
    life.poll(EVENT)
    life.poll(notice("E2"))
    assert life.stops == []
    assert [task.event_id for task in life.memory.tasks] == ["E2"]
    life.end("drain")
    assert life.stage("E2") is Stage.PREPARED
    assert life.sent == ["E2"]


def test_waiting_event_under_another_id_is_approved_separately() -> None:
    life = patient(EVENT)
    assert life.task().consent is Consent.GIVEN
    life.poll(notice("E2"))
    assert life.sent == ["E1", "E2"]
    assert life.task("E2").tries == 1
    life.answer(Consent.GIVEN, "E1")
    assert life.task("E2").consent is Consent.WANTED
    life.answer(Consent.GIVEN, "E2")
    assert life.task("E2").consent is Consent.GIVEN


def test_two_servers_with_different_ids_cause_one_preparation() -> None:
    life = patient(EVENT)
    for _ in range(20):
        pass_seconds(life, 1, notice("E2"))
        pass_seconds(life, 1, EVENT)
    assert life.begun() == [("E1", PREPARE, "drain")]
    assert life.stage() is Stage.PREPARED


def test_event_listed_at_the_same_time_is_another_maintenance() -> None:
    life = patient(EVENT)
    life.poll(EVENT, notice("E2"))
    assert len(life.memory.tasks) == 2
    assert life.begun() == [("E1", PREPARE, "drain"), ("E2", PREPARE, "drain")]


def test_removed_event_does_not_continue_under_another_id() -> None:
    life = patient(EVENT, BEGUN)
    life.poll()
    pass_seconds(life, 30)
    life.end("drain")
    life.poll(started(notice("E2")))
    assert life.stage() is Stage.FINISHED
    assert life.stage("E2") is Stage.SEEN


def test_event_continues_under_another_id_after_an_endpoint_restart() -> None:
    life = patient(EVENT)
    life.incarnation = 1
    pass_seconds(life, 60)
    pass_seconds(life, 3, started(notice("E2")))
    assert life.stage("E2") is Stage.PREPARED
    assert life.doubts == {}


def test_empty_answer_is_not_matched_to_another_id() -> None:
    life = patient(EVENT)
    life.poll_empty()
    assert life.task().presence is Presence.EMPTY


def test_runs_of_both_ids_have_different_ids() -> None:
    life = patient(EVENT)
    life.poll(notice("E2"))
    life.poll(notice("E2"), EVENT)
    life.end("drain")
    names = [run.run_id for run in life.runs]
    assert names == ["E1.1.1.prepare.1.drain", "E1.2.1.prepare.1.drain"]
    assert life.stage("E1") is life.stage("E2") is Stage.PREPARED


def test_event_that_returns_after_expiry_gets_new_run_ids() -> None:
    life = patient(EVENT, settings=policy(DRAIN, forget_after=MINUTE))
    pass_seconds(life, 31)
    life.end("drain")
    life.sleep(2 * MINUTE)
    life.give()
    assert life.memory.tasks == ()
    life.poll(EVENT)
    assert [run.run_id for run in life.runs if run.phase.value == PREPARE] == [
        "E1.1.1.prepare.1.drain",
        "E1.2.1.prepare.1.drain",
    ]


@pytest.mark.parametrize("state", [StepState.DONE, StepState.FAILED])
def test_run_ids_contain_the_journal_id(state: StepState) -> None:
    life = Life(policy(DRAIN), memory=Memory(name="vm1", journal="ab12"))
    life.poll(EVENT)
    (run,) = life.runs
    assert run.run_id == "E1.ab12-1.1.prepare.1.drain"
    life.end("drain", state)
    assert life.task().steps[0].state is state


def test_absence_times_use_the_local_clock() -> None:
    life = patient(EVENT)
    life.poll()
    since = life.task().absent_at
    assert since == life.now > START - 1
    pass_seconds(life, 3)
    assert life.task().absent_at == since
    life.poll(EVENT)
    assert (life.task().absent_at, life.task().absent_from) == (0, 0)
