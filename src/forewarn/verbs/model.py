"""The structure of the table of verbs, and one request as a value.

An entry is data. The command line, the operator API, scenario steps and the test kit
make their interfaces from it, and convert the caller's input to a `VerbRequest`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn.verbs.roles import Role

TARGETS_MAX = 1000
"""Maximum targets of one request: one transaction must be short."""


class Form(enum.Enum):
    """The form of an argument's value."""

    TEXT = "TEXT"
    """A text for people; can be empty."""
    NAME = "NAME"
    NAMES = "NAMES"
    LINES = "LINE"
    """Lines of text that only the service reads."""
    WORD = "WORD"
    """One of the argument's keywords."""
    SWITCH = "SWITCH"
    COUNT = "N"
    """A whole number from 1 to `TARGETS_MAX`."""
    DURATION = "DURATION"
    SECONDS = "SECONDS"
    """DurationInSeconds: whole seconds, a duration, or -1, which is unknown."""
    MOMENT = "TIME|+DURATION"
    """An instant, or a duration after the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a request, besides its targets."""

    key: str
    """Name of the argument in requests, scenario steps and the test kit."""
    form: Form
    about: str
    """Meaning of the argument, for the help of the command line and the API."""
    typed: str = ""
    """Addition to the meaning, for the command line only."""
    option: str = ""
    """Name on the command line; empty: `--` and the key. The name of a positional
    argument has no hyphens."""
    metavar: str = ""
    words: tuple[str, ...] = ()
    is_needed: bool = False
    example: str = ""
    """A value, for the description of the API."""
    role: Role | None = None
    """The role that a request with this argument needs in addition to the verb's."""

    @property
    def name(self) -> str:
        """Return the argument's name on the command line."""
        return self.option or f"--{self.key.replace('_', '-')}"


class Kind(enum.Enum):
    """The kind of a verb's targets."""

    HOST = "host"
    VM = "vm"
    EITHER = "host or vm"
    SCOPE = "scope"
    VM_OR_SCOPE = "vm or scope"
    WORK = "operation"
    """An operation, or a request with all of its operations."""
    EVENT = "event"
    CAMPAIGN = "campaign"
    BLACKOUT = "blackout"

    @property
    def noun(self) -> str:
        """Return the noun for one target, for messages: `host or VM`."""
        return self.value.replace("vm", "VM")

    @property
    def plural(self) -> str:
        """Return the noun for several targets: `hosts or VMs`."""
        return " or ".join(f"{word}s" for word in self.noun.split(" or "))


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets of a verb."""

    kind: Kind
    key: str
    """Its name in requests."""
    metavar: str
    about: str
    is_list: bool = True
    """One or more targets; otherwise exactly one."""

    @property
    def in_fleet(self) -> bool:
        """Return whether the targets are hosts, VMs or scopes."""
        return self.kind not in {
            Kind.WORK,
            Kind.EVENT,
            Kind.CAMPAIGN,
            Kind.BLACKOUT,
        }


class Answer(enum.Enum):
    """The result of a request."""

    REQUEST = enum.auto()
    """The ID of the new request."""
    RESTORED = enum.auto()
    """The hosts and VMs that are up again."""
    CANCELLED = enum.auto()
    """The IDs of the cancelled operations."""
    APPROVED = enum.auto()
    """The IDs of the approved events."""
    OPERATION = enum.auto()
    """The ID of the operation with the new outcome."""
    HOSTS = enum.auto()
    """The names of the changed hosts."""
    CHOICES = enum.auto()
    """The keys of what the tenant has chosen."""
    SCOPES = enum.auto()
    """The names of the changed scopes."""
    CAMPAIGN = enum.auto()
    """The ID of the changed campaign."""
    CAMPAIGN_HOSTS = enum.auto()
    """The ID of the campaign whose named hosts have changed."""
    BLACKOUTS = enum.auto()
    """The name of the blackout that was set or removed."""

    @property
    def kind(self) -> type:
        """Return the type of the value that the decision returns."""
        one = {
            Answer.REQUEST,
            Answer.OPERATION,
            Answer.CAMPAIGN,
            Answer.CAMPAIGN_HOSTS,
            Answer.BLACKOUTS,
        }
        return str if self in one else list


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason to refuse a request."""

    when: str
    sentences: tuple[str, ...]
    """The messages, with `…` for each name or number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The description of one verb, without its decision."""

    name: str
    group: str = ""
    """First word of the command, which the name begins with: `host` for `host-open`, whose
    command is `forewarn host open`."""
    summary: str
    """Line of the verb in lists of commands."""
    text: str
    """Its effect."""
    targets: Targets
    arguments: tuple[Argument, ...] = ()
    answer: Answer = Answer.REQUEST
    role: Role = Role.RUN
    """The role that the requester's token needs."""
    stops: bool = False
    """Whether the verb only stops planned work, for which every role but `view` is
    enough."""
    for_tenants: bool = False
    """Whether tenants can use the verb for their own VMs. If not, it is for operators
    only."""
    refusals: tuple[Refusal, ...] = ()
    examples: tuple[str, ...]
    """Example commands."""
    body: Mapping[str, object]
    """An example of a request."""
    without_notice: str = ""
    """Why operations of the verb can have no event, and the verb that gives notice
    instead."""

    @property
    def path(self) -> tuple[str, ...]:
        """Return the words of the command."""
        if not self.group:
            return (self.name,)
        return (self.group, self.name.removeprefix(f"{self.group}-"))

    @property
    def command(self) -> str:
        """Return the command as it is typed, without the name of the program."""
        return " ".join(self.path)

    @property
    def is_in_parts(self) -> bool:
        """Return whether a refused target or host leaves the others as they are."""
        return self.targets.is_list or self.answer is Answer.CAMPAIGN_HOSTS

    def argument(self, key: str) -> Argument:
        """Return the argument with this key; raises StopIteration without one."""
        return next(argument for argument in self.arguments if argument.key == key)


Value: TypeAlias = str | int | bool | tuple[str, ...]
"""A MOMENT is an instant, a DURATION is in microseconds, and SECONDS are seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbRequest:
    """One request of a verb: its targets, and the arguments that were given."""

    targets: tuple[str, ...]
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Values of the arguments by their keys; an argument that was not given is
    absent."""

    def text(self, key: str) -> str:
        """Return a string, a name or a keyword; empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return a number, an instant or a duration; None if absent."""
        value = self.values.get(key)
        return value if isinstance(value, int) else None

    def names(self, key: str) -> tuple[str, ...]:
        """Return names or lines; empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, tuple) else ()
