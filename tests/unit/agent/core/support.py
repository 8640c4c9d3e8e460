"""One agent's decisions on a turned clock, with hands and an endpoint that are lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forewarn.agent.core import decide, steps
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Command,
    Consent,
    Decision,
    Finished,
    Input,
    Memory,
    Note,
    NoteKind,
    Ordered,
    PeerResponse,
    Phase,
    Polled,
    Run,
    Send,
    Stage,
    StepState,
    Stop,
    Task,
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
from forewarn.agent.core.policy import GoneAfter, Handler, Policy, Rule
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.notices import SCHEDULED, STARTED, Notice

START: Micros = 1_772_452_800 * SECOND
"""Noon of Monday, 2 March 2026, UTC."""

WAKES_MAX = 2_000
"""In one `sleep`: more is a busy loop."""

AT_ONCE = GoneAfter(scheduled=0, started=0, empty=0, reset=0)
"""Setting that most stories use: the second answer without an event is believed."""

DRAIN = Handler(name="drain")
FLUSH = Handler(name="flush")


def notice(event_id: str = "E1", **values: Any) -> Notice:
    """Return a reboot of vm1 in a quarter of an hour."""
    values.setdefault("event_type", "Reboot")
    values.setdefault("status", SCHEDULED)
    values.setdefault("source", "Platform")
    values.setdefault("resources", ("vm1",))
    values.setdefault("not_before", START + 15 * MINUTE)
    return Notice(event_id=event_id, **values)


def started(before: Notice) -> Notice:
    """Return the event once its impact has begun."""
    return replace(before, status=STARTED, not_before=None)


def prepare(*groups: tuple[str, ...], **values: Any) -> Rule:
    """Return the rule that prepares everything with these handlers."""
    values.setdefault("name", "rule 1")
    return Rule(groups=groups, **values)


def policy(*handlers: Handler, **values: Any) -> Policy:
    """Return a policy that prepares with each handler, one after the other."""
    groups = tuple((handler.name,) for handler in handlers)
    values.setdefault("rules", (prepare(*groups),))
    return Policy(handlers=handlers, **values)


class Life:
    """A memory that lives on; every decision is checked as it is made."""

    def __init__(
        self,
        settings: Policy,
        *,
        name: str = "vm1",
        memory: Memory | None = None,
        now: Micros = START,
        is_patient: bool = False,
    ) -> None:
        self.is_patient = is_patient
        """The policy's `gone_after` holds; else it is AT_ONCE."""
        self.policy = self._hastened(settings)
        self.name = name
        self.memory = Memory() if memory is None else memory
        self.now = now
        self.began = now
        """When the agent began, and polls with it."""
        self.silence: Micros = 0
        """How long no good answer has come since."""
        self.incarnation: int | None = None
        """The incarnation of the documents."""
        self.wake: Micros | None = None
        self.waits: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.wants_answers = False
        self.runs: list[Run] = []
        """All that were begun, in their order."""
        self.running: dict[str, Run] = {}
        self.stops: list[Stop] = []
        self.sent: list[str] = []
        self.asked: list[AskPeers] = []
        self.lock_asked: list[TakeLock | ReleaseLock] = []
        """All requests about the lock, in their order."""
        self.gate_asked: list[AskGate] = []
        self.notes: list[Note] = []

    def _hastened(self, settings: Policy) -> Policy:
        return settings if self.is_patient else replace(settings, gone_after=AT_ONCE)

    def give(self, *inputs: Input) -> Decision:
        """Decide, carry out, and look whether deciding again is idle."""
        decision = decide.decide(self.policy, self.memory, inputs, self.now)
        self._take(decision)
        again = decide.decide(self.policy, self.memory, (), self.now)
        assert again.commands == ()
        assert again.memory == self.memory
        assert again.notes == ()
        assert self.wake is None or self.wake > self.now
        return decision

    def _take(self, decision: Decision) -> None:
        self.memory = decision.memory
        self.wake = decision.wake
        self.waits = dict(decision.waits)
        self.doubts = dict(decision.doubts)
        self.wants_answers = decision.wants_answers
        self.notes += decision.notes
        for command in decision.commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Run):
            busy = {run.handler for run in self.running.values()}
            assert command.resumes or command.handler not in busy
            assert command.stop_at <= command.kill_at
            self.running[command.run_id] = command
            if not command.resumes:
                assert command.run_id not in {run.run_id for run in self.runs}
                self.runs.append(command)
        elif isinstance(command, Stop):
            assert command.run_id in self.running
            self.stops.append(command)
        elif isinstance(command, Tighten):
            run = self.running[command.run_id]
            assert command.stop_at <= command.kill_at
            assert command.stop_at <= run.stop_at
            assert command.kill_at <= run.kill_at
            self.running[command.run_id] = replace(
                run, stop_at=command.stop_at, kill_at=command.kill_at
            )
        elif isinstance(command, Send):
            self.sent.append(command.event_id)
        elif isinstance(command, AskPeers):
            self.asked.append(command)
        elif isinstance(command, AskGate):
            self.gate_asked.append(command)
        else:
            self.lock_asked.append(command)

    @property
    def heard(self) -> Micros:
        """Time for which the endpoint has answered."""
        return self.now - self.began - self.silence

    def poll(self, *notices: Notice, times: int = 1) -> Decision:
        """Read a document, several times a second apart where told."""
        return self._answered(
            Polled(notices=notices, name=self.name, incarnation=self.incarnation),
            times,
        )

    def poll_empty(self, *, times: int = 1) -> Decision:
        """Read an empty body, several times a second apart where told."""
        return self._answered(Polled(notices=(), name=self.name, is_empty=True), times)

    def _answered(self, polled: Polled, times: int) -> Decision:
        for _ in range(times - 1):
            self.give(replace(polled, heard=self.heard))
            self.now += SECOND
        return self.give(replace(polled, heard=self.heard))

    def be_silent(self, duration: Micros) -> None:
        """Let time pass without a good answer, deciding whenever it is wanted."""
        self.silence += duration
        self.sleep(duration)

    def sleep(self, duration: Micros) -> None:
        """Let time pass, deciding whenever it is wanted."""
        until = self.now + duration
        for _ in range(WAKES_MAX):
            if self.wake is None or self.wake > until:
                self.now = until
                return
            self.now = self.wake
            self.give()
        raise AssertionError("a busy loop")

    def end(
        self, handler: str, state: StepState = StepState.DONE, detail: str = ""
    ) -> Decision:
        """Let the run of a handler end."""
        (run_id,) = (
            run.run_id for run in self.running.values() if run.handler == handler
        )
        del self.running[run_id]
        return self.give(Finished(run_id=run_id, state=state, detail=detail))

    def answer(
        self, consent: Consent = Consent.GIVEN, event_id: str = "E1", **values: Any
    ) -> Decision:
        """Let the endpoint answer an approval."""
        return self.give(ApprovalResult(event_id=event_id, consent=consent, **values))

    def order(self, event_id: str = "E1") -> Decision:
        """Let an operator approve."""
        return self.give(Ordered(event_id=event_id))

    def hear(self, name: str, *, is_prepared: bool, event_id: str = "E1") -> Decision:
        """Let another agent answer."""
        peer_response = PeerResponse(
            event_id=event_id, name=name, is_prepared=is_prepared
        )
        return self.give(peer_response)

    def lock_says(
        self, answer: LockAnswer, *, until: Micros = 0, detail: str = ""
    ) -> Decision:
        """Let the lock's server answer the last request."""
        number = self.lock_asked[-1].number
        return self.give(
            LockResponse(number=number, answer=answer, until=until, detail=detail)
        )

    def gate_says(
        self, answer: GateAnswer, detail: str = "", *, alerts: int = 0
    ) -> Decision:
        """Let the alert server answer the last question."""
        number = self.gate_asked[-1].number
        return self.give(
            GateResponse(number=number, answer=answer, alerts=alerts, detail=detail)
        )

    def restart(self, settings: Policy | None = None) -> Decision:
        """Restart the agent with its memory; runs are resumed."""
        self.policy = self._hastened(settings or self.policy)
        self.running.clear()
        self.began, self.silence = self.now, 0
        decision = decide.resume(self.memory, self.now)
        self._take(decision)
        return decision

    def task(self, event_id: str = "E1") -> Task:
        """Return what is remembered of an event."""
        task = self.memory.find(event_id)
        assert task is not None
        return task

    def stage(self, event_id: str = "E1") -> Stage:
        """Return where an event stands."""
        return self.task(event_id).stage

    def begun(self) -> list[tuple[str, str, str]]:
        """Return event, phase and handler of all runs, in their order."""
        return [
            (run.task.event_id if run.task else "", run.phase.value, run.handler)
            for run in self.runs
        ]

    def told(self, *kinds: NoteKind) -> list[tuple[NoteKind, str]]:
        """Return the notes of some kinds or of all."""
        return [
            (note.kind, note.detail)
            for note in self.notes
            if not kinds or note.kind in kinds
        ]

    def owed(self) -> list[str]:
        """Return what is still to be recovered, of all events."""
        return [name for task in self.memory.tasks for name in steps.unrecovered(task)]


def gone(life: Life, *left: Notice) -> None:
    """Let all other events go, which takes two documents."""
    life.poll(*left, times=2)


PREPARE = Phase.PREPARE.value
RECOVER = Phase.RECOVER.value
