"""The agent's memory of events, its inputs and its commands.

All of them are frozen values. The journal stores `Task` values as they are, and the
main loop carries out `Command` values. This module makes no decisions. Pure.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Union

from forewarn.agent.core.permits import (
    NO_GATE,
    NO_LOCK,
    AskGate,
    Gate,
    GateResponse,
    Lock,
    LockResponse,
    ReleaseLock,
    TakeLock,
)
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Notice, Reading


class Phase(enum.Enum):
    """The purpose of a run: before the event or after it."""

    PREPARE = "prepare"
    RECOVER = "recover"


class StepState(enum.Enum):
    """The state of one run of a handler."""

    RUNNING = "running"
    """Started, or about to be: this is stored before the process exists."""
    DONE = "done"
    FAILED = "failed"
    """The run failed or timed out."""
    STOPPED = "stopped"
    """The agent stopped the run: its event ended, or another event needed the
    handler."""
    LOST = "lost"
    """The agent or the VM stopped during the run, so its result is unknown."""


class Stage(enum.Enum):
    """The stage of a task; only `table` changes it."""

    SEEN = "seen"
    """Nothing has started: the task waits for its time, or there is nothing to do."""
    PREPARING = "preparing"
    PREPARED = "prepared"
    WITHHELD = "withheld"
    """A required preparation failed, so the event is not approved."""
    RECOVERING = "recovering"
    """The event ended, and its recovery is not complete."""
    FINISHED = "finished"
    """The event ended, and no recovery is pending."""


class Presence(enum.Enum):
    """Whether the event still exists; only `presence` changes it."""

    LISTED = "listed"
    """The last document lists the event."""
    MISSING = "missing"
    """Newer documents do not list the event, but not for long enough yet."""
    EMPTY = "empty"
    """The endpoint answers with an empty body, but not for long enough yet."""
    RESET = "reset"
    """The incarnation was reset and no document lists the event, but not for long
    enough yet."""
    GONE = "gone"
    """The agent treats the event as ended."""
    RETURNING = "returning"
    """The agent treated the event as ended, and then one document listed it again."""


class Consent(enum.Enum):
    """The state of this agent's approval of an event."""

    NONE = "none"
    WANTED = "wanted"
    """The approval is being sent, or was sent and not confirmed."""
    GIVEN = "given"
    """The endpoint accepted the approval."""
    REFUSED = "refused"
    """The endpoint refused the approval so often that the agent stopped sending it."""


@frozen_dataclass
class Step:
    """One run of a handler for an event."""

    handler: str
    phase: Phase
    round: int = 1
    """The round of the task in which the run started."""
    attempt: int
    """Counts from 1 in each round."""
    state: StepState
    began: Micros
    stop_at: Micros
    """When the handler is asked to stop: the deadline that it receives."""
    kill_at: Micros
    ended: Micros = 0
    detail: str = ""
    """The reason for a failure, for a person."""
    kind: str = ""
    """The kind of the handler at the time of the run; empty: unknown."""


