"""The agent dies at each write of its journal, with a lock before the approval.

At every write, the event is approved only while the lock is held, and the lock is
released at the end: the lock outlives the agent, and no other agent would release it.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from forewarn.agent.core.model import Consent, Stage
from forewarn.agent.core.permits import LockState, TakeLock
from forewarn.agent.core.policy import Handler, LockTerms, Policy, Rule
from forewarn.agent.journal.port import Journal, MemoryJournal
from forewarn.instants import SECOND, Micros
from tests.support.agent_journals import CrashError, CrashingJournal
from tests.support.agent_worlds import (
    TURNS_MAX,
    VM,
    Machine,
    Worker,
    event,
    no_pauses,
)

__all__ = ["no_pauses"]

pytestmark = [pytest.mark.usefixtures("no_pauses"), pytest.mark.clause("8.8")]

POLICY = Policy(
    handlers=(Handler(name="drain"),),
    rules=(Rule(name="rule 1", groups=(("drain",),)),),
    lock=LockTerms(label="lock web", pause=3 * SECOND),
)

OTHER_LEAVES: Micros = 9 * SECOND
"""When the other VM gives the lock back."""

LASTS: Micros = 4 * SECOND
"""From the approval to the end of the event."""


class Life:
    """One event, for which the lock must be awaited; agents come and go."""

    def __init__(self, journal: Journal) -> None:
        self.machine = Machine(lock_holders={"another"})
        self.journal = journal
        self.worker: Worker | None = None
        self.crashes = 0
        self._began = self.machine.clock.now()
        self._approved: Micros = 0
        self.wrong: list[str] = []

    def second(self, journal: Journal, *, has_reboot: bool) -> None:
        try:
            if self.worker is None:
                self.worker = Worker(POLICY, self.machine, journal)
                self.worker.begin()
            self.worker.second()
        except CrashError:
            self.crashes += 1
            self.worker = None
            if has_reboot:
                self.machine.reboot()
        self._go_on()

    def _go_on(self) -> None:
        machine, now = self.machine, self.machine.clock.now()
        age = now - self._began
        if age == 2 * SECOND:
            machine.notices = (event(),)
        if age == OTHER_LEAVES:
            machine.lock_holders.discard("another")
        if machine.approvals and not self._approved:
            self._approved = now
            if machine.lock_holders != {VM}:
                self.wrong.append(f"approved while {machine.lock_holders} had the lock")
        if self._approved and now == self._approved + LASTS // 2:
            started = replace(event(), status="Started", not_before=None)
            machine.notices = (started,)
        if self._approved and now == self._approved + LASTS:
            machine.notices = ()
        is_under_way = bool(self._approved and machine.notices)
        if is_under_way and machine.lock_holders != {VM}:
            self.wrong.append(f"under way while {machine.lock_holders} had the lock")

    def is_over(self) -> bool:
        memory = self.journal.load()
        return (
            len(memory.tasks) == 1
            and memory.tasks[0].stage is Stage.FINISHED
            and memory.lock.state is LockState.FREE
        )

    def live(self, journal: Journal, *, has_reboot: bool) -> None:
        for _ in range(TURNS_MAX):
            self.second(
                self.journal if self.crashes else journal, has_reboot=has_reboot
            )
            if self.is_over():
                return
        raise AssertionError(f"it has no end: {self.journal.load()}")

    def judge(self) -> None:
        assert self.wrong == []
        assert self.machine.lock_holders == set()
        [task] = self.journal.load().tasks
        assert task.consent is Consent.GIVEN
        assert {request.holder for request in self.machine.lock_asked} == {VM}


def lives(*, is_durable: bool, has_reboot: bool) -> Iterator[Life]:
    """Yield lives in which the agent dies at its first write, its second, and so on."""
    at = 0
    while True:
        at += 1
        life = Life(MemoryJournal())
        crashing = CrashingJournal(life.journal, at=at, is_durable=is_durable)
        life.live(crashing, has_reboot=has_reboot)  # pyright: ignore[reportArgumentType]
        yield life
        if not life.crashes:
            return


@pytest.mark.parametrize("has_reboot", [False, True], ids=["restart", "reboot"])
@pytest.mark.parametrize("is_durable", [False, True], ids=["before", "after"])
def test_lock_is_held_and_released_after_a_crash_at_any_write(
    is_durable: bool, has_reboot: bool
) -> None:
    count = 0
    for life in lives(is_durable=is_durable, has_reboot=has_reboot):
        life.judge()
        count += 1
    # Fewer would mean that the life is too short to tell anything.
    assert count > 15


def test_lock_request_is_in_the_journal_before_it_is_sent() -> None:
    """Else an agent that dies would not know that it may have the lock."""
    life = Life(MemoryJournal())
    for _ in range(TURNS_MAX):
        before = len(life.machine.lock_asked)
        life.second(life.journal, has_reboot=False)
        requests = life.machine.lock_asked[before:]
        if any(isinstance(request, TakeLock) for request in requests):
            break
    lock = life.journal.load().lock
    assert (lock.state, lock.holder) == (LockState.WANTED, VM)


def test_lock_held_when_the_journal_was_lost_is_released() -> None:
    """As after a redeploy: the disk is a new one, and the lock is elsewhere."""
    life = Life(MemoryJournal())
    while not life.machine.approvals:
        life.second(life.journal, has_reboot=False)
    life.worker = None
    life.journal = MemoryJournal()
    life.machine.programs.clear()
    for _ in range(TURNS_MAX):
        life.second(life.journal, has_reboot=False)
        if not life.machine.notices and life.machine.lock_holders == set():
            break
    assert life.wrong == []
    assert life.machine.lock_holders == set()
    assert life.journal.load().lock.state is LockState.FREE
