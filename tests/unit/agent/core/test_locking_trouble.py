"""The lock in bad times: no answers, expiry, crashes, other settings."""

from __future__ import annotations

from dataclasses import replace

from forewarn.agent.core.model import Memory, StepState
from forewarn.agent.core.permits import (
    LockResponse,
    LockState,
    ReleaseLock,
)
from forewarn.agent.core.policy import (
    LockTerms,
)
from forewarn.instants import HOUR, MINUTE, SECOND
from tests.unit.agent.core.lock_support import (
    FREE,
    REFUSED,
    RELEASED,
    TAKEN,
    TERMS,
    TROUBLE,
    at_once,
    life,
    release,
    state,
    take,
    told,
)
from tests.unit.agent.core.support import (
    DRAIN,
    Life,
    gone,
    notice,
    policy,
    started,
)

# Trouble


def test_unavailable_lock_server_is_retried_and_reported_once() -> None:
    agent = life()
    agent.poll(notice())
    for _ in range(6):
        agent.lock_says(TROUBLE, detail="connection refused")
        agent.sleep(40 * SECOND)
    assert "the lock web: connection refused" in agent.waits["E1"]
    assert len(agent.lock_asked) == 7
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]
    assert agent.memory.lock.trouble == ""
    assert told(agent) == [
        "the lock web cannot be taken: connection refused",
        "taken after 4 m: lock web",
    ]


def test_unanswered_request_is_repeated() -> None:
    agent = life()
    agent.poll(notice())
    agent.sleep(59 * SECOND)
    assert agent.lock_asked == [take(1)]
    agent.sleep(3 * SECOND)
    assert agent.lock_asked == [take(1), take(2)]
    assert agent.memory.lock.trouble == "no answer for 1 m"
    # The first answer comes too late to mean anything.
    agent.give(LockResponse(number=1, answer=TAKEN))
    assert agent.sent == []
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]


def test_unanswered_request_releases_the_lock_twice() -> None:
    """The server may have carried it out after the lock was given back."""
    agent = life()
    agent.poll(notice())
    agent.lock_says(TROUBLE)
    gone(agent)
    agent.sleep(2 * SECOND)
    assert agent.lock_asked == [take(1), release(2)]
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.RELEASING
    agent.sleep(61 * SECOND)
    assert agent.lock_asked[2:] == [release(3)]
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.FREE


def test_unanswered_release_delays_the_next_lock_request() -> None:
    """The server may carry it out when the lock has been taken again."""
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.lock_says(TROUBLE)
    agent.poll(notice("E2"))
    assert state(agent) is LockState.WANTED
    agent.sleep(59 * SECOND)
    assert agent.lock_asked == [take(1), release(2)]
    agent.sleep(2 * SECOND)
    assert agent.lock_asked[2:] == [take(3)]


def test_release_is_tried_until_it_is_confirmed() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    for _ in range(30):
        agent.lock_says(TROUBLE, detail="500")
        count_before = len(agent.lock_asked)
        agent.sleep(MINUTE)
        assert len(agent.lock_asked) == count_before + 1
        assert isinstance(agent.lock_asked[-1], ReleaseLock)
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.FREE
    assert told(agent)[1:] == [
        "the lock web cannot be released: 500",
        "released: lock web",
    ]


def test_refusal_of_a_lock_no_longer_needed_is_not_reported() -> None:
    agent = life()
    agent.poll(notice())
    gone(agent)
    assert state(agent) is LockState.RELEASING
    agent.lock_says(REFUSED, detail="vm7 has it")
    assert state(agent) is LockState.RELEASING
    agent.sleep(MINUTE)
    assert isinstance(agent.lock_asked[-1], ReleaseLock)
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.FREE
    assert not [text for text in told(agent) if "vm7" in text]


def test_clock_set_back_does_not_extend_a_pause() -> None:
    agent = life()
    agent.poll(notice(not_before=None))
    agent.lock_says(REFUSED)
    agent.now -= HOUR
    agent.give()
    assert agent.lock_asked == [take(1), take(2)]


