"""A scenario as values: a fleet, settings, steps with their times, and verdicts.

Durations are as in the file. The runner divides the times of the platform by the speed,
but not the times of clients or DurationInSeconds.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn.drivers.port import StopCause
from forewarn.instants import SECOND, Micros, describe_duration
from forewarn.protocol.events import EventStatus
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.staged import Staged, Stop
from forewarn.verbs.model import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A verb of the command line, with its targets and options."""

    verb: str
    targets: tuple[str, ...]
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Values by the keys of the arguments; a moment is relative to the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """An injected event."""

    wanted: Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOn:
    """A move of the operations behind an event to a state."""

    event: str
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """A cancellation of operations that have not started."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """An approval by the operator, or on behalf of a VM."""

    event: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class See:
    """An unrequested change of VMs that the simulated driver reports."""

    vms: tuple[str, ...]
    is_running: bool
    host: str = ""
    """The host that they are on; empty: not told."""
    cause: StopCause = StopCause.FAILED
    """Why VMs that do not run stopped."""
    text: str = ""
    """Text for the history."""

    @property
    def fails(self) -> bool:
        """Return whether the VMs fail when the change is confirmed."""
        return not self.is_running and self.cause is StopCause.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class ForVms:
    """An action of the simulation for some VMs.

    `withhold` withholds their approvals from now on, and `release` releases them.
    `disable` disables Scheduled Events for them, as after a day of silence (7.3).
    `clear-faults` clears the faults of their answers.
    """

    what: str
    vms: tuple[str, ...]
    """The VMs. Empty means all VMs, and is only valid for `clear-faults`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A jump in time."""

    by: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFaults:
    """Faults of answers from now on."""

    words: str
    """The line in the file."""
    playbook: Playbook


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A sentence to print."""

    text: str


class Wanted(enum.Enum):
    """The kinds of expectations; the values are keys of a file."""

    APPROVED = "approved"
    APPROVED_BY = "approved_by"
    NOT_APPROVED = "not_approved"
    SEEN_BY = "seen_by"
    POLLED_BY = "polled_by"
    NO_DEVIATION = "no_deviation"
    STATUS = "status"
    RECOVERED = "recovered"
    SHOWN_TO = "shown_to"
    HIDDEN_FROM = "hidden_from"


OF_CLIENTS = frozenset(
    {
        Wanted.APPROVED,
        Wanted.APPROVED_BY,
        Wanted.NOT_APPROVED,
        Wanted.SEEN_BY,
        Wanted.POLLED_BY,
        Wanted.NO_DEVIATION,
    }
)
"""Expectations on clients. A client uses its own clock, so the speed does not apply."""


class Expected(enum.Enum):
    """The demands on clients; the values are those of `--expect`."""

    SCENARIO = "scenario"
    """The expectations of the scenario."""
    ASKED = "asked"
    """Clients ask for their events."""
    APPROVED = "approved"
    """Clients ask, and approve in time each event that names them."""
    NONE = "none"
    """No expectation is judged."""


class Demand(enum.Enum):
    """A demand on a client for a whole scenario; the values are keys of a file."""

    ASKS = "asks"
    APPROVES = "approves"
    SEES = "sees"
    IGNORES_OTHERS = "ignores_others"
    COMES_BACK = "comes_back"


OTHERS = "*"
"""Stands for each VM that has no `[[client]]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The demands on the program in a VM during a scenario.

    The client must always ask for its events.
    """

    vm: str
    """Name of the VM, or OTHERS, which is always optional."""
    line: int = 0
    """Line in the file, counted from 1; 0: not in the file."""
    is_optional: bool = False
    """Whether the client is judged only if it asks, and only by events that are created
    after that."""
    approves: bool = False
    """Whether the client must approve each event that names its VM, before
    NotBefore."""
    sees: EventStatus | None = None
    """The client must see an event that names its VM in this status."""
    ignores_others: bool = False
    """Whether the client must not approve an event that does not name its VM."""
    comes_back: Micros = 0
    """Maximum time until it asks again after its last event is removed; 0: no demand."""