@frozen_dataclass
class Task:
    """One event, and the work that was done for it."""

    event_id: str
    """The EventId in upper case, because IDs are compared without case (clause 2.3)."""
    runs: str = ""
    """Prefix of the names of its runs, unique in all journals of this VM. Empty: the
    EventId is the prefix, as in journals of older versions."""
    round: int = 1
    """Increases when the event returns after it had ended."""
    notice: Notice
    """The last notice seen; Started never falls back to Scheduled."""
    mine: bool
    """Whether the event names or named this VM."""
    is_confirmed: bool = True
    """Whether a document has listed the event since the agent started."""
    rule: str = ""
    """The name of the rule that decided; empty: no rule matches."""
    rule_sum: int = 0
    """Checksum of the rule when preparation began (`rules.sum_of`); 0: not begun."""
    required: tuple[str, ...] = ()
    """The handlers that were required then. A change of the settings removes none."""
    stage: Stage = Stage.SEEN
    seen: Micros = 0
    started: Micros = 0
    """When the event was first seen as Started; 0: not yet."""
    gone: Micros = 0
    over: Micros = 0
    presence: Presence = Presence.LISTED
    incarnation: int | None = None
    """The incarnation of the last document that listed the event; None: the document
    had none."""
    absent_at: Micros = 0
    """Since when answers have not listed the event; 0: they list it."""
    absent_from: Micros = 0
    """The instant of `absent_at` on the scale of `Polled.heard`."""
    steps: tuple[Step, ...] = ()
    begun: Micros = 0
    """When the preparation for the event began; 0: not yet."""
    prepared: Micros = 0
    """When preparation was complete."""
    withheld: str = ""
    """Why the approval is withheld, for a person; empty: it is not withheld."""
    consent: Consent = Consent.NONE
    tries: int = 0
    """How often the approval was sent."""
    asked: Micros = 0
    """When the approval was last sent."""
    retry_at: Micros = 0
    """When to send the approval again if it is not confirmed."""
    refusals: int = 0
    """How often the endpoint has refused the approval."""
    troubles: tuple[str, ...] = ()
    """Reasons for failed approvals that were already logged; each is logged once."""
    is_forced: bool = False
    """An operator requested the approval."""
    needs_lock: bool = False
    """Whether the event waits for the lock, or was approved under it."""
    peers_asked: Micros = 0
    """When the peers were last asked; 0: not yet by this agent."""
    peers_from: Micros = 0
    """When this agent first asked the peers."""
    peers_ready: tuple[str, ...] = ()
    """The named VMs whose agents report that they are prepared (`names.key_of`)."""
    peers_alive: tuple[tuple[str, Micros], ...] = ()
    """When the agent of each other named VM last answered (`names.key_of`)."""

    @property
    def is_live(self) -> bool:
        """Return whether the event still exists, as far as the agent knows."""
        return self.stage not in {Stage.RECOVERING, Stage.FINISHED}

    def latest(self, handler: str, phase: Phase) -> Step | None:
        """Return the last run of a handler in a phase of this round, or None."""
        for step in reversed(self.steps):
            if (step.handler, step.phase) == (handler, phase):
                return step if step.round == self.round else None
        return None


@frozen_dataclass
class Memory:
    """Everything that decisions depend on, except the policy. The journal stores it."""

    tasks: tuple[Task, ...] = ()
    """The tasks, in the order in which their events were first seen."""
    name: str = ""
    """This VM's name in Resources; empty: not yet known."""
    has_polled: bool = False
    """A valid document was read since the start."""
    lost_journal: bool = False
    """The journal was empty at the start, so `always` handlers must recover once."""
    restored: tuple[Step, ...] = ()
    """The recoveries that ran for that reason."""
    quiet_from: Micros | None = None
    """With a lost journal: since when answers have listed no event that may affect
    this VM, on the scale of `Polled.heard`. None: the last answer listed one, or there
    was no answer."""
    is_quiet: bool = False
    """With a lost journal: whether `quiet_from` was long enough ago, so that `always`
    recoveries may run."""
    journal: str = ""
    """A random name of the journal, which tells its runs from those of others."""
    tasks_made: int = 0
    """The number of tasks ever created in this journal."""
    lock: Lock = NO_LOCK
    """The lock that limits approvals, if the settings have one."""
    gate: Gate = NO_GATE
    """The last answer of the alert server. It is not stored in the journal."""

    def find(self, event_id: str) -> Task | None:
        """Return the task of an event."""
        return next((task for task in self.tasks if task.event_id == event_id), None)

    def put(self, task: Task) -> Memory:
        """Return the memory with a new state of one of its tasks."""
        return replace(
            self,
            tasks=tuple(
                task if other.event_id == task.event_id else other
                for other in self.tasks
            ),
        )


# Commands.


@frozen_dataclass
class Run:
    """Start a handler; its result comes back as `Finished`."""

    run_id: str
    """Unique for the journal, and safe as a file name."""
    handler: str
    phase: Phase
    attempt: int
    task: Task | None
    """The event of the run; None: recovery after a lost journal."""
    stop_at: Micros
    kill_at: Micros
    resumes: bool = False
    """The run started before this agent did. It is watched but never started again. If
    it no longer exists, it ends as `LOST`."""


@frozen_dataclass
class Stop:
    """Ask a running handler to stop now, and kill it after the grace period."""

    run_id: str
    kill_at: Micros


