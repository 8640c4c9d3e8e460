"""Bugs of public clients that this one does not have: one test for each."""

from __future__ import annotations

import pytest

from forewarn.agent.core import names
from forewarn.agent.core.model import Consent, Memory, NoteKind, Stage, StepState
from forewarn.agent.core.policy import Approve, Approver, Handler, Policy, Rule
from forewarn.agent.core.rules import default_rules
from forewarn.instants import MINUTE, SECOND
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    gone,
    notice,
    policy,
    prepare,
    started,
)

PAIR = notice(resources=("vm1", "vm2"))


@pytest.mark.clause("8.4")
def test_failed_drain_withholds_the_approval() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain", StepState.FAILED, "exit status 1")
    life.poll(notice(), times=10)
    life.sleep(20 * MINUTE)
    assert life.sent == []
    assert life.told(NoteKind.WITHHELD) != []


def test_agent_works_without_a_drain_handler() -> None:
    handlers: tuple[Handler, ...] = ()
    life = Life(Policy(rules=default_rules(handlers)))
    life.poll(notice(), notice("E2", source="User"))
    life.poll(started(notice()), started(notice("E2")))
    gone(life)
    assert life.runs == []
    assert life.sent == ["E2"]


def test_start_does_not_undo_preparation_that_never_ran() -> None:
    life = Life(policy(DRAIN), memory=Memory(lost_journal=True))
    life.restart()
    life.poll(times=5)
    assert life.runs == []


def test_approval_is_not_repeated_with_every_poll() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain")
    life.poll(notice(), times=20)
    life.answer()
    life.poll(notice(), times=60)
    assert life.sent == ["E1"]


def test_drain_is_not_repeated_when_the_event_starts() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain")
    life.poll(started(notice()), times=60)
    assert len(life.runs) == 1


def test_both_of_two_events_are_approved() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice("E1"), notice("E2"))
    life.end("drain")
    life.end("drain")
    assert life.sent == ["E1", "E2"]


def test_preparation_for_one_event_does_not_approve_another() -> None:
    freeze = notice("F", event_type="Freeze", duration_seconds=60)
    rules = (
        prepare(("drain",), types=frozenset({"Reboot"})),
        Rule(name="other", approve=Approve.NEVER),
    )
    life = Life(policy(DRAIN, rules=rules))
    life.poll(freeze, notice("R"))
    life.end("drain")
    assert life.sent == ["R"]
    assert life.waits["F"] == "other never approves"


@pytest.mark.clause("8.6")
@pytest.mark.parametrize("approver", [Approver.LEADER, Approver.ALL])
def test_two_vms_of_one_event_do_not_deadlock(
    approver: Approver,
) -> None:
    rule = prepare(("drain",), approver=approver)
    both = [
        Life(policy(DRAIN, rules=(rule,), has_peers=True), name=name)
        for name in ("vm1", "vm2")
    ]
    for life in both:
        life.poll(PAIR)
        life.end("drain")
    for life, other in (both, both[::-1]):
        is_prepared = other.stage() is Stage.PREPARED
        life.hear(other.name, is_prepared=is_prepared)
    assert [life.sent for life in both] == [["E1"], []]


def test_body_of_an_approval_response_is_ignored() -> None:
    """An approval was taken, whatever its answer's body was."""
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.end("drain")
    life.answer(Consent.GIVEN, detail="OK")
    life.sleep(15 * MINUTE)
    assert life.task().consent is Consent.GIVEN
    assert life.sent == ["E1"]


def test_event_with_an_at_once_rule_is_approved() -> None:
    life = Life(Policy(rules=(Rule(name="it", approve=Approve.AT_ONCE),)))
    life.poll(notice())
    assert life.sent == ["E1"]


@pytest.mark.clause("8.7")
def test_watching_continues_after_the_first_event() -> None:
    life = Life(policy(DRAIN))
    for number in range(1, 6):
        event = notice(f"E{number}", not_before=life.now + 15 * MINUTE)
        life.poll(event)
        life.end("drain")
        life.answer(event_id=event.event_id)
        life.poll(started(event), times=2)
        gone(life)
        life.end("drain")
        assert life.begun()[-2:] == [
            (event.event_id, "prepare", "drain"),
            (event.event_id, "recover", "drain"),
        ]
    assert life.sent == ["E1", "E2", "E3", "E4", "E5"]


@pytest.mark.clause("8.3")
def test_event_of_another_vm_causes_no_action() -> None:
    life = Life(policy(DRAIN))
    preempt = notice(
        event_type="Preempt",
        resources=("another_vm",),
        not_before=START + 30 * SECOND,
    )
    life.poll(preempt)
    life.poll(started(preempt), times=3)
    gone(life)
    assert life.runs == []
    assert life.sent == []


@pytest.mark.clause("8.3")
@pytest.mark.parametrize("name", ["vm1", "vm", "m10", "vm100"])
def test_name_contained_in_another_name_does_not_match(name: str) -> None:
    life = Life(policy(DRAIN), name=name)
    life.poll(notice(resources=("vm10",)))
    assert life.runs == []
    assert life.sent == []


def test_scale_set_instance_numbers_use_base_36() -> None:
    name = names.scale_set_name("aks-pool-vmss00000i")
    assert name == "aks-pool-vmss_18"
    life = Life(policy(DRAIN), name=name)
    life.poll(notice(resources=("aks-pool-vmss_18",)))
    assert len(life.runs) == 1


def test_name_without_a_number_is_not_a_scale_set_name() -> None:
    assert names.scale_set_name("web") == ""
    life = Life(policy(DRAIN), name="web")
    life.poll(notice(resources=("web",)))
    assert len(life.runs) == 1


@pytest.mark.clause("8.3")
def test_no_recovery_is_skipped_when_several_events_end_together() -> None:
    handlers = tuple(Handler(name=f"h{number}") for number in range(4))
    rules = tuple(
        prepare(
            (each_handler.name,), name=each_handler.name, description=each_handler.name
        )
        for each_handler in handlers
    )
    life = Life(policy(*handlers, rules=rules))
    life.poll(*(notice(f"E{n}", description=f"h{n}") for n in range(4)))
    for handler in handlers:
        life.end(handler.name)
    gone(life)
    for handler in handlers:
        life.end(handler.name)
    assert life.owed() == []
    assert sorted(life.begun()[4:]) == [(f"E{n}", "recover", f"h{n}") for n in range(4)]


@pytest.mark.clause("8.6")
@pytest.mark.parametrize("has_peers", [False, True])
def test_default_rules_do_not_approve_for_other_vms(has_peers: bool) -> None:
    default = default_rules((DRAIN,), has_peers=has_peers)
    life = Life(Policy(handlers=(DRAIN,), rules=default, has_peers=has_peers))
    life.poll(PAIR)
    life.end("drain")
    life.sleep(14 * MINUTE)
    assert life.sent == []


@pytest.mark.clause("8.6")
def test_approver_all_does_not_approve_for_unprepared_vms() -> None:
    rule = prepare(("drain",), approver=Approver.ALL)
    life = Life(policy(DRAIN, rules=(rule,), has_peers=True))
    life.poll(PAIR)
    life.end("drain")
    life.sleep(15 * MINUTE)
    assert life.sent == []
    assert life.waits == {"E1": "not prepared yet: vm2"}
