"""The names of what operations wait for, by which a wake-up finds them. Pure.

An operation waits for one reason at a time: the first that was found in its way. When
the reason has gone, the operation is looked at again, and then it starts or waits for
another reason. So a wake-up reads those who can have been set free, and no others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.protocol.blockers import (
    AnyBlocker,
    FaultDomainDown,
    MigrationUnderWay,
    VmBusy,
    VmDown,
)

ROOM = "room"
"""Who waits for a place on any host."""


@dataclass(frozen=True, slots=True)
class DomainWaits:
    """The names of waits for other fault domains of a scope."""

    prefix: str
    """Of each name; none is the beginning of another."""

    def in_scope(self, scope: str) -> str:
        """Return the name of the wait for other fault domains of a scope."""
        return f"{self.prefix}{scope}"

    def in_domain(self, scope: str, fault_domain: int) -> str:
        """Return the name of the wait of those who take down this domain alone."""
        return f"{self.prefix}{scope}/{fault_domain}"

    def names(self, scope: str, domains: frozenset[int]) -> tuple[str, ...]:
        """Return the names of a wait of one who takes down these domains."""
        found = (self.in_scope(scope),)
        if len(domains) == 1:
            (domain,) = domains
            found = (*found, self.in_domain(scope, domain))
        return found

    def scope_of(self, name: str) -> str:
        """Return the scope of a name that `in_scope` made; of another, no text."""
        return name.removeprefix(self.prefix) if self.is_one(name) else ""

    def is_one(self, name: str) -> bool:
        """Tell whether a name is one of these waits."""
        return name.startswith(self.prefix)


STARTS = DomainWaits("scope:")
"""Ready operations wait for the guard under these names."""

TURNS = DomainWaits("turn-scope:")
"""Planned hosts of rollouts wait for their announcement under these names."""


def for_migration(scope: str) -> str:
    """Return the name of the wait for the end of a live migration in a scope."""
    return f"migration:{scope}"


def for_vm(vm: str) -> str:
    """Return the name of the wait for a VM that is in other hands, or down."""
    return f"vm:{vm}"


def names_for(
    blockers: Sequence[AnyBlocker], own: Mapping[str, frozenset[int]]
) -> tuple[str, ...]:
    """Return what an operation waits for that is held by these blockers.

    `own` are the fault domains that the operation takes down, by scope.
    """
    match blockers[0]:
        case FaultDomainDown(scope=scope):
            return STARTS.names(scope, own[scope])
        case MigrationUnderWay(scope=scope):
            return (for_migration(scope),)
        case VmBusy(vm=vm) | VmDown(vm=vm):
            return (for_vm(vm),)
        case _:
            return (ROOM,)


# What Planned hosts of rollouts wait for

TURN_ROOM = "turn-room"
"""Hosts that wait until there are places for their VMs."""


def turn(request: str) -> str:
    """Return the name of the wait for a slot of a rollout."""
    return f"turn:{request}"


def for_host(host: str) -> str:
    """Return the name of the wait for a host that is in use."""
    return f"host:{host}"


def reserved(scope: str) -> str:
    """Return the name by which a host that has waited long reserves a scope."""
    return f"reserved:{scope}"


def is_reservation(name: str) -> bool:
    """Tell whether a name was made by `reserved`."""
    return name.startswith("reserved:")


def is_turn(name: str) -> bool:
    """Tell whether Planned hosts wait under this name."""
    return name == TURN_ROOM or TURNS.is_one(name) or name.startswith("host:")
