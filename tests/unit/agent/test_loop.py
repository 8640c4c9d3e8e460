"""The main loop: its durable writes, and the failures that it survives."""

import queue
from collections.abc import Sequence
from pathlib import Path

import pytest

from forewarn.agent.agent import WAKE, Agent, Entry, log_note
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Consent,
    Finished,
    Input,
    Memory,
    Note,
    NoteKind,
    Polled,
    Run,
    Send,
    StepState,
    Stop,
    Tighten,
)
from forewarn.agent.core.permits import AskGate, ReleaseLock, TakeLock
from forewarn.agent.core.policy import Policy
from forewarn.agent.foreign import TOLD_CHARACTERS
from forewarn.agent.handlers.secret import read_token
from forewarn.agent.journal.port import JournalError, MemoryJournal
from forewarn.clock import VirtualClock
from forewarn.instants import HOUR, Micros
from tests.unit.agent.core.support import DRAIN, START, notice, policy, started


class SetClock(VirtualClock):
    """A clock that can be set back."""

    behind: Micros = 0

    def now(self) -> Micros:
        """Return what it shows."""
        return super().now() - self.behind


class FullJournal(MemoryJournal):
    """A journal whose disk may be full."""

    is_full = False

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Keep it, or refuse to."""
        if self.is_full:
            raise JournalError("the disk is full", hint="Free some.")
        super().save(memory, notes)


class Loop:
    """A loop whose hands and voice are lists."""

    def __init__(self, settings: Policy) -> None:
        self.clock = SetClock(START)
        self.inbox: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        self.journal = FullJournal()
        self.runs: list[Run] = []
        self.sent: list[str] = []
        self.tightened: list[int] = []
        self.agent = Agent(
            settings,
            journal=self.journal,
            dispatch={
                Run: self.runs.append,
                Tighten: lambda tighten: self.tightened.append(tighten.stop_at),
                Send: lambda send: self.sent.append(send.event_id),
                Stop: self._refuse,
                AskPeers: self._refuse,
                TakeLock: self._refuse,
                ReleaseLock: self._refuse,
                AskGate: self._refuse,
            },
            clock=self.clock,
            inbox=self.inbox,
        )
        self.agent.begin()

    def _refuse(self, command: object) -> None:
        raise AssertionError(command)

    def give(self, *inputs: Input) -> None:
        """Turn with these; without any, as when nothing came in for a second."""
        for message in inputs:
            self.inbox.put(message)
        self.agent.turn()

    def prepare(self) -> None:
        """See an event, and have its preparation end well."""
        self.give(Polled(notices=(notice(),), name="vm1"))
        self.give(Finished(run_id=self.runs[-1].run_id, state=StepState.DONE))


def test_event_is_prepared_and_approved() -> None:
    loop = Loop(policy(DRAIN))
    loop.prepare()
    assert loop.sent == ["E1"]
    assert loop.journal.load() == loop.agent.status.memory


def test_earlier_deadline_reaches_the_running_handler() -> None:
    loop = Loop(policy(DRAIN))
    loop.give(Polled(notices=(notice(),), name="vm1"))
    assert loop.tightened == []
    loop.give(Polled(notices=(started(notice()),), name="vm1"))
    (stop_at,) = loop.tightened
    assert START < stop_at < loop.runs[0].stop_at


def test_agent_continues_on_a_full_disk_and_writes_later() -> None:
    loop = Loop(policy(DRAIN))
    loop.journal.is_full = True
    loop.prepare()
    assert loop.sent == ["E1"]
    assert loop.agent.status.journal_fault == "the disk is full"
    assert loop.journal.history() == []
    loop.journal.is_full = False
    loop.give(ApprovalResult(event_id="E1", consent=Consent.GIVEN))
    assert loop.agent.status.journal_fault == ""
    assert [note.kind.value for note in loop.journal.history()][::-1] == [
        "seen",
        "preparing",
        "handler",
        "prepared",
        "approved",
    ]


def test_clock_step_back_is_detected_without_input() -> None:
    loop = Loop(policy(DRAIN))
    loop.prepare()
    loop.give(ApprovalResult(event_id="E1", consent=Consent.WANTED))
    assert loop.sent == ["E1"]
    loop.clock.behind = HOUR
    # It turns without an input, and then it ends.
    loop.inbox.put(None)
    assert not loop.agent.turn()
    assert loop.sent == ["E1", "E1"]


def test_signal_ends_the_wait_and_is_no_input() -> None:
    loop = Loop(policy(DRAIN))
    loop.inbox.put(WAKE)
    loop.inbox.put(Polled(notices=(notice(),), name="vm1"))
    loop.inbox.put(WAKE)
    assert loop.agent.turn()
    assert [run.handler for run in loop.runs] == [DRAIN.name]
    assert loop.inbox.empty()


@pytest.mark.parametrize(
    ("kind", "ended", "level"),
    [
        (NoteKind.HANDLER, StepState.DONE, "INFO"),
        (NoteKind.HANDLER, StepState.FAILED, "WARNING"),
        (NoteKind.WITHHELD, None, "WARNING"),
        (NoteKind.SEEN, None, "INFO"),
    ],
)
def test_failures_are_logged_at_a_high_level(
    kind: NoteKind,
    ended: StepState | None,
    level: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        log_note(
            Note(
                at=START,
                kind=kind,
                handler="drain",
                detail="failed: so it says",
                ended=ended,
            )
        )
    assert [record.levelname for record in caplog.records] == [level]


@pytest.mark.parametrize(
    ("about", "handler", "line"),
    [
        ("gate", "", "Reboot gate: no usable answer"),
        ("lock", "", "Reboot lock: no usable answer"),
        ("", "drain", "drain: no usable answer"),
    ],
)
def test_log_names_the_failed_handler_or_component_and_not_the_event(
    about: str, handler: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_note(
        Note(
            at=START,
            kind=NoteKind.FAILED,
            handler=handler,
            detail="no usable answer",
            notice=notice(event_type="Reboot"),
            about=about,
        )
    )
    assert [record.getMessage() for record in caplog.records] == [line]
    assert caplog.records[0].levelname == "WARNING"


def test_incoming_texts_are_masked_and_sanitized(tmp_path: Path) -> None:
    """Messages of servers, handlers and programs arrive in one queue."""
    file = tmp_path / "token"
    file.write_text("s3cret-of-a-server")
    token = read_token(str(file))
    loop = Loop(policy(DRAIN))
    loop.give(Polled(notices=(notice(),), name="vm1"))
    text = f"it said\x1b[2J {token}\nERROR forged" + "x" * 9_000
    run = loop.runs[-1].run_id
    loop.give(Finished(run_id=run, state=StepState.FAILED, detail=text))
    shown = str(loop.agent.status.memory) + str(loop.journal.history(limit=9))
    assert "it said (secret) ERROR forged" in shown
    assert token[:8] not in shown
    assert "x" * TOLD_CHARACTERS not in shown
