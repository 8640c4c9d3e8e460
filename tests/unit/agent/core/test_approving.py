"""Consent: who approves, when, and how often."""

from dataclasses import replace
from itertools import pairwise

import pytest

from forewarn.agent.core.absorbing import TROUBLES_MAX
from forewarn.agent.core.approving import (
    ALIVE_FOR,
    PEERS_EVERY,
    RETRY_AFTER_MAX,
    RETRY_PAUSE_MAX,
    RETRY_PAUSES,
    RETRY_SHARE,
    SEND_TIMEOUT,
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
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
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


def test_at_once_means_at_the_first_sight() -> None:
    life = Life(AT_ONCE)
    life.poll(notice("E1"), notice("E2"))
    assert life.sent == ["E1", "E2"]


@pytest.mark.clause("8.5")
def test_what_is_prepared_is_approved_in_the_same_decision() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    assert life.waits == {"E1": "it is being prepared"}
    life.end("drain")
    assert life.sent == ["E1"]
    assert life.task().tries == 1


@pytest.mark.clause("8.4")
def test_at_once_with_handlers_is_not_before_them() -> None:
    life = Life(policy(DRAIN, rules=(prepare(("drain",), approve=Approve.AT_ONCE),)))
    life.poll(notice())
    assert life.sent == []
    life.end("drain")
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4")
@pytest.mark.parametrize("event_type", ["Preempt", "Terminate"])
def test_what_leaves_nothing_is_never_approved_unprepared(event_type: str) -> None:
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
def test_an_optional_handler_that_failed_has_prepared_nothing() -> None:
    optional = policy(Handler(name="drain", required=False))
    life = Life(optional)
    life.poll(notice(event_type="Terminate", source="User"))
    life.end("drain", StepState.FAILED)
    assert life.sent == []
    assert life.waits == {"E1": "a Terminate is never approved unprepared"}
    life = prepared("vm1", optional, notice(event_type="Reboot"))
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4")
def test_what_was_prepared_before_it_went_does_not_count_when_it_is_back() -> None:
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


def test_what_new_settings_want_prepared_holds_the_approval() -> None:
    life = prepared("vm1", policy(DRAIN, blackouts=(LUNCH,)), notice())
    both = policy(DRAIN, FLUSH, rules=(prepare(("drain",), ("flush",)),))
    life.restart(both)
    life.poll(notice())
    assert life.sent == []
    assert life.waits == {"E1": "not prepared by flush"}


def test_what_has_started_is_not_approved() -> None:
    life = Life(AT_ONCE)
    life.poll(started(notice()))
    assert life.sent == []


# Once, and again only when nobody answered.


def test_what_was_taken_is_not_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer()
    life.poll(notice(), times=5)
    life.restart()
    life.poll(notice())
    life.sleep(HOUR)
    assert life.sent == ["E1"]
    assert life.told(NoteKind.APPROVED) == [(NoteKind.APPROVED, "")]


def test_what_was_not_answered_is_sent_again_ever_more_rarely() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.poll(notice())
    assert life.waits == {"E1": "it is sent, and not confirmed"}
    for number, pause in enumerate((*RETRY_PAUSES, 10 * SECOND, 20 * SECOND), start=1):
        life.answer(Consent.WANTED, detail="status 404")
        assert life.waits == {"E1": "it is sent, and not confirmed; status 404"}
        life.sleep(pause - 1)
        assert len(life.sent) == number
        life.sleep(1)
        assert len(life.sent) == number + 1


def unanswered(not_before: Micros | None) -> list[Micros]:
    """Return when an approval is sent that nobody ever takes, until NotBefore."""
    life = Life(AT_ONCE)
    life.poll(notice(not_before=not_before))
    sent: list[Micros] = []
    until = START + 2 * HOUR if not_before is None else not_before
    while life.now < until:
        sent.append(life.now)
        life.answer(Consent.WANTED, detail="status 404")
        before = len(life.sent)
        while len(life.sent) == before:
            assert life.wake is not None
            life.sleep(life.wake - life.now)
    return sent


def test_the_pauses_are_wide_only_while_not_before_is_far_away() -> None:
    sent = unanswered(START + 2 * HOUR)
    pauses = [after - before for before, after in pairwise(sent)]
    assert max(pauses) == RETRY_PAUSE_MAX
    assert len(sent) < 200
    for at, pause in zip(sent, pauses, strict=False):
        left = START + 2 * HOUR - at
        assert pause <= max(RETRY_PAUSES[-1], left // RETRY_SHARE)
    assert START + 2 * HOUR - sent[-1] <= RETRY_PAUSES[-1]


def test_of_an_event_that_may_come_at_any_moment_no_pause_is_wide() -> None:
    sent = unanswered(None)
    assert max(b - a for a, b in pairwise(sent)) == RETRY_PAUSES[-1]


def test_each_reason_of_an_approval_that_is_not_taken_is_told_once() -> None:
    life = Life(AT_ONCE)
    life.poll(notice(not_before=None))
    for number in range(40):
        life.answer(Consent.WANTED, detail="reset" if number % 2 else "status 404")
        life.sleep(RETRY_PAUSES[-1])
    sentence = "the approval was not confirmed, and is sent again: "
    assert life.told(NoteKind.FAILED) == [
        (NoteKind.FAILED, f"{sentence}status 404"),
        (NoteKind.FAILED, f"{sentence}reset"),
    ]


def test_an_endpoint_that_always_has_another_reason_is_not_told_for_ever() -> None:
    life = Life(AT_ONCE)
    life.poll(notice(not_before=None))
    for number in range(40):
        life.answer(Consent.WANTED, detail=f"status 5{number:02}")
        life.sleep(RETRY_PAUSES[-1])
    assert len(life.told(NoteKind.FAILED)) == TROUBLES_MAX
    assert len(life.sent) == 41


@pytest.mark.parametrize(
    ("asked", "kept"), [(20 * SECOND, 20 * SECOND), (HOUR, RETRY_AFTER_MAX)]
)
def test_an_endpoint_may_ask_to_wait(asked: int, kept: int) -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.WANTED, retry_after=asked)
    life.sleep(kept - 1)
    assert len(life.sent) == 1
    life.sleep(1)
    assert len(life.sent) == 2


def test_of_what_nothing_is_heard_is_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.sleep(SEND_TIMEOUT)
    assert life.sent == ["E1", "E1"]


@pytest.mark.clause("8.8")
def test_what_was_under_way_when_the_agent_ended_is_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.restart()
    life.give()
    assert life.sent == ["E1"], "it may have gone"
    assert life.waits == {"E1": "no document has shown it since the agent began"}
    life.poll(notice())
    assert life.sent == ["E1", "E1"]


@pytest.mark.clause("8.8")
def test_no_approval_is_sent_from_memory() -> None:
    """Its window opens, or an order comes, while the endpoint does not answer."""
    settings = policy(DRAIN, blackouts=(LUNCH,))
    life = prepared("vm1", settings, notice(not_before=START + DAY))
    life.restart()
    life.give()
    life.sleep(2 * HOUR)
    life.order()
    life.poll()
    assert life.sent == []
    life.poll(notice(not_before=START + DAY))
    assert life.sent == ["E1"]


def test_a_refusal_is_final() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.REFUSED, detail="no such event")
    life.poll(notice(), times=5)
    life.sleep(HOUR)
    assert life.sent == ["E1"]
    assert life.told(NoteKind.REFUSED) == [(NoteKind.REFUSED, "no such event")]
    # But an operator may insist.
    life.order()
    assert life.sent == ["E1", "E1"]


