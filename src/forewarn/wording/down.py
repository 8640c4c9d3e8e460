"""Texts about hosts and VMs that are down, for operators."""

from forewarn.protocol.turn_blockers import ScopeInUse


def until(name: str) -> str:
    """Return how long a host or VM is down: until the command that restores it."""
    return f" until `forewarn restore {name}`"


def scope_in_use(blocker: ScopeInUse) -> str:
    """Return why no host with VMs of another fault domain of a scope is announced."""
    domain = f"fault domain {blocker.fault_domain} of scope {blocker.scope}"
    most = (
        "one at a time is allowed"
        if blocker.at_once == 1
        else f"{blocker.at_once} at a time are allowed (overlap_notice)"
    )
    if blocker.down:
        return f"{domain} is down{until(blocker.down)}, and only {most}"
    by = f" by {blocker.operation}" if blocker.operation else ""
    return f"{domain} is announced, in maintenance or down{by}, and only {most}"
