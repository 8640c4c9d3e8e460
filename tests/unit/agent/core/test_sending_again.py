"""An approval is sent once, and again only if its result is unknown."""

from __future__ import annotations

import pytest

from forewarn.agent.core.absorbing import TROUBLES_MAX
from forewarn.agent.core.approving import (
    REFUSALS_MAX,
    RETRY_AFTER_MAX,
    RETRY_PAUSE_MAX,
    RETRY_PAUSES,
    RETRY_SHARE,
    SEND_TIMEOUT,
)
from forewarn.agent.core.model import Consent, NoteKind
from forewarn.agent.core.policy import (
    Approve,
    Policy,
    Rule,
    Window,
)
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    notice,
    policy,
    started,
)

AT_ONCE = Policy(rules=(Rule(name="it", approve=Approve.AT_ONCE),))
LUNCH = Window(days=frozenset(range(7)), begins=12 * 60, ends=13 * 60)


def test_accepted_approval_is_not_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer()
    life.poll(notice(), times=5)
    life.restart()
    life.poll(notice())
    life.sleep(HOUR)
    assert life.sent == ["E1"]
    assert life.told(NoteKind.APPROVED) == [(NoteKind.APPROVED, "")]


def test_unconfirmed_approval_is_retried_with_growing_pauses() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.poll(notice())
    assert life.waits == {"E1": "it was sent but not confirmed"}
    for number, pause in enumerate((*RETRY_PAUSES, 10 * SECOND, 20 * SECOND), start=1):
        life.answer(Consent.WANTED, detail="status 404")
        assert life.waits == {"E1": "it was sent but not confirmed; status 404"}
        life.sleep(pause - 1)
        assert len(life.sent) == number
        life.sleep(1)
        assert len(life.sent) == number + 1


def unanswered(not_before: Micros | None) -> list[Micros]:
    """Return when an approval is sent that is never accepted, until NotBefore."""
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


def test_retry_pauses_are_long_only_if_not_before_is_far_away() -> None:
    sent = unanswered(START + 2 * HOUR)
    pauses = [after - before for before, after in zip(sent, sent[1:])]
    assert max(pauses) == RETRY_PAUSE_MAX
    assert len(sent) < 200
    for at, pause in zip(sent, pauses):
        left = START + 2 * HOUR - at
        assert pause <= max(RETRY_PAUSES[-1], left // RETRY_SHARE)
    assert START + 2 * HOUR - sent[-1] <= RETRY_PAUSES[-1]


def test_retry_pauses_stay_short_for_an_event_without_not_before() -> None:
    sent = unanswered(None)
    assert max(b - a for a, b in zip(sent, sent[1:])) == RETRY_PAUSES[-1]


def test_each_reason_of_an_unconfirmed_approval_is_reported_once() -> None:
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


def test_number_of_reported_approval_failures_is_limited() -> None:
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
def test_endpoint_may_request_a_retry_delay(asked: int, kept: int) -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.WANTED, retry_after=asked)
    life.sleep(kept - 1)
    assert len(life.sent) == 1
    life.sleep(1)
    assert len(life.sent) == 2


def test_approval_without_an_answer_is_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.sleep(SEND_TIMEOUT)
    assert life.sent == ["E1", "E1"]


@pytest.mark.clause("8.8")
def test_approval_interrupted_by_a_restart_is_sent_again() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.restart()
    life.give()
    assert life.sent == ["E1"], "it may have gone"
    assert life.waits == {"E1": "no document has listed it since the agent started"}
    life.poll(notice())
    assert life.sent == ["E1", "E1"]


@pytest.mark.clause("8.8")
def test_no_approval_is_sent_before_the_event_is_seen_again() -> None:
    """Its window opens, or an order comes, while the endpoint does not answer."""
    settings = policy(DRAIN, blackouts=(LUNCH,))
    life = Life(settings)
    life.poll(notice(not_before=START + DAY))
    life.end("drain")
    life.restart()
    life.give()
    life.sleep(2 * HOUR)
    life.order()
    life.poll()
    assert life.sent == []
    life.poll(notice(not_before=START + DAY))
    assert life.sent == ["E1"]


@pytest.mark.clause("3.3")
def test_one_refusal_is_not_final() -> None:
    """One of several servers may list an event before another knows it."""
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.REFUSED, detail="400: no such event")
    assert life.task().consent is Consent.WANTED
    assert life.waits == {"E1": "it was sent but not confirmed; 400: no such event"}
    message = "the approval was refused, and is sent again: 400: no such event"
    assert life.told(NoteKind.FAILED) == [(NoteKind.FAILED, message)]
    life.sleep(SECOND)
    assert life.sent == ["E1", "E1"]
    life.answer(Consent.GIVEN)
    assert life.task().consent is Consent.GIVEN
    assert life.told(NoteKind.REFUSED) == []


@pytest.mark.clause("3.3")
def test_approval_is_dropped_after_repeated_refusals() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    for _ in range(REFUSALS_MAX):
        life.answer(Consent.REFUSED, detail="no such event")
        life.sleep(max(0, life.task().retry_at - life.now))
    sent = len(life.sent)
    assert sent == REFUSALS_MAX
    assert life.now - START < 2 * MINUTE
    life.poll(notice(), times=5)
    life.sleep(HOUR)
    assert len(life.sent) == sent
    assert life.told(NoteKind.REFUSED) == [
        (NoteKind.REFUSED, "8 times, so it is not sent again: no such event")
    ]
    assert life.waits == {"E1": "refused; no such event"}
    # But an operator may insist, and is not given up at the first refusal either.
    life.order()
    assert len(life.sent) == sent + 1
    life.answer(Consent.REFUSED, detail="no such event")
    assert life.task().consent is Consent.WANTED


def test_the_reason_that_is_shown_is_the_last_one() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    for number in range(REFUSALS_MAX):
        life.answer(Consent.REFUSED, detail=f"400: {number % 2}")
        life.sleep(max(0, life.task().retry_at - life.now))
    assert life.waits == {"E1": "refused; 400: 1"}


def test_approval_is_not_resent_after_the_event_started() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.answer(Consent.WANTED)
    life.poll(started(notice()))
    life.sleep(MINUTE)
    assert life.sent == ["E1"]


def test_answers_for_unknown_events_are_ignored() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    before = life.memory
    life.answer(event_id="E9")
    life.answer()
    life.hear("vm2", is_prepared=True, event_id="E9")
    life.hear("vm9", is_prepared=True)
    assert life.memory == before


def test_observer_does_not_resend_approvals() -> None:
    life = Life(AT_ONCE)
    life.poll(notice())
    life.restart(Policy(is_observer=True))
    life.give()
    assert life.sent == ["E1"]
