"""The capacity of one host that VMs use, and the VMs that use it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from forewarn.fleet.model import NO_USE, Capacity, Vm, use_of
from forewarn.protocol.no_place import Unfit


@dataclass(slots=True)
class HostUse:
    """The VMs that are on a host or are moving to it, with their sums."""

    vms: dict[str, Vm] = field(default_factory=dict[str, Vm])
    _total: tuple[int, int, int] = NO_USE
    _domains: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    """How many VMs of each fault domain, by scope."""

    @classmethod
    def of(cls, vms: Iterable[Vm]) -> "HostUse":
        """Return the use of a host by VMs; a VM that is given twice counts once."""
        use = cls()
        for vm in vms:
            use.add(vm)
        return use

    def add(self, vm: Vm) -> None:
        """Count a VM, unless it is counted."""
        if vm.name in self.vms:
            return
        self.vms[vm.name] = vm
        self._total = _plus(self._total, use_of(vm), 1)
        self._domains.setdefault(vm.scope, Counter())[vm.fault_domain] += 1

    def beside(self, vm: Vm) -> tuple[int, int, int]:
        """Return the places, vCPUs and memory of the other VMs."""
        own = self.vms.get(vm.name)
        return self._total if own is None else _plus(self._total, use_of(own), -1)

    def domains_beside(self, vm: Vm) -> frozenset[int]:
        """Return the fault domains of the other VMs of the VM's scope."""
        domains = self._domains.get(vm.scope)
        if domains is None:
            return frozenset()
        own = self.vms.get(vm.name)
        if own is None or domains[own.fault_domain] > 1:
            return frozenset(domains)
        return frozenset(domains) - {own.fault_domain}


def _plus(
    one: tuple[int, int, int], other: tuple[int, int, int], sign: int
) -> tuple[int, int, int]:
    return (
        one[0] + sign * other[0],
        one[1] + sign * other[1],
        one[2] + sign * other[2],
    )


def why_too_small(room: Capacity, vm: Vm) -> Unfit | None:
    """Return why the stored capacity of a host is too small for a VM; None: it is not."""
    if room.free < 1:
        return Unfit.FULL
    if room.vcpu - room.vcpu_used < (vm.vcpu or 0):
        return Unfit.VCPU
    if room.memory - room.memory_used < (vm.memory or 0):
        return Unfit.MEMORY
    return None
