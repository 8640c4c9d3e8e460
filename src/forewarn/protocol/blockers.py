"""Blockers (why an operation has not started) and ends of driver calls, as values.

Blockers are decided, stored, counted and redacted as values; texts are for output. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Union, get_args

from forewarn.instants import DAY, Micros
from forewarn.protocol.blocker import Blocker
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import Tagged, frozen_dataclass
from forewarn.protocol.losses import Losses
from forewarn.protocol.no_place import NoPlace
from forewarn.protocol.turn_blockers import (
    BudgetUsed,
    CampaignStopped,
    CheckUnknown,
    DrainFailed,
    HostInUse,
    InBlackout,
    NotItsTurn,
    OutsideWindow,
    ReserveKept,
    ScopeInUse,
    ScopeReserved,
    StageWaits,
)
from forewarn.protocol.verbs import Action, TargetKind, Verb

SAID_CHARACTERS_MAX = 500
"""Maximum length of a stored driver message, in characters; the log of the driver has all."""


class Landing(Enumeration):
    """Why a VM cannot be recorded on the host that the driver chose for it."""

    NOT_TOLD = "not told"
    """The driver does not say which host it is on."""
    NOT_LEFT = "not left"
    """It is still on its host."""
    NOT_IN_FLEET = "not in fleet"
    """The fleet does not have the host."""


@frozen_dataclass
class Contradiction:
    """An observation that contradicts a reported success."""

    vm: str
    runs: bool | None = None
    """True: the VM runs although it should not. False: it does not run although it should.
    None: it is on another host."""
    host: str = ""
    wanted_host: str = ""
    landing: Landing | None = None
    """Set if the driver chose the host of the VM."""


@frozen_dataclass
class VmEnd:
    """Result for one VM for which the call did not succeed."""

    vm: str
    is_unknown: bool = False
    said: str = ""
    """Message of the driver."""
    wrong: tuple[Contradiction, ...] = ()


class Trouble(Enumeration):
    """Problem with a driver call."""

    UNSTARTED = "unstarted"
    """The call timed out and was never started."""
    STOPPED = "stopped"
    """The call timed out and the driver stopped it."""
    NOT_STOPPED = "not stopped"
    """The call timed out and may still run; `said` has the reason if it is unknown."""
    NOT_KNOWN = "not known"
    """The driver does not know the outcome of the call."""
    MAY_COME_LATE = "may come late"
    """The call was not begun, but another replica has got it and may still make it."""
    OTHER_DRIVER = "other driver"
    """The call was given to another kind of driver."""


@frozen_dataclass
class CallEnd(Tagged, kind="call end"):
    """Why a call did not succeed as a whole.

    Only the fields with information are set. If all are empty, the driver gave no reason.
    """

    trouble: Trouble | None = None
    said: str = ""
    """Message of the driver."""
    given_to: str = ""
    driver: str = ""
    """The kinds of the driver that got the call, and of the current one, if they differ."""
    wrong: tuple[Contradiction, ...] = ()
    """Observations that contradict a reported success."""
    vms: tuple[VmEnd, ...] = ()
    """VMs for which the call did not succeed, at most a fixed number."""
    more: int = 0
    """Number of such VMs that are not named."""
    of: int = 0
    """Number of VMs of the call if it succeeded for some of them; otherwise 0."""
    done: int = 0
    failed_vms: tuple[str, ...] = ()
    """VMs for which the call failed; an operator confirmed the others."""


NAMED_MAX = 3
"""Maximum causes named per fault domain, and blockers stored per kind. A rollout
over hundreds of hosts must not store a list of all of them in each operation."""


@frozen_dataclass
class NotApproved(Blocker, kind="approval"):
    """The event of a scope is not approved, and NotBefore has not come."""

    tenant: str
    scope: str
    listens: bool


@frozen_dataclass
class NotDue(Blocker, kind="not before"):
    """NotBefore has not come, and not all events are approved."""

    remaining: Micros


@frozen_dataclass
class NoticeRuns(Blocker, kind="notice"):
    """The wall clock was stepped, and the full notice has not passed yet."""

    remaining: Micros


@frozen_dataclass
class BatchWaits(Blocker, kind="batch"):
    """Another deletion of the same request is neither approved nor due (3.6)."""

    tenant: str
    scope: str
    target: str


@frozen_dataclass
class Cause:
    """Why a VM is unsteady: an operation has started on it, or it is down."""

    operation: str = ""
    """Empty: the VM is down without an operation, and the other fields have no meaning."""
    verb: Verb = Verb.FAIL
    action: Action = Action.NONE
    target_kind: TargetKind = TargetKind.VM
    target: str = ""


@frozen_dataclass
class FaultDomainDown(Blocker, kind="fault domain"):
    """Another fault domain of a scope is down, for any cause (6.3)."""

    scope: str
    fault_domain: int
    causes: tuple[Cause, ...]
    more: int = 0
    """Number of causes beyond `NAMED_MAX`, which are not named."""


@frozen_dataclass
class MigrationUnderWay(Blocker, kind="migration"):
    """Another live migration of the scope is running; a scope has one at a time (6.3)."""

    scope: str
    operation: str


@frozen_dataclass
class DomainMember:
    """A VM of one fault domain."""

    vm: str
    fault_domain: int


@frozen_dataclass
class SharedHost(Blocker, kind="shared host"):
    """A host has VMs of several fault domains of a scope (6.3).

    Its maintenance would affect them together. forewarn places no VM so; a hypervisor or
    an operator's program did.
    """

    host: str
    scope: str
    vms: tuple[DomainMember, ...]
    """One VM of each fault domain, at most `NAMED_MAX`."""
    more: int = 0
    """Number of fault domains that are not named."""


@frozen_dataclass
class VmBusy(Blocker, kind="vm busy"):
    """The driver works on one of the VMs for another operation."""

    vm: str
    operation: str


@frozen_dataclass
class VmDown(Blocker, kind="vm down"):
    """A VM is down, so the operation cannot be carried out."""

    vm: str
    host: str = ""
    """Its host, which is down too; empty: stored by an earlier version."""


@frozen_dataclass
class BrakeOn(Blocker, kind="brake"):
    """The brake is on, so no planned work is announced or started."""

    by: str
    """Name of the actor who put it on."""
    reason: str
    losses: Losses | None = None
    """The losses for which it came on by itself; None: an operator put it on."""


@frozen_dataclass
class WindowClosed(Blocker, kind="window closed"):
    """The maintenance window of a scope is closed at the time of the start."""

    scope: str
    opens: Micros
    """Its next opening."""
    is_promised: bool = False
    """Whether that is not an opening of its windows, but one that was promised."""


@frozen_dataclass
class Deferred(Blocker, kind="deferred"):
    """A tenant has deferred the maintenance of one of its VMs or scopes."""

    tenant: str
    scope: str
    until: Micros
    vm: str = ""
    """Empty: all VMs of the scope."""


@frozen_dataclass
class NoCommonWindow(Blocker, kind="no common window"):
    """The maintenance windows of the scopes of a host are not open together soon."""

    scopes: tuple[str, ...]
    within: Micros = 14 * DAY
    """The time that was searched."""
    campaign: str = ""
    """The campaign whose windows count too; empty: only those of the scopes."""
    by_platform: bool = False
    """Whether windows of the platform count too, which a tenant does not see."""


@frozen_dataclass
class NoCapacity(Blocker, kind="no capacity"):
    """No host can take the VM."""

    vm: str
    why: NoPlace


@frozen_dataclass
class DriverUnable(Blocker, kind="driver unable"):
    """The driver told that an action cannot be carried out on a host or a VM."""

    host: str
    action: Action
    vm: str = ""
    """Empty: on any VM of the host."""
    said: str = ""
    """The reason of the driver."""


@frozen_dataclass
class RelaySilent(Blocker, kind="relay silent"):
    """The relay of a host has not confirmed what its VMs must see."""

    host: str
    since: Micros = 0
    """0: it has not confirmed anything since the service started."""


@frozen_dataclass
class DriverRetry(Blocker, kind="driver retry"):
    """The driver will be called again: the call failed, or a VM had no destination."""

    remaining: Micros
    end: CallEnd | None = None
    """End of the last call; None: no call was made because a VM has no destination."""


@frozen_dataclass
class DriverAsked(Blocker, kind="driver asked"):
    """The driver was asked for the outcome of a call and has not answered yet."""

    generation: int


@frozen_dataclass
class OutcomeUnknown(Blocker, kind="driver unknown"):
    """The outcome of the driver call is unknown; an operator must set it."""

    operation: str
    end: CallEnd


@frozen_dataclass
class StillDown(Blocker, kind="still down"):
    """The failed host or VM has not been restored or moved."""

    target_kind: str
    target: str


@frozen_dataclass
class More(Blocker, kind="more"):
    """Number of further reasons of one kind that a stored list does not name."""

    of: str
    """Kind of the reasons."""
    count: int


class Redacted(Enumeration):
    """Redacted reasons, for tenants, that would name others.

    The members are in the order of output. The order of the original reasons would
    reveal how the names of others sort.
    """

    OWN_DOMAIN = "own domain"
    """Another fault domain of the tenant's scope is down."""
    NO_CAPACITY = "no capacity"
    """No host can take the tenant's VM."""
    ELSEWHERE = "elsewhere"
    """Another tenant has not approved."""
    HELD = "held"
    RETRIES = "retries"
    UNKNOWN = "unknown"
    DOWN = "down"


