"""Fleet files of any size, and the addresses of their VMs."""

from collections.abc import Iterator
from ipaddress import IPv4Address

VMS_PER_HOST = 10
SET_VMS = 10
"""VMs of an availability set, each on a separate host."""

FIRST_ADDRESS = int(IPv4Address("127.1.0.0"))
"""127/8 belongs to this machine, so a client can use the address of any VM."""


def address(number: int) -> str:
    """Return the address of a VM."""
    return str(IPv4Address(FIRST_ADDRESS + number))


def vm_id(number: int) -> str:
    """Return the vmId of a VM."""
    return f"00000000-0000-4000-8000-{number:012x}"


def vm_text(number: int, host: str, scope: str = "", fault_domain: int = 0) -> str:
    """Return a VM of a fleet file, optionally in a scope."""
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
    """Return a fleet with ten VMs per host: half without a scope, half in sets of ten."""
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
    """Return hosts with two VMs without a scope each: 2n and 2n + 1."""
    return "".join(
        host_text(f"h{number}")
        + vm_text(2 * number, f"h{number}")
        + vm_text(2 * number + 1, f"h{number}")
        for number in range(hosts)
    )


def crowded(hosts: int, vms: int, *, first: int) -> str:
    """Return hosts with many VMs in sets of ten, numbered from `first`."""
    return "".join(
        host_text(f"big{host}")
        + "".join(
            (
                scope_text(f"big{host}-{number // SET_VMS}")
                if not number % SET_VMS
                else ""
            )
            + vm_text(
                first + host * vms + number,
                f"big{host}",
                f"big{host}-{number // SET_VMS}",
            )
            for number in range(vms)
        )
        for host in range(hosts)
    )
