"""Documents that arrive old, truncated or odd."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from forewarn.agent.core.absorbing import absorb
from forewarn.agent.core.model import (
    Consent,
    Finished,
    Memory,
    NoteKind,
    Polled,
    Presence,
    Stage,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule
from forewarn.instants import MINUTE, SECOND
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

EVENT = notice()
AT_ONCE = Policy(rules=(Rule(name="it", approve=Approve.AT_ONCE),))


@pytest.mark.clause("8.1")
def test_one_document_without_the_event_does_not_end_it() -> None:
    life = Life(policy(DRAIN))
    life.poll(EVENT)
    for _ in range(5):
        life.poll()
        life.poll(EVENT)
    assert life.stage() is Stage.PREPARING
    assert life.stops == []
    gone(life)
    assert life.stage() is Stage.RECOVERING


def test_one_document_with_a_removed_event_is_ignored() -> None:
    life = Life(AT_ONCE)
    life.poll(EVENT)
    gone(life)
    for _ in range(5):
        life.poll(EVENT)
        life.poll()
    assert life.stage() is Stage.FINISHED
    assert life.sent == ["E1"]


@pytest.mark.clause("8.1")
def test_new_event_is_accepted_at_once() -> None:
    life = Life(policy(DRAIN))
    life.poll()
    life.poll(EVENT)
    assert life.begun() == [("E1", "prepare", "drain")]


@pytest.mark.clause("8.1")
def test_started_event_stays_started() -> None:
    life = Life(policy(DRAIN))
    life.poll(started(EVENT))
    life.end("drain")
    life.poll(EVENT, times=3)
    assert life.task().notice.has_started
    assert life.sent == []
    assert len(life.told(NoteKind.STARTED)) == 1


# It was there again.


def test_event_that_returns_before_recovery_stays_prepared() -> None:
    life = Life(policy(DRAIN))
    other = notice("E2")
    life.poll(EVENT, other)
    life.end("drain")
    life.end("drain")
    life.answer()
    gone(life, other)
    assert life.stage() is Stage.RECOVERING
    life.poll(EVENT, other, times=2)
    assert life.stage() is Stage.PREPARED
    assert (life.task().round, life.task().gone) == (1, 0)
    assert len(life.runs) == 2
    assert life.sent == ["E1", "E2"]


def test_event_that_returns_after_recovery_is_prepared_again() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(EVENT)
    life.end("drain")
    life.end("flush")
    life.answer()
    gone(life)
    life.end("flush")
    life.poll(EVENT, times=2)
    assert life.task().round == 2
    # A VM that still recovers is waited for.
    life.end("drain")
    assert life.begun()[-1] == ("E1", "prepare", "drain")
    life.end("drain")
    life.end("flush")
    # An approval stays.
    assert life.sent == ["E1"]
    gone(life)
    life.end("flush")
    life.end("drain")
    assert life.owed() == []
    assert len({run.run_id for run in life.runs}) == len(life.runs)
    assert len(life.told(NoteKind.RECOVERED)) == 1


def test_returned_event_is_treated_as_new() -> None:
    before = Task(
        event_id="E1",
        notice=EVENT,
        mine=True,
        rule="rule 1",
        stage=Stage.FINISHED,
        seen=START - 9 * MINUTE,
        started=START - 8 * MINUTE,
        gone=START - 5 * MINUTE,
        over=START - 4 * MINUTE,
        begun=START - 9 * MINUTE,
        prepared=START - 9 * MINUTE,
        withheld="drain failed",
        consent=Consent.REFUSED,
        retry_at=START + MINUTE,
        is_forced=True,
        peers_ready=("vm2",),
        presence=Presence.GONE,
        rule_sum=7,
    )
    memory = Memory(name="vm1", tasks=(before,))
    for _ in range(2):
        memory, _ = absorb(AT_ONCE, memory, Polled(notices=(EVENT,), name="vm1"), START)
    assert memory.find("E1") == Task(
        event_id="E1", notice=EVENT, mine=True, round=2, seen=START, rule_sum=7
    )


def test_pending_recovery_of_an_earlier_round_is_kept() -> None:
    """It returned during recovery, and no handler prepared again."""
    life = Life(policy(DRAIN, FLUSH))
    life.poll(EVENT)
    life.end("drain")
    life.end("flush")
    gone(life)
    life.restart(policy(DRAIN, FLUSH, rules=()))
    life.poll(EVENT, times=2)
    assert life.stage() is Stage.SEEN
    life.end("flush")
    gone(life)
    assert life.begun()[-1] == ("E1", "recover", "drain")
    life.end("drain")
    assert life.stage() is Stage.FINISHED


def test_event_that_returns_started_needs_no_approval() -> None:
    life = Life(AT_ONCE)
    life.poll(EVENT)
    gone(life)
    life.poll(started(EVENT), times=2)
    assert life.task().consent is Consent.NONE
    assert len(life.told(NoteKind.STARTED)) == 1


def test_repeated_returns_of_an_event_use_no_more_memory() -> None:
    life = Life(policy(DRAIN))
    for _ in range(20):
        life.poll(EVENT, times=2)
        life.end("drain")
        gone(life)
        life.end("drain")
    assert life.task().round == 20
    assert len(life.task().steps) == 2


def test_event_that_disappears_and_returns_in_one_decision_is_kept() -> None:
    life = Life(policy(DRAIN, rules=(prepare(("drain",), start_before=MINUTE),)))
    life.poll(EVENT)
    empty, full = Polled(notices=(), name="vm1"), Polled(notices=(EVENT,), name="vm1")
    life.give(empty, empty, full, full)
    assert life.stage() is Stage.SEEN
    assert life.runs == []


# Whose it is.


def test_nothing_is_done_until_the_vm_name_is_known() -> None:
    anybody = Rule(name="others", mine=False, groups=(("drain",),))
    settings = policy(DRAIN, rules=(prepare(("drain",)), anybody))
    life = Life(settings, name="")
    life.poll(EVENT)
    assert life.runs == []
    assert life.waits == {"E1": "the name of this VM is not known yet"}
    life.name = "vm1"
    life.poll(EVENT)
    assert life.begun() == [("E1", "prepare", "drain")]
    assert life.task().rule == "rule 1"


def test_missing_vm_name_keeps_the_previous_name() -> None:
    life = Life(policy(DRAIN))
    life.poll()
    life.name = ""
    life.poll(EVENT)
    assert life.task().mine
    assert life.memory.name == "vm1"


@pytest.mark.clause("8.3")
def test_events_of_other_vms_are_handled_only_with_a_rule() -> None:
    theirs = notice(resources=("vm2",))
    rule = Rule(name="others", mine=False, groups=(("drain",),))
    life = Life(policy(DRAIN))
    life.poll(theirs)
    assert life.runs == []
    assert life.stage() is Stage.SEEN
    life = Life(policy(DRAIN, rules=(rule,)))
    life.poll(theirs)
    assert life.begun() == [("E1", "prepare", "drain")]
    life.end("drain")
    assert life.sent == [], "it is not ours to approve"


def test_repeated_notice_of_another_vm_is_prepared_for_once() -> None:
    rule = Rule(name="others", mine=False, groups=(("drain",),))
    life = Life(policy(DRAIN, rules=(rule,)))
    life.poll(notice(resources=("vm2",)), times=3)
    life.end("drain")
    life.poll(notice(resources=("vm2",)), times=3)
    assert life.begun() == [("E1", "prepare", "drain")]


@pytest.mark.parametrize("state", [StepState.DONE, StepState.FAILED])
def test_an_event_that_names_this_vm_later_is_prepared_by_its_own_rule(
    state: StepState,
) -> None:
    theirs = notice(resources=("vm2",))
    rules = (prepare(("drain",)), Rule(name="o", mine=False, groups=(("flush",),)))
    life = Life(policy(DRAIN, FLUSH, rules=rules))
    life.poll(theirs)
    life.end("flush", state)
    life.poll(notice(resources=("vm2", "vm1")))
    assert life.begun()[1:] == [("E1", "prepare", "drain")]
    assert life.sent == []
    life.end("drain")
    assert life.sent == ["E1"]
    gone(life)
    life.end("drain")
    life.end("flush")
    assert life.owed() == []


def test_vm_that_is_no_longer_named_recovers() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice(resources=("vm1", "vm2")))
    life.end("drain")
    life.poll(notice(resources=("vm2",)), times=2)
    assert life.begun()[1:] == [("E1", "recover", "drain")]
    life.end("drain")
    life.poll(notice(resources=("vm2",)), times=5)
    assert life.stage() is Stage.FINISHED


# Notes


def test_start_approved_elsewhere_is_reported() -> None:
    life = Life(policy(DRAIN))
    life.poll(EVENT)
    life.poll(started(EVENT))
    assert life.told(NoteKind.STARTED) == [
        (NoteKind.STARTED, "it was approved elsewhere")
    ]


@pytest.mark.parametrize("is_given", [True, False])
def test_other_starts_are_not_reported_as_approved_elsewhere(*, is_given: bool) -> None:
    life = Life(AT_ONCE if is_given else policy(DRAIN))
    life.poll(EVENT)
    if not is_given:
        life.now += 15 * MINUTE - SECOND
    life.poll(started(EVENT))
    assert life.told(NoteKind.STARTED) == [(NoteKind.STARTED, "")]


def test_event_that_is_started_when_first_seen_is_reported() -> None:
    life = Life(Policy())
    life.poll(started(EVENT))
    assert life.told() == [
        (NoteKind.SEEN, ""),
        (NoteKind.STARTED, "when it was first seen"),
    ]


@pytest.mark.parametrize(
    ("minutes", "not_before", "wanted"),
    [
        (0, EVENT.not_before, (NoteKind.CANCELLED, "")),
        (15, EVENT.not_before, (NoteKind.GONE, "it was never seen Started")),
        (0, None, (NoteKind.GONE, "it was never seen Started")),
    ],
)
def test_end_of_a_removed_event_is_reported(
    minutes: int, not_before: int | None, wanted: tuple[NoteKind, str]
) -> None:
    life = Life(Policy())
    life.poll(replace(EVENT, not_before=not_before))
    life.now += minutes * MINUTE
    gone(life)
    assert life.told()[-1] == wanted


def test_removed_started_event_is_reported_as_gone() -> None:
    life = Life(Policy())
    life.poll(EVENT)
    life.poll(started(EVENT))
    gone(life)
    assert life.told()[-1] == (NoteKind.GONE, "")
    assert life.task().gone == life.now


def test_removed_approved_event_is_not_reported_as_cancelled() -> None:
    life = Life(AT_ONCE)
    life.poll(EVENT)
    life.answer()
    gone(life)
    assert life.told()[-1] == (NoteKind.GONE, "it was never seen Started")


def test_end_of_a_run_is_reported_with_its_handler() -> None:
    life = Life(policy(DRAIN, FLUSH, rules=(prepare(("drain", "flush")),)))
    life.poll(EVENT)
    life.end("flush", StepState.FAILED, "no disk")
    life.end("drain")
    ends = [note for note in life.notes if note.kind is NoteKind.HANDLER]
    assert [(note.handler, note.detail) for note in ends] == [
        ("flush", "prepare: failed: no disk"),
        ("drain", "prepare: done"),
    ]


def test_end_of_an_unknown_run_is_ignored() -> None:
    life = Life(policy(DRAIN))
    life.poll(EVENT)
    before = life.memory
    life.give(Finished(run_id="E9.1.prepare.1.drain", state=StepState.DONE))
    assert life.memory == before


def test_run_id_is_a_valid_file_name() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("../E1"), notice("E2" * 40), notice("E3\udcff"))
    life.end("drain")
    life.end("drain")
    life.end("drain")
    names = {run.run_id for run in life.runs}
    assert len(names) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9.-]{1,120}", name) for name in names)


def test_memory_is_unchanged_if_nothing_changes() -> None:
    assert Memory().find("E1") is None
    handlers: tuple[Handler, ...] = (DRAIN,)
    life = Life(policy(*handlers))
    life.poll(EVENT)
    before = life.memory
    life.poll(EVENT)
    assert life.memory == before
