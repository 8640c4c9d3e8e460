"""Blockers of the hosts of a rollout or campaign: why one is not announced yet. Pure."""

from __future__ import annotations

from typing import Union

from forewarn.instants import Micros
from forewarn.protocol.blocker import Blocker
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.verbs import Verb


@frozen_dataclass
class NotItsTurn(Blocker, kind="turn"):
    """Other hosts of the rollout come first.

    It is created for output and never stored.
    """

    request: str
    position: int
    hosts: int
    in_flight: int
    at_once: int
    waiting: int = 0
    """Hosts of the rollout that wait for their turn, in the explanation of the rollout;
    0: the reason is that of one host."""


@frozen_dataclass
class ScopeInUse(Blocker, kind="scope in use"):
    """Another fault domain of a scope is announced, in maintenance or down."""

    scope: str
    fault_domain: int
    operation: str = ""
    """An operation that announced the fault domain or works on it; empty: a VM is down
    without an operation."""
    at_once: int = 1
    """Maximum fault domains of the scope that the rollout lets be announced together."""
    down: str = ""
    """The host or VM that is down there until an operator restores it; empty: none."""


@frozen_dataclass
class ScopeReserved(Blocker, kind="scope reserved"):
    """A host that has waited for a long time has reserved the scope."""

    scope: str
    operation: str


@frozen_dataclass
class HostInUse(Blocker, kind="host in use"):
    """The host cannot be announced yet because it is in use."""

    host: str
    operation: str = ""
    """Operation that is running there; empty: none."""
    verb: Verb | None = None
    arriving: str = ""
    """VM that is moving there. Without an operation and a VM, the host is down."""


@frozen_dataclass
class CampaignStopped(Blocker, kind="campaign stopped"):
    """The campaign is paused or halted, so it announces no host.

    A halted campaign also starts none.
    """

    campaign: str
    """Its name."""
    is_halted: bool
    by: str
    """Name of the actor who paused or halted it."""
    reason: str
    checks: tuple[str, ...] = ()
    """Checks that do not answer and have paused it; empty: something else has."""


@frozen_dataclass
class StageWaits(Blocker, kind="stage"):
    """The next stage of the campaign has not begun."""

    campaign: str
    stage: int
    """Number of the next stage, from 1; 0: there is none."""
    left: int = 0
    """Hosts of the current stage that have not ended; 0: all have."""
    failed: int = 0
    """The number of those that have failed, and wait for an operator."""
    remaining: Micros = 0
    """Rest of the soak; 0: it has ended, or has not begun."""
    needs_approval: bool = False
    """Whether an operator must approve the next stage."""


@frozen_dataclass
class OutsideWindow(Blocker, kind="campaign window"):
    """The work does not fit before the end of a window of the campaign."""

    campaign: str
    opens: Micros
    """The next announcement, or the next start; 0: no window is ever long enough."""


@frozen_dataclass
class InBlackout(Blocker, kind="blackout"):
    """It is a blackout, or the work would not end before one."""

    blackout: str
    """Its name."""
    ends: Micros
    """The next announcement, or the next start; 0: never."""
    campaign: str = ""
    """The campaign that it stops; empty: all planned work of the service."""


class BudgetKind(Enumeration):
    """A budget of a campaign; the value is its key in the file."""

    IN_FLIGHT = "in_flight"
    UNAVAILABLE = "unavailable"
    GROUP = "by"
    TENANT_VMS = "tenant_vms"
    SHARED = "shared"
    """No key of the file: the setting `[campaigns] in_flight`."""


@frozen_dataclass
class BudgetUsed(Blocker, kind="budget"):
    """A budget of the campaign is used up."""

    campaign: str
    budget: BudgetKind
    used: int
    most: int
    subject: str = ""
    """The group as `rack=r7`, the tenant, or the campaign that goes first when campaigns
    share a limit; else empty."""
    failed: int = 0
    """Failed hosts that use the budget until they are retried or skipped."""
    of_others: int = 0
    """Those of a group that have failed in other campaigns."""
    ramps_to: int = 0
    """Maximum hosts in flight of the budget, if the ramp of the stage allows fewer now; 0:
    it does not."""
    cordoned: int = 0
    """Other hosts that use the budget until an operator opens them, as far as they were
    counted."""
    cordoned_host: str = ""
    """One of these."""


@frozen_dataclass
class ReserveKept(Blocker, kind="reserve"):
    """The VMs of the host would use capacity that is kept for failures."""

    pool: str
    resource: str
    """Key of the resource: `capacity`, `vcpu` or `memory`."""
    needed: int
    """Amount that the VMs of the host use."""
    free: int
    """Free amount on the other hosts of the pool."""
    reserve: int
    """Amount that the reserve keeps free."""
    setting: str
    """The setting `policy.reserve`."""


@frozen_dataclass
class CheckUnknown(Blocker, kind="check"):
    """A check of the campaign has no answer that counts, so no host is announced."""

    campaign: str
    check: str
    said: str
    """Why it is unknown."""


@frozen_dataclass
class DrainFailed(Blocker, kind="drain failed"):
    """The VMs of the host could not be moved away, so the campaign tries it again last."""

    campaign: str
    drains: int
    """Attempts so far."""
    most: int
    """Attempts after which the host is skipped."""
    until: Micros
    """Earliest time of the next attempt."""


TurnBlocker = Union[
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
]
"""Every class of this module."""
