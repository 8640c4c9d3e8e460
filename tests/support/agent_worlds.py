"""A main loop on a turned clock, with hands, an endpoint and a journal that are fakes."""

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from forewarn.agent import agent as main_loop
from forewarn.agent.agent import Agent, Entry
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Command,
    Consent,
    Finished,
    Input,
    Memory,
    Note,
    Phase,
    Polled,
    Run,
    Send,
    StepState,
    Stop,
    Tighten,
)
from forewarn.agent.core.permits import (
    AskGate,
    GateAnswer,
    GateResponse,
    LockAnswer,
    LockResponse,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import Policy
from forewarn.agent.journal.port import JournalError
from forewarn.clock import VirtualClock
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.notices import SCHEDULED, STARTED, Notice
from tests.support.agent_journals import START

VM = "vm1"

TURNS_MAX = 500
"""Maximum number of turns in one life; more means an endless loop."""


def event(event_id: str = "E1", **values: object) -> Notice:
    """Return a reboot of this VM in a quarter of an hour."""
    members: dict[str, object] = {
        "event_id": event_id,
        "event_type": "Reboot",
        "status": SCHEDULED,
        "source": "Platform",
        "resources": (VM,),
        "not_before": START + 15 * MINUTE,
        **values,
    }
    return Notice(**members)  # pyright: ignore[reportArgumentType]


class FaultyJournal:
    """A journal in memory, whose disk may refuse to work."""

    def __init__(self) -> None:
        self.memory = Memory(lost_journal=True)
        self.notes: list[Note] = []
        self.orders: list[str] = []
        self.saves = 0
        self.cannot_write = ""
        self.cannot_read = ""

    def load(self) -> Memory:
        return self.memory

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        if self.cannot_write:
            raise JournalError(self.cannot_write, hint="Free some space.")
        self.saves += 1
        self.memory = memory
        self.notes += notes

    def take_orders(self) -> Sequence[str]:
        if self.cannot_read:
            raise JournalError(self.cannot_read, hint="Look at it.")
        taken, self.orders = self.orders, []
        return taken

    def told(self) -> list[str]:
        return [note.kind.value for note in self.notes]


@dataclass
class Program:
    """A handler's process: it lives on when the agent ends, and not when the VM does."""

    run: Run
    ends_at: Micros
    """When it ends by itself."""
    state: StepState = StepState.RUNNING


@dataclass
class Machine:
    """The VM and its endpoint: what outlives the agent."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    notices: tuple[Notice, ...] = ()
    takes: Micros = 2 * SECOND
    """The duration of a handler."""
    programs: dict[str, Program] = field(default_factory=dict[str, Program])
    approvals: list[str] = field(default_factory=list[str])
    """Those that came, also several of one event."""
    begun: list[tuple[Phase, str, str]] = field(
        default_factory=list[tuple[Phase, str, str]]
    )
    """Phase, handler and event of all programs that were begun."""
    lock_asked: list[TakeLock | ReleaseLock] = field(
        default_factory=list[TakeLock | ReleaseLock]
    )
    lock_holders: set[str] = field(default_factory=set[str])
    """The holders of the lock, which is outside of this machine."""
    killed: int = 0
    """Programs that went down with the VM while they ran."""

    def ask_lock(self, asked: TakeLock | ReleaseLock) -> LockResponse:
        """Answer as a lock that has one slot."""
        self.lock_asked.append(asked)
        answer = LockAnswer.RELEASED
        if isinstance(asked, ReleaseLock):
            self.lock_holders.discard(asked.holder)
        elif self.lock_holders - {asked.holder}:
            answer = LockAnswer.REFUSED
        else:
            answer = LockAnswer.TAKEN
            self.lock_holders.add(asked.holder)
        return LockResponse(number=asked.number, answer=answer)

    def pass_time(self, duration: Micros) -> None:
        """Let time pass: programs end, and what was approved starts and goes."""
        self.clock.advance_to(self.clock.now() + duration)
        for program in self.programs.values():
            is_over = program.ends_at <= self.clock.now()
            if program.state is StepState.RUNNING and is_over:
                program.state = StepState.DONE

    def start_events(self) -> None:
        """Let the impact of what was approved begin."""
        self.notices = tuple(
            replace(notice, status=STARTED, not_before=None)
            if notice.event_id in self.approvals
            else notice
            for notice in self.notices
        )

    def reboot(self) -> None:
        """End everything that runs; nothing is written down about how."""
        for program in self.programs.values():
            if program.state is StepState.RUNNING:
                program.state = StepState.LOST
                self.killed += 1


class Hands:
    """Starts programs on the machine, and finds them again."""

    def __init__(self, machine: Machine, inbox: "queue.SimpleQueue[Entry]") -> None:
        self._machine = machine
        self._inbox = inbox
        self._watched: list[str] = []

    def start(self, run: Run) -> None:
        machine = self._machine
        if run.resumes and run.run_id not in machine.programs:
            self._inbox.put(Finished(run_id=run.run_id, state=StepState.LOST))
            return
        if not run.resumes:
            assert run.run_id not in machine.programs, "begun twice"
            event_id = run.task.event_id if run.task else ""
            machine.begun.append((run.phase, run.handler, event_id))
            machine.programs[run.run_id] = Program(
                run, machine.clock.now() + machine.takes
            )
        self._watched.append(run.run_id)

    def stop(self, stop: Stop) -> None:
        program = self._machine.programs[stop.run_id]
        if program.state is StepState.RUNNING:
            program.state = StepState.STOPPED

    def tighten(self, tighten: Tighten) -> None:
        program = self._machine.programs[tighten.run_id]
        program.ends_at = min(program.ends_at, tighten.stop_at)

    def look(self) -> None:
        """Tell of what has ended."""
        for run_id in list(self._watched):
            program = self._machine.programs[run_id]
            if program.state is not StepState.RUNNING:
                self._watched.remove(run_id)
                self._inbox.put(Finished(run_id=run_id, state=program.state))


class Voice:
    """An endpoint that takes each approval, and answers it at once."""

    def __init__(self, machine: Machine, inbox: "queue.SimpleQueue[Entry]") -> None:
        self._machine = machine
        self._inbox = inbox
        self.asked: list[AskPeers] = []

    def approve(self, send: Send) -> None:
        self._machine.approvals.append(send.event_id)
        self._inbox.put(ApprovalResult(event_id=send.event_id, consent=Consent.GIVEN))

    def ask(self, asked: AskPeers) -> None:
        self.asked.append(asked)

    def ask_lock(self, asked: TakeLock | ReleaseLock) -> None:
        self._inbox.put(self._machine.ask_lock(asked))

    def ask_gate(self, asked: AskGate) -> None:
        self._inbox.put(GateResponse(number=asked.number, answer=GateAnswer.CLEAR))


class Worker:
    """An agent's main loop on a machine, its turns made by hand."""

    def __init__(
        self,
        policy: Policy,
        machine: Machine,
        journal: object,
        *,
        on_notes: Callable[[Sequence[Note]], None] = lambda _: None,
        name: str = "",
    ) -> None:
        self.machine = machine
        self._began = machine.clock.now()
        self.inbox: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        self.hands = Hands(machine, self.inbox)
        self.voice = Voice(machine, self.inbox)
        self.dispatch: dict[type[Command], Callable[[Any], None]] = {
            Run: self.hands.start,
            Stop: self.hands.stop,
            Tighten: self.hands.tighten,
            Send: self.voice.approve,
            AskPeers: self.voice.ask,
            TakeLock: self.voice.ask_lock,
            ReleaseLock: self.voice.ask_lock,
            AskGate: self.voice.ask_gate,
        }
        self.agent = Agent(
            policy,
            journal=journal,  # pyright: ignore[reportArgumentType]
            dispatch=self.dispatch,
            clock=machine.clock,
            inbox=self.inbox,
            on_notes=on_notes,
            name=name,
        )

    @property
    def memory(self) -> Memory:
        return self.agent.status.memory

    def begin(self) -> None:
        self.agent.begin()

    def turn(self, *inputs: Input | None) -> bool:
        for message in inputs:
            self.inbox.put(message)
        return self.agent.turn()

    def poll(self, *notices: Notice) -> None:
        """Read a document; without notices, what the machine shows."""
        heard = self.machine.clock.now() - self._began
        shown = notices or self.machine.notices
        self.turn(Polled(notices=shown, name=VM, heard=heard))

    def second(self) -> None:
        """Let a second pass, with a poll in it."""
        self.machine.pass_time(SECOND)
        self.hands.look()
        self.poll()
        while not self.inbox.empty():
            self.turn()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the loop wait for nothing: the test says what comes in, and when."""
    monkeypatch.setattr(main_loop, "TURN_SECONDS", 0.0)
