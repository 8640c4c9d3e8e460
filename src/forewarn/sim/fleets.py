"""The default fleet of a simulation: a few VMs of one tenant.

Each VM has its own host in the next fault domain, as in an availability set of a
platform, and a spare host receives migrated VMs. Alternatively all VMs are on one host,
so that its maintenance is one event that names all of them.
"""

FAULT_DOMAINS = 3
"""Number of fault domains, as in most regions."""

VMS = 3
"""Default number of VMs."""

VMS_MAX = 10_000
"""Maximum number of VMs in the default fleet. Write a fleet file for more."""

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
    """Return the fleet as a fleet file; `together`: all VMs on one host."""
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
