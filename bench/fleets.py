"""Fleet files of any size, and the addresses of their VMs."""

from collections.abc import Iterator
from ipaddress import IPv4Address

VMS_PER_HOST = 10
SET_VMS = 10
"""VMs of an availability set; each is on a host of its own."""

FIRST_ADDRESS = int(IPv4Address("127.1.0.0"))
"""All of 127/8 is this machine's, so a client can be any VM."""


def address(number: int) -> str:
    """Return the address of a VM."""
    return str(IPv4Address(FIRST_ADDRESS + number))


def vm_id(number: int) -> str:
    """Return the vmId of a VM."""
    return f"00000000-0000-4000-8000-{number:012x}"


def vm_text(number: int, host: str, scope: str = "", fault_domain: int = 0) -> str:
    """Return a VM of a fleet file; without a scope it stands alone."""
    text = (
        f'[[vm]]\nname = "vm_{number}"\nhost = "{host}"\n'
        f'address = "{address(number)}"\nid = "{vm_id(number)}"\n'
    )
    if scope:
        text += f'scope = "{scope}"\nfault_domain = {fault_domain}\n'
    return text


def host_text(name: str) -> str:
    """Return a host of a fleet file."""
    return f'[[host]]\nname = "{name}"\n'


def scope_text(name: str) -> str:
    """Return an availability set of a fleet file."""
    return f'[[scope]]\nname = "{name}"\nkind = "availability-set"\n'


def mixed(vms: int) -> str:
    """Return a fleet of ten VMs a host: half stand alone, half are in sets of ten."""
    return "".join(_mixed(vms))


def _mixed(vms: int) -> Iterator[str]:
    hosts = -(-vms // VMS_PER_HOST)
    for number in range(hosts):
        yield host_text(f"h{number}")
    for number in range(vms):
        # Neighbours of a set are on neighbouring hosts, each in its fault domain.
        host = f"h{number % hosts}"
        kind, member = divmod(number, SET_VMS)
        if kind % 2:
            yield vm_text(number, host)
            continue
        if not member:
            yield scope_text(f"set{kind}")
        yield vm_text(number, host, f"set{kind}", member % 3)


def pairs(hosts: int) -> str:
    """Return hosts of two VMs that stand alone: 2n, and 2n + 1."""
    return "".join(
        host_text(f"h{number}")
        + vm_text(2 * number, f"h{number}")
        + vm_text(2 * number + 1, f"h{number}")
        for number in range(hosts)
    )


def crowded(hosts: int, vms: int, *, first: int) -> str:
    """Return hosts of many VMs, in sets of ten, numbered from `first` on."""
    return "".join(
        host_text(f"big{host}")
        + "".join(
            (scope_text(f"big{host}-{each // SET_VMS}") if not each % SET_VMS else "")
            + vm_text(
                first + host * vms + each, f"big{host}", f"big{host}-{each // SET_VMS}"
            )
            for each in range(vms)
        )
        for host in range(hosts)
    )
