"""Why an operation has not started: each reason as a value.

A blocker is decided, stored, counted and redacted as a value. Sentences are rendered
of it where it is shown. Pure.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Union, get_args

from forewarn.instants import Micros
from forewarn.protocol.driver_ends import CallEnd
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.places import NoPlace
from forewarn.protocol.verbs import Action, TargetKind, Verb

NAMED_MAX = 3
"""Maximum causes named per fault domain, and blockers stored per kind. A rollout
over hundreds of hosts must not write a list of all of them to each operation."""


@frozen_dataclass
class Blocker:
    """One reason why an operation has not started, or does not go on."""

    kind: ClassVar[str] = "other"
    about_field: ClassVar[str] = ""
    """The field with the scope, VM or host that the reason concerns, if there is one."""

    @property
    def about(self) -> str:
        """Return the scope, VM or host that the reason concerns; empty: no one alone."""
        return str(getattr(self, self.about_field)) if self.about_field else ""


@frozen_dataclass
class NotApproved(Blocker):
    """A scope's event has no approval, and NotBefore has not come."""

    kind: ClassVar[str] = "approval"
    tenant: str
    scope: str
    listens: bool


@frozen_dataclass
class NotDue(Blocker):
    """NotBefore has not come, and not everybody has approved."""

    kind: ClassVar[str] = "not before"
    remaining: Micros


@frozen_dataclass
class NoticeRuns(Blocker):
    """The wall clock was stepped, and the notice has not passed in full."""

    kind: ClassVar[str] = "notice"
    remaining: Micros


@frozen_dataclass
class BatchWaits(Blocker):
    """Another deletion of the same request is neither approved nor due (3.6)."""

    kind: ClassVar[str] = "batch"
    tenant: str
    scope: str
    target: str


@frozen_dataclass
class Cause:
    """Why a VM is unsteady: an operation that started on it, or that it is down."""

    operation: str = ""
    """Empty if the VM is down without an operation; the rest means nothing then."""
    verb: Verb = Verb.FAIL
    action: Action = Action.NONE
    target_kind: TargetKind = TargetKind.VM
    target: str = ""


@frozen_dataclass
class FaultDomainDown(Blocker):
    """Another fault domain of a scope is down, for whatever cause (6.3)."""

    kind: ClassVar[str] = "fault domain"
    about_field: ClassVar[str] = "scope"
    scope: str
    fault_domain: int
    causes: tuple[Cause, ...]
    """At most `NAMED_MAX`."""
    more: int = 0
    """Number of causes that are not named."""


@frozen_dataclass
class MigrationUnderWay(Blocker):
    """A scope has one live migration at a time (6.3)."""

    kind: ClassVar[str] = "migration"
    about_field: ClassVar[str] = "scope"
    scope: str
    operation: str


@frozen_dataclass
class VmBusy(Blocker):
    """The driver works on one of the VMs for another operation."""

    kind: ClassVar[str] = "vm busy"
    about_field: ClassVar[str] = "vm"
    vm: str
    operation: str


@frozen_dataclass
class VmDown(Blocker):
    """A VM is down, so what was ordered for it cannot be done."""

    kind: ClassVar[str] = "vm down"
    about_field: ClassVar[str] = "vm"
    vm: str


@frozen_dataclass
class NoCapacity(Blocker):
    """There is no host that a VM may be moved to."""

    kind: ClassVar[str] = "no capacity"
    about_field: ClassVar[str] = "vm"
    vm: str
    why: NoPlace


@frozen_dataclass
class DriverRetry(Blocker):
    """The driver will be called again: it failed, or a VM had no place."""

    kind: ClassVar[str] = "driver retry"
    remaining: Micros
    end: CallEnd | None = None
    """How the last call ended; None: it was not called, since a VM has no place."""


@frozen_dataclass
class DriverAsked(Blocker):
    """The driver was asked what became of a call, and has not answered yet."""

    kind: ClassVar[str] = "driver asked"
    generation: int


@frozen_dataclass
class OutcomeUnknown(Blocker):
    """Nobody knows whether the driver did it; only an operator can say."""

    kind: ClassVar[str] = "driver unknown"
    operation: str
    end: CallEnd


@frozen_dataclass
class StillDown(Blocker):
    """A failure lasts until somebody restores or moves what is down."""

    kind: ClassVar[str] = "still down"
    target_kind: str
    target: str


@frozen_dataclass
class NotItsTurn(Blocker):
    """The hosts of a rollout are announced one after the other, and others come first.

    It is made when it is read, never stored.
    """

    kind: ClassVar[str] = "turn"
    request: str
    position: int
    hosts: int
    in_flight: int
    at_once: int


