"""Sentences about the plan of a campaign, for operators."""

from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.clearing import Reason, Refusal
from forewarn.campaigns.limits import GroupLimit, LimitKind, Limits
from forewarn.campaigns.planner import CampaignPlan

_RESOURCES = {"places": "VMs", "vcpu": "vCPUs", "memory": "MiB of memory"}


def bound(found: Bound) -> str:
    """Return what a bound says: `rack r7: 1 host at once`."""
    match found.kind:
        case LimitKind.IN_FLIGHT:
            return f"in_flight: {_at_once(found)}, for {_hosts(found.count)}"
        case LimitKind.UNAVAILABLE:
            return f"unavailable: {_at_once(found)}, for {_hosts(found.count)}"
        case LimitKind.GROUP:
            return f"{_group(found)}: {_at_once(found)}, for {_hosts(found.count)}"
        case LimitKind.ROOM:
            where = _pool(found.subject)
            return (
                f"{where} has capacity to empty {_at_once(found)}, "
                f"for {_hosts(found.count)}"
            )
        case LimitKind.TENANT_VMS:
            return (
                f"tenant {found.subject}: {found.at_once:,} of its {found.count:,} VMs "
                "at once"
            )
        case LimitKind.FAULT_DOMAINS:
            return f"scope {found.subject}: {found.count:,} fault domains" + _overlap(
                found
            )
        case LimitKind.MIGRATIONS:
            return (
                f"scope {found.subject}: VMs on {_hosts(found.count)}, and one of them "
                "migrates at a time" + _overlap(found)
            )


def refusal(found: Refusal) -> str:
    """Return why a host cannot be done, with the numbers."""
    noun = _RESOURCES.get(found.resource, "")
    match found.reason:
        case Reason.DOWN:
            return "the host is down"
        case Reason.PINNED:
            return f"{_vms(found.needed)} cannot be moved (movable = false)"
        case Reason.SHARED_SCOPE:
            return (
                f"scope {found.subject} has several fault domains on the host, so the "
                "work could not start"
            )
        case Reason.NO_ROOM:
            return (
                f"the host has {found.needed:,} {noun} to move, and the other hosts of "
                f"{_pool(found.subject)} have capacity for {found.free:,}"
            )
        case Reason.TOO_LARGE:
            return (
                f"its largest VM needs {found.needed:,} {noun}, and no other host of "
                f"{_pool(found.subject)} has more than {found.free:,}"
            )
        case Reason.NO_TARGET:
            return f"no other host of {_pool(found.subject)} has capacity of every kind"
        case Reason.SCOPE_EVERYWHERE:
            return (
                f"VMs of scope {found.subject} in fault domain {found.fault_domain} have "
                f"no target: {_hosts(found.needed)} with capacity, and each has another "
                "fault domain of the scope or is in another zone"
            )
        case Reason.TENANT_VMS:
            return (
                f"the host has {found.needed:,} VMs of tenant {found.subject}, and "
                f"tenant_vms allows {found.free:,}"
            )


def limit_lines(limits: Limits, hosts: int, fleet_hosts: int) -> list[str]:
    """Return the budgets with their numbers."""
    lines = [
        f"in_flight {limits.in_flight_written}: {_hosts(limits.in_flight)} of {hosts:,}"
    ]
    if limits.unavailable is not None:
        away = f", and {limits.away:,} are away" if limits.away else ""
        lines.append(
            f"unavailable {limits.unavailable_written}: "
            f"{_hosts(limits.unavailable)} of {fleet_hosts:,}{away}"
        )
    lines += [group_line(limit) for limit in limits.groups]
    if limits.tenant_most:
        low, high = min(limits.tenant_most), max(limits.tenant_most)
        told = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        lines.append(f"tenant_vms {limits.tenant_written}: {told} VMs of each tenant")
    if limits.overlap:
        lines.append(
            f"overlap_notice: {limits.overlap} more fault domains under notice"
        )
    return lines


def group_line(limit: GroupLimit) -> str:
    """Return the maximum of each group of a label."""
    found = [most for most in limit.most if most >= 0]
    if not found:
        return f"{limit.label} {limit.written}: no host has this label"
    low, high = min(found), max(found)
    told = _hosts(low) if low == high else f"{low:,} to {_hosts(high)}"
    return f"{limit.label} {limit.written}: {told} of each {limit.label}"


def warnings(plan: CampaignPlan) -> list[str]:
    """Return what an operator should know before the start."""
    found: list[str] = []
    if not plan.campaign.windows:
        found.append("there is no window: hosts would be announced at once")
    if not plan.campaign.expect.is_given:
        found.append(
            "the durations are assumed: set [campaign.expect] to those of your hosts"
        )
    if plan.limits.is_blocked:
        found.append(
            f"no host could begin now: unavailable allows {plan.limits.unavailable:,} "
            f"hosts, and {plan.limits.away:,} others are away"
        )
    found += [
        f"no host has the label {limit.label} of [[campaign.budget.by]]"
        for limit in plan.limits.groups
        if all(most < 0 for most in limit.most)
    ]
    return found


def _group(found: Bound) -> str:
    return f"{found.label} {found.subject}"


def _at_once(found: Bound) -> str:
    return f"{_hosts(found.at_once)} at once"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count:,} hosts"


def _vms(count: int) -> str:
    return "1 VM" if count == 1 else f"{count:,} VMs"


def _pool(name: str) -> str:
    return f"pool {name}" if name else "the fleet"


def _overlap(found: Bound) -> str:
    return "" if found.at_once == 1 else f", {found.at_once:,} at once"
