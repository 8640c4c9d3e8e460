"""Values for the agent's journal, and a journal that crashes where a test wants it."""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.agent.core.model import (
    Consent,
    Memory,
    Note,
    NoteKind,
    Phase,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.journal.port import Journal
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.notices import Notice

START: Micros = 1_795_255_200 * SECOND


class CrashError(BaseException):
    """The process ended here; no handler catches this."""


class CrashingJournal:
    """A journal whose process dies at its n-th save, before or after it is durable."""

    def __init__(self, inner: Journal, *, at: int, is_durable: bool) -> None:
        self._inner = inner
        self._left = at
        self._is_durable = is_durable
        self.saves = 0

    def load(self) -> Memory:
        return self._inner.load()

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        self.saves += 1
        self._left -= 1
        if self._left or self._is_durable:
            self._inner.save(memory, notes)
        if not self._left:
            raise CrashError

    def take_orders(self) -> Sequence[str]:
        return self._inner.take_orders()


def notice_of(event_id: str = "E1") -> Notice:
    return Notice(
        event_id=event_id,
        event_type="Reboot",
        status="Scheduled",
        source="Platform",
        resources=("web_1", "wéb_2"),
        resource_type="VirtualMachine",
        not_before=START + HOUR,
        duration_seconds=9,
        description="Host “h1” is to be\nmaintained",
    )


def task_of(event_id: str = "E1", *, seen: Micros = START) -> Task:
    """Return a task in which every kind of member has a value."""
    step = Step(
        handler="drain",
        phase=Phase.PREPARE,
        attempt=1,
        state=StepState.RUNNING,
        began=seen,
        stop_at=seen + SECOND,
        kill_at=seen + 2 * SECOND,
    )
    return Task(
        event_id=event_id,
        round=2,
        notice=notice_of(event_id),
        mine=True,
        rule="rule 1",
        stage=Stage.PREPARING,
        seen=seen,
        steps=(replace(step, state=StepState.LOST, detail="gone"), step),
        consent=Consent.WANTED,
        peers_ready=("wéb_2",),
        peers_alive=(("wéb_2", seen),),
    )


def note_of(event_id: str = "E1", *, at: Micros = START, detail: str = "") -> Note:
    return Note(
        at=at,
        kind=NoteKind.SEEN,
        event_id=event_id,
        detail=detail,
        notice=notice_of(event_id),
    )


def is_new(memory: Memory) -> bool:
    """Return whether it is the memory of a journal in which nothing was saved yet."""
    name = memory.journal
    return bool(name) and memory == Memory(lost_journal=True, journal=name)
