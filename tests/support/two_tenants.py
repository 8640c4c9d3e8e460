"""A fleet in which each host has a VM of each of two tenants."""

_TENANTS = """
[[tenant]]
name = "shop"
[[tenant]]
name = "bank"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[scope]]
name = "db"
tenant = "bank"
kind = "availability-set"
"""


def two_tenants(*, hosts: int) -> str:
    """Return a fleet file: host h0 has web_0 of shop and db_0 of bank, and so on."""
    return _TENANTS + "".join(
        f'[[host]]\nname = "h{number}"\n'
        + "".join(
            f'[[vm]]\nname = "{scope}_{number}"\nhost = "h{number}"\n'
            f'scope = "{scope}"\nfault_domain = {number}\n'
            for scope in ("web", "db")
        )
        for number in range(hosts)
    )
