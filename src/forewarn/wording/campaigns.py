"""Sentences about the plan of a campaign, for operators."""

from collections.abc import Sequence

from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.clearing import Reason, Refusal
from forewarn.campaigns.limits import GroupLimit, LimitKind, Limits
from forewarn.campaigns.model import Impact, Phase
from forewarn.campaigns.planner import CampaignPlan
from forewarn.problems import listed
from forewarn.texts import count

MODELS_NAMED_MAX = 3
"""Maximum models that a warning names: one line."""

_RESOURCES = {"places": "VMs", "vcpu": "vCPUs", "memory": "MiB of memory"}


def bound(bound_: Bound) -> str:
    """Return what a bound says: `rack r7: 1 host at once`."""
    match bound_.kind:
        case LimitKind.IN_FLIGHT:
            return f"in_flight: {_at_once(bound_)}, for {count(bound_.count, 'host')}"
        case LimitKind.UNAVAILABLE:
            return f"unavailable: {_at_once(bound_)}, for {count(bound_.count, 'host')}"
        case LimitKind.GROUP:
            return f"{_group(bound_)}: {_at_once(bound_)}, for {count(bound_.count, 'host')}"
        case LimitKind.ROOM:
            where = _pool(bound_.subject)
            return (
                f"{where} has capacity to empty {_at_once(bound_)}, "
                f"for {count(bound_.count, 'host')}"
            )
        case LimitKind.TENANT_VMS:
            return (
                f"tenant {bound_.subject}: {bound_.at_once:,} of its {bound_.count:,} VMs "
                "at once"
            )
        case LimitKind.FAULT_DOMAINS:
            return f"scope {bound_.subject}: {count(bound_.count, 'fault domain')}"
        case LimitKind.MIGRATIONS:
            return (
                f"scope {bound_.subject}: VMs on {count(bound_.count, 'host')}, and one of them "
                "migrates at a time"
            )


def refusal(refusal_: Refusal) -> str:
    """Return why a host cannot be done, with the numbers."""
    noun = _RESOURCES.get(refusal_.resource, "")
    match refusal_.reason:
        case Reason.DOWN:
            return "the host is down"
        case Reason.PINNED:
            return f"{count(refusal_.needed, 'VM')} cannot be moved (movable = false)"
        case Reason.UNABLE:
            where = f"VM {refusal_.subject}" if refusal_.subject else "its VMs"
            because = f": {refusal_.said}" if refusal_.said else ""
            return f"the driver says that {refusal_.impact} is not possible for {where}{because}"
        case Reason.SHARED_SCOPE:
            return (
                f"scope {refusal_.subject} has several fault domains on the host, so the "
                "work could not start"
            )
        case Reason.NO_ROOM:
            return (
                f"the host has {refusal_.needed:,} {noun} to move, and the other hosts of "
                f"{_pool(refusal_.subject)} have capacity for {refusal_.free:,}"
                + (
                    f", of which policy.reserve keeps {refusal_.reserve:,}"
                    if refusal_.reserve
                    else ""
                )
            )
        case Reason.TOO_LARGE:
            return (
                f"its largest VM needs {refusal_.needed:,} {noun}, and no other host of "
                f"{_pool(refusal_.subject)} has more than {refusal_.free:,}"
            )
        case Reason.NO_TARGET:
            return (
                f"no other host of {_pool(refusal_.subject)} has capacity of every kind"
            )
        case Reason.SCOPE_EVERYWHERE:
            return (
                f"VMs of scope {refusal_.subject} in fault domain {refusal_.fault_domain} have "
                "no target: each host with capacity has another fault domain of the "
                "scope or is in another zone"
            )
        case Reason.RACKS:
            return (
                f"VMs of scope {refusal_.subject} in fault domain {refusal_.fault_domain} have "
                "no target: hosts with capacity are in racks with more VMs of the scope, "
                "have another fault domain of it or are in another zone"
            )
        case Reason.NO_FIT:
            return (
                f"{_pool(refusal_.subject)} has enough free capacity in total, but its hosts "
                "cannot take the VMs one after the other"
            )
        case Reason.TENANT_VMS:
            return (
                f"the host has {refusal_.needed:,} VMs of tenant {refusal_.subject}, and "
                f"tenant_vms allows {refusal_.free:,}"
            )


def limit_lines(limits: Limits, hosts: int, fleet_hosts: int) -> list[str]:
    """Return the budgets with their numbers."""
    lines = [
        f"in_flight {limits.in_flight_written}: {count(limits.in_flight, 'host')} of {hosts:,}"
    ]
    if limits.unavailable is not None:
        away = f", and {limits.away:,} are away" if limits.away else ""
        lines.append(
            f"unavailable {limits.unavailable_written}: "
            f"{count(limits.unavailable, 'host')} of {fleet_hosts:,}{away}"
        )
    lines += [group_line(limit) for limit in limits.groups]
    if limits.tenant_most:
        low, high = min(limits.tenant_most), max(limits.tenant_most)
        amount = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        lines.append(f"tenant_vms {limits.tenant_written}: {amount} VMs of each tenant")
    if limits.reserve.value:
        lines.append(
            f"policy.reserve {limits.reserve}: each pool keeps "
            + (
                f"{limits.reserve} of its capacity free"
                if limits.reserve.is_percent
                else f"as much free as {count(int(limits.reserve.value), 'host')} can have"
            )
        )
    if limits.overlap:
        lines.append(
            f"overlap_notice {limits.overlap}: so many further fault domains of a scope "
            "can be announced, and one of them is in work"
        )
    return lines