def test_nothing_is_sent_again_once_it_has_started() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.WANTED)
    life.poll(started(notice()))
    life.sleep(MINUTE)
    assert life.sent == ["E1"]


def test_answers_to_nothing_change_nothing() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    before = life.memory
    life.answer(event_id="E9")
    life.answer()
    life.hear("vm2", is_prepared=True, event_id="E9")
    life.hear("vm9", is_prepared=True)
    assert life.memory == before


def test_an_observer_does_not_even_repeat() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.restart(Policy(is_observer=True))
    life.give()
    assert life.sent == ["E1"]


# An operator's order.


@pytest.mark.parametrize("event_id", ["E1", "e1"])
def test_an_order_overrides_everything(event_id: str) -> None:
    settings = policy(DRAIN, blackouts=(LUNCH,))
    life = Life(settings)
    life.poll(notice(event_type="Terminate"))
    life.order(event_id)
    assert life.sent == ["E1"]
    life.answer()
    life.order(event_id)
    assert life.sent == ["E1"]


def test_an_order_for_nothing_is_answered() -> None:
    life = Life(AT_ONCE)
    life.order("E9")
    detail = "the order to approve it came to nothing: there is no such event"
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


def test_what_has_gone_meanwhile_is_not_approved_when_it_opens() -> None:
    life = Life(replace(AT_ONCE, blackouts=(LUNCH,)))
    life.poll(notice(not_before=START + DAY))
    gone(life)
    life.sleep(2 * HOUR)
    assert life.sent == []


