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
    NoCapacity,
    NotApproved,
    NotDue,
    NoticeRuns,
    OutcomeUnknown,
    Redacted,
    StillDown,
    VmBusy,
    VmDown,
)


def for_tenant(
    blockers: Iterable[AnyBlocker], *, scopes: Collection[str], vms: Collection[str]
) -> tuple[AnyBlocker, ...]:
    """Return the reasons as the owner of `scopes` and `vms` may know them."""
    told = [_one(blocker, scopes, vms) for blocker in blockers]
    # Its own first, and each once: how many others there are is nobody's business.
    told.sort(key=_rank)
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


_ORDER = tuple(Redacted)


def _rank(blocker: AnyBlocker) -> int:
    """Return where a reason stands among all: those that name the tenant's first."""
    if not isinstance(blocker, ByPlatform):
        return -1
    return 0 if blocker.name else _ORDER.index(blocker.what)


def _one(
    blocker: AnyBlocker, scopes: Collection[str], vms: Collection[str]
) -> AnyBlocker:
    what, name = Redacted.HELD, ""
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
            what = Redacted.ELSEWHERE
        case FaultDomainDown() if blocker.scope in scopes:
            what, name = Redacted.OWN_DOMAIN, blocker.scope
        case NoCapacity() if blocker.vm in vms:
            what, name = Redacted.NO_CAPACITY, blocker.vm
        case DriverRetry():
            what = Redacted.RETRIES
        case OutcomeUnknown() | DriverAsked():
            what = Redacted.UNKNOWN
        case VmDown() | StillDown():
            what = Redacted.DOWN
        case _:
            pass
    return ByPlatform(what=what, name=name)
