"""What the agent remembers of an event, and what it may be told to do.

Frozen values: the journal keeps `Task`s as they are, and the shell carries `Command`s
out. Nothing here decides. Pure.
"""

from __future__ import annotations

import enum
from dataclasses import field, replace
from typing import Union

from forewarn.agent.core.gate import NO_GATE, AskGate, Gate, GateSaid
from forewarn.agent.core.lock import NO_LOCK, Lock, LockSaid, ReleaseLock, TakeLock
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Notice


class Phase(enum.Enum):
    """Which side of an event a handler works on."""

    PREPARE = "prepare"
    RECOVER = "recover"


class StepState(enum.Enum):
    """How one run of a handler stands."""

    RUNNING = "running"
    """Begun, or about to be: it is written down before the process exists."""
    DONE = "done"
    FAILED = "failed"
    """It ended badly, also because its time was up."""
    STOPPED = "stopped"
    """It was ended since its event went, or gave way; no fault of its own."""
    LOST = "lost"
    """The agent or the VM went down, and nobody knows how it ended."""


class Stage(enum.Enum):
    """Where a task stands; only `table` changes it."""

    SEEN = "seen"
    """Nothing was begun: it waits for its time, or there is nothing to do."""
    PREPARING = "preparing"
    PREPARED = "prepared"
    WITHHELD = "withheld"
    """What is required of the preparation failed: no approval."""
    RECOVERING = "recovering"
    """The event is gone, and its recovery is not done."""
    FINISHED = "finished"
    """Gone, and nothing is owed."""


class Presence(enum.Enum):
    """Whether the event is still there; only `presence` changes it."""

    LISTED = "listed"
    """The last document lists it."""
    MISSING = "missing"
    """Newer documents do not list it, not for long enough yet."""
    EMPTY = "empty"
    """The endpoint answers with an empty body, not for long enough yet."""
    RESET = "reset"
    """Documents that do not follow the last one do not list it, not for long enough
    yet."""
    GONE = "gone"
    """It is believed to be gone."""
    RETURNING = "returning"
    """It was gone, and one document lists it again."""


class Consent(enum.Enum):
    """How this agent's approval of an event stands."""

    NONE = "none"
    WANTED = "wanted"
    """It is being sent, or was and nobody answered."""
    GIVEN = "given"
    """The endpoint took it."""
    REFUSED = "refused"
    """The endpoint has refused it so often that it is not sent again."""


@frozen_dataclass
class Step:
    """One run of a handler for an event."""

    handler: str
    phase: Phase
    round: int = 1
    """The round of its task in which it began."""
    attempt: int
    """From 1 on, in its round."""
    state: StepState
    began: Micros
    stop_at: Micros
    """When it is asked to stop: the deadline that it is told."""
    kill_at: Micros
    ended: Micros = 0
    detail: str = ""
    """Why it failed, for a person."""
    kind: str = ""
    """What kind of handler it was; empty: not known."""


