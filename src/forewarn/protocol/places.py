"""Why hosts cannot take a VM: values that a store keeps. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from forewarn.protocol.frozen import frozen_dataclass

HOSTS_NAMED_MAX = 5
"""Maximum hosts named per reason: a fleet of thousands must not fill a record."""


class Unfit(enum.Enum):
    """Why a host cannot take a VM."""

    DOWN = "down"
    BUSY = "busy"
    FULL = "full"
    DOMAIN = "fault domain"
    """It holds another fault domain of the VM's scope."""
    ZONE = "zone"
    """It is in another zone than the VM's scale set has there."""


@frozen_dataclass
class UnfitHosts:
    """Hosts that cannot take a VM for one reason."""

    why: Unfit
    hosts: tuple[str, ...]
    """Names of the first `HOSTS_NAMED_MAX`."""
    more: int = 0
    """How many there are besides."""


def unfit_hosts(found: Mapping[Unfit, Sequence[str]]) -> tuple[UnfitHosts, ...]:
    """Return the hosts of each reason, in the order of `Unfit`, bounded in number."""
    return tuple(
        UnfitHosts(
            why=why,
            hosts=tuple(names[:HOSTS_NAMED_MAX]),
            more=max(0, len(names) - HOSTS_NAMED_MAX),
        )
        for why in Unfit
        if (names := found.get(why, ()))
    )


@frozen_dataclass
class NoPlace:
    """What was found when a host was looked for, and none can take the VM."""

    on_host: str = ""
    """The host that the VM is on; empty: it was not among those looked at."""
    unfit: tuple[UnfitHosts, ...] = ()
    others_are_full: bool = False
    """All hosts that are not named are full, down or under maintenance."""
    looked_at_most: int = 0
    """Only so many hosts, those with most room, were looked at; 0: all that have any."""
