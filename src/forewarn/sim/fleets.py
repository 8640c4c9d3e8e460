"""The fleet of a simulation that names none: a few VMs of one shop.

Each VM is on a host of its own, in the next fault domain, as a platform spreads an
availability set; a spare host takes those that are moved. Or all are on one host,
so that its maintenance is one event that names them all.
"""

FAULT_DOMAINS = 3
"""Fault domains that VMs are spread over, as many as most regions have."""

VMS = 3
"""VMs, unless somebody says otherwise."""

VMS_MAX = 10_000
"""More than this is a fleet of its own, to be written as a file."""

_HEAD = """\
[[tenant]]
name = "shop"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
terminate_notice = "5m"

[[host]]
name = "spare"
"""


def vm_names(vms: int = VMS) -> list[str]:
    """Return the names of the VMs: web_0, web_1 and so on."""
    return [f"web_{number}" for number in range(vms)]


def fleet_text(vms: int = VMS, *, together: bool = False) -> str:
    """Return the fleet as a file has it; `together`: all VMs on one host."""
    assert 1 <= vms <= VMS_MAX, vms
    hosts = 1 if together else vms
    parts = [_HEAD]
    parts += [f'\n[[host]]\nname = "h{number}"\n' for number in range(hosts)]
    for number, name in enumerate(vm_names(vms)):
        host = 0 if together else number
        parts.append(
            f'\n[[vm]]\nname = "{name}"\nhost = "h{host}"\nscope = "web"\n'
            f"fault_domain = {host % FAULT_DOMAINS}\n"
            f"update_domain = {number % 5}\n"
        )
    return "".join(parts)
