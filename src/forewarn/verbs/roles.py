"""The roles of a token: what its holder may do.

Each role includes `VIEW`. A token without given roles has all that its kind can have:
`ALL_ROLES` for an operator, `TENANT_ROLES` for a tenant.
"""

import enum
from collections.abc import Iterable


class Role(enum.Enum):
    """One role of a token."""

    VIEW = "view"
    """Read everything that the holder may see, and change nothing."""
    PLAN = "plan"
    """Plan campaigns and ask checks, which changes nothing and is work for others."""
    RUN = "run"
    """Request and cancel work, change the fleet, cordon and open hosts."""
    APPROVE = "approve"
    """Approve events on behalf of VMs, and stages of campaigns."""
    EMERGENCY = "emergency"
    """Do what goes past a protection: emergency work, failures, and the brake off."""

    @property
    def about(self) -> str:
        """Return what the role allows, for help and documents."""
        return _ABOUT[self]


_ABOUT = {
    Role.VIEW: "reads everything, changes nothing",
    Role.PLAN: "plans campaigns and asks checks",
    Role.RUN: "requests and cancels work, cordons and opens hosts, applies fleet files",
    Role.APPROVE: "approves events and stages of campaigns, and releases emergencies",
    Role.EMERGENCY: "records failures and repairs, requests emergency work, empties the "
    "fleet, takes the brake off",
}

ALL_ROLES = tuple(Role)
"""The roles of an unrestricted operator."""

READ_ONLY = (Role.VIEW,)

STOPPING_ROLES = frozenset(Role) - {Role.VIEW}
"""Each of these roles may stop planned work: to stop is safe, and may be urgent."""

TENANT_ROLES = (Role.VIEW, Role.RUN, Role.APPROVE)
"""The roles that a tenant's token can have; the others are matters of operators."""


def complete(roles: Iterable[Role]) -> tuple[Role, ...]:
    """Return the roles in their order, each once, with the role that all include."""
    wanted = {Role.VIEW, *roles}
    return tuple(role for role in Role if role in wanted)


def role_names(roles: Iterable[Role]) -> str:
    """Return the roles as text: `view, run`."""
    return ", ".join(role.value for role in roles)
