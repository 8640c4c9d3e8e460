"""Why an operation has not started, and how a driver's call ended: values.

A blocker is decided, stored, counted and redacted as a value. Sentences are rendered
of it where it is shown. Pure.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Union, get_args

from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import Tagged, frozen_dataclass
from forewarn.protocol.verbs import Action, TargetKind, Verb

SAID_CHARACTERS_MAX = 500
"""Maximum length of a driver's words that are kept: a message, and no log."""


@frozen_dataclass
class Contradiction:
    """What a success that was reported cannot leave behind."""

    vm: str
    runs: bool | None = None
    """Whether the VM was seen to run, though it should not, or not to. None: it is on
    another host."""
    host: str = ""
    wanted_host: str = ""


@frozen_dataclass
class VmEnd:
    """What became of one VM for which the call was not done."""

    vm: str
    is_unknown: bool = False
    said: str = ""
    """The driver's words."""
    wrong: tuple[Contradiction, ...] = ()


class Trouble(enum.Enum):
    """What the link to the driver met."""

    UNSTARTED = "unstarted"
    """The call timed out, and was not started."""
    STOPPED = "stopped"
    """The call timed out, and the driver stopped it."""
    NOT_STOPPED = "not stopped"
    """The call timed out and goes on, or what was said is why that is not known."""
    NOT_KNOWN = "not known"
    """The driver does not know what became of the call."""
    OTHER_DRIVER = "other driver"
    """The call was given to another kind of driver."""


@frozen_dataclass
class CallEnd(Tagged, kind="call end"):
    """Why a call has not succeeded as a whole.

    Of its fields those are filled that say it; all empty: the driver gave no reason.
    """

    trouble: Trouble | None = None
    said: str = ""
    """The driver's words."""
    given_to: str = ""
    """The kind of driver that the call was given to, if it is another one."""
    driver: str = ""
    """The kind of driver that the service has then."""
    wrong: tuple[Contradiction, ...] = ()
    """A success was reported, and this was seen."""
    vms: tuple[VmEnd, ...] = ()
    """VMs for which it was not done, bounded in number."""
    more: int = 0
    """How many such VMs are not named."""
    of: int = 0
    """Number of VMs of the call, where some of them are done; otherwise 0."""
    done: int = 0
    failed_vms: tuple[str, ...] = ()
    """The call failed for these; an operator says that the rest is done."""


HOSTS_NAMED_MAX = 5
"""Maximum hosts named per reason: a fleet of thousands must not fill a record."""


class Unfit(enum.Enum):
    """Why a host cannot take a VM."""

    DOWN = "down"
    BUSY = "busy"
    FULL = "full"
    DOMAIN = "fault domain"
    """It holds another fault domain of the VM's scope."""
    ZONE = "zone"
    """It is in another zone than the VM's scale set has there."""


@frozen_dataclass
class UnfitHosts:
    """Hosts that cannot take a VM for one reason."""

    why: Unfit
    hosts: tuple[str, ...]
    """Names of the first `HOSTS_NAMED_MAX`."""
    more: int = 0
    """How many there are besides."""


def unfit_hosts(found: Mapping[Unfit, Sequence[str]]) -> tuple[UnfitHosts, ...]:
    """Return the hosts of each reason, in the order of `Unfit`, bounded in number."""
    return tuple(
        UnfitHosts(
            why=why,
            hosts=tuple(names[:HOSTS_NAMED_MAX]),
            more=max(0, len(names) - HOSTS_NAMED_MAX),
        )
        for why in Unfit
        if (names := found.get(why, ()))
    )


@frozen_dataclass
class NoPlace:
    """What was found when a host was looked for, and none can take the VM."""

    on_host: str = ""
    """The host that the VM is on; empty: it was not among those looked at."""
    unfit: tuple[UnfitHosts, ...] = ()
    others_are_full: bool = False
    """All hosts that are not named are full, down or under maintenance."""
    looked_at_most: int = 0
    """Only so many hosts, those with most room, were looked at; 0: all that have any."""


NAMED_MAX = 3
"""Maximum causes named per fault domain, and blockers stored per kind. A rollout
over hundreds of hosts must not write a list of all of them to each operation."""


