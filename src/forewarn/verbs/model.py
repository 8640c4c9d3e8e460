"""What the table of verbs says of each verb, and one order of a verb as a value.

An entry is data. The command line, the operator API, scenario steps and the test kit
make their own forms of it, and each turns what its caller wrote into a `Given`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

TARGETS_MAX = 1000
"""Maximum number of hosts or VMs of one order: one transaction must stay short."""


class Form(enum.Enum):
    """What an argument's value looks like."""

    TEXT = "TEXT"
    """A text that people read; it may be empty."""
    NAME = "NAME"
    NAMES = "NAMES"
    WORD = "WORD"
    """One of the argument's words."""
    SWITCH = "SWITCH"
    COUNT = "N"
    """A whole number from 1 to `TARGETS_MAX`."""
    DURATION = "DURATION"
    SECONDS = "SECONDS"
    """DurationInSeconds: whole seconds, a duration, or -1, which is unknown."""
    MOMENT = "TIME|+DURATION"
    """An instant, or a duration from the order on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One thing that an order may say besides its targets."""

    key: str
    """Its name in requests, scenario steps and the test kit."""
    form: Form
    about: str
    """What it means, for the help of the command line and of the API."""
    typed: str = ""
    """What only the command line adds to that."""
    option: str = ""
    """How the command line calls it, if not `--` and its key; without hyphens it stands
    in its place."""
    metavar: str = ""
    words: tuple[str, ...] = ()
    is_needed: bool = False
    example: str = ""
    """A value, for the description of the API."""

    @property
    def name(self) -> str:
        """Return its name on the command line."""
        return self.option or f"--{self.key.replace('_', '-')}"


class Kind(enum.Enum):
    """What the targets of a verb are."""

    HOST = "host"
    VM = "vm"
    EITHER = "host or vm"
    WORK = "operation"
    """An operation, or a request with all of its operations."""
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What an order of a verb is about."""

    kind: Kind
    key: str
    """Its name in requests."""
    metavar: str
    about: str
    is_list: bool = True
    """One or more; else exactly one."""

    @property
    def in_fleet(self) -> bool:
        """Tell whether they are hosts or VMs, which the fleet names."""
        return self.kind in {Kind.HOST, Kind.VM, Kind.EITHER}


class Answer(enum.Enum):
    """What an order returns."""

    REQUEST = enum.auto()
    """The ID of the request that it made."""
    RESTORED = enum.auto()
    """What runs again."""
    CANCELLED = enum.auto()
    """The IDs of the operations that it cancelled."""
    APPROVED = enum.auto()
    """The IDs of the events that it approved."""
    OPERATION = enum.auto()
    """The ID of the operation whose outcome it set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason why an order is refused."""

    when: str
    sentences: tuple[str, ...]
    """The messages, with `…` for each name or number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that is said of one verb, except how it is decided."""

    name: str
    summary: str
    """A few words for lists of commands."""
    text: str
    """What it does."""
    targets: Targets
    arguments: tuple[Argument, ...] = ()
    answer: Answer = Answer.REQUEST
    for_tenants: bool = False
    """Tenants may give it, about their own VMs; else operators only."""
    refusals: tuple[Refusal, ...] = ()
    examples: tuple[str, ...]
    """Commands."""
    body: Mapping[str, object]
    """An example of a request."""
    without_notice: str = ""
    """Why its operations may have no event, and which verb gives notice instead."""

    def argument(self, key: str) -> Argument:
        """Return the argument with this key; raises StopIteration without one."""
        return next(each for each in self.arguments if each.key == key)


Value: TypeAlias = str | int | bool | tuple[str, ...]
"""A MOMENT is an instant; a DURATION is in microseconds, SECONDS are seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One order of a verb: its targets, and the arguments that its caller gave."""

    targets: tuple[str, ...]
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """By their keys; an argument that was not given is absent."""

    def text(self, key: str) -> str:
        """Return a text, a name or a word; empty without one."""
        found = self.values.get(key)
        return found if isinstance(found, str) else ""

    def number(self, key: str) -> int | None:
        """Return a number, an instant or a duration; None without one."""
        found = self.values.get(key)
        return found if isinstance(found, int) else None

    def names(self, key: str) -> tuple[str, ...]:
        """Return names; none without any."""
        found = self.values.get(key)
        return found if isinstance(found, tuple) else ()
