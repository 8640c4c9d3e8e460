"""Plans of campaigns as JSON, and the fleet that they are made for.

Plans are for operators. They name hosts and tenants.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.file import read_campaign
from forewarn.campaigns.fleet_map import (
    HOST_FIELDS,
    VM_FIELDS,
    FleetMap,
    HostRow,
    VmRow,
    fleet_map,
)
from forewarn.campaigns.forecast import Forecast
from forewarn.campaigns.model import Impact
from forewarn.campaigns.planner import CampaignPlan, Terms, plan_campaign
from forewarn.campaigns.text import CampaignText
from forewarn.control.rules.policy import Policy
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.protocol.events import EventType
from forewarn.store import kinds
from forewarn.store.port import Reader, fields
from forewarn.texts import json_text
from forewarn.wording import campaigns as wording

Json: TypeAlias = dict[str, Any]

REFUSALS_TOLD_MAX = 100
"""Maximum hosts that a report names as not possible; all of them are counted."""

GROUPS_TOLD_MAX = 50
"""Maximum values of a label that a report counts: there can be thousands of racks."""

TENANTS_TOLD_MAX = 5
"""Maximum tenants that a report names, those with the most VMs."""


_ROOM_FIELDS = ("host", "works", "is_cordoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A campaign file to plan."""

    text: CampaignText
    hosts_max: int
    """Maximum hosts in the report."""
    terms: Terms
    now: Micros


def terms_of(policy: Policy) -> Terms:
    """Return the settings of a service that plans depend on."""
    return Terms(
        notices={
            Impact.FREEZE: policy.notice_for(EventType.FREEZE),
            Impact.LIVE_MIGRATE: policy.notice_for(EventType.FREEZE),
            Impact.REBOOT: policy.notice_for(EventType.REBOOT),
            Impact.REDEPLOY: policy.notice_for(EventType.REDEPLOY),
            Impact.NONE: 0,
        },
        speed=policy.speed,
    )


def read_fleet_map(reader: Reader) -> FleetMap:
    """Return the fleet of a store."""
    busy = {
        name
        for name, works, is_cordoned in fields(reader, kinds.ALL_ROOMS, _ROOM_FIELDS)
        if works or is_cordoned
    }
    hosts = [HostRow(*row) for row in fields(reader, kinds.ALL_HOSTS, HOST_FIELDS)]
    scopes = fields(reader, kinds.ALL_SCOPES, ("name", "kind"))
    # A VmRow for each of a million VMs would take a second: a tuple has the same order.
    vms = cast("Iterable[VmRow]", fields(reader, kinds.ALL_VMS, VM_FIELDS))
    return fleet_map(hosts, vms, scopes, busy=busy)


def planned(reader: Reader, request: PlanRequest) -> str:
    """Return the plan of a campaign file as JSON text.

    Raises CampaignFileError and RefusedError.
    """
    campaign = read_campaign(request.text.text, name=request.text.name)
    fleet = read_fleet_map(reader)
    plan = plan_campaign(campaign, fleet, terms=request.terms, now=request.now)
    return json_text(
        plan_report(plan, fleet_hosts=len(fleet), hosts_max=request.hosts_max)
    )


def plan_report(plan: CampaignPlan, *, fleet_hosts: int, hosts_max: int) -> Json:
    """Return a plan as JSON."""
    campaign = plan.campaign
    shown = min(len(plan.hosts), hosts_max)
    return {
        "campaign": campaign.name,
        "reason": campaign.reason,
        "impact": campaign.impact.value,
        "order": campaign.order.value,
        "digest": plan.digest,
        "planned_at": format_instant(plan.planned_at),
        "host_count": len(plan.hosts),
        "vm_count": sum(plan.vms),
        "tenant_count": len(plan.tenants),
        "tenants": [
            {"tenant": name, "vms": vms}
            for name, vms in plan.tenants[:TENANTS_TOLD_MAX]
        ],
        "counts": {label: _counts(found) for label, found in plan.counts.items()},
        "limits": wording.limit_lines(plan.limits, len(plan.hosts), fleet_hosts),
        "stages": _stages(plan),
        "sets": max(plan.sets) + 1,
        "sets_at_least": plan.least_sets,
        "bounds": [_bound(each) for each in plan.bounds],
        "refused_count": len(plan.refusals),
        "refused_by_reason": dict(Counter(each.reason.value for each in plan.refusals)),
        "refused": [
            {
                "host": each.host,
                "reason": each.reason.value,
                "message": wording.refusal(each),
            }
            for each in plan.refusals[:REFUSALS_TOLD_MAX]
        ],
        "warnings": wording.warnings(plan),
        "openings": [
            {"opens": format_instant(each.opens), "closes": format_instant(each.closes)}
            for each in plan.openings
        ],
        "typical": _times(plan, plan.typical),
        "slow": _times(plan, plan.slow),
        "hosts": [_host(plan, place) for place in range(shown)],
        "hosts_left_out": len(plan.hosts) - shown,
    }


def _counts(found: Mapping[str, int]) -> list[Json]:
    """Return the values of a label with the most hosts, in the order of their names."""
    most = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return [
        {"value": value, "hosts": hosts}
        for value, hosts in sorted(most[:GROUPS_TOLD_MAX])
    ]


def _stages(plan: CampaignPlan) -> list[Json]:
    return [
        {
            "hosts": str(stage.hosts),
            "host_count": end - start,
            "up_to": end,
            "soak_seconds": stage.soak / SECOND,
            "approval": stage.approval,
            "begins": format_instant(min(plan.typical.begins[start:end])),
            "ends": format_instant(max(plan.typical.ends[start:end])),
        }
        for start, (end, stage) in zip(
            [0, *(end for end, _ in plan.stages)], plan.stages, strict=False
        )
    ]


def _bound(bound: Bound) -> Json:
    return {
        "kind": bound.kind.value,
        "label": bound.label,
        "subject": bound.subject,
        "count": bound.count,
        "at_once": bound.at_once,
        "rounds": bound.rounds,
        "message": wording.bound(bound),
    }


def _times(plan: CampaignPlan, found: Forecast) -> Json:
    begins = min(found.begins)
    return {
        "begins": format_instant(begins),
        "ends": format_instant(found.end),
        "seconds": (found.end - plan.planned_at) / SECOND,
    }


def _host(plan: CampaignPlan, place: int) -> Json:
    stage = next(
        number for number, (end, _) in enumerate(plan.stages, start=1) if place < end
    )
    return {
        "host": plan.hosts[place],
        "stage": stage,
        "set": plan.sets[place] + 1,
        "vms": plan.vms[place],
        "begins": format_instant(plan.typical.begins[place]),
        "ends": format_instant(plan.typical.ends[place]),
    }
