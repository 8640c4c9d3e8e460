"""Redaction of actors and blockers for a tenant: values in, values out.

A blocker about the tenant's own scopes and VMs stays as it is, if it names nothing
else. Every other blocker becomes one of a few values without names and numbers. Pure.
"""

from collections.abc import Callable, Collection, Iterable

from forewarn.protocol.actors import (
    PLATFORM,
    Actor,
    ActorKind,
    tenant_user,
    vm_actor,
)
from forewarn.protocol.blockers import (
    AnyBlocker,
    BatchWaits,
    ByPlatform,
    DriverAsked,
    DriverRetry,
    FaultDomainDown,
    MigrationUnderWay,
    NoRoom,
    NotApproved,
    NotDue,
    NoticeRuns,
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

_OF_OTHERS = (ELSEWHERE, HELD, RETRIES, UNKNOWN, DOWN)
"""What names nothing, in the order in which it is told. The order of what it stands
for would tell how the names of others sort."""


def for_tenant(
    blockers: Iterable[AnyBlocker], *, scopes: Collection[str], vms: Collection[str]
) -> tuple[AnyBlocker, ...]:
    """Return the reasons as the owner of `scopes` and `vms` may know them."""
    told = [_one(blocker, scopes, vms) for blocker in blockers]
    # Its own first, and each once: how many others there are is nobody's business.
    told.sort(
        key=lambda blocker: _rank(
            blocker.text if isinstance(blocker, ByPlatform) else None
        )
    )
    return tuple(dict.fromkeys(told))


_PUBLIC = frozenset({ActorKind.CLOCK, ActorKind.DRIVER, ActorKind.POLICY})
"""Kinds of actors that every tenant is told of: they name nobody."""


def actor_for(actor: Actor, tenant: str, *, had_vm: Callable[[str], bool]) -> Actor:
    """Return the actor as the tenant may know it.

    `had_vm` tells whether a VM is, or was, the tenant's. The address and the id of a
    token are for operators: a tenant does not learn one holder's from another.
    """
    if actor.kind is ActorKind.VM and (not actor.name or had_vm(actor.name)):
        return vm_actor(actor.name)
    if actor.is_of(tenant):
        return tenant_user(tenant, actor.name)
    return actor if actor.kind in _PUBLIC else PLATFORM


def _rank(text: str | None) -> int:
    """Return where a sentence of the platform stands among all; None: one as it is."""
    if text is None:
        return -1
    return _OF_OTHERS.index(text) + 1 if text in _OF_OTHERS else 0


def _one(
    blocker: AnyBlocker, scopes: Collection[str], vms: Collection[str]
) -> AnyBlocker:
    text = HELD
    match blocker:
        case NotDue() | NoticeRuns() | ByPlatform():
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
        case OutcomeUnknown() | DriverAsked():
            text = UNKNOWN
        case VmDown() | StillDown():
            text = DOWN
        case _:
            pass
    return ByPlatform(text=text)