class EventPhase(enum.Enum):
    """The phase of an event."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    REMOVED = "Removed"
    CANCELLED = "Cancelled"
    """Removed before it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An expectation that must be met within a time."""

    wanted: Wanted
    within: Micros
    vms: tuple[str, ...] = ()
    """The VMs; empty: any VM, or all VMs that the event names."""
    event: str = ""
    """The name of the step that created the events; empty: none."""
    phase: EventPhase | None = None
    """The phase to reach, with `status`."""
    status: EventStatus | None = None
    """The status that the VM must see, with `seen_by`; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """A step that waits until an expectation is decided."""

    expectation: Expectation


Act: TypeAlias = (
    Order
    | Publish
    | MoveOn
    | Cancel
    | Approve
    | See
    | ForVms
    | Jump
    | SetFaults
    | Say
    | Expect
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step: its time and its action."""

    line: int
    """Line in the file, counted from 1."""
    act: Act
    at: Micros | None = None
    """Time from the start of the scenario; None: `after` the previous step."""
    after: Micros = 0
    """Time from the end of the previous step."""
    may_be_refused: bool = False
    """A refusal is reported and does not fail the scenario."""
    name: str = ""
    """The name of its events for later steps; empty if it creates no event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The fleet of a scenario."""

    vms: int | None = None
    """Number of VMs in the default fleet; None: the runner decides."""
    together: bool = False
    """Whether all VMs of the default fleet are on one host."""
    text: str = ""
    """A fleet file; empty: the default fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An alias of a scenario, which may set the speed."""

    name: str
    speed: float | None = None
    """None: the default speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fleet, settings, steps and expectations."""

    name: str
    file: str
    """Name of the scenario's file, for messages."""
    description: str
    steps: tuple[Step, ...]
    clients: tuple[Client, ...] = ()
    """Empty: a request for any VM that an event names is enough."""
    aliases: tuple[Alias, ...] = ()
    fleet: Fleet = field(default_factory=Fleet)
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings by full name, such as `timing.recovery`, in the form of flags."""
    speed: float | None = None
    """Speed of the alias that selected it; None: not set."""
    own_speed: float | None = None
    """Default speed from its file, on the machine's clock; None: not set."""


EXACT_BELOW: Micros = 10 * SECOND
"""Shorter times are shown in tenths of a second."""


class Outcome(enum.Enum):
    """The outcome of an expectation or of a scenario."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The demand could not be checked: a step was refused, or no client asked."""
    SKIPPED = "skipped"
    """The demand was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of an expectation, or a refused step."""

    line: int
    """Line of the step or client in the scenario file; 0: not in the file."""
    what: str
    """The step or the demand, as text."""
    outcome: Outcome
    sentence: str
    is_of_client: bool = False
    """Whether the finding depends on a client."""
    at: Micros = 0
    """Time from the start of the scenario."""
    took: Micros = 0
    """How long the runner waited for the expected action."""

    @property
    def passed(self) -> bool:
        """Return whether the expectation was met."""
        return self.outcome is Outcome.PASSED

    @property
    def failed(self) -> bool:
        """Return whether the finding fails the scenario."""
        return self.outcome in {Outcome.FAILED, Outcome.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision about an expectation."""

    outcome: Outcome
    sentence: str

    def about(
        self, subject: str, *, line: int = 0, is_of_client: bool = True
    ) -> Finding:
        """Return a finding about `subject`, at a line of the file."""
        return Finding(
            line=line,
            what=subject,
            outcome=self.outcome,
            sentence=self.sentence,
            is_of_client=is_of_client,
        )


def good(sentence: str) -> Verdict:
    """Return a verdict: the demand was met."""
    return Verdict(outcome=Outcome.PASSED, sentence=sentence)


def bad(sentence: str) -> Verdict:
    """Return a verdict: the demand was not met."""
    return Verdict(outcome=Outcome.FAILED, sentence=sentence)


def untried(sentence: str) -> Verdict:
    """Return a verdict: the demand could not be checked."""
    return Verdict(outcome=Outcome.ERROR, sentence=sentence)


def skipped(sentence: str) -> Verdict:
    """Return a verdict: the demand was not judged."""
    return Verdict(outcome=Outcome.SKIPPED, sentence=sentence)


def length(duration: Micros) -> str:
    """Return a duration for a sentence: `12 s`, `0.4 s`, `7 m 12 s`."""
    is_exact = 0 <= duration < EXACT_BELOW and duration % SECOND
    return f"{duration / SECOND:.1f} s" if is_exact else describe_duration(duration)
