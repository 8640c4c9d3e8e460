"""Sentences about hosts that cannot take VMs, and about what a driver cannot do."""

from collections.abc import Iterator

from forewarn.fleet.sources import Authority
from forewarn.instants import Micros, cut_to_second, format_instant
from forewarn.protocol.abilities import Able
from forewarn.protocol.blockers import DriverUnable, NoCapacity, RelaySilent
from forewarn.protocol.no_place import NoPlace, Unfit
from forewarn.protocol.verbs import Action

_UNFIT = {
    Unfit.DOWN: "down",
    Unfit.CORDONED: "cordoned",
    Unfit.BUSY: "in maintenance, or announced",
    Unfit.FULL: "full",
    Unfit.DOMAIN: "used by another fault domain of its scope",
    Unfit.ZONE: "in another zone than the VMs of its scale set",
    Unfit.POOL: "in another pool",
    Unfit.RACK: "in a rack with more VMs of its scope",
    Unfit.VCPU: "with too few free vCPUs",
    Unfit.MEMORY: "with too little free memory",
    Unfit.RELAY: "with a silent relay (`forewarn relay list`)",
}


def place(blocker: NoCapacity | DriverUnable | RelaySilent) -> str:
    """Return why a VM has no destination, or what a host does not do for its VMs."""
    if isinstance(blocker, DriverUnable):
        return unable(blocker)
    if isinstance(blocker, RelaySilent):
        return relay_silent(blocker.host, blocker.since)
    reason = "; ".join(_searched(blocker.why))
    return f"there is no host with capacity for {blocker.vm}: {reason}"


def relay_silent(host: str, since: Micros) -> str:
    """Return that the relay of a host is silent, and what can be done; 0: since the start
    of the service."""
    begin = (
        format_instant(cut_to_second(since)) if since else "the start of the service"
    )
    return (
        f"the relay of host {host} has been silent since {begin}, so its VMs may not know "
        "their events: `forewarn relay list` shows it. If the host has no relay any "
        "longer, revoke its tokens (`forewarn token list`)"
    )


def _searched(search: NoPlace) -> Iterator[str]:
    if search.is_fixed:
        yield "it cannot be moved (movable = false in the fleet file)"
        return
    if search.on_host:
        yield f"it is on {search.on_host}"
    for group in search.unfit:
        more = f" and {group.more} more" if group.more else ""
        yield f"{_UNFIT[group.why]}: {', '.join(group.hosts)}{more}"
    if not search.unfit:
        yield "there are no other hosts"
    if search.others_are_full:
        yield "full, down, cordoned or in maintenance: all others"
    elif search.looked_at_most:
        yield f"not checked: hosts with less capacity than these {search.looked_at_most}"


def unable(blocker: DriverUnable) -> str:
    """Return what the driver told against an action."""
    return ability(
        blocker.action,
        Able.NO,
        Authority.DRIVER,
        host=blocker.host,
        vm=blocker.vm,
        reason=blocker.said,
    )


def ability(
    action: Action, able: Able, source: Authority, *, host: str, vm: str, reason: str
) -> str:
    """Return that an action is not possible, or that this is unknown, and who says so."""
    where = f"VM {vm}" if vm else f"the VMs of host {host}"
    because = f": {reason}" if reason else ""
    if source is not Authority.DRIVER:
        return (
            f"{action.value} is not possible for {where}: movable = false in the "
            f"{source.value}"
        )
    if able is Able.UNKNOWN:
        return (
            f"the driver does not know whether {action.value} is possible for {where}"
            f"{because}"
        )
    return f"the driver says that {action.value} is not possible for {where}{because}"
