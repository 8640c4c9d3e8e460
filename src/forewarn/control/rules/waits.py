"""Names of waits, by which a wake-up finds waiting operations. Pure.

An operation waits for one reason at a time, its first blocker. When the reason ends, the
operation is checked again; it then starts or waits for another reason. A wake-up
therefore reads only operations that can have become free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.protocol.blockers import (
    AnyBlocker,
    BrakeOn,
    FaultDomainDown,
    MigrationUnderWay,
    SharedHost,
    VmBusy,
    VmDown,
)

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
        found = (self.in_scope(scope),)
        if len(domains) == 1:
            (domain,) = domains
            found = (*found, self.in_domain(scope, domain))
        return found

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


def for_migration(scope: str) -> str:
    """Return the name of the wait for the end of a live migration in a scope."""
    return f"migration:{scope}"


def for_vm(vm: str) -> str:
    """Return the name of the wait for a VM that is busy or down."""
    return f"vm:{vm}"


def names_for(
    blockers: Sequence[AnyBlocker], own: Mapping[str, frozenset[int]]
) -> tuple[str, ...]:
    """Return the names of the waits of an operation with these blockers.

    `own` has the fault domains that the operation takes down, by scope.
    """
    match blockers[0]:
        case BrakeOn():
            return (BRAKE,)
        case FaultDomainDown(scope=scope):
            return STARTS.names(scope, own[scope])
        case MigrationUnderWay(scope=scope):
            return (for_migration(scope),)
        case SharedHost(vms=vms):
            # A VM that leaves the host may free the operation.
            return tuple(for_vm(each.vm) for each in vms)
        case VmBusy(vm=vm) | VmDown(vm=vm):
            return (for_vm(vm),)
        case _:
            return (ROOM,)


# Waits of Planned hosts

TURN_BRAKE = "turn-brake"
"""Name of the wait of the next host of a rollout for the brake."""

TURN_ROOM = "turn-room"
"""Name of the wait of hosts for destinations of their VMs."""


def turn(request: str) -> str:
    """Return the name of the wait for a slot of a rollout."""
    return f"turn:{request}"


def for_host(host: str) -> str:
    """Return the name of the wait for a host that is in use."""
    return f"host:{host}"


def reserved(scope: str) -> str:
    """Return the name by which a host reserves a scope."""
    return f"reserved:{scope}"


def is_reservation(name: str) -> bool:
    """Return whether a name comes from `reserved`."""
    return name.startswith("reserved:")


def is_turn(name: str) -> bool:
    """Return whether a name is that of a wait of Planned hosts."""
    return (
        name in {TURN_ROOM, TURN_BRAKE}
        or TURNS.is_one(name)
        or name.startswith("host:")
    )