def test_a_window_that_never_opens() -> None:
    always = Window(days=frozenset(range(7)), begins=0, ends=24 * 60)
    life = prepared("vm1", policy(DRAIN, blackouts=(always,)), notice())
    assert life.waits == {"E1": "approvals are allowed again later"}
    assert life.wake is None


# Together.


@pytest.mark.clause("8.6")
def test_the_first_approves_and_the_others_take_over_in_their_order() -> None:
    settings = lead_by(Approver.LEADER)
    first, second, third = (
        prepared(name, settings, THREE) for name in ("vm1", "vm2", "vm3")
    )
    assert first.sent == ["E1"]
    assert second.sent == third.sent == []
    assert second.waits == {"E1": "left to vm1; taken over at 2026-03-02T12:00:30Z"}
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
def test_a_leader_that_lives_is_not_overtaken() -> None:
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
def test_a_leader_that_lives_is_not_overtaken_between_two_questions() -> None:
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
def test_a_leader_is_left_its_time_also_where_nothing_is_prepared() -> None:
    rule = Rule(name="it", approve=Approve.AT_ONCE, approver=Approver.LEADER)
    life = Life(Policy(rules=(rule,)), name="vm2")
    life.poll(BOTH)
    assert life.sent == []
    life.sleep(30 * SECOND)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_each_waits_for_all_before_it_that_live() -> None:
    waits = {"vm1": 60, "vm2": 30}
    for alive, seconds in waits.items():
        life = prepared("vm3", lead_by(Approver.LEADER, has_peers=True), THREE)
        # Later than its turn would be if nobody lived, so that only this counts.
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


def test_a_leader_needs_nobody() -> None:
    life = prepared("vm1", lead_by(Approver.LEADER, has_peers=True))
    assert life.asked == []
    assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_all_means_that_every_named_vm_has_prepared() -> None:
    first = prepared("vm1", lead_by(Approver.ALL, has_peers=True), THREE)
    assert first.sent == []
    assert first.asked[0].names == ("vm2", "vm3")
    assert first.waits == {"E1": "not prepared yet: vm2, vm3"}
    first.sleep(PEERS_EVERY)
    assert len(first.asked) == 2
    first.hear("vm2", is_prepared=True)
    first.hear("vm3", is_prepared=True)
    assert first.sent == ["E1"]


def test_who_says_no_after_all_is_waited_for() -> None:
    life = prepared("vm1", lead_by(Approver.ALL, has_peers=True), THREE)
    life.hear("vm2", is_prepared=True)
    life.hear("vm2", is_prepared=False)
    life.hear("vm3", is_prepared=True)
    assert life.waits == {"E1": "not prepared yet: vm2"}


def test_of_all_only_one_approves() -> None:
    second = prepared("vm2", lead_by(Approver.ALL, has_peers=True))
    second.hear("vm1", is_prepared=True)
    assert second.sent == []
    second.sleep(31 * SECOND)
    assert second.sent == ["E1"]


def test_all_without_peers_waits_for_not_before() -> None:
    life = prepared("vm1", lead_by(Approver.ALL))
    assert life.waits == {"E1": "not prepared yet: vm2"}
    assert life.wake is None


def test_an_event_of_one_vm_is_its_own() -> None:
    life = prepared("vm1", lead_by(Approver.ALL, has_peers=True), notice())
    assert life.sent == ["E1"]


def test_one_asks_before_it_takes_over_and_sends_in_one_go() -> None:
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