def test_event_during_a_release_waits_for_the_answer() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.poll(notice("E2"))
    assert state(agent) is LockState.WANTED
    assert agent.sent == ["E1"]
    assert agent.lock_asked == [take(1), release(2)]
    agent.lock_says(RELEASED)
    assert agent.lock_asked[2:] == [take(3)]
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1", "E2"]


# Locks that expire

EXPIRING = replace(TERMS, ttl=HOUR)


def held(terms: LockTerms = EXPIRING) -> Life:
    agent = life(at_once(terms))
    agent.poll(notice())
    agent.lock_says(TAKEN, until=agent.now + terms.ttl)
    agent.answer()
    return agent


def test_expiring_lock_is_confirmed_in_time() -> None:
    agent = held()
    for number in range(2, 6):
        agent.sleep(20 * MINUTE)
        assert agent.lock_asked[-1] == take(number)
        agent.lock_says(TAKEN, until=agent.now + HOUR)
    assert state(agent) is LockState.HELD
    assert told(agent) == ["taken after 0 s: lock web"]


def test_failed_confirmation_is_retried_every_30_seconds() -> None:
    agent = held()
    agent.sleep(20 * MINUTE)
    for _ in range(10):
        agent.lock_says(TROUBLE, detail="500")
        count_before = len(agent.lock_asked)
        agent.sleep(30 * SECOND)
        assert len(agent.lock_asked) == count_before + 1
    assert state(agent) is LockState.HELD


def test_unconfirmed_lock_allows_no_further_approvals() -> None:
    agent = held()
    agent.sleep(20 * MINUTE)
    agent.lock_says(TROUBLE, detail="500")
    agent.sleep(40 * MINUTE - SECOND)
    assert state(agent) is LockState.HELD
    agent.sleep(2 * SECOND)
    assert state(agent) is LockState.WANTED
    assert told(agent)[-1] == ("the lock web was not confirmed for 1 h: it may be lost")
    agent.poll(notice(), notice("E2", not_before=agent.now + HOUR))
    assert agent.sent == ["E1"]


def test_clock_set_back_does_not_extend_a_lock() -> None:
    agent = held()
    agent.now -= MINUTE
    agent.give()
    assert state(agent) is LockState.WANTED
    assert agent.lock_asked == [take(1), take(2)]


def test_lock_that_another_vm_has_taken_is_lost() -> None:
    agent = held()
    agent.sleep(20 * MINUTE)
    agent.lock_says(REFUSED, detail="vm7 has it")
    assert state(agent) is LockState.WANTED
    assert told(agent)[-1] == "the lock web was lost: vm7 has it"
    agent.sleep(2 * SECOND)
    assert agent.lock_asked[2:] == [take(3)]


def test_lock_lost_during_its_pause_is_free() -> None:
    agent = held(replace(EXPIRING, pause=2 * HOUR))
    gone(agent)
    agent.sleep(20 * MINUTE)
    agent.lock_says(REFUSED, detail="vm7 has it")
    assert state(agent) is LockState.FREE
    assert agent.wake is None


def test_lock_that_expires_during_its_pause_is_released() -> None:
    agent = held(replace(EXPIRING, pause=2 * HOUR))
    gone(agent)
    agent.sleep(20 * MINUTE)
    agent.lock_says(TROUBLE)
    agent.sleep(40 * MINUTE)
    assert state(agent) is LockState.RELEASING


# Crashes, and other settings


def test_restart_while_waiting_requests_the_lock_again() -> None:
    agent = life()
    agent.poll(notice())
    agent.restart()
    assert agent.lock_asked == [take(1)]
    agent.give()
    assert agent.lock_asked == [take(1), take(2)]
    agent.lock_says(TAKEN)
    # Whether the event is there still is not known yet.
    assert agent.sent == []
    agent.poll(notice())
    assert agent.sent == ["E1"]


def test_restart_confirms_a_lock_that_is_held_before_it_approves_with_it() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.restart()
    agent.poll(notice(), notice("E2"))
    assert agent.lock_asked == [take(1), take(2)]
    assert agent.sent == ["E1"]
    assert "is being confirmed" in agent.waits["E2"]
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1", "E2"]


