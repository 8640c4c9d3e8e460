"""The agent dies at each write of its journal, one by one, and another continues.

Before a write became durable and after it; with the programs of its handlers running
meanwhile, or down with the VM; and with the journal lost altogether.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from forewarn.agent.core import steps
from forewarn.agent.core.model import Consent, Memory, Phase, Stage
from forewarn.agent.core.policy import GoneAfter, Handler, Policy, Rule
from forewarn.agent.journal.port import Journal, MemoryJournal
from forewarn.instants import SECOND, Micros
from tests.support.agent_journals import CrashError, CrashingJournal
from tests.support.agent_worlds import (
    TURNS_MAX,
    Machine,
    Worker,
    event,
    no_pauses,
)

__all__ = ["no_pauses"]

pytestmark = [pytest.mark.usefixtures("no_pauses"), pytest.mark.clause("8.8")]

POLICY = Policy(
    handlers=(Handler(name="flush"), Handler(name="drain")),
    rules=(Rule(name="rule 1", groups=(("flush",), ("drain",))),),
)

ALWAYS = Policy(
    handlers=(Handler(name="mount", always=True), Handler(name="drain")),
    rules=(Rule(name="rule 1", groups=(("drain",),)),),
)

FIRST, SECOND_EVENT = "E1", "E2"
IDS = (FIRST, SECOND_EVENT)

STARTS: Micros = 3 * SECOND
"""After its approval, the impact of an event begins; so long after it, it is gone."""


class Story:
    """Two events, one after the other, that overlap; agents come and go."""

    def __init__(self, policy: Policy, journal: Journal) -> None:
        self.policy = policy
        self.machine = Machine()
        self.journal = journal
        self.crashes = 0
        self.worker: Worker | None = None
        self._approved: dict[str, Micros] = {}
        self._came = 0
        self.has_reboot = False

    def second(self, journal: Journal) -> None:
        """Let a second pass; an agent that is not there is started."""
        try:
            if self.worker is None:
                self.worker = Worker(self.policy, self.machine, journal)
                self.worker.begin()
            self.worker.second()
        except CrashError:
            self.crashes += 1
            self.worker = None
            if self.has_reboot:
                self.machine.reboot()
        self._go_on()

    def _go_on(self) -> None:
        """Let the world continue, whether an agent is there or not."""
        now = self.machine.clock.now()
        self._came += 1
        if self._came == 1:
            self.machine.notices = (event(FIRST),)
        if self._came == 4:
            self.machine.notices = (*self.machine.notices, event(SECOND_EVENT))
        for event_id in self.machine.approvals:
            self._approved.setdefault(event_id, now)
        for event_id, at in self._approved.items():
            if at + STARTS == now:
                self.machine.notices = tuple(
                    replace(notice, status="Started", not_before=None)
                    if notice.event_id == event_id
                    else notice
                    for notice in self.machine.notices
                )
            if at + 2 * STARTS == now:
                self.machine.notices = tuple(
                    notice
                    for notice in self.machine.notices
                    if notice.event_id != event_id
                )

    @property
    def memory(self) -> Memory:
        return self.worker.memory if self.worker else Memory()

    def is_over(self) -> bool:
        tasks = self.memory.tasks
        return (
            len(tasks) == 2
            and all(task.stage is Stage.FINISHED for task in tasks)
            and not self.machine.notices
        )

    def live(self, journal: Journal) -> None:
        """Live to the end; `journal` may crash, and then the sound one is used."""
        for _ in range(TURNS_MAX):
            self.second(self.journal if self.crashes else journal)
            if self.is_over():
                return
        raise AssertionError(f"it has no end: {self.memory}")

    def judge(self) -> None:
        """Judge what was done, and what is remembered."""
        begun = Counter(self.machine.begun)
        for event_id in IDS:
            for name in ("flush", "drain"):
                times = begun[Phase.PREPARE, name, event_id]
                assert 1 <= times <= 1 + self.machine.killed, begun
        # For all of them together: the last to go is recovered from.
        for name in ("flush", "drain"):
            times = sum(
                count
                for (phase, handler, _), count in begun.items()
                if (phase, handler) == (Phase.RECOVER, name)
            )
            assert 1 <= times <= 1 + self.machine.killed, begun
        approvals = Counter(self.machine.approvals)
        assert set(approvals) == set(IDS)
        # Once more only where it died before the answer was durable.
        assert sum(approvals.values()) <= len(IDS) + self.crashes
        for task in self.memory.tasks:
            assert task.consent is Consent.GIVEN
            assert list(steps.unrecovered(task)) == []
        assert self.journal.load().tasks == self.memory.tasks


def lives(*, is_durable: bool, has_reboot: bool) -> Iterator[Story]:
    """Yield lives in which the agent dies at its first write, its second, and so on."""
    at = 0
    while True:
        at += 1
        story = Story(POLICY, MemoryJournal())
        story.has_reboot = has_reboot
        crashing = CrashingJournal(story.journal, at=at, is_durable=is_durable)
        story.live(crashing)  # pyright: ignore[reportArgumentType]
        yield story
        if not story.crashes:
            return


@pytest.mark.parametrize("has_reboot", [False, True], ids=["restart", "reboot"])
@pytest.mark.parametrize("is_durable", [False, True], ids=["before", "after"])
def test_work_is_completed_after_a_crash_at_any_write(
    is_durable: bool, has_reboot: bool
) -> None:
    count = 0
    for story in lives(is_durable=is_durable, has_reboot=has_reboot):
        story.judge()
        count += 1
    # Fewer would mean that the life is too short to tell anything.
    assert count > 12


def test_each_step_runs_once_without_a_crash() -> None:
    story = Story(POLICY, MemoryJournal())
    story.live(story.journal)
    story.judge()
    assert story.machine.approvals == [FIRST, SECOND_EVENT]
    assert len(story.machine.begun) == 6


def test_work_completes_despite_repeated_crashes() -> None:
    story = Story(POLICY, MemoryJournal())
    for _ in range(TURNS_MAX):
        # Each agent dies at its third write.
        journal = CrashingJournal(story.journal, at=3, is_durable=True)
        while story.worker is not None or not story.is_over():
            deaths = story.crashes
            story.second(journal)  # pyright: ignore[reportArgumentType]
            if story.crashes > deaths or story.is_over():
                break
        if story.is_over():
            break
    story.judge()
    assert story.crashes > 4


QUIET = GoneAfter().started // SECOND
"""Seconds of documents without an event, before what is `always` runs."""


def test_lost_journal_runs_recoveries_set_to_always_once() -> None:
    """As after a redeploy: the preparation is unknown, and is undone."""
    machine = Machine()
    worker = Worker(ALWAYS, machine, MemoryJournal())
    worker.begin()
    for _ in range(QUIET + 10):
        worker.second()
    assert machine.begun == [(Phase.RECOVER, "mount", "")]
    assert worker.memory.lost_journal is False


@pytest.mark.parametrize("is_durable", [False, True], ids=["before", "after"])
def test_lost_journal_recovers_once_even_with_a_crash_at_any_write(
    is_durable: bool,
) -> None:
    at, crashes = 0, 1
    while crashes:
        at += 1
        machine, journal = Machine(), MemoryJournal()
        crashing = CrashingJournal(journal, at=at, is_durable=is_durable)
        crashes = 0
        try:
            worker = Worker(ALWAYS, machine, crashing)
            worker.begin()
            for _ in range(QUIET + 8):
                worker.second()
        except CrashError:
            crashes = 1
            machine.pass_time(5 * SECOND)
        worker = Worker(ALWAYS, machine, journal)
        worker.begin()
        for _ in range(QUIET + 10):
            worker.second()
        assert machine.begun == [(Phase.RECOVER, "mount", "")]
        assert journal.load().lost_journal is False
        machine.notices = (event(FIRST),)
        for _ in range(6):
            worker.second()
        assert machine.approvals == [FIRST]
    assert at > 3
