"""The lock that limits approvals: when it was requested, awaited and given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.approving import REFUSALS_MAX
from forewarn.agent.core.model import Consent, Memory, Stage
from forewarn.agent.core.permits import (
    NO_LOCK,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import (
    Approve,
    Approver,
    Handler,
    Policy,
    Rule,
    Standby,
    Window,
)
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from tests.unit.agent.core.lock_support import (
    AT_ONCE,
    DUE,
    FREE,
    REFUSED,
    RELEASED,
    TAKEN,
    TERMS,
    at_once,
    life,
    release,
    sleep_refused,
    state,
    take,
    told,
)
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    gone,
    notice,
    policy,
    started,
)

# A whole life


def test_without_a_configured_lock_no_request_is_made() -> None:
    agent = life(at_once(None), Memory())
    agent.poll(notice())
    assert agent.sent == ["E1"]
    assert agent.lock_asked == []
    assert agent.memory.lock is NO_LOCK
    assert not agent.task().needs_lock


def test_lock_is_taken_before_the_approval_and_released_after_recovery() -> None:
    agent = life(policy(DRAIN, lock=TERMS))
    agent.poll(notice())
    assert agent.lock_asked == []
    agent.end("drain")
    assert agent.lock_asked == [take(1)]
    assert agent.sent == []
    assert agent.waits["E1"] == (
        "waits for the lock web: it was requested; at "
        "2026-03-02T12:14:50Z the event is approved without it"
    )
    agent.now += SECOND
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]
    agent.answer()
    agent.poll(started(notice()))
    gone(agent)
    assert state(agent) is LockState.HELD
    agent.end("drain")
    assert agent.stage() is Stage.FINISHED
    assert agent.lock_asked == [take(1), release(2)]
    agent.lock_says(RELEASED)
    assert state(agent) is LockState.FREE
    assert told(agent) == ["taken after 1 s: lock web", "released: lock web"]
    assert agent.wake is None


def test_busy_lock_is_retried_and_its_holder_is_reported_once() -> None:
    agent = life()
    agent.poll(notice())
    for number in range(2, 6):
        agent.lock_says(REFUSED, detail="vm7 has it")
        assert agent.sent == []
        assert "the lock web: vm7 has it" in agent.waits["E1"]
        before = agent.now
        while len(agent.lock_asked) < number:
            agent.sleep(SECOND)
        assert 0 < agent.now - before <= 1 << (number + 1) * SECOND
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]
    assert [text.partition(" after")[0] for text in told(agent)] == [
        "waits for the lock web: vm7 has it",
        "taken",
    ]


def test_lock_requests_become_more_frequent_near_the_deadline() -> None:
    agent = life()
    agent.poll(notice())
    times: list[Micros] = []
    while not agent.sent:
        times.append(agent.now)
        agent.lock_says(REFUSED)
        count_before = len(agent.lock_asked)
        while len(agent.lock_asked) == count_before and not agent.sent:
            agent.sleep(SECOND)
    pauses = [after - before for before, after in zip(times, times[1:])]
    assert max(pauses) <= 31 * SECOND
    assert 35 < len(pauses) < 80
    assert times[-1] >= DUE - TERMS.margin - 3 * SECOND
    # One that has been refused long ago does not wait longer than one that is new.
    assert min(pauses) < 2 * SECOND


@pytest.mark.parametrize("withholds", [False, True])
def test_lock_not_taken_by_its_deadline_is_skipped_or_withholds(
    withholds: bool,
) -> None:
    agent = life(at_once(replace(TERMS, withholds=withholds, margin=MINUTE)))
    agent.poll(notice())
    agent.lock_says(REFUSED, detail="vm7 has it")
    sleep_refused(agent, 14 * MINUTE - SECOND)
    assert agent.sent == []
    sleep_refused(agent, 2 * SECOND)
    if withholds:
        assert agent.sent == []
        assert agent.waits["E1"] == (
            "the lock web: vm7 has it; it was not available in time, so the event "
            "starts at NotBefore"
        )
        # One that comes so late is kept, since the VM will be away, and approves nothing.
        while not agent.memory.lock.is_asking:
            agent.sleep(SECOND)
        agent.lock_says(TAKEN)
        assert agent.sent == []
        assert state(agent) is LockState.HELD
    else:
        assert agent.sent == ["E1"]
        assert told(agent)[-1] == (
            "not available in time, so approved without it: the lock web: vm7 has it"
        )
        # It is still asked for, so that others wait.
        assert state(agent) is LockState.WANTED
        agent.answer()
    agent.poll(started(notice()))
    gone(agent)
    assert state(agent) is LockState.RELEASING


@pytest.mark.parametrize("withholds", [False, True])
def test_event_that_is_due_does_not_wait_for_the_lock(withholds: bool) -> None:
    agent = life(at_once(replace(TERMS, withholds=withholds)))
    agent.poll(notice(not_before=START + 5 * SECOND))
    assert agent.sent == ([] if withholds else ["E1"])
    assert agent.lock_asked == [take(1)]


def test_event_without_not_before_waits_for_the_lock_without_limit() -> None:
    agent = life()
    agent.poll(notice(not_before=None))
    agent.lock_says(REFUSED)
    for _ in range(20):
        agent.sleep(MINUTE)
        agent.poll(notice(not_before=None))
        if agent.memory.lock.is_asking:
            agent.lock_says(REFUSED, detail="vm7 has it")
    assert agent.sent == []
    assert agent.waits["E1"] == "waits for the lock web: vm7 has it"


# Events that take it


@pytest.mark.parametrize("kind", ["Preempt", "Terminate"])
def test_event_that_ends_the_vm_takes_no_lock(kind: str) -> None:
    agent = life(policy(DRAIN, lock=TERMS))
    agent.poll(notice(event_type=kind))
    agent.end("drain")
    assert agent.sent == ["E1"]
    assert agent.lock_asked == []


def test_rule_without_lock_approves_without_it() -> None:
    agent = life(at_once(rules=(replace(AT_ONCE, lock=False),)))
    agent.poll(notice())
    assert agent.sent == ["E1"]
    assert agent.lock_asked == []


@pytest.mark.parametrize(
    "settings",
    [
        at_once(rules=(Rule(name="never", approve=Approve.NEVER),)),
        at_once(is_observer=True),
        policy(Handler(name="drain"), lock=TERMS),
        at_once(
            blackouts=(Window(days=frozenset(range(7)), begins=0, ends=1440),),
        ),
        at_once(rules=(replace(AT_ONCE, approver=Approver.ALL),), has_peers=True),
    ],
    ids=["never", "observer", "preparing", "blackout", "peers"],
)
def test_event_that_cannot_be_approved_yet_takes_no_lock(settings: Policy) -> None:
    agent = life(settings)
    agent.poll(notice(resources=("vm1", "vm2")))
    assert agent.sent == []
    assert agent.lock_asked == []
    assert not agent.task().needs_lock


def test_withheld_event_releases_the_awaited_lock() -> None:
    """The rule is edited while the event waits for the lock: it now wants a handler."""
    agent = life()
    agent.poll(notice())
    agent.lock_says(REFUSED)
    agent.restart(at_once(rules=(Rule(name="never", approve=Approve.NEVER),)))
    agent.poll(notice())
    assert not agent.task().needs_lock
    assert isinstance(agent.lock_asked[-1], ReleaseLock)


def test_operator_approval_does_not_wait_for_the_lock_but_takes_it() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(REFUSED)
    agent.order()
    assert agent.sent == ["E1"]
    agent.sleep(5 * SECOND)
    assert agent.lock_asked[:2] == [take(1), take(2)]


def test_approval_on_behalf_of_another_vm_takes_the_lock() -> None:
    standby = Standby(names=("vm2",), source=("Platform",))
    agent = life(at_once(standby=standby))
    agent.poll(notice(resources=("vm2",)))
    agent.sleep(HOUR // 60)
    agent.poll(notice(resources=("vm2",)))
    assert agent.sent == []
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]
    gone(agent)
    assert agent.lock_asked[-1] == release(2)


def test_peers_are_asked_while_the_lock_is_awaited() -> None:
    rule = replace(AT_ONCE, approver=Approver.ALL)
    agent = life(at_once(rules=(rule,), has_peers=True))
    agent.poll(notice(resources=("vm1", "vm2")))
    agent.hear("vm2", is_prepared=True)
    assert agent.lock_asked == [take(1)]
    count_before = len(agent.asked)
    agent.poll(notice(resources=("vm1", "vm2")), times=10)
    assert len(agent.asked) > count_before
    assert agent.sent == []
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]


def test_lock_is_released_if_a_peer_is_no_longer_prepared() -> None:
    rule = replace(AT_ONCE, approver=Approver.ALL)
    agent = life(at_once(rules=(rule,), has_peers=True))
    agent.poll(notice(resources=("vm1", "vm2")))
    agent.hear("vm2", is_prepared=True)
    agent.lock_says(REFUSED)
    agent.hear("vm2", is_prepared=False)
    assert not agent.task().needs_lock
    assert agent.lock_asked[-1] == release(2)


def test_second_event_of_this_vm_is_approved_with_the_same_lock() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.poll(notice(), notice("E2"))
    assert agent.sent == ["E1", "E2"]
    agent.answer(event_id="E2")
    gone(agent, notice("E2"))
    assert state(agent) is LockState.HELD
    gone(agent)
    assert agent.lock_asked == [take(1), release(2)]


def test_refused_approval_releases_the_lock() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    for _ in range(REFUSALS_MAX):
        assert agent.lock_asked == [take(1)]
        agent.answer(Consent.REFUSED)
        agent.sleep(max(0, agent.task().retry_at - agent.now))
    assert agent.lock_asked[-1] == release(2)


def test_cancelled_event_releases_the_lock() -> None:
    agent = life()
    agent.poll(notice())
    gone(agent)
    # The first request is not answered yet.
    assert agent.lock_asked == [take(1)]
    assert state(agent) is LockState.RELEASING
    agent.lock_says(TAKEN)
    assert agent.lock_asked[-1] == release(2)
    assert agent.sent == []


def test_returning_event_takes_the_lock_again() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(REFUSED)
    gone(agent)
    assert agent.lock_asked[-1] == release(2)
    agent.poll(notice(), times=2)
    # A request is answered before the next is sent.
    agent.lock_says(RELEASED)
    assert agent.lock_asked[-1] == take(3)
    agent.lock_says(TAKEN)
    assert agent.sent == ["E1"]


def test_unknown_vm_name_requests_no_lock() -> None:
    agent = Life(at_once(), name="", memory=FREE)
    agent.poll(notice())
    assert agent.lock_asked == []
    agent.name = "vm1"
    agent.poll(notice())
    assert agent.lock_asked == [take(1)]


def test_configured_id_is_the_lock_holder() -> None:
    agent = life(at_once(replace(TERMS, holder="node-9")))
    agent.poll(notice())
    assert agent.lock_asked == [TakeLock(number=1, holder="node-9")]


def test_lock_is_released_under_the_id_that_took_it() -> None:
    agent = life()
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    agent.name = "vm1-renamed"
    agent.poll(started(notice()))
    gone(agent)
    assert agent.lock_asked[-1] == release(2)


# The pause


def test_lock_is_held_for_the_pause_after_the_event() -> None:
    agent = life(at_once(replace(TERMS, pause=5 * MINUTE)))
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    assert state(agent) is LockState.PAUSING
    agent.sleep(5 * MINUTE - SECOND)
    assert agent.lock_asked == [take(1)]
    agent.sleep(SECOND)
    assert agent.lock_asked == [take(1), release(2)]


def test_event_during_the_pause_is_approved_at_once() -> None:
    agent = life(at_once(replace(TERMS, pause=5 * MINUTE)))
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.poll(notice("E2"))
    assert agent.sent == ["E1", "E2"]
    assert state(agent) is LockState.HELD
    agent.sleep(10 * MINUTE)
    assert agent.lock_asked == [take(1)]


def test_clock_set_back_ends_the_pause() -> None:
    agent = life(at_once(replace(TERMS, pause=5 * MINUTE)))
    agent.poll(notice())
    agent.lock_says(TAKEN)
    agent.answer()
    gone(agent)
    agent.now -= HOUR
    agent.give()
    assert agent.lock_asked[-1] == release(2)