@frozen_dataclass
class Task:
    """One event, and what was done about it."""

    event_id: str
    """In upper case, as IDs are compared (clause 2.3)."""
    runs: str = ""
    """What the names of its runs begin with: unique in all journals of this VM. Empty:
    its EventId, as in journals of older versions."""
    round: int = 1
    """Raised when an event comes back after it had gone."""
    notice: Notice
    """As last seen; Started never falls back to Scheduled."""
    mine: bool
    """Whether it named this VM."""
    is_confirmed: bool = True
    """A document has shown it since the agent began; before that it may have gone."""
    rule: str = ""
    """The rule that decided; empty: none matches."""
    rule_sum: int = 0
    """What the rule said when preparation began (`rules.sum_of`); 0: it has not."""
    required: tuple[str, ...] = ()
    """The handlers that were required then: an edit of the settings excuses none."""
    stage: Stage = Stage.SEEN
    seen: Micros = 0
    started: Micros = 0
    """When it was first seen Started; 0: not yet."""
    gone: Micros = 0
    over: Micros = 0
    presence: Presence = Presence.LISTED
    incarnation: int | None = None
    """Of the last document that listed it; None: it had none."""
    absent_at: Micros = 0
    """Since when answers have been without it; 0: they are not."""
    absent_from: Micros = 0
    """The same, counted as `Polled.heard` counts."""
    steps: tuple[Step, ...] = ()
    begun: Micros = 0
    """When its preparation began; 0: not yet."""
    prepared: Micros = 0
    """When there was nothing left to prepare."""
    withheld: str = ""
    """Why there is no approval, for a person; empty: nothing stands in its way."""
    consent: Consent = Consent.NONE
    tries: int = 0
    """How often the approval was sent."""
    asked: Micros = 0
    """When it was last sent."""
    retry_at: Micros = 0
    """When to send it again, where nobody answered."""
    refusals: int = 0
    """How often the endpoint has refused it."""
    troubles: tuple[str, ...] = ()
    """Why nobody knows whether it was taken, as was told; each is told once."""
    is_forced: bool = False
    """An operator has ordered to approve it now."""
    needs_lock: bool = False
    """It waits for the lock that limits approvals, or was approved under it."""
    peers_asked: Micros = 0
    """When they were last asked; 0: not yet by this agent."""
    peers_from: Micros = 0
    """When this agent began to ask them."""
    peers_ready: tuple[str, ...] = ()
    """Named VMs whose agents say that they are prepared, by `names.key_of`."""
    peers_alive: tuple[tuple[str, Micros], ...] = ()
    """When each other named VM's agent last answered, by the same."""

    @property
    def is_live(self) -> bool:
        """Tell whether the event is there still, as far as is known."""
        return self.stage not in {Stage.RECOVERING, Stage.FINISHED}

    def latest(self, handler: str, phase: Phase) -> Step | None:
        """Return the last run of a handler in a phase of this round; None: none."""
        for step in reversed(self.steps):
            if (step.handler, step.phase) == (handler, phase):
                return step if step.round == self.round else None
        return None


@frozen_dataclass
class Memory:
    """Everything that decisions remember; the journal keeps it."""

    tasks: tuple[Task, ...] = ()
    """In the order in which they were first seen."""
    name: str = ""
    """This VM's name in Resources; empty: not known yet."""
    has_polled: bool = False
    """A good document was read since the start."""
    lost_journal: bool = False
    """The journal was empty at the start: what is `always` is owed."""
    restored: tuple[Step, ...] = ()
    """The recoveries that were run for that reason."""
    quiet_from: Micros | None = None
    """With a lost journal: since when answers have shown no event that this VM may be
    under, counted as `Polled.heard` counts; None: the last one did, or there was
    none."""
    is_quiet: bool = False
    """With a lost journal: they have for long enough, and what is `always` may run."""
    journal: str = ""
    """A random name of the journal, so that runs of another are told apart."""
    tasks_made: int = 0
    """Tasks ever made in this journal."""
    lock: Lock = NO_LOCK
    """The lock that limits approvals, where the settings have one."""
    gate: Gate = NO_GATE
    """What the alert server said. No journal keeps it."""

    def find(self, event_id: str) -> Task | None:
        """Return the task of an event."""
        for task in self.tasks:
            if task.event_id == event_id:
                return task
        return None

    def put(self, task: Task) -> Memory:
        """Return the memory with another state of a task that it has."""
        return replace(
            self,
            tasks=tuple(
                task if other.event_id == task.event_id else other
                for other in self.tasks
            ),
        )


# What is to be done.


@frozen_dataclass
class Run:
    """Start a handler; its end comes back as `Finished`."""

    run_id: str
    """Unique in the life of the journal; safe as a file's name."""
    handler: str
    phase: Phase
    attempt: int
    task: Task | None
    """The event it is for; None: recovery after a lost journal."""
    stop_at: Micros
    kill_at: Micros
    is_again: bool = False
    """It was begun before the agent was: it is to be watched on, and is `LOST` if it
    is not there any more. It is not begun anew."""