@frozen_dataclass
class ByPlatform(Blocker, kind="platform"):
    """A reason that is redacted for a tenant. It is created for output, never stored."""

    what: Redacted
    name: str = ""
    """The tenant's scope or VM that the reason concerns, if any."""


AnyBlocker = Union[
    NotApproved,
    NotDue,
    NoticeRuns,
    BatchWaits,
    FaultDomainDown,
    MigrationUnderWay,
    SharedHost,
    VmBusy,
    VmDown,
    BrakeOn,
    WindowClosed,
    NoCommonWindow,
    Deferred,
    NoCapacity,
    DriverUnable,
    RelaySilent,
    DriverRetry,
    DriverAsked,
    OutcomeUnknown,
    StillDown,
    NotItsTurn,
    ScopeInUse,
    ScopeReserved,
    HostInUse,
    CampaignStopped,
    StageWaits,
    OutsideWindow,
    InBlackout,
    BudgetUsed,
    ReserveKept,
    CheckUnknown,
    DrainFailed,
    More,
    ByPlatform,
]
"""Every class of blocker: a store writes each with its `kind`."""


class HinderedError(RefusedError):
    """A request that is refused because of blockers."""

    def __init__(
        self, message: str, *, because: tuple[AnyBlocker, ...] = (), hint: str = ""
    ) -> None:
        """Create the error; the text of the blockers completes the message."""
        super().__init__(message, hint=hint)
        self.because = because


