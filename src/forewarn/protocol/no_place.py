"""Why hosts cannot take a VM, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass

HOSTS_NAMED_MAX = 5
"""Maximum hosts named per reason: a fleet of thousands must not fill a record."""


class Unfit(Enumeration):
    """Why a host cannot take a VM."""

    DOWN = "down"
    CORDONED = "cordoned"
    BUSY = "busy"
    FULL = "full"
    DOMAIN = "fault domain"
    """The host has a VM of another fault domain of the same scope."""
    ZONE = "zone"
    """The host is in another zone than the VM, whose scale set is zonal."""
    POOL = "pool"
    """The host is in another pool, so it cannot exchange VMs with the VM's host."""
    RACK = "rack"
    """Its rack has more VMs of the scope than the rack of the VM's host."""
    VCPU = "vcpu"
    """The host has too few free vCPUs for the VM."""
    MEMORY = "memory"
    """The host has too little free memory for the VM."""
    RELAY = "relay"
    """The relay of the host is silent, so the VM would not get its documents there."""


@frozen_dataclass
class UnfitHosts:
    """Hosts that cannot take a VM, for one reason."""

    why: Unfit
    hosts: tuple[str, ...]
    """Names of the first `HOSTS_NAMED_MAX`."""
    more: int = 0
    """Number of further hosts."""


def unfit_hosts(
    hosts_by_reason: Mapping[Unfit, Sequence[str]],
) -> tuple[UnfitHosts, ...]:
    """Return the hosts by reason, in the order of `Unfit`, with a limit per reason."""
    return tuple(
        UnfitHosts(
            why=why,
            hosts=tuple(names[:HOSTS_NAMED_MAX]),
            more=max(0, len(names) - HOSTS_NAMED_MAX),
        )
        for why in Unfit
        if (names := hosts_by_reason.get(why, ()))
    )


@frozen_dataclass
class NoPlace:
    """Result of a search for a host if none can take the VM."""

    on_host: str = ""
    """Host of the VM; empty: it was not among the hosts that were checked."""
    unfit: tuple[UnfitHosts, ...] = ()
    others_are_full: bool = False
    """Whether all hosts that are not named are full, down, cordoned or under
    maintenance."""
    looked_at_most: int = 0
    """Number of checked hosts, those with the most free capacity; 0: all with capacity."""
    is_fixed: bool = False
    """Whether the VM cannot be moved at all, so no host was checked."""