def test_event_removed_after_a_restart_releases_the_lock() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.restart()
    gone(agent)
    agent.lock_says(TAKEN)
    assert agent.lock_asked == [take(1), take(2), release(3)]


def test_restart_during_a_lock_release_continues_the_release() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.restart()
    agent.give()
    assert agent.lock_asked == [take(1), release(2), release(3)]


def test_new_journal_releases_the_lock_once() -> None:
    agent = life(memory=Memory(lost_journal=True))
    agent.give()
    assert agent.lock_asked == []
    agent.poll()
    assert agent.lock_asked == [release(1)]
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.FREE
    assert told(agent) == []
    agent.poll(times=3)
    assert agent.lock_asked == [release(1)]


def test_new_journal_releases_the_lock_after_a_time_without_events() -> None:
    """This VM may be in the middle of an event that is not listed yet."""
    agent = Life(at_once(), memory=Memory(), is_patient=True)
    agent.poll()
    agent.sleep(20 * SECOND)
    agent.poll(started(notice()))
    agent.sleep(MINUTE)
    assert agent.lock_asked == []
    other = Life(at_once(), memory=Memory(), is_patient=True)
    other.poll()
    other.sleep(29 * SECOND)
    assert other.lock_asked == []
    other.sleep(SECOND)
    assert other.lock_asked == [release(1)]


def test_restart_restarts_the_time_without_events() -> None:
    agent = Life(at_once(), memory=Memory(), is_patient=True)
    agent.poll()
    agent.sleep(20 * SECOND)
    agent.restart()
    agent.poll()
    agent.sleep(20 * SECOND)
    assert agent.lock_asked == []
    agent.now -= HOUR
    agent.give()
    agent.sleep(20 * SECOND)
    assert agent.lock_asked == []
    agent.sleep(10 * SECOND)
    assert agent.lock_asked == [release(1)]


def test_event_takes_the_lock_immediately_with_a_new_journal() -> None:
    agent = Life(at_once(), memory=Memory(), is_patient=True)
    agent.poll(notice())
    assert agent.lock_asked == [take(1)]


def test_lost_journal_keeps_the_lock_until_the_event_ends() -> None:
    agent = life(memory=Memory(lost_journal=True))
    agent.poll(started(notice()))
    assert agent.lock_asked == []
    gone(agent)
    assert agent.lock_asked == [release(1)]


def test_lost_journal_keeps_the_lock_until_recovery_ends() -> None:
    settings = policy(replace(DRAIN, always=True), lock=TERMS)
    agent = life(settings, Memory(lost_journal=True))
    agent.poll(times=2)
    assert agent.begun() == [("", "recover", "drain")]
    assert agent.lock_asked == []
    agent.end("drain", StepState.DONE)
    assert agent.lock_asked == [release(1)]


def test_lock_of_earlier_settings_is_reported_and_the_new_one_taken() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.restart(at_once(replace(TERMS, label="lock db")))
    agent.poll(notice())
    assert told(agent)[-1] == (
        "the settings now name the lock db; vm1 may still hold the lock web, "
        "which is not released now"
    )
    assert agent.lock_asked[-1] == take(2)
    agent.lock_says(TAKEN)
    assert agent.memory.lock.label == "lock db"


def test_replacing_a_free_lock_is_not_reported() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.lock_says(RELEASED)
    before = told(agent)
    agent.restart(at_once(replace(TERMS, label="lock db")))
    agent.poll()
    assert told(agent) == before
    # The state of the other one is unknown.
    assert agent.lock_asked[-1] == release(3)


def test_observer_leaves_the_lock_unchanged() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.restart(at_once(is_observer=True))
    gone(agent)
    assert agent.lock_asked == [take(1)]
    agent.restart(at_once())
    agent.poll()
    agent.lock_says(TAKEN)
    assert agent.lock_asked[-1] == release(3)


def test_unexpected_lock_answer_is_ignored() -> None:
    agent = life()
    agent.give(LockResponse(number=0, answer=TAKEN))
    assert agent.memory.lock == FREE.lock
