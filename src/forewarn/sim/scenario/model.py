"""A scenario as values: a fleet, settings, and steps with their times.

Durations are as the file writes them. Whoever runs a scenario divides by speed what
the platform takes; what a client takes, and DurationInSeconds, never is.
Nothing here reads a file, knows a clock or does anything.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn.instants import Micros
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
    """By the keys of its arguments; a moment is counted from the order on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """An event that is staged by hand."""

    wanted: Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOn:
    """The operations behind an event go on to a state."""

    event: str
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """What has not started of an order is taken back."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """The operator approves, or somebody approves in the place of a VM."""

    event: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForVms:
    """Something that the simulation does for some VMs.

    `withhold`: their approvals are kept back from now on; `release` lets them go.
    `disable`: what they are served is switched off, as after a day of silence (7.3).
    `clear-faults`: their answers are good again.
    """

    what: str
    vms: tuple[str, ...]
    """Of `clear-faults`, empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """So much time passes at once."""

    by: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFaults:
    """Answers go wrong from now on."""

    words: str
    """As the file has them."""
    playbook: Playbook


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A sentence for whoever watches."""

    text: str


class Wanted(enum.Enum):
    """What may be expected; the values are the keys of a file."""

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
"""What a client must do: it lives by its own clock, so no speed hastens it."""


class Expected(enum.Enum):
    """How much is demanded of clients; the values are those of `--expect`."""

    SCENARIO = "scenario"
    """What the scenario itself expects."""
    ASKED = "asked"
    """That they asked for their events."""
    APPROVED = "approved"
    """That they asked, and approved in time every event that named them."""
    NONE = "none"
    """Nothing: no expectation is judged."""


class Demand(enum.Enum):
    """What may be demanded of a client for a whole scenario; the values are keys."""

    ASKS = "asks"
    APPROVES = "approves"
    SEES = "sees"
    IGNORES_OTHERS = "ignores_others"
    COMES_BACK = "comes_back"


OTHERS = "*"
"""In the place of a client's VM: each VM that has no client of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a program that runs in a VM must do while a scenario lasts.

    It must always ask for its events.
    """

    vm: str
    """Its name, or OTHERS; those are optional."""
    line: int = 0
    """Of the file, counted from 1; 0: the file does not mention it."""
    is_optional: bool = False
    """It is judged only if it asks, and only by events that are made after that."""
    approves: bool = False
    """Each event that names its VM, before NotBefore."""
    sees: EventStatus | None = None
    """An event that names its VM, in this status."""
    ignores_others: bool = False
    """It approves no event that does not name its VM."""
    comes_back: Micros = 0
    """How soon it asks again after its last event is gone; 0: it need not."""


class EventPhase(enum.Enum):
    """How far an event has come."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    REMOVED = "Removed"
    CANCELLED = "Cancelled"
    """Gone without having started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Something that must be so within a time, or the scenario has failed."""

    wanted: Wanted
    within: Micros
    vms: tuple[str, ...] = ()
    """Empty: whoever it is, or all that the event names."""
    event: str = ""
    """The name of the step that made it; empty: no event is meant."""
    stand: EventPhase | None = None
    """Of `status`: how far it must come."""
    status: EventStatus | None = None
    """Of `seen_by`: what a VM must have been shown; None: anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The scenario waits until an expectation is decided."""

    expectation: Expectation


Act: TypeAlias = (
    Order
    | Publish
    | MoveOn
    | Cancel
    | Approve
    | ForVms
    | Jump
    | SetFaults
    | Say
    | Expect
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: when, and what is done."""

    line: int
    """Of the file, counted from 1."""
    act: Act
    at: Micros | None = None
    """From the start of the scenario; None: `after` the step before."""
    after: Micros = 0
    """From the end of the step before."""
    may_be_refused: bool = False
    """A refusal is told and does not fail the scenario."""
    name: str = ""
    """What later steps call the events that it makes; empty where it makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The fleet of a scenario."""

    vms: int | None = None
    """Of the usual fleet: how many; None: as many as whoever runs it wants."""
    together: bool = False
    """Of the usual fleet: all VMs on one host."""
    text: str = ""
    """A fleet file of its own; empty: the usual fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another name, which may bring a speed of its own."""

    name: str
    speed: float | None = None
    """None: as fast as any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What happens, to whom, and what is expected."""

    name: str
    file: str
    """Where it was read, for messages."""
    description: str
    steps: tuple[Step, ...]
    clients: tuple[Client, ...] = ()
    """Empty: it is enough if any VM that an event names is asked for."""
    aliases: tuple[Alias, ...] = ()
    fleet: Fleet = field(default_factory=Fleet)
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """By their whole names such as `timing.recovery`, as a flag writes them."""
    speed: float | None = None
    """How fast the name means it under which it was asked for; None: as any other."""
    own_speed: float | None = None
    """How fast its file has it run on the machine's clock, unless somebody says
    otherwise; None: as any other."""