def group_line(limit: GroupLimit) -> str:
    """Return the maximum of each group of a label."""
    limits = [most for most in limit.most if most >= 0]
    if not limits:
        return f"{limit.label} {limit.written}: no host has this label"
    low, high = min(limits), max(limits)
    amount = count(low, "host") if low == high else f"{low:,} to {count(high, 'host')}"
    return f"{limit.label} {limit.written}: {amount} of each {limit.label}"


_WITHOUT_WORK = {
    Impact.REBOOT: "the VMs are restarted one by one, and no host is rebooted: for that, add "
    "[host_step.reboot-host] to forewarn.toml, or a step work to [campaign.steps]",
    Impact.FREEZE: "the VMs are paused and resumed, and nothing is done on the hosts: add "
    "a step work to [campaign.steps]",
    Impact.LIVE_MIGRATE: "the hosts are emptied and opened again, and nothing is done on "
    "them: add a step work to [campaign.steps]",
    Impact.REDEPLOY: "the hosts are emptied and opened again, and nothing is done on them: "
    "add a step work to [campaign.steps]",
}


def without_work(impact: Impact) -> str:
    """Return what a campaign without a step `work` does; empty: it needs one."""
    effect = _WITHOUT_WORK.get(impact)
    return "" if effect is None else f"there is no step work: {effect}"


def warnings(plan: CampaignPlan) -> list[str]:
    """Return what an operator should know before the start."""
    sentences: list[str] = []
    if plan.campaign.is_emergency:
        ignored = [*plan.campaign.ignored, "windows of tenants", "deferrals"]
        sentences.append(f"it is an emergency: it does not keep to {listed(ignored)}")
    has_work = any(step.phase is Phase.WORK for step in plan.campaign.steps)
    if not has_work and (why := without_work(plan.campaign.impact)):
        sentences.append(why)
        empty = plan.vms.count(0)
        if empty:
            sentences.append(
                f"nothing at all is done on {count(empty, 'host')} without VMs"
            )
    if not plan.campaign.windows:
        sentences.append("there is no window: hosts would be announced at once")
    if not plan.campaign.expect.is_given:
        sentences.append(
            "the durations are assumed: set [campaign.expect] to those of your hosts"
        )
    if plan.limits.is_blocked:
        sentences.append(
            f"no host could begin now: unavailable allows {plan.limits.unavailable:,} "
            f"hosts, and {plan.limits.away:,} others are away"
        )
    if plan.untold:
        sentences.append(
            f"the driver does not know whether {plan.campaign.impact.value} is possible "
            f"on {count(plan.untold, 'host')}"
        )
    if plan.late_models:
        sentences.append(_late(plan.late_models, before=len(plan.stages)))
    for part in plan.parts:
        places = listed([f"{label}={value}" for label, value in part.blackout.places])
        sentences.append(
            f"blackout {part.blackout.time.name} of {places} stops "
            f"{len(part.hosts):,} of {count(len(plan.hosts), 'host')}"
        )
    sentences += [
        f"no host has the label {limit.label} of [[campaign.budget.by]]"
        for limit in plan.limits.groups
        if all(most < 0 for most in limit.most)
    ]
    return sentences


def _late(models: Sequence[tuple[str, int]], *, before: int) -> str:
    """Return the models whose first host is in the last stage, which tolerates failures."""
    named = listed(
        [f"{model} ({count(hosts, 'host')})" for model, hosts in models],
        MODELS_NAMED_MAX,
    )
    noun = "model" if len(models) == 1 else "models"
    return (
        f"no host of {noun} {named} comes before stage {before}, the last one, so a fault "
        "of that model shows late; a separate campaign gives it canaries"
    )


def held(name: str, hosts: int) -> str:
    """Return that an emergency takes hosts over from another campaign."""
    return f"{count(hosts, 'host')} of campaign {name} would be taken over, each at its turn"


def not_simulated(
    *, operations: int, campaigns: Sequence[str], is_braked: bool, checks: int
) -> list[str]:
    """Return what a simulation leaves out that the service has now."""
    sentences: list[str] = []
    if campaigns:
        sentences.append(f"other campaigns are not simulated: {listed(campaigns)}")
    if operations:
        sentences.append(
            f"{operations:,} open operations are not simulated: they count as ended"
        )
    if is_braked:
        sentences.append("the brake is on, and the simulation ignores it")
    if checks:
        sentences.append("checks are not simulated: each passes")
    return sentences


def _group(bound_: Bound) -> str:
    return f"{bound_.label} {bound_.subject}"


def _at_once(bound_: Bound) -> str:
    return f"{count(bound_.at_once, 'host')} at once"


def _pool(name: str) -> str:
    return f"pool {name}" if name else "the fleet"
