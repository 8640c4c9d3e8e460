"""Why a tenant's operation waits, without a word about hosts or other tenants.

What concerns the tenant's own scopes and VMs is told as it is, as far as its
sentence names nothing else; everything else becomes one of a few sentences that
tell no names and no numbers. Pure.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar

from forewarn.control.blockers import (
    BatchWaits,
    Blocker,
    DriverRetry,
    FaultDomainDown,
    MigrationUnderWay,
    NoRoom,
    NotApproved,
    NotDue,
    OutcomeUnknown,
    StillDown,
    VmBusy,
    VmDown,
)

ELSEWHERE = "another tenant has not approved"
HELD = "the platform holds it back for now"
OWN_DOMAIN = "another fault domain of scope {} is down"
NO_ROOM = "the platform has no place for vm {} at present"
RETRIES = "the platform did not succeed and tries again"
UNKNOWN = "the platform does not know yet whether it was done"
DOWN = "what it runs on is down"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPlatform(Blocker):
    """Something that is not the tenant's business."""

    kind: ClassVar[str] = "platform"
    text: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return self.text


def for_tenant(
    blockers: Iterable[Blocker], *, scopes: Collection[str], vms: Collection[str]
) -> tuple[Blocker, ...]:
    """Return the reasons as the owner of `scopes` and `vms` may know them."""
    told = [_one(blocker, scopes, vms) for blocker in blockers]
    # Its own first, and each once: how many others there are is nobody's business.
    told.sort(key=lambda blocker: isinstance(blocker, ByPlatform))
    return tuple(dict.fromkeys(told))


def _one(blocker: Blocker, scopes: Collection[str], vms: Collection[str]) -> Blocker:
    text = HELD
    match blocker:
        case NotDue():
            return blocker
        case NotApproved() | MigrationUnderWay() if blocker.scope in scopes:
            return blocker
        case BatchWaits() if blocker.scope in scopes and blocker.target in vms:
            return blocker
        case VmBusy() if blocker.vm in vms:
            return blocker
        case NotApproved() | BatchWaits():
            text = ELSEWHERE
        case FaultDomainDown() if blocker.scope in scopes:
            text = OWN_DOMAIN.format(blocker.scope)
        case NoRoom() if blocker.vm in vms:
            text = NO_ROOM.format(blocker.vm)
        case DriverRetry():
            text = RETRIES
        case OutcomeUnknown():
            text = UNKNOWN
        case VmDown() | StillDown():
            text = DOWN
        case _:
            pass
    return ByPlatform(text=text)
