"""Plans of campaigns as JSON, for operators."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.durations import Measured
from forewarn.campaigns.forecast import Forecast
from forewarn.campaigns.plan_drift import (
    PlanOutline,
    outline_of,
)
from forewarn.campaigns.plan_progress import (
    ReportProgress,
    ignore_progress,
)
from forewarn.campaigns.planner import CampaignPlan
from forewarn.control.requests.campaign_starts import PlanRequest, plan_and_size
from forewarn.control.rules import (
    campaign_hosts,
)
from forewarn.fleet.blackouts import Clash
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.protocol.errors import RefusedError
from forewarn.reporting import apart_hosts
from forewarn.store.port import Reader
from forewarn.texts import json_text
from forewarn.wording import campaigns as wording

Json: TypeAlias = dict[str, Any]

REFUSALS_TOLD_MAX = 100
"""Maximum hosts that a report names as not possible; all of them are counted."""

HELD_TOLD_MAX = 100
"""Maximum hosts that a report names for each other campaign that has them; all of them
are counted."""

GROUPS_TOLD_MAX = 50
"""Maximum values of a label that a report counts: there can be thousands of racks."""

TENANTS_TOLD_MAX = 5
"""Maximum tenants that a report names, those with the most VMs."""


class Planned(NamedTuple):
    """The plan of a campaign file, for its operator and for a later start."""

    text: str
    """The report, as JSON."""
    outline: PlanOutline


def planned(
    reader: Reader, request: PlanRequest, *, report: ReportProgress = ignore_progress
) -> Planned:
    """Return the plan of a campaign file; `report` gets the progress.

    Raises CampaignFileError and RefusedError.
    """
    plan, fleet_hosts = plan_and_size(reader, request, report=report)
    members = plan_report(plan, fleet_hosts=fleet_hosts, hosts_max=request.hosts_max)
    apart = apart_hosts.of_plan(reader, plan)
    text = json_text({**members, "held": _held(reader, plan), "apart": apart})
    return Planned(text, outline_of(plan))


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
        "bounds": [_bound(bound) for bound in plan.bounds],
        "refused_count": len(plan.refusals),
        "refused_by_reason": dict(Counter(left.reason.value for left in plan.refusals)),
        "refused": [
            {
                "host": refusal.host,
                "reason": refusal.reason.value,
                "message": wording.refusal(refusal),
            }
            for refusal in plan.refusals[:REFUSALS_TOLD_MAX]
        ],
        "warnings": wording.warnings(plan),
        "openings": [
            {"opens": format_instant(span.opens), "closes": format_instant(span.closes)}
            for span in plan.openings
        ],
        "blackouts": list(map(time_of_blackout, plan.blackouts)),
        "measured": None if plan.measured is None else _measured(plan.measured),
        "typical": _times(plan, plan.typical),
        "slow": _times(plan, plan.slow),
        "hosts": [_host(plan, place) for place in range(shown)],
        "hosts_left_out": len(plan.hosts) - shown,
    }


def time_of_blackout(found: Clash) -> Json:
    """Return one time of a blackout as JSON."""
    return {
        "name": found.name,
        "begins": format_instant(found.begins),
        "ends": format_instant(found.ends),
    }


def _held(reader: Reader, plan: CampaignPlan) -> list[Json]:
    """Return the other campaigns that have any of the hosts, with what to do."""
    holdings = campaign_hosts.holdings(
        reader,
        plan.hosts,
        is_emergency=plan.campaign.is_emergency,
        with_taken_over=True,
    )
    return [
        {
            "campaign": holding.campaign_id,
            "name": holding.name,
            "state": holding.state.value,
            "host_count": len(holding.hosts),
            "hosts": holding.hosts[:HELD_TOLD_MAX],
            "refuses_start": not holding.is_taken_over,
            **_advice(holding),
        }
        for holding in holdings
    ]


def _advice(found: campaign_hosts.Holding) -> Json:
    """Return what a start would do about hosts of another campaign, and a hint."""
    if found.is_taken_over:
        return {"message": wording.held(found.name, len(found.hosts)), "hint": ""}
    try:
        found.refuse()
    except RefusedError as error:
        return {"message": error.message, "hint": error.hint}


def _measured(found: Measured) -> Json:
    def told(span: Micros | None) -> float | None:
        return None if span is None else span / SECOND

    return {
        "hosts": found.hosts,
        "models": list(found.models),
        "work_typical_seconds": told(found.work.typical),
        "work_slow_seconds": told(found.slow),
        "slow_used_seconds": told(found.work.slow),
        "step": found.step,
        "notice_typical_seconds": told(found.notice_typical),
        "notice_slow_seconds": told(found.notice_slow),
    }


def _counts(found: Mapping[str, int]) -> list[Json]:
    """Return the values of a label with the most hosts, in the order of their names."""
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))
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
    cluster, rack = plan.places[place]
    return {
        "host": plan.hosts[place],
        "cluster": cluster,
        "rack": rack,
        "stage": stage,
        "set": plan.sets[place] + 1,
        "vms": plan.vms[place],
        "begins": format_instant(plan.typical.begins[place]),
        "ends": format_instant(plan.typical.ends[place]),
    }
