"""Names of waits, by which a wake-up finds waiting operations. Pure.

An operation waits for one reason at a time, its first blocker. When the reason ends, the
operation is checked again; it then starts or waits for another reason. A wake-up
therefore reads only operations that can have become free.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from forewarn.fleet.model import LABEL
from forewarn.protocol.blockers import (
    HOLD_KINDS,
    AnyBlocker,
    BrakeOn,
    CampaignStopped,
    Deferred,
    FaultDomainDown,
    InBlackout,
    MigrationUnderWay,
    NoCommonWindow,
    OutsideWindow,
    RelaySilent,
    SharedHost,
    VmBusy,
    VmDown,
    WindowClosed,
)
from forewarn.protocol.turn_blockers import BudgetKind

BRAKE = "brake"
"""Name of the wait of Ready operations for the brake."""

ROOM = "room"
"""Name of the wait for capacity on any host."""


@dataclass(frozen=True, slots=True)
class DomainWaits:
    """Names of waits for other fault domains of a scope."""

    prefix: str
    """Prefix of each name. No prefix starts another one."""

    def in_scope(self, scope: str) -> str:
        """Return the name of the wait for other fault domains of a scope."""
        return f"{self.prefix}{scope}"

    def in_domain(self, scope: str, fault_domain: int) -> str:
        """Return the name of the wait of operations that take down only this domain."""
        return f"{self.prefix}{scope}/{fault_domain}"

    def names(self, scope: str, domains: frozenset[int]) -> tuple[str, ...]:
        """Return the names of the wait of an operation that takes down these domains."""
        names = (self.in_scope(scope),)
        if len(domains) == 1:
            (domain,) = domains
            names = (*names, self.in_domain(scope, domain))
        return names

    def scope_of(self, name: str) -> str:
        """Return the scope of a name from `in_scope`; empty: another name."""
        return name.removeprefix(self.prefix) if self.is_one(name) else ""

    def is_one(self, name: str) -> bool:
        """Return whether a name is one of these waits."""
        return name.startswith(self.prefix)


STARTS = DomainWaits("scope:")
"""Waits of Ready operations for the guard."""

TURNS = DomainWaits("turn-scope:")
"""Waits of Planned hosts for their announcement."""

OVERLAPPING_TURNS = DomainWaits("turn-overlap:")
"""The same for hosts of campaigns that announce several fault domains of a scope."""


def for_migration(scope: str) -> str:
    """Return the name of the wait for the end of a live migration in a scope."""
    return f"migration:{scope}"


def for_vm(vm: str) -> str:
    """Return the name of the wait for a VM that is busy or down."""
    return f"vm:{vm}"


def passed_over(request: str, overlap: int) -> str:
    """Return the name of a host that waits in a scope, in addition to those of the scope.

    `overlap` is the number of further fault domains that its campaign could announce. The
    host is found by it when the campaign may announce more.
    """
    return f"passed-over:{request}/{overlap}"


def behind(request: str) -> str:
    """Return the name of a host that waits for a reservation of another rollout.

    It has the name in addition to those of the scope, and is found by it when the other
    rollout stops announcing hosts, so that its reservations no longer count.
    """
    return f"behind:{request}"


def by_terms(request: str) -> str:
    """Return the name of a host that waits for a budget or for times to begin.

    It has the name in addition to that of the wait, and is found by it when the terms of
    its campaign change.
    """
    return f"by-terms:{request}"


def for_window(scope: str) -> str:
    """Return the name of the wait of Ready operations for the window of a scope."""
    return f"window:{scope}"


def for_relay(host: str) -> str:
    """Return the name of the wait of Ready operations for the relay of a host."""
    return f"relay:{host}"


def names_for(
    blockers: Sequence[AnyBlocker], own: Mapping[str, frozenset[int]]
) -> tuple[str, ...]:
    """Return the names of the waits of an operation with these blockers.

    It waits for the first of them, or for each of the holds with which they begin: without
    one of those, it can begin earlier. `own` has the fault domains that the operation takes
    down, by scope.
    """
    held = takewhile(lambda blocker: blocker.kind in HOLD_KINDS, blockers)
    names = dict.fromkeys(name for blocker in held for name in _names_of(blocker, own))
    return tuple(names) or _names_of(blockers[0], own)


def _names_of(
    blocker: AnyBlocker, own: Mapping[str, frozenset[int]]
) -> tuple[str, ...]:
    match blocker:
        case BrakeOn():
            return (BRAKE,)
        case WindowClosed(scope=scope) | Deferred(scope=scope):
            return (for_window(scope),)
        case NoCommonWindow(scopes=scopes):
            return tuple(map(for_window, scopes))
        case InBlackout(campaign="", blackout=blackout):
            return (for_blackout(blackout),)
        case (
            CampaignStopped(campaign=campaign)
            | OutsideWindow(campaign=campaign)
            | InBlackout(campaign=campaign)
        ):
            return (for_campaign(campaign),)
        case FaultDomainDown(scope=scope):
            return STARTS.names(scope, own[scope])
        case MigrationUnderWay(scope=scope):
            return (for_migration(scope),)
        case SharedHost(vms=vms):
            # A VM that leaves the host may free the operation.
            return tuple(for_vm(domain_member.vm) for domain_member in vms)
        case VmBusy(vm=vm) | VmDown(vm=vm):
            return (for_vm(vm),)
        case RelaySilent(host=host):
            return (for_relay(host),)
        case _:
            return (ROOM,)


def for_blackout(name: str) -> str:
    """Return the name of the wait of Ready operations for a blackout of the service."""
    return f"blackout:{name}"


def is_for_blackout(name: str) -> bool:
    """Return whether a name comes from `for_blackout`."""
    return name.startswith("blackout:")


def is_for_stop(name: str) -> bool:
    """Return whether a name is that of a wait for the brake or a blackout."""
    return name == BRAKE or is_for_blackout(name)


# Waits of Planned hosts

TURN_BRAKE = "turn-brake"
"""Name of the wait of the next host of a rollout for the brake."""

TURN_BLACKOUTS = "turn-blackouts"
"""Name of the wait of the next host of a rollout for the end of all blackouts."""

TURN_ROOM = "turn-room"
"""Name of the wait of hosts for destinations of their VMs."""


NO_WINDOW = "no-window"
"""Name by which hosts are found whose windows are not open together."""


def turn_for_window(scope: str) -> str:
    """Return the name of the wait of a host for the window of a scope."""
    return f"turn-window:{scope}"


def is_turn_for_window(name: str) -> bool:
    """Return whether a name comes from `turn_for_window`."""
    return name.startswith("turn-window:")


def turn_for_blackout(name: str) -> str:
    """Return the name of the wait of a host for a blackout of a part of the fleet."""
    return f"turn-blackout:{name}"


def names_of_blackout(name: str) -> tuple[str, ...]:
    """Return the names of all waits that the end of a blackout of the service can end."""
    return for_blackout(name), turn_for_blackout(name), TURN_BLACKOUTS


def is_turn_for_hold(name: str) -> bool:
    """Return whether a host with this wait is held until a time, and reserves nothing."""
    return (
        is_turn_for_window(name)
        or name == TURN_BLACKOUTS
        or name.startswith("turn-blackout:")
    )


def is_for_hold(name: str) -> bool:
    """Return whether a name is that of a wait for a window or a blackout."""
    return is_turn_for_hold(name) or is_for_blackout(name) or name.startswith("window:")


def for_campaign(campaign: str) -> str:
    """Return the name of the wait of announced hosts for their campaign."""
    return f"campaign:{campaign}"


def for_budget(budget: str, subject: str) -> str:
    """Return the name of the wait of a host for a budget: a group, or a tenant."""
    return f"budget:{budget}/{subject}"


def budgets(places: Iterable[str], tenants: Iterable[str]) -> Iterator[str]:
    """Yield the names of the waits for budgets of places of a host, and of tenants."""
    for place in places:
        yield for_budget(BudgetKind.GROUP.value, place.removeprefix(f"{LABEL}="))
    for tenant in sorted(set(tenants)):
        yield for_budget(BudgetKind.TENANT_VMS.value, tenant)


def turn(request: str, stage: int = 1) -> str:
    """Return the name of the wait for a slot of a rollout, in a stage of its campaign."""
    return f"turn:{request}" + (f"/{stage}" if stage > 1 else "")


def again_turn(request: str) -> str:
    """Return the name of a failed host that is tried again, in addition to `turn`.

    Its campaign has cordoned it, so its announcement takes no further host away.
    """
    return f"again-turn:{request}"


def first_turn(request: str) -> str:
    """Return the name of a host that a tenant has expedited, in addition to `turn`."""
    return f"first-turn:{request}"


def is_kept(name: str) -> bool:
    """Return whether a host keeps this name while it waits for something else."""
    return is_reservation(name) or is_first_turn(name)


def is_first_turn(name: str) -> bool:
    """Return whether a name comes from `first_turn`."""
    return name.startswith("first-turn:")


def for_host(host: str) -> str:
    """Return the name of the wait for a host that is in use."""
    return f"host:{host}"


def for_pause(host: str) -> str:
    """Return the name of the wait of a host whose VMs could not be moved away.

    Its timer gives it its turn again.
    """
    return f"pause:{host}"


def for_visit(visit: str) -> str:
    """Return the name of the wait for the step `needed` of a visit.

    The end of the step gives the host its turn again; nothing else wakes it.
    """
    return f"visit:{visit}"


def reserved(scope: str) -> str:
    """Return the name by which a host reserves a scope."""
    return f"reserved:{scope}"


def reserved_by(name: str) -> str:
    """Return the scope of a name from `reserved`; empty: another name."""
    return name.removeprefix("reserved:") if is_reservation(name) else ""


def is_reservation(name: str) -> bool:
    """Return whether a name comes from `reserved`."""
    return name.startswith("reserved:")


def is_turn(name: str) -> bool:
    """Return whether a name is that of a wait of Planned hosts."""
    return (
        name in {TURN_ROOM, TURN_BRAKE}
        or is_turn_for_hold(name)
        or TURNS.is_one(name)
        or OVERLAPPING_TURNS.is_one(name)
        or name.startswith(("host:", "budget:", "behind:"))
    )
