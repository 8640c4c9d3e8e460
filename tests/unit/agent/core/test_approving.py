"""Consent: who approves, when, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.approving import (
    ALIVE_FOR,
    PEERS_EVERY,
)
from forewarn.agent.core.model import Consent, NoteKind, Phase, StepState
from forewarn.agent.core.policy import (
    Approve,
    Approver,
    Handler,
    Policy,
    Rule,
    Window,
)
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.notices import Notice
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

AT_ONCE = Policy(rules=(Rule(name="it", approve=Approve.AT_ONCE),))
BOTH = notice(resources=("vm1", "vm2"))
THREE = notice(resources=("vm1", "vm2", "vm3"))
LUNCH = Window(days=frozenset(range(7)), begins=12 * 60, ends=13 * 60)


def lead_by(approver: Approver, *, has_peers: bool = False) -> Policy:
    return policy(
        DRAIN, rules=(prepare(("drain",), approver=approver),), has_peers=has_peers
    )


def prepared(name: str, settings: Policy, shown: Notice = BOTH) -> Life:
    """Return the life of a VM that has prepared."""
    life = Life(settings, name=name)
    life.poll(shown)
    life.end("drain")
    return life


# At once, when prepared, never.


def test_approve_at_once_approves_at_the_first_poll() -> None:
    life = Life(AT_ONCE)
    life.poll(notice("E1"), notice("E2"))
    assert life.sent == ["E1", "E2"]


@pytest.mark.clause("8.5")
def test_prepared_event_is_approved_in_the_same_decision() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    assert life.waits == {"E1": "it is being prepared"}
    life.end("drain")
    assert life.sent == ["E1"]
    assert life.task().tries == 1


@pytest.mark.clause("8.4")
def test_approve_at_once_waits_for_handlers() -> None:
    life = Life(policy(DRAIN, rules=(prepare(("drain",), approve=Approve.AT_ONCE),)))
    life.poll(notice())
    assert life.sent == []
    life.end("drain")
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4")
@pytest.mark.parametrize("event_type", ["Preempt", "Terminate"])
def test_event_that_ends_the_vm_is_never_approved_unprepared(event_type: str) -> None:
    shown = notice(event_type=event_type, source="User")
    life = Life(AT_ONCE)
    life.poll(shown)
    assert life.waits == {"E1": f"a {event_type} is never approved unprepared"}
    life = Life(policy(DRAIN))
    life.poll(shown)
    life.end("drain", StepState.FAILED)
    assert life.sent == []
    life = prepared("vm1", policy(DRAIN), shown)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4")
def test_failed_optional_handler_counts_as_unprepared() -> None:
    optional = policy(Handler(name="drain", required=False))
    life = Life(optional)
    life.poll(notice(event_type="Terminate", source="User"))
    life.end("drain", StepState.FAILED)
    assert life.sent == []
    assert life.waits == {"E1": "a Terminate is never approved unprepared"}
    life = prepared("vm1", optional, notice(event_type="Reboot"))
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4")
def test_returned_event_is_not_approved_on_its_earlier_preparation() -> None:
    shown = notice(event_type="Terminate", source="User", not_before=START + DAY)
    settings = policy(Handler(name="drain", required=False), blackouts=(LUNCH,))
    life = prepared("vm1", settings, shown)
    gone(life)
    life.end("drain", StepState.FAILED)
    life.poll(shown, times=2)
    assert life.runs[-1].phase is Phase.PREPARE
    life.end("drain", StepState.FAILED)
    life.sleep(HOUR)
    assert life.sent == []
    assert life.waits == {"E1": "a Terminate is never approved unprepared"}


def test_handler_added_by_new_settings_delays_the_approval() -> None:
    life = prepared("vm1", policy(DRAIN, blackouts=(LUNCH,)), notice())
    both = policy(DRAIN, FLUSH, rules=(prepare(("drain",), ("flush",)),))
    life.restart(both)
    life.poll(notice())
    assert life.sent == []
    assert life.waits == {"E1": "not prepared by flush"}


def test_started_event_is_not_approved() -> None:
    life = Life(AT_ONCE)
    life.poll(started(notice()))
    assert life.sent == []


# An operator's order.


@pytest.mark.parametrize("event_id", ["E1", "e1"])
def test_requested_approval_overrides_rules_and_windows(event_id: str) -> None:
    settings = policy(DRAIN, blackouts=(LUNCH,))
    life = Life(settings)
    life.poll(notice(event_type="Terminate"))
    life.order(event_id)
    assert life.sent == ["E1"]
    life.answer()
    life.order(event_id)
    assert life.sent == ["E1"]


def test_failure_after_approval_by_request_is_not_reported_as_withheld() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.order()
    life.answer()
    life.end("drain", StepState.FAILED, "exit status 1")
    assert NoteKind.WITHHELD not in dict(life.told())
    (failed,) = life.told(NoteKind.FAILED)
    assert failed[1] == ("it is approved but not prepared: drain failed: exit status 1")


def test_requested_approval_of_an_unknown_event_is_reported() -> None:
    life = Life(AT_ONCE)
    life.order("E9")
    detail = "the requested approval was not sent: there is no such event"
    assert life.told() == [(NoteKind.FAILED, detail)]
    life.poll(notice())
    life.poll(times=2)
    life.order()
    assert life.told(NoteKind.FAILED) == [(NoteKind.FAILED, detail)] * 2


# Windows.


def test_an_approval_waits_for_its_window() -> None:
    life = prepared("vm1", policy(DRAIN, blackouts=(LUNCH,)), notice())
    assert life.waits == {"E1": "approvals are allowed again at 2026-03-02T13:00:00Z"}
    assert life.wake == START + HOUR
    life.sleep(HOUR)
    assert life.sent == ["E1"]


def test_event_that_ended_in_a_blackout_is_not_approved_afterwards() -> None:
    life = Life(replace(AT_ONCE, blackouts=(LUNCH,)))
    life.poll(notice(not_before=START + DAY))
    gone(life)
    life.sleep(2 * HOUR)
    assert life.sent == []


def test_window_that_never_opens_is_reported() -> None:
    always = Window(days=frozenset(range(7)), begins=0, ends=24 * 60)
    life = prepared("vm1", policy(DRAIN, blackouts=(always,)), notice())
    assert life.waits == {"E1": "approvals are allowed again later"}
    assert life.wake is None


# Together.


@pytest.mark.clause("8.6")
def test_first_vm_approves_and_others_take_over_in_order() -> None:
    settings = lead_by(Approver.LEADER)
    first, second, third = (
        prepared(name, settings, THREE) for name in ("vm1", "vm2", "vm3")
    )
    assert first.sent == ["E1"]
    assert second.sent == third.sent == []
    assert second.waits == {
        "E1": "left to vm1; this VM takes over at 2026-03-02T12:00:30Z"
    }
    second.sleep(30 * SECOND - 1)
    third.sleep(30 * SECOND)
    assert second.sent == []
    second.sleep(1)
    assert second.sent == ["E1"]
    assert third.sent == []
    third.poll(started(THREE))
    third.sleep(HOUR)
    assert third.sent == []


@pytest.mark.clause("8.6")
def test_takeover_waits_while_the_leader_answers() -> None:
    life = prepared("vm2", lead_by(Approver.LEADER, has_peers=True))
    for _ in range(40):
        life.hear("vm1", is_prepared=False)
        life.sleep(PEERS_EVERY)
    assert life.sent == []
    assert len(life.asked) >= 40
    assert life.asked[0].names == ("vm1",)
    # It falls silent.
    life.sleep(30 * SECOND)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_takeover_waits_between_two_answers_of_the_leader() -> None:
    """Also where the others would wait for it shorter than they ask."""
    rule = prepare(("drain",), approver=Approver.LEADER, takeover=SECOND)
    life = prepared("vm2", policy(DRAIN, rules=(rule,), has_peers=True))
    for _ in range(20):
        life.hear("vm1", is_prepared=False)
        life.sleep(PEERS_EVERY)
    assert life.sent == []
    life.sleep(ALIVE_FOR)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_leader_has_time_to_approve_even_without_handlers() -> None:
    rule = Rule(name="it", approve=Approve.AT_ONCE, approver=Approver.LEADER)
    life = Life(Policy(rules=(rule,)), name="vm2")
    life.poll(BOTH)
    assert life.sent == []
    life.sleep(30 * SECOND)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_each_vm_waits_for_all_live_vms_before_it() -> None:
    waits = {"vm1": 60, "vm2": 30}
    for alive, seconds in waits.items():
        life = prepared("vm3", lead_by(Approver.LEADER, has_peers=True), THREE)
        # Later than its turn without living peers, so that only this counts.
        life.sleep(50 * SECOND)
        life.hear(alive, is_prepared=False)
        life.sleep(seconds * SECOND - 1)
        assert life.sent == []
        life.sleep(1)
        assert life.sent == ["E1"]


def test_the_others_are_asked_every_two_seconds() -> None:
    life = prepared("vm2", lead_by(Approver.LEADER, has_peers=True))
    life.sleep(10 * SECOND)
    assert len(life.asked) == 1 + 5


@pytest.mark.clause("8.6")
def test_leader_does_not_approve_while_peers_are_unprepared() -> None:
    life = prepared("vm1", lead_by(Approver.LEADER, has_peers=True), THREE)
    assert life.asked[0].names == ("vm2", "vm3")
    assert life.waits == {"E1": "not prepared yet: vm2, vm3"}
    life.hear("vm3", is_prepared=True)
    for _ in range(10):
        life.hear("vm2", is_prepared=False)
        life.sleep(PEERS_EVERY)
    assert life.sent == []
    assert life.waits == {"E1": "not prepared yet: vm2"}
    life.hear("vm2", is_prepared=True)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_leader_does_not_wait_for_silent_peers() -> None:
    """With `all`, it would wait without limit."""
    life = prepared("vm1", lead_by(Approver.LEADER, has_peers=True))
    life.sleep(ALIVE_FOR - 1)
    assert life.sent == []
    life.sleep(1)
    assert life.sent == ["E1"]
    life = prepared("vm1", lead_by(Approver.ALL, has_peers=True))
    life.sleep(HOUR)
    assert life.sent == []


@pytest.mark.clause("8.6")
def test_silent_unprepared_peer_delays_approval_by_the_takeover_time() -> None:
    life = prepared("vm1", lead_by(Approver.LEADER, has_peers=True))
    life.hear("vm2", is_prepared=False)
    life.sleep(30 * SECOND - 1)
    assert life.sent == []
    life.sleep(1)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6", "8.8")
def test_restarted_leader_asks_peers_first() -> None:
    life = prepared("vm1", lead_by(Approver.LEADER, has_peers=True))
    life.hear("vm2", is_prepared=False)
    life.restart()
    life.sleep(10 * MINUTE)
    life.poll(BOTH)
    assert life.sent == []
    life.hear("vm2", is_prepared=True)
    assert life.sent == ["E1"]


def test_leader_without_peers_queries_no_peer() -> None:
    life = prepared("vm1", lead_by(Approver.LEADER))
    assert life.asked == []
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
@pytest.mark.parametrize("name", ["vm1", "VM1", "Vm1"])
def test_names_are_compared_without_case(name: str) -> None:
    event = notice(resources=("Vm1", "vM2"))
    life = prepared(name, lead_by(Approver.ALL, has_peers=True), event)
    assert life.asked[0].names == ("vM2",)
    life.hear("vm2", is_prepared=True)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_approver_all_waits_until_every_named_vm_is_prepared() -> None:
    first = prepared("vm1", lead_by(Approver.ALL, has_peers=True), THREE)
    assert first.sent == []
    assert first.asked[0].names == ("vm2", "vm3")
    assert first.waits == {"E1": "not prepared yet: vm2, vm3"}
    first.sleep(PEERS_EVERY)
    assert len(first.asked) == 2
    first.hear("vm2", is_prepared=True)
    first.hear("vm3", is_prepared=True)
    assert first.sent == ["E1"]


def test_peer_that_becomes_unprepared_delays_the_approval() -> None:
    life = prepared("vm1", lead_by(Approver.ALL, has_peers=True), THREE)
    life.hear("vm2", is_prepared=True)
    life.hear("vm2", is_prepared=False)
    life.hear("vm3", is_prepared=True)
    assert life.waits == {"E1": "not prepared yet: vm2"}


def test_with_approver_all_only_one_vm_approves() -> None:
    second = prepared("vm2", lead_by(Approver.ALL, has_peers=True))
    second.hear("vm1", is_prepared=True)
    assert second.sent == []
    second.sleep(31 * SECOND)
    assert second.sent == ["E1"]


def test_approver_all_without_peers_waits_for_not_before() -> None:
    life = prepared("vm1", lead_by(Approver.ALL))
    assert life.waits == {"E1": "not prepared yet: vm2"}
    assert life.wake is None


def test_event_of_one_vm_needs_no_peers() -> None:
    life = prepared("vm1", lead_by(Approver.ALL, has_peers=True), notice())
    assert life.sent == ["E1"]


def test_takeover_asks_peers_and_sends_in_one_decision() -> None:
    settings = lead_by(Approver.LEADER, has_peers=True)
    life = prepared("vm2", settings)
    life.now += 31 * SECOND
    decision = life.give()
    assert [type(command).__name__ for command in decision.commands] == [
        "AskPeers",
        "Send",
    ]


def test_a_clock_that_is_set_back_does_not_hold_up_the_next_approval() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.WANTED)
    life.now -= HOUR
    life.give()
    assert life.sent == ["E1", "E1"]
