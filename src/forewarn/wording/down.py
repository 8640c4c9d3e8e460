"""Texts about hosts and VMs that are down, for operators."""

from forewarn.protocol.turn_blockers import HostInUse, ScopeInUse


def until(name: str) -> str:
    """Return how long a host or VM is down: until the command that restores it."""
    return f" until `forewarn restore {name}`"


def scope_in_use(blocker: ScopeInUse, *, end: str) -> str:
    """Return why no host with VMs of another fault domain of a scope is announced.

    `end`: how long something is down, as `until` returns it, or empty.
    """
    domain = f"fault domain {blocker.fault_domain} of scope {blocker.scope}"
    most = (
        "one at a time is allowed"
        if blocker.at_once == 1
        else f"{blocker.at_once} at a time are allowed (overlap_notice)"
    )
    if blocker.down:
        return f"{domain} is down{end}, and only {most}"
    by = f" by {blocker.operation}" if blocker.operation else ""
    return f"{domain} is announced, in maintenance or down{by}, and only {most}"


def host_in_use(blocker: HostInUse, *, end: str) -> str:
    """Return why a host is not announced; `end` as for `scope_in_use`."""
    if blocker.verb is not None:
        work = f"{blocker.operation} ({blocker.verb.value})"
        return f"host {blocker.host} has {work} under way"
    if blocker.arriving:
        return f"host {blocker.host} keeps a place for VM {blocker.arriving}"
    return f"host {blocker.host} is down{end}"
