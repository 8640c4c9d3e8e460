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
from forewarn.protocol.operations import Action
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.staged import Staged, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A verb of the command line, with its targets and options."""

    verb: str
    targets: tuple[str, ...]
    impact: Action | None = None
    duration_seconds: int | None = None
    not_before: Micros | None = None
    """From the order on; None: the verb's own notice."""
    notice: Micros | None = None
    """Of a predicted failure, its `in`; None: the setting's."""
    description: str | None = None
    emergency: bool = False
    at_once: int | None = None
    """Of a maintenance of hosts; None: the setting's."""


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
class Withhold:
    """Approvals of these VMs are kept back from now on."""

    vms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Approvals that were kept back are let go."""

    vms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disable:
    """What these VMs are served is switched off, as after a day of silence (7.3)."""

    vms: tuple[str, ...]


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
class ClearFaults:
    """Answers are good again."""

    vms: tuple[str, ...] = ()
    """Empty: for all."""


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


class Stand(enum.Enum):
    """How far an event has come."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    GONE = "Gone"
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
    stand: Stand | None = None
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
    | Withhold
    | Release
    | Disable
    | Jump
    | SetFaults
    | ClearFaults
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
    aliases: tuple[Alias, ...] = ()
    fleet: Fleet = field(default_factory=Fleet)
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """By their whole names such as `timing.recovery`, as a flag writes them."""
    speed: float | None = None
    """How fast the name means it under which it was asked for; None: as any other."""
