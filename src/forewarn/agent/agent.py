"""The main loop: the one thread that keeps the memory and makes the decisions.

All other threads only put inputs into the inbox. Each iteration does the following, in
this order:

1. It decides about the inputs and the time (`core.decide`). A crash loses the inputs,
   which does no harm: the next poll repeats a document, a run has a record of its end,
   and an approval without an answer is sent again.
2. It makes the decision durable. After a later crash, the next start finds runs that
   are stored as running and have no record: they are `LOST`, and start again.
3. It writes the log, and wakes the delivery of notifications, which are durable.
4. It carries out the commands. A crash during this is like a crash after step 2.

If the journal cannot be written, the agent continues from memory, since preparing for
maintenance is more important than remembering it. The log, the status and `/readyz`
report it. The agent writes everything when the journal works again.

This module does not know how commands are carried out: `Dispatch` has functions for
that.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from forewarn.agent.core import decide
from forewarn.agent.core.model import (
    ApprovalResult,
    Command,
    Decision,
    Finished,
    Input,
    Memory,
    Note,
    NoteKind,
    Ordered,
    StepState,
)
from forewarn.agent.core.permits import GateResponse, LockResponse
from forewarn.agent.core.policy import Policy
from forewarn.agent.foreign import told
from forewarn.agent.journal.port import Journal, JournalError
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent")

TURN_SECONDS = 1.0
"""Maximum time between two iterations of the loop, which check for approval requests
and show that the agent is alive."""

UNSAVED_MAX = 1_000
"""Maximum number of notes kept while the journal cannot be written: about 300 KiB."""

_LOUD = frozenset({NoteKind.WITHHELD, NoteKind.REFUSED, NoteKind.FAILED})


class Wake:
    """Ends the wait of the loop, and says nothing else."""


WAKE = Wake()

Entry = Union[Input, Wake, None]
"""An entry of the inbox; None ends the loop.

