"""The gate on active alerts together with the lock and other agents."""

from __future__ import annotations

from dataclasses import replace

from forewarn.agent.core.permits import LockState, ReleaseLock
from forewarn.agent.core.policy import Approver, Standby
from forewarn.instants import MINUTE, SECOND
from tests.unit.agent.core.gate_support import ALERTS, CLEAR, FIRES, GATE, gated, told
from tests.unit.agent.core.lock_support import (
    FREE,
    REFUSED,
    TAKEN,
    TERMS,
    at_once,
    state,
)
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    notice,
    policy,
    prepare,
    started,
)

# With the lock


def locked(**values: object) -> Life:
    life = Life(replace(at_once(), gate=GATE, **values), memory=FREE)
    life.poll(notice())
    return life


def test_lock_is_not_asked_for_before_the_gate_is_open() -> None:
    life = locked()
    life.gate_says(ALERTS, FIRES)
    life.sleep(5 * MINUTE)
    assert life.lock_asked == []
    assert life.task().needs_lock is False


def test_lock_is_requested_after_the_gate_opens() -> None:
    life = locked()
    life.gate_says(CLEAR)
    assert len(life.lock_asked) == 1
    life.lock_says(TAKEN)
    assert life.sent == ["E1"]
    assert len(life.gate_asked) == 1


def test_alert_while_waiting_for_the_lock_releases_it() -> None:
    life = locked()
    life.gate_says(CLEAR)
    life.lock_says(REFUSED, detail="vm7 has it")
    life.sleep(30 * SECOND)
    assert len(life.gate_asked) == 2
    life.gate_says(ALERTS, FIRES)
    assert state(life) is LockState.RELEASING
    assert life.task().needs_lock is False
    assert "DiskFull" in life.waits["E1"]


def test_gate_is_queried_again_when_the_lock_is_taken_late() -> None:
    life = locked()
    life.gate_says(CLEAR)
    life.lock_says(REFUSED, detail="vm7 has it")
    life.sleep(20 * SECOND)
    life.lock_says(TAKEN)
    assert life.sent == []
    assert state(life) is LockState.HELD
    assert "has not answered yet" in life.waits["E1"]
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]
    assert state(life) is LockState.HELD


def test_closed_gate_releases_a_new_lock_without_pause() -> None:
    life = locked(lock=replace(TERMS, pause=5 * MINUTE))
    life.gate_says(CLEAR)
    life.lock_says(REFUSED, detail="vm7 has it")
    life.sleep(20 * SECOND)
    life.lock_says(TAKEN)
    life.gate_says(ALERTS, FIRES)
    assert state(life) is LockState.RELEASING
    assert isinstance(life.lock_asked[-1], ReleaseLock)
    assert life.sent == []


def test_lock_of_a_finished_event_keeps_its_pause_while_another_is_held() -> None:
    life = locked(lock=replace(TERMS, pause=5 * MINUTE))
    life.gate_says(CLEAR)
    life.lock_says(TAKEN)
    life.answer()
    life.poll(started(notice()))
    life.sleep(MINUTE)
    life.poll(notice("E2"), times=2)
    life.gate_says(ALERTS, FIRES)
    assert life.sent == ["E1"]
    assert state(life) is LockState.PAUSING


def test_gate_is_checked_before_the_lock_deadline_applies() -> None:
    life = locked()
    life.gate_says(CLEAR)
    while life.now < START + 15 * MINUTE - SECOND:
        life.sleep(SECOND)
        if life.memory.lock.is_asking:
            life.lock_says(REFUSED, detail="vm7 has it")
        if life.memory.gate.is_asking:
            is_late = life.now > START + 14 * MINUTE
            life.gate_says(ALERTS if is_late else CLEAR, FIRES)
    assert life.sent == []


def test_restart_keeps_waiting_for_the_lock_and_queries_the_gate() -> None:
    life = locked()
    life.gate_says(CLEAR)
    life.lock_says(REFUSED, detail="vm7 has it")
    life.restart()
    life.poll(notice())
    assert life.task().needs_lock
    assert life.memory.gate.is_asking
    life.lock_says(TAKEN)
    assert life.sent == []
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


# With other agents


def company(approver: Approver) -> Life:
    rule = prepare(("drain",), approver=approver)
    both = notice(resources=("vm1", "vm2"))
    life = Life(policy(DRAIN, gate=GATE, has_peers=True, rules=(rule,)))
    life.poll(both)
    life.end("drain")
    return life


def test_peers_are_asked_before_the_gate() -> None:
    life = company(Approver.ALL)
    assert (len(life.asked), life.gate_asked) == (1, [])
    life.hear("vm2", is_prepared=True)
    assert len(life.gate_asked) == 1


def test_peers_are_still_asked_while_the_gate_is_closed() -> None:
    life = company(Approver.ALL)
    life.hear("vm2", is_prepared=True)
    life.gate_says(ALERTS, FIRES)
    count_before = len(life.asked)
    life.sleep(20 * SECOND)
    assert len(life.asked) == count_before + 10


def test_peer_that_becomes_unprepared_also_delays_the_approval() -> None:
    life = company(Approver.ALL)
    life.hear("vm2", is_prepared=True)
    life.gate_says(ALERTS, FIRES)
    life.hear("vm2", is_prepared=False)
    assert life.waits["E1"] == "not prepared yet: vm2"
    assert told(life) == [f"{FIRES} (Prometheus at http://p)"]
    life.hear("vm2", is_prepared=True)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


def test_standby_approval_for_another_vm_also_passes_the_gate() -> None:
    standby = Standby(names=("vm2",), after=SECOND)
    life = Life(gated(standby=standby, has_peers=True))
    life.poll(notice(resources=("vm2",), source="User"))
    life.sleep(10 * SECOND)
    assert life.sent == []
    life.gate_says(ALERTS, FIRES)
    life.sleep(MINUTE)
    assert life.sent == []
    for _ in range(4):
        if life.memory.gate.is_asking:
            life.gate_says(CLEAR)
        life.sleep(30 * SECOND)
    assert life.sent[:1] == ["E1"]
