"""The resources of hosts: places, virtual CPUs and memory.

A host without a limit takes any number. A VM without a value of its own needs one place
and no counted vCPUs or memory. Memory is counted in MiB.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from forewarn.fleet.model import Host, Vm

MIB_OF_UNIT = {"M": 1, "G": 1 << 10, "T": 1 << 20}
"""MiB in each unit of a size."""

_SIZE = re.compile(r"([0-9]{1,12}) ?([MGT])(?:iB)?", re.ASCII)


def parse_size(text: str) -> int:
    """Return the MiB of a size such as `64GiB`; raises ValueError with a message."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            "must be a size in MiB, GiB or TiB such as 64GiB, not the text"
            f' "{text[:40]}"'
        )
    return int(match[1]) * MIB_OF_UNIT[match[2]]


def format_size(mib: int) -> str:
    """Return a size in the largest unit that gives a whole number: `64GiB`."""
    fitting = [unit for unit, size in MIB_OF_UNIT.items() if mib % size == 0]
    unit = fitting[-1] if mib else "M"
    return f"{mib // MIB_OF_UNIT[unit]}{unit}iB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of hosts that VMs use."""

    key: str
    """Key of the limit in a fleet file, and attribute of the host."""
    noun: str
    """The counted things, for messages."""
    limit: Callable[[Host], int | None]
    """Returns the limit of a host; None: it has no limit."""
    need: Callable[[Vm], int]
    """Returns how much a VM uses."""
    show: Callable[[int], str] = str
    """Returns an amount as text."""


RESOURCES: tuple[Resource, ...] = (
    Resource(
        key="capacity",
        noun="capacity",
        limit=lambda host: host.capacity,
        need=lambda _vm: 1,
    ),
    Resource(
        key="vcpu",
        noun="vCPUs",
        limit=lambda host: host.vcpu,
        need=lambda vm: vm.vcpu or 0,
    ),
    Resource(
        key="memory",
        noun="memory",
        limit=lambda host: host.memory,
        need=lambda vm: vm.memory or 0,
        show=format_size,
    ),
)
"""All resources."""


def is_overfull(host: Host, vms: Collection[Vm]) -> bool:
    """Return whether VMs need more of a resource than the host has."""
    return any(
        limit is not None and sum(map(resource.need, vms)) > limit
        for resource in RESOURCES
        for limit in (resource.limit(host),)
    )
