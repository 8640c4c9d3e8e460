"""Notes: why an operation ended, or what happened to it, as stored values. Pure.

A note is stored with the decision and rendered as text only for output. Code never
depends on its text.
"""

from __future__ import annotations

from typing import Union

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker, CallEnd
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import Tagged, frozen_dataclass
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.verbs import TargetKind


@frozen_dataclass
class Said(Tagged, kind="said"):
    """Free text: from a person, or from an older version that stored notes as text."""

    text: str


@frozen_dataclass
class NothingToDo(Tagged, kind="nothing to do"):
    """The driver was not called, because the operation has no VMs."""


@frozen_dataclass
class Cancelled(Tagged, kind="cancelled"):
    """An operator or tenant cancelled the operation."""

    by: Actor
    reason: str = ""
    """Reason that the caller gave."""


@frozen_dataclass
class AnnouncedAgain(Tagged, kind="announced again"):
    """The operation was held for too long, so it was cancelled and announced again."""

    held: Micros
    """Time since NotBefore."""
    reasons: tuple[AnyBlocker, ...]
    successor: str
    """ID of the operation that was announced instead."""


@frozen_dataclass
class WithdrawnByBrake(Tagged, kind="withdrawn by brake"):
    """The brake withdrew the announced operation."""

    successor: str = ""
    """ID of the operation that is announced after the brake; empty: none."""


@frozen_dataclass
class WithdrawnForBlackout(Tagged, kind="withdrawn for blackout"):
    """A blackout of the service withdrew the announced operation, which would start in
    it."""

    blackout: str
    """Its name."""
    successor: str = ""
    """ID of the operation that is announced after the blackout; empty: none."""


@frozen_dataclass
class VmArrived(Tagged, kind="vm arrived"):
    """The driver moved a VM to the host, which was announced without that VM."""

    vm: str
    successor: str = ""
    """ID of the operation that is announced to all VMs on the host; empty: none."""


@frozen_dataclass
class HostWentDown(Tagged, kind="host went down"):
    """The host of a campaign failed before its start, and waits until it is restored."""

    host: str
    successor: str = ""
    """ID of the operation of the host's next announcement."""


@frozen_dataclass
class Postponed(Tagged, kind="postponed"):
    """A tenant deferred the operation, which was withdrawn without impact.

    Another operation of the same rollout is announced later instead.
    """

    by: Actor
    until: Micros


@frozen_dataclass
class AnnouncedLater(Tagged, kind="announced later"):
    """The announced operation was withdrawn without impact, and is announced again.

    It is created for a tenant in place of a note that names others, and never stored.
    """


@frozen_dataclass
class RolloutStopped(Tagged, kind="rollout stopped"):
    """Another operation of the rollout failed, or the rollout was stopped."""

    failed: str = ""
    """ID of the operation that failed; empty: unknown."""


@frozen_dataclass
class Withdrawn(Tagged, kind="withdrawn"):
    """The announcement of a host was withdrawn: its campaign was halted, a blackout was
    added, or its windows were changed."""

    campaign: str
    """Name of the campaign."""
    successor: str
    """ID of the operation of the host's next announcement."""
    blackout: str = ""
    """Name of the blackout; empty: the campaign was halted."""
    is_outside: bool = False
    """Whether the changed windows of the campaign do not allow the start."""


@frozen_dataclass
class DrainStopped(Tagged, kind="drain stopped"):
    """The campaign was halted or aborted after the start, and before the work on the host.

    VMs that have moved stay where they are.
    """

    campaign: str
    """Name of the campaign."""
    is_aborted: bool = False


@frozen_dataclass
class CampaignAborted(Tagged, kind="campaign aborted"):
    """The campaign was aborted before the host started."""

    campaign: str
    """Name of the campaign."""


@frozen_dataclass
class HostSkipped(Tagged, kind="host skipped"):
    """An operator left the host out of its campaign."""

    campaign: str
    """Name of the campaign."""
    by: Actor
    reason: str = ""
    taken_by: str = ""
    """The emergency campaign that has taken the host over; empty: none."""


class Change(Enumeration):
    """Change of a host or VM."""

    FAILED = "failed"
    RESTORED = "restored"
    """The host is up again."""
    REMOVED = "removed"
    """The host or VM is no longer in the fleet file."""
    LEFT = "left"
    """The last VM has left the host."""
    RUNS_AGAIN = "runs again"
    DELETED = "deleted"


@frozen_dataclass
class TargetChanged(Tagged, kind="target changed"):
    """A change of a host or VM ended the operation."""

    change: Change
    target_kind: TargetKind
    target: str
    host: str = ""
    """The host that the VM left."""


@frozen_dataclass
class Hindered(Tagged, kind="hindered"):
    """A call cannot be made because a VM has no destination."""

    why: AnyBlocker


@frozen_dataclass
class DriverGaveUp(Tagged, kind="driver gave up"):
    """The driver failed in all allowed attempts."""

    attempts: int
    end: CallEnd


@frozen_dataclass
class StepEnded(Tagged, kind="step ended"):
    """A host step ended the operation: `needed` before its notice, or `enter`."""

    step: StepKind
    is_needless: bool = False
    """Whether the host does not need the work."""
    is_unknown: bool = False
    """Whether the outcome of the step is unknown; otherwise it failed."""
    end: CallEnd = CallEnd()


@frozen_dataclass
class OperatorSaysFailed(Tagged, kind="operator says failed"):
    """An operator set an unknown outcome to failed."""


AnyNote = Union[
    Said,
    NothingToDo,
    Cancelled,
    AnnouncedAgain,
    WithdrawnByBrake,
    WithdrawnForBlackout,
    VmArrived,
    Postponed,
    AnnouncedLater,
    RolloutStopped,
    Withdrawn,
    CampaignAborted,
    HostSkipped,
    TargetChanged,
    Hindered,
    CallEnd,
    DriverGaveUp,
    DrainStopped,
    StepEnded,
    OperatorSaysFailed,
    HostWentDown,
]
"""Every class of note: a store writes each with its `kind`."""

PLANNED_AGAIN = (
    AnnouncedAgain,
    Withdrawn,
    WithdrawnByBrake,
    WithdrawnForBlackout,
    VmArrived,
    HostWentDown,
    Postponed,
)
"""Notes of operations whose host has another operation of the rollout instead."""


def is_planned_again(note: AnyNote | None) -> bool:
    """Return whether another operation of the rollout has the host instead."""
    if isinstance(note, Postponed):
        return True
    return isinstance(note, PLANNED_AGAIN) and bool(note.successor)


def host_changed(change: Change, host: str) -> TargetChanged:
    """Return the note about a change of a host."""
    return TargetChanged(change=change, target_kind=TargetKind.HOST, target=host)


def vm_changed(change: Change, vm: str, *, host: str = "") -> TargetChanged:
    """Return the note about a change of a VM."""
    return TargetChanged(change=change, target_kind=TargetKind.VM, target=vm, host=host)