@frozen_dataclass
class Stop:
    """Ask a running handler to stop now, and kill it after the grace."""

    run_id: str
    kill_at: Micros


@frozen_dataclass
class Tighten:
    """Give a running handler less time: it ends as one whose time was up."""

    run_id: str
    stop_at: Micros
    kill_at: Micros


@frozen_dataclass
class Send:
    """Send one approval; its end comes back as `Answered`."""

    event_id: str
    attempt: int


@frozen_dataclass
class AskPeers:
    """Ask the agents of the other named VMs how they stand; see `PeerSaid`."""

    event_id: str
    names: tuple[str, ...]


Command = Union[Run, Stop, Tighten, Send, AskPeers, TakeLock, ReleaseLock, AskGate]


class NoteKind(enum.Enum):
    """What happened, as notifications and the history call it."""

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
    """Something that should have worked did not; the detail says what."""
    LOCK = "lock"
    """The lock that limits approvals: waited for, taken, not had in time, released."""
    GATE = "gate"
    """The gate on active alerts: alerts fire, none fires any more, and an approval that
    was given up at NotBefore."""


@frozen_dataclass
class Note:
    """One thing to tell: to the log, the history, and whoever wants to hear."""

    at: Micros
    kind: NoteKind
    event_id: str = ""
    handler: str = ""
    detail: str = ""
    ended: StepState | None = None
    """How the run of a handler ended; None: it is about no such end."""
    notice: Notice | None = None
    """The event as it was then."""
    about: str = ""
    """What failed, where that is no handler: `gate`, `lock`, `approval` or
    `preparation`. The event itself never is."""


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
    """Return a note about an event, or about none."""
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
class Change:
    """What one part of a decision makes of the memory."""

    memory: Memory
    commands: tuple[Command, ...] = ()
    notes: tuple[Note, ...] = ()
    wake: Micros | None = None


# What can come in, besides time.


@frozen_dataclass
class Polled:
    """The endpoint gave a good answer: a document, or 200 with an empty body."""

    notices: tuple[Notice, ...]
    name: str = ""
    """The VM's name; empty: not known."""
    incarnation: int | None = None
    """None: the document has none."""
    is_partial: bool = False
    """An entry could not be read: that an event is not listed says nothing."""
    vague: frozenset[str] = frozenset()
    """The events of which it is not known which VMs they name."""
    is_empty: bool = False
    """There was no document, only an empty body."""
    heard: Micros = 0
    """For how long the endpoint has answered since the agent began. It does not grow
    while answers fail or do not come."""


@frozen_dataclass
class Finished:
    """A run ended."""

    run_id: str
    state: StepState
    detail: str = ""


@frozen_dataclass
class Answered:
    """What became of an approval that was sent."""

    event_id: str
    consent: Consent
    """GIVEN, REFUSED, or WANTED where nobody answered."""
    retry_after: Micros = 0
    """What the endpoint asked to wait, where it did."""
    detail: str = ""


@frozen_dataclass
class PeerSaid:
    """How the agent of another named VM stands with an event."""

    event_id: str
    name: str
    is_prepared: bool


@frozen_dataclass
class Ordered:
    """An operator orders to approve an event now, whatever stands in the way."""

    event_id: str


Input = Union[Polled, Finished, Answered, PeerSaid, LockSaid, GateSaid, Ordered]


@frozen_dataclass
class Decision:
    """What follows: the memory to be made durable, and then what to do."""

    memory: Memory
    commands: tuple[Command, ...] = ()
    notes: tuple[Note, ...] = ()
    wake: Micros | None = None
    """When to decide again although nothing comes in; None: never."""
    waits: tuple[tuple[str, str], ...] = field(default=())
    """Of each event that is not approved yet: why, as `agent status` shows it."""
    doubts: tuple[tuple[str, str], ...] = field(default=())
    """Of each event that may be gone, or back: why that is not believed yet."""
    wants_answers: bool = False
    """The next answer is wanted even if it says what the last one said."""