class Blocker(Tagged):
    """One reason why an operation has not started, or does not go on."""

    __slots__ = ()


@frozen_dataclass
class NotApproved(Blocker, kind="approval"):
    """A scope's event has no approval, and NotBefore has not come."""

    tenant: str
    scope: str
    listens: bool


@frozen_dataclass
class NotDue(Blocker, kind="not before"):
    """NotBefore has not come, and not everybody has approved."""

    remaining: Micros


@frozen_dataclass
class NoticeRuns(Blocker, kind="notice"):
    """The wall clock was stepped, and the notice has not passed in full."""

    remaining: Micros


@frozen_dataclass
class BatchWaits(Blocker, kind="batch"):
    """Another deletion of the same request is neither approved nor due (3.6)."""

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
class FaultDomainDown(Blocker, kind="fault domain"):
    """Another fault domain of a scope is down, for whatever cause (6.3)."""

    scope: str
    fault_domain: int
    causes: tuple[Cause, ...]
    """At most `NAMED_MAX`."""
    more: int = 0
    """Number of causes that are not named."""


@frozen_dataclass
class MigrationUnderWay(Blocker, kind="migration"):
    """A scope has one live migration at a time (6.3)."""

    scope: str
    operation: str


@frozen_dataclass
class VmBusy(Blocker, kind="vm busy"):
    """The driver works on one of the VMs for another operation."""

    vm: str
    operation: str


@frozen_dataclass
class VmDown(Blocker, kind="vm down"):
    """A VM is down, so what was ordered for it cannot be done."""

    vm: str


@frozen_dataclass
class NoCapacity(Blocker, kind="no capacity"):
    """There is no host that a VM may be moved to."""

    vm: str
    why: NoPlace


@frozen_dataclass
class DriverRetry(Blocker, kind="driver retry"):
    """The driver will be called again: it failed, or a VM had no place."""

    remaining: Micros
    end: CallEnd | None = None
    """How the last call ended; None: it was not called, since a VM has no place."""


@frozen_dataclass
class DriverAsked(Blocker, kind="driver asked"):
    """The driver was asked what became of a call, and has not answered yet."""

    generation: int


@frozen_dataclass
class OutcomeUnknown(Blocker, kind="driver unknown"):
    """Nobody knows whether the driver did it; only an operator can say."""

    operation: str
    end: CallEnd


@frozen_dataclass
class StillDown(Blocker, kind="still down"):
    """A failure lasts until somebody restores or moves what is down."""

    target_kind: str
    target: str


@frozen_dataclass
class NotItsTurn(Blocker, kind="turn"):
    """The hosts of a rollout are announced one after the other, and others come first.

    It is made when it is read, never stored.
    """

    request: str
    position: int
    hosts: int
    in_flight: int
    at_once: int


@frozen_dataclass
class ScopeInUse(Blocker, kind="scope in use"):
    """Another fault domain of a scope is announced, in maintenance or down."""

    scope: str
    fault_domain: int
    operation: str = ""
    """One that announced it, or works on it; empty: a VM is down by itself."""


@frozen_dataclass
class ScopeReserved(Blocker, kind="scope reserved"):
    """A host that has waited long comes first in a scope."""

    scope: str
    operation: str


@frozen_dataclass
class HostInUse(Blocker, kind="host in use"):
    """The host cannot be announced yet: something else concerns it."""

    host: str
    operation: str = ""
    """The operation that is under way there; empty: none is."""
    verb: Verb | None = None
    arriving: str = ""
    """The VM that is on its way there. Without an operation or VM, the host is down."""


@frozen_dataclass
class More(Blocker, kind="more"):
    """Further reasons of one kind, counted instead of named in a stored list."""

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
class ByPlatform(Blocker, kind="platform"):
    """A reason that is redacted for a tenant: made when it is read, never stored."""

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
    return frozenset(
        (each.kind, getattr(each, "scope", "") or getattr(each, "vm", ""))
        for each in blockers
    )


BLOCKER_KINDS: tuple[str, ...] = tuple(
    kind.kind for kind in get_args(AnyBlocker) if kind not in {More, ByPlatform}
)
"""All kinds, so that a counter of each can begin at zero."""