@frozen_dataclass
class Tighten:
    """Give a running handler an earlier deadline, after which it times out."""

    run_id: str
    stop_at: Micros
    kill_at: Micros


@frozen_dataclass
class Send:
    """Send one approval; its result comes back as `ApprovalResult`."""

    event_id: str
    attempt: int


@frozen_dataclass
class AskPeers:
    """Ask the agents of the other named VMs for their state; see `PeerResponse`."""

    event_id: str
    names: tuple[str, ...]


Command = Union[Run, Stop, Tighten, Send, AskPeers, TakeLock, ReleaseLock, AskGate]


class NoteKind(enum.Enum):
    """The kinds of history entries and notifications."""

    SEEN = "seen"
    PREPARING = "preparing"
    HANDLER = "handler"
    """A run of a handler ended."""
    PREPARED = "prepared"
    WITHHELD = "withheld"
    APPROVED = "approved"
    REFUSED = "refused"
    STARTED = "started"
    CANCELLED = "cancelled"
    GONE = "gone"
    RECOVERING = "recovering"
    RECOVERED = "recovered"
    FAILED = "failed"
    """Something failed that should have worked; the detail names it."""
    LOCK = "lock"
    """The lock that limits approvals: waiting, taken, not granted in time, released."""
    GATE = "gate"
    """The gate on active alerts: alerts fire, no alert fires any longer, or NotBefore
    came while an approval was held back."""


@frozen_dataclass
class Note:
    """One entry for the log, the history and the receivers of notifications."""

    at: Micros
    kind: NoteKind
    event_id: str = ""
    handler: str = ""
    detail: str = ""
    ended: StepState | None = None
    """The result of a handler's run; None: the note is not about one."""
    notice: Notice | None = None
    """The event at that time."""
    about: str = ""
    """The part that failed, unless it is a handler: `gate`, `lock`, `approval` or
    `preparation`."""


def note_of(
    task: Task | None,
    kind: NoteKind,
    now: Micros,
    detail: str = "",
    *,
    handler: str = "",
    ended: StepState | None = None,
    about: str = "",
) -> Note:
    """Return a note, about an event if `task` is given."""
    return Note(
        at=now,
        kind=kind,
        event_id=task.event_id if task else "",
        handler=handler,
        detail=detail,
        ended=ended,
        notice=task.notice if task else None,
        about=about,
    )


@frozen_dataclass
class Part:
    """The commands and notes of one part of a decision."""

    commands: tuple[Command, ...] = ()
    notes: tuple[Note, ...] = ()
    wake: Micros | None = None
    """When to decide again even if there is no input; None: never."""


@frozen_dataclass
class Change(Part):
    """A part of a decision that changes the memory."""

    memory: Memory


# Inputs.


@frozen_dataclass
class Polled(Reading):
    """A valid answer of the endpoint: a document, or 200 with an empty body."""

    name: str = ""
    """The VM's name; empty: unknown."""
    heard: Micros = 0
    """How long the endpoint has answered since the agent started. It does not increase
    while answers fail or are missing."""


@frozen_dataclass
class Finished:
    """A run ended."""

    run_id: str
    state: StepState
    detail: str = ""


@frozen_dataclass
class ApprovalResult:
    """The result of sending an approval."""

    event_id: str
    consent: Consent
    """GIVEN, REFUSED, or WANTED if there was no usable answer."""
    retry_after: Micros = 0
    """The pause that the endpoint asked for; 0: it asked for none."""
    detail: str = ""


@frozen_dataclass
class PeerResponse:
    """The answer of another named VM's agent about an event."""

    event_id: str
    name: str
    is_prepared: bool


@frozen_dataclass
class Ordered:
    """An operator's request to approve an event now, whatever else delays it."""

    event_id: str


Input = Union[
    Polled, Finished, ApprovalResult, PeerResponse, LockResponse, GateResponse, Ordered
]


@frozen_dataclass
class Decision(Change):
    """A decision: the memory to store, and then the commands to carry out."""

    waits: tuple[tuple[str, str], ...] = ()
    """The events that are not yet approved, each with the reason for `agent status`."""
    doubts: tuple[tuple[str, str], ...] = ()
    """The events that may have ended or returned, each with the reason for doubt."""
    wants_answers: bool = False
    """The next answer is needed even if it is the same as the last one."""
