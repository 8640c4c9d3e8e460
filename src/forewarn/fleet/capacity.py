"""How much room a host has: kept beside the host, so that free places are found.

A kept number may be wrong within a transaction that changes it. So it only says which
hosts are looked at: what is on each of them is read before a VM is put there.
"""

from dataclasses import dataclass

from forewarn.fleet.model import Host, HostState, Vm, VmState

UNLIMITED_PLACES = 1_000_000_000
"""Places of a host without a capacity: more than any host has VMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The places of one host."""

    host: str
    zone: str
    places: int
    """How many VMs it may have; UNLIMITED_PLACES: no limit."""
    used: int = 0
    """VMs on it, and places kept for VMs on their way to it."""
    is_up: bool = True
    works: int = 0
    """Open operations that are announced or under way for the host itself."""
    done_in: str = ""
    """The request that the host was last maintained for, to the end."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.host

    @property
    def free(self) -> int:
        """Return how many more VMs it may have."""
        return self.places - self.used

    @property
    def is_open(self) -> bool:
        """Tell whether a VM could be put there now."""
        return self.is_up and not self.works and self.free > 0

    @property
    def has_space(self) -> bool:
        """Tell whether a VM could be put there when nobody works on the host."""
        return self.is_up and self.free > 0


def capacity_of(
    host: Host, *, used: int = 0, works: int = 0, done_in: str = ""
) -> Capacity:
    """Return the room of a host."""
    return Capacity(
        host=host.name,
        zone=host.zone,
        places=UNLIMITED_PLACES if host.capacity is None else host.capacity,
        used=used,
        is_up=host.state is HostState.UP,
        works=works,
        done_in=done_in,
    )


def taken_by(vm: Vm | None) -> frozenset[str]:
    """Return the hosts on which a VM takes a place."""
    if vm is None or vm.state is VmState.DELETED:
        return frozenset()
    return frozenset({vm.host, vm.moving_to} - {""})