Each handler of a signal must put an entry into it. CPython's SimpleQueue waits without end if
a signal interrupts it and the handler returns after the end of the timeout.
"""

Dispatch = Mapping[type[Command], Callable[[Any], None]]
"""Functions that carry out the kinds of commands, without waiting. Commands without a
function are ignored."""


@frozen_dataclass
class AgentStatus(Decision):
    """The status of the agent for other threads; replaced as a whole.

    It is the last decision, without its commands and notes, which are carried out.
    """

    journal_fault: str = ""
    """Why the journal cannot be written; empty: it can."""
    turned: float = 0.0
    """When the loop last ran, in seconds of the monotonic clock."""


class Agent:
    """The main loop of one agent."""

    def __init__(
        self,
        policy: Policy,
        *,
        journal: Journal,
        dispatch: Dispatch,
        clock: Clock,
        inbox: queue.SimpleQueue[Entry],
        on_notes: Callable[[Sequence[Note]], None] = lambda _: None,
        name: str = "",
        journal_fault: str = "",
    ) -> None:
        """Store the parameters. `None` in the inbox ends the loop; `on_notes` gets the
        notes.

        `name` is this VM's name in the settings. `journal_fault` says why the journal
        is in memory only.
        """
        self._policy = policy
        self._journal = journal
        self._dispatch = dispatch
        self._clock = clock
        self._inbox = inbox
        self._on_notes = on_notes
        self._unsaved: list[Note] = []
        """The notes that the journal does not have yet."""
        self._can_read = True
        """The last read of approval requests succeeded."""
        self._is_for_good = not journal_fault
        """The journal survives a restart."""
        self._turned: Micros = 0
        """When the loop last ran, by the system clock, which may be set back."""
        self._saved = Memory()
        memory = journal.load()
        if name and memory.name != name:
            memory = replace(memory, name=name)
        self.status = AgentStatus(memory=memory, journal_fault=journal_fault)

    def begin(self) -> None:
        """Resume the work in progress; called once, before the first iteration."""
        self._apply(decide.resume(self.status.memory, self._clock.now()))

    def turn(self) -> bool:
        """Wait for input and handle it; return False if the agent must end."""
        inputs, is_ending = self._take()
        inputs += [Ordered(event_id=order) for order in self._orders()]
        now = self._clock.now()
        wake = self.status.wake
        # If the clock was set back, planned times are no longer due.
        is_set_back = now < self._turned
        self._turned = now
        is_due = is_set_back or (wake is not None and wake <= now)
        # A change of the memory must be stored even if there is no note about it.
        is_owed = bool(self.status.journal_fault)
        if inputs or is_owed or is_due:
            self._apply(decide.decide(self._policy, self.status.memory, inputs, now))
        self.status = replace(self.status, turned=self._clock.monotonic())
        return not is_ending

    def _take(self) -> tuple[list[Input], bool]:
        """Return the inputs, after waiting for them no longer than until the next
        wake."""
        inputs: list[Input] = []
        timeout = TURN_SECONDS
        if self.status.wake is not None:
            due = (self.status.wake - self._clock.now()) / SECOND
            timeout = min(timeout, max(0.0, due))
        try:
            input_ = self._inbox.get(timeout=timeout)
            while input_ is not None:
                if not isinstance(input_, Wake):
                    inputs.append(_shown(input_))
                input_ = self._inbox.get_nowait()
        except queue.Empty:
            return inputs, False
        return inputs, True

    def _orders(self) -> Sequence[str]:
        try:
            orders = self._journal.take_orders()
        except JournalError as error:
            self._can_read = False
            self._complain(error)
            return ()
        self._can_read = True
        return orders

    def _apply(self, decision: Decision) -> None:
        """Make a decision durable, report it, and carry it out."""
        self._save(decision)
        self.status = replace(
            self.status,
            memory=decision.memory,
            waits=decision.waits,
            doubts=decision.doubts,
            wants_answers=decision.wants_answers,
            wake=decision.wake,
        )
        for note in decision.notes:
            log_note(note)
        if decision.notes:
            self._on_notes(decision.notes)
        for command in decision.commands:
            carry_out = self._dispatch.get(type(command))
            if carry_out is not None:
                carry_out(command)

    def _save(self, decision: Decision) -> None:
        notes = (*self._unsaved, *decision.notes)
        is_same = decision.memory == self._saved and not notes
        if is_same and not self.status.journal_fault:
            return
        try:
            self._journal.save(decision.memory, notes)
        except JournalError as error:
            self._unsaved = list(notes)[-UNSAVED_MAX:]
            self._complain(error)
            return
        self._saved = decision.memory
        self._unsaved = []
        if self.status.journal_fault and self._can_read and self._is_for_good:
            logger.warning("the journal can be written again")
            self.status = replace(self.status, journal_fault="")

    def _complain(self, error: JournalError) -> None:
        if not self.status.journal_fault:
            logger.error("%s; the agent continues without it (%s)", error, error.hint)
        self.status = replace(self.status, journal_fault=error.message)


def _shown(input_: Input) -> Input:
    """Return an input whose detail can be shown, stored and sent.

    All text from servers, handlers and programs enters the loop here. Secrets and
    control characters are removed, and the length is limited.
    """
    if isinstance(input_, (Finished, ApprovalResult, LockResponse, GateResponse)):
        return replace(input_, detail=told(input_.detail))
    return input_


def log_note(note: Note) -> None:
    """Write a log line such as `Reboot withheld: drain failed: exit status 1`."""
    subject = note.handler
    if not subject:
        kind = note.notice.event_type if note.notice else ""
        subject = " ".join(filter(None, (kind, note.about or note.kind.value)))
    fields = {"event": note.event_id, "handler": note.handler}
    is_failure = note.ended is StepState.FAILED
    logger.log(
        logging.WARNING if is_failure or note.kind in _LOUD else logging.INFO,
        "%s",
        ": ".join(filter(None, (subject, note.detail))),
        extra={"fields": {name: text for name, text in fields.items() if text}},
    )
