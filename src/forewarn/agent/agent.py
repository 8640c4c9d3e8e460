"""The main loop: the one thread that remembers, decides and has things done.

Everything else only puts inputs into the inbox. One turn of the loop is, in this order:

1. what came in, and the time, are decided upon (`core.decide`): nothing has happened
   yet, so a crash loses what came in. A document comes again with the next poll; the
   end of a run stands in its record; an approval without an answer is sent again;
2. the decision is made durable. A crash after this finds, at the next start, runs that
   are noted as under way and have no record: they are `LOST`, and begin again;
3. it is told: the log, and what waits to be notified (which is durable already);
4. the commands are carried out. A crash in the midst of them is the same as before.

If the journal cannot be written, the agent goes on from what it knows: to prepare for
maintenance is worth more than to remember it. It says so in the log, the status and
`/readyz`, and writes all of it when it can be written again.

This module must not know how anything is done: that is behind the ports below.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from forewarn.agent.core import decide
from forewarn.agent.core.gate import GateSaid
from forewarn.agent.core.lock import LockSaid
from forewarn.agent.core.model import (
    Answered,
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
from forewarn.agent.core.policy import Policy
from forewarn.agent.foreign import told
from forewarn.agent.journal.port import Journal, JournalError
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent")

TURN_SECONDS = 1.0
"""Between two turns of the loop at most: orders are looked for, and it shows that it
is alive."""

UNSAVED_MAX = 1_000
"""Things told that are kept for a journal that cannot be written: some 300 KiB."""

_LOUD = frozenset({NoteKind.WITHHELD, NoteKind.REFUSED, NoteKind.FAILED})


Dispatch = Mapping[type[Command], Callable[[Any], None]]
"""What carries out each kind of command, and never waits. What is absent is not done."""


@frozen_dataclass
class AgentStatus:
    """How the agent stands, for whoever shows it; replaced as a whole."""

    memory: Memory
    waits: tuple[tuple[str, str], ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    wants_answers: bool = False
    wake: Micros | None = None
    journal_fault: str = ""
    """Why nothing is remembered at present; empty: all of it is."""
    turned: float = 0.0
    """When the loop last turned, in I/O time."""


class Agent:
    """One agent at work."""

    def __init__(
        self,
        policy: Policy,
        *,
        journal: Journal,
        dispatch: Dispatch,
        clock: Clock,
        inbox: queue.SimpleQueue[Input | None],
        on_notes: Callable[[Sequence[Note]], None] = lambda _: None,
        name: str = "",
        journal_fault: str = "",
    ) -> None:
        """Put it together; `None` in the inbox ends it, `on_notes` hears what is told.

        `name` is this VM's, where the settings have it. `journal_fault` says why the
        journal is one that remembers nothing.
        """
        self._policy = policy
        self._journal = journal
        self._dispatch = dispatch
        self._clock = clock
        self._inbox = inbox
        self._on_notes = on_notes
        self._unsaved: list[Note] = []
        """What was told while the journal could not be written."""
        self._can_read = True
        """Orders could be read when they were last looked for."""
        self._is_for_good = not journal_fault
        """What is saved is there after a restart."""
        self._turned: Micros = 0
        """When the loop last turned, by the machine's clock: it may be set back."""
        self._saved = Memory()
        memory = journal.load()
        if name and memory.name != name:
            memory = replace(memory, name=name)
        self.standing = AgentStatus(memory=memory, journal_fault=journal_fault)

    def begin(self) -> None:
        """Take up what was under way; call it once, before the first turn."""
        self._apply(decide.resume(self.standing.memory, self._clock.now()))

    def turn(self) -> bool:
        """Wait for something to do, and do it; False: the agent is to end."""
        inputs, is_ending = self._take()
        inputs += [Ordered(event_id=each) for each in self._orders()]
        now = self._clock.now()
        wake = self.standing.wake
        # What was to come at some time is no longer due then.
        is_set_back = now < self._turned
        self._turned = now
        is_due = is_set_back or (wake is not None and wake <= now)
        # Not only what is told: a change that nobody hears of is to be kept, too.
        is_owed = bool(self.standing.journal_fault)
        if inputs or is_owed or is_due:
            memory = self.standing.memory
            self._apply(decide.decide(self._policy, memory, inputs, now))
        self.standing = replace(self.standing, turned=self._clock.monotonic())
        return not is_ending

    def _take(self) -> tuple[list[Input], bool]:
        """Return what has come in, after waiting for it no longer than may be."""
        inputs: list[Input] = []
        timeout = TURN_SECONDS
        if self.standing.wake is not None:
            due = (self.standing.wake - self._clock.now()) / SECOND
            timeout = min(timeout, max(0.0, due))
        try:
            given = self._inbox.get(timeout=timeout)
            while given is not None:
                inputs.append(_shown(given))
                given = self._inbox.get_nowait()
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
        """Make a decision durable, tell of it, and have it carried out."""
        self._save(decision)
        self.standing = replace(
            self.standing,
            memory=decision.memory,
            waits=decision.waits,
            doubts=decision.doubts,
            wants_answers=decision.wants_answers,
            wake=decision.wake,
        )
        for note in decision.notes:
            tell(note)
        if decision.notes:
            self._on_notes(decision.notes)
        for command in decision.commands:
            carry_out = self._dispatch.get(type(command))
            if carry_out is not None:
                carry_out(command)

    def _save(self, decision: Decision) -> None:
        notes = (*self._unsaved, *decision.notes)
        is_same = decision.memory == self._saved and not notes
        if is_same and not self.standing.journal_fault:
            return
        try:
            self._journal.save(decision.memory, notes)
        except JournalError as error:
            self._unsaved = list(notes)[-UNSAVED_MAX:]
            self._complain(error)
            return
        self._saved = decision.memory
        self._unsaved = []
        if self.standing.journal_fault and self._can_read and self._is_for_good:
            logger.warning("the journal can be written again")
            self.standing = replace(self.standing, journal_fault="")

    def _complain(self, error: JournalError) -> None:
        if not self.standing.journal_fault:
            logger.error("%s; the agent goes on without it (%s)", error, error.hint)
        self.standing = replace(self.standing, journal_fault=error.message)


def _shown(given: Input) -> Input:
    """Return an input with a detail that may be shown, kept and sent on.

    Every text of a server, a handler or a program that the agent goes by comes in here:
    from now on it has no secret, no control character and a bounded length.
    """
    if isinstance(given, (Finished, Answered, LockSaid, GateSaid)):
        detail = told(given.detail)
        if detail != given.detail:
            return replace(given, detail=detail)
    return given


def tell(note: Note) -> None:
    """Write a line to the log: `Reboot withheld: drain failed: exit status 1`."""
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
