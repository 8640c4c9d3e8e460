"""Redact actors and blockers for a tenant: values in, values out.

A blocker that names only scopes and VMs of the tenant is unchanged. Every other blocker
becomes one of a few values without names and numbers. Pure.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

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
    Deferred,
    DriverAsked,
    DriverRetry,
    FaultDomainDown,
    MigrationUnderWay,
    NoCapacity,
    NoCommonWindow,
    NotApproved,
    NotDue,
    NoticeRuns,
    OutcomeUnknown,
    Redacted,
    StillDown,
    VmBusy,
    VmDown,
    WindowClosed,
)
from forewarn.protocol.notes import AnnouncedLater, AnyNote, is_planned_again


def for_tenant(
    blockers: Iterable[AnyBlocker], *, scopes: Collection[str], vms: Collection[str]
) -> tuple[AnyBlocker, ...]:
    """Return the blockers, redacted for the owner of `scopes` and `vms`."""
    redacted = [_one(blocker, scopes, vms) for blocker in blockers]
    # Blockers with the tenant's own names come first. Duplicates are removed, because
    # they would show how many others there are.
    redacted.sort(key=_rank)
    return tuple(dict.fromkeys(redacted))


_PUBLIC = frozenset({ActorKind.CLOCK, ActorKind.DRIVER, ActorKind.POLICY})
"""Kinds of actors that every tenant may see: they name no person."""


def actor_for(actor: Actor, tenant: str, *, had_vm: Callable[[str], bool]) -> Actor:
    """Return the actor, redacted for the tenant.

    `had_vm` returns whether a VM belongs or belonged to the tenant. Addresses and token
    IDs are only for operators, so that a tenant cannot compare holders.
    """
    if actor.kind is ActorKind.VM and (not actor.name or had_vm(actor.name)):
        return vm_actor(actor.name)
    if actor.is_of(tenant):
        return tenant_user(tenant, actor.name)
    return actor if actor.kind in _PUBLIC else PLATFORM


def note(found: AnyNote | None) -> AnyNote | None:
    """Return the note about an operation that others ended, redacted for a tenant.

    It shows whether the work was cancelled or only postponed, and not why.
    """
    return AnnouncedLater() if is_planned_again(found) else None


_ORDER = tuple(Redacted)


def _rank(blocker: AnyBlocker) -> int:
    """Return the sort key of a blocker: those that name the tenant's objects first."""
    if not isinstance(blocker, ByPlatform):
        return -1
    return 0 if blocker.name else _ORDER.index(blocker.what)


def _one(
    blocker: AnyBlocker, scopes: Collection[str], vms: Collection[str]
) -> AnyBlocker:
    kind, name = Redacted.HELD, ""
    match blocker:
        case NotDue() | NoticeRuns() | ByPlatform():
            return blocker
        case NotApproved() | MigrationUnderWay() | WindowClosed() | Deferred() if (
            blocker.scope in scopes
        ):
            return blocker
        case NoCommonWindow() if {*blocker.scopes} <= {*scopes}:
            # A tenant does not see that the work is a campaign.
            is_apart = blocker.by_platform or bool(blocker.campaign)
            return replace(blocker, campaign="", by_platform=is_apart)
        case BatchWaits() if blocker.scope in scopes and blocker.target in vms:
            return blocker
        case VmBusy() if blocker.vm in vms:
            return blocker
        case NotApproved() | BatchWaits():
            kind = Redacted.ELSEWHERE
        case FaultDomainDown() if blocker.scope in scopes:
            kind, name = Redacted.OWN_DOMAIN, blocker.scope
        case NoCapacity() if blocker.vm in vms:
            kind, name = Redacted.NO_CAPACITY, blocker.vm
        case DriverRetry():
            kind = Redacted.RETRIES
        case OutcomeUnknown() | DriverAsked():
            kind = Redacted.UNKNOWN
        case VmDown() | StillDown():
            kind = Redacted.DOWN
        case _:
            pass
    return ByPlatform(what=kind, name=name)