GUARD_KINDS = frozenset(
    kind.kind
    for kind in (
        FaultDomainDown,
        MigrationUnderWay,
        SharedHost,
        VmBusy,
        VmDown,
        BrakeOn,
        WindowClosed,
        NoCommonWindow,
        CampaignStopped,
        OutsideWindow,
        InBlackout,
        Deferred,
        NoCapacity,
        DriverUnable,
        RelaySilent,
        More,
    )
)
"""Kinds that can hold a Ready operation and be stored with it."""


HOLD_KINDS = frozenset(
    kind.kind for kind in (WindowClosed, NoCommonWindow, Deferred, InBlackout)
)
"""Kinds of blockers that come from holds: limits on the time of a start."""

TURN_KINDS = HOLD_KINDS | frozenset(
    kind.kind
    for kind in (
        ScopeInUse,
        ScopeReserved,
        SharedHost,
        HostInUse,
        BudgetUsed,
        DrainFailed,
        ReserveKept,
        NoCapacity,
        DriverUnable,
    )
)
"""Kinds that can keep a Planned host waiting and be stored with it."""


def bounded(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
    """Return the first `NAMED_MAX` blockers of each kind and the number of the others."""
    counts: Counter[str] = Counter()
    named: list[AnyBlocker] = []
    for blocker in blockers:
        counts[blocker.kind] += 1
        if counts[blocker.kind] <= NAMED_MAX:
            named.append(blocker)
    return (
        *named,
        *(
            More(of=kind, count=count - NAMED_MAX)
            for kind, count in counts.items()
            if count > NAMED_MAX
        ),
    )


def signature(blockers: Sequence[Blocker]) -> frozenset[tuple[str, str]]:
    """Return the part of a list of blockers whose change makes a new history entry.

    This is the kind of each blocker, with its scope or VM. The operation is left out: in
    a rollout it changes with every host.
    """
    return frozenset(
        (blocker.kind, getattr(blocker, "scope", "") or getattr(blocker, "vm", ""))
        for blocker in blockers
    )


BLOCKER_KINDS: tuple[str, ...] = tuple(
    kind.kind for kind in get_args(AnyBlocker) if kind not in {More, ByPlatform}
)
"""All kinds, so that the counter of each can start at zero."""