@frozen_dataclass
class ScopeInUse(Blocker):
    """Another fault domain of a scope is announced, in maintenance or down."""

    kind: ClassVar[str] = "scope in use"
    about_field: ClassVar[str] = "scope"
    scope: str
    fault_domain: int
    operation: str = ""
    """One that announced it, or works on it; empty: a VM is down by itself."""


@frozen_dataclass
class ScopeReserved(Blocker):
    """A host that has waited long comes first in a scope."""

    kind: ClassVar[str] = "scope reserved"
    about_field: ClassVar[str] = "scope"
    scope: str
    operation: str


@frozen_dataclass
class HostInUse(Blocker):
    """The host cannot be announced yet: something else concerns it."""

    kind: ClassVar[str] = "host in use"
    about_field: ClassVar[str] = "host"
    host: str
    operation: str = ""
    """The operation that is under way there; empty: none is."""
    verb: Verb | None = None
    arriving: str = ""
    """The VM that is on its way there. Without an operation or VM, the host is down."""


@frozen_dataclass
class More(Blocker):
    """Further reasons of one kind, counted instead of named in a stored list."""

    kind: ClassVar[str] = "more"
    of: str
    """Kind of the reasons."""
    count: int


class Redacted(enum.Enum):
    """What a tenant may know of a reason that names others.

    In the order in which a tenant is told. The order of what they stand for would
    tell how the names of others sort.
    """

    OWN_DOMAIN = "own domain"
    """Another fault domain of the tenant's own scope is down."""
    NO_CAPACITY = "no capacity"
    """There is no place for the tenant's own VM."""
    ELSEWHERE = "elsewhere"
    """Another tenant has not approved."""
    HELD = "held"
    RETRIES = "retries"
    UNKNOWN = "unknown"
    DOWN = "down"


@frozen_dataclass
class ByPlatform(Blocker):
    """A reason that is redacted for a tenant: made when it is read, never stored."""

    kind: ClassVar[str] = "platform"
    what: Redacted
    name: str = ""
    """The tenant's own scope or VM that it concerns, if it concerns one."""


AnyBlocker = Union[
    NotApproved,
    NotDue,
    NoticeRuns,
    BatchWaits,
    FaultDomainDown,
    MigrationUnderWay,
    VmBusy,
    VmDown,
    NoCapacity,
    DriverRetry,
    DriverAsked,
    OutcomeUnknown,
    StillDown,
    NotItsTurn,
    ScopeInUse,
    ScopeReserved,
    HostInUse,
    More,
    ByPlatform,
]
"""Every class of blocker: a store writes each with its `kind`."""


class HinderedError(RefusedError):
    """An order cannot be carried out for reasons that are values (`blockers`)."""

    def __init__(
        self, message: str, *, because: tuple[AnyBlocker, ...] = (), hint: str = ""
    ) -> None:
        """Say what is wrong; the sentences of `because` complete the message."""
        super().__init__(message, hint=hint)
        self.because = because


GUARD_KINDS = frozenset(
    kind.kind
    for kind in (FaultDomainDown, MigrationUnderWay, VmBusy, VmDown, NoCapacity, More)
)
"""Kinds that can hold a Ready operation, and so can be stored with it."""


TURN_KINDS = frozenset(
    kind.kind for kind in (ScopeInUse, ScopeReserved, HostInUse, NoCapacity)
)
"""Kinds that can keep a Planned host waiting, and so can be stored with it."""


def bounded(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
    """Return the first `NAMED_MAX` blockers of each kind, and counts of the rest."""
    seen: Counter[str] = Counter()
    named: list[AnyBlocker] = []
    for blocker in blockers:
        seen[blocker.kind] += 1
        if seen[blocker.kind] <= NAMED_MAX:
            named.append(blocker)
    return (
        *named,
        *(
            More(of=kind, count=count - NAMED_MAX)
            for kind, count in seen.items()
            if count > NAMED_MAX
        ),
    )


def signature(blockers: Sequence[Blocker]) -> frozenset[tuple[str, str]]:
    """Return what must change before a list of blockers is noted again.

    These are the kinds, with the scope or VM of each. Which operation is the cause
    does not matter: in a rollout it changes with every host.
    """
    return frozenset((each.kind, each.about) for each in blockers)


BLOCKER_KINDS: tuple[str, ...] = tuple(
    kind.kind for kind in get_args(AnyBlocker) if kind not in {More, ByPlatform}
)
"""All kinds, so that a counter of each can begin at zero."""
