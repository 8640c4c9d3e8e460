"""Plans of campaigns as JSON, for operators, and the fleet that they are made for."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.durations import Measured, Sample
from forewarn.campaigns.file import read_campaign
from forewarn.campaigns.fleet_map import (
    HOST_FIELDS,
    VM_FIELDS,
    VM_FIELDS_IN_PLACE,
    FleetMap,
    HostRow,
    VmMove,
    fleet_map,
)
from forewarn.campaigns.forecast import Forecast
from forewarn.campaigns.model import Campaign, Impact
from forewarn.campaigns.plan_drift import (
    DriftedError,
    PlanOutline,
    drift_between,
    outline_of,
)
from forewarn.campaigns.plan_progress import (
    Part,
    Progress,
    ReportProgress,
    ignore_progress,
)
from forewarn.campaigns.planner import CampaignPlan, Terms, plan_campaign
from forewarn.campaigns.prepared import Prepared, prepare
from forewarn.campaigns.text import CampaignText, with_lines
from forewarn.control.rules import (
    abilities,
    campaign_gate,
    campaign_hosts,
    told,
    wide_blackouts,
)
from forewarn.control.rules.policy import Policy
from forewarn.fleet.blackouts import Clash
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.protocol.abilities import Able
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action
from forewarn.reporting import apart_hosts, past_work
from forewarn.store import kinds
from forewarn.store.port import Columns, Reader, columns, every
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


_ROOM_FIELDS = ("host", "works", "is_cordoned")

_MOVE_FIELDS = ("host", "moving_to", "scope", "fault_domain", "vcpu", "memory")
"""The fields of `Vm` in the order of `VmMove`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A campaign file to plan."""

    text: CampaignText
    hosts_max: int
    """Maximum hosts in the report."""
    terms: Terms
    now: Micros
    host_steps: StepRules = NO_STEPS
    """The host steps of the driver: with some, a reboot of the host is usual."""


def plan_request(
    text: CampaignText,
    policy: Policy,
    *,
    now: Micros,
    hosts_max: int = 0,
    host_steps: StepRules = NO_STEPS,
) -> PlanRequest:
    """Return the request to plan a campaign file in a service with this policy."""
    return PlanRequest(
        text=text,
        hosts_max=hosts_max,
        terms=terms_of(policy),
        now=now,
        host_steps=host_steps,
    )


def terms_of(policy: Policy) -> Terms:
    """Return the settings of a service that plans depend on."""
    return Terms(
        notices={impact: campaign_gate.notice_of(policy, impact) for impact in Impact},
        speed=policy.speed,
        recovery=policy.recovery,
        reserve=policy.reserve,
        driver_chooses=policy.driver_chooses,
    )


def read_fleet_map(
    reader: Reader, *, moves_vms: bool = True, report: ReportProgress = ignore_progress
) -> FleetMap:
    """Return the fleet of a store; unless VMs move, without their sizes."""
    busy = {
        name
        for page in columns(reader, kinds.ROOMS_AWAY, _ROOM_FIELDS)
        for name, works, is_cordoned in zip(*page, strict=True)
        if works or is_cordoned
    }
    hosts = [
        row
        for page in columns(reader, kinds.ALL_HOSTS, HOST_FIELDS)
        for row in map(HostRow._make, zip(*page, strict=True))
    ]
    scopes = [
        scope
        for page in columns(reader, kinds.EXPLICIT_SCOPES, ("name", "kind"))
        for scope in zip(*page, strict=True)
    ]
    moves = [
        move
        for page in columns(reader, kinds.VMS_MOVING_TO, _MOVE_FIELDS)
        for move in map(VmMove._make, zip(*page, strict=True))
        if move.to_host != move.host
    ]
    fixed = [
        host
        for page in columns(reader, kinds.FIXED_VMS_ON_HOST, ("host", "name"))
        for host in page[0]
    ]
    fields = VM_FIELDS if moves_vms else VM_FIELDS_IN_PLACE
    vms = _counted(
        columns(reader, kinds.VMS_ON_HOST, fields),
        [host.name for host in hosts],
        report,
    )
    return fleet_map(hosts, vms, scopes, moves=moves, fixed=fixed, busy=busy)


def _counted(
    pages: Iterator[Columns], hosts: Sequence[str], report: ReportProgress
) -> Iterator[Columns]:
    """Yield pages of VMs in the order of their hosts, and report which hosts were read."""
    for page in pages:
        yield page
        done = bisect_right(hosts, page[0][-1])
        report(Progress(part=Part.READING, done=done, of=len(hosts)))


def note_abilities(
    reader: Reader, fleet: FleetMap, campaign: Campaign
) -> frozenset[str]:
    """Note the hosts on which the driver cannot do the work of a campaign.

    The campaign has all its steps, because with `work` its VMs are stopped and started.
    Return those of which the driver answered that it does not know.
    """
    untold: set[str] = set()
    action = Action(campaign.impact.value)
    steps = abilities.steps_of(NO_STEPS, campaign.steps, action)
    needed = told.asked_about(action, steps)
    for record in every(reader, kinds.ALL_ABILITIES):
        number = fleet.numbers.get(record.host)
        if number is None or not fleet.vms[number]:
            continue
        if any(
            ability.able is Able.UNKNOWN and ability.action in {None, *needed}
            for ability in record.told
        ):
            untold.add(record.host)
        first = next(told.not_possible(reader, record, needed), None)
        if first is not None:
            fleet.unable[number] = first.vm, first.reason
    return frozenset(untold)


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
    plan, fleet_hosts = _plan_of(reader, request, report=report)
    members = plan_report(plan, fleet_hosts=fleet_hosts, hosts_max=request.hosts_max)
    apart = apart_hosts.of_plan(reader, plan)
    text = json_text({**members, "held": _held(reader, plan), "apart": apart})
    return Planned(text, outline_of(plan))


def plan_of(
    reader: Reader,
    request: PlanRequest,
    *,
    past: Collection[Sample] | None = None,
) -> CampaignPlan:
    """Return the plan of a campaign file; raises CampaignFileError and RefusedError.

    `past` has the durations of past work; None: those that the store has.
    """
    plan, _ = _plan_of(reader, request, past)
    return plan


def _plan_of(
    reader: Reader,
    request: PlanRequest,
    past: Collection[Sample] | None = None,
    *,
    report: ReportProgress = ignore_progress,
) -> tuple[CampaignPlan, int]:
    """Return the plan of a campaign file, and the number of hosts of the fleet."""
    campaign = abilities.with_all_steps(
        request.host_steps, read_campaign(request.text.text, name=request.text.name)
    )
    fleet = read_fleet_map(
        reader, moves_vms=campaign.impact.empties_host, report=report
    )
    report(Progress(part=Part.PLANNING))
    untold = note_abilities(reader, fleet, campaign)
    terms = replace(
        request.terms,
        blackouts=wide_blackouts.of_fleet(reader),
        parts=wide_blackouts.of_parts(reader),
    )
    if past is None:
        past = past_work.samples(reader, campaign.impact)
    with with_lines(request.text):
        plan = plan_campaign(campaign, fleet, terms=terms, now=request.now, past=past)
    # With refused hosts, the plan says more than a refusal.
    if not plan.campaign.steps and not sum(plan.vms) and not plan.refusals:
        raise RefusedError(
            f"campaign {campaign.name} would do nothing: it has no steps, and its hosts "
            "have no VMs",
            hint="Add a step work to [campaign.steps].",
        )
    return replace(plan, untold=len(untold.intersection(plan.hosts))), len(fleet)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A campaign file to start, with the plan that its operator has seen."""

    plan: PlanRequest
    digest: str
    seen: PlanOutline | None = None
    """The plan with this digest; None: unknown."""


def prepared(reader: Reader, request: StartRequest) -> Prepared:
    """Return what the start of a campaign stores.

    Raises CampaignFileError. Raises RefusedError as the planner does, for a plan that has
    another digest now, and if another campaign has one of the hosts.
    """
    plan_request = request.plan
    plan = plan_of(reader, plan_request)
    if plan.digest != request.digest:
        raise _changed(request, plan)
    return prepared_of(reader, plan, plan_request.text)


def _changed(request: StartRequest, plan: CampaignPlan) -> RefusedError:
    """Return the refusal of a plan that has changed, with the difference if it is known."""
    now = (
        f"the plan of campaign {plan.campaign.name} is {plan.digest} now, not "
        f"{request.digest}"
    )
    again = f"Run `forewarn campaign plan {request.plan.text.name}` again, and start that plan."
    if request.seen is None:
        return RefusedError(
            f"{now}: the digest is mistyped, or the file or the fleet has changed since "
            "the plan",
            hint=again,
        )
    drift = drift_between(request.seen, outline_of(plan))
    return DriftedError(f"{now}: {wording.drift(drift)}", drift=drift, hint=again)


def prepared_of(reader: Reader, plan: CampaignPlan, text: CampaignText) -> Prepared:
    """Return what the start of a plan stores.

    Raises RefusedError if another campaign has one of the hosts.
    """
    campaign_hosts.check_free(
        reader, plan.hosts, is_emergency=plan.campaign.is_emergency
    )
    return prepare(
        plan.campaign,
        hosts=plan.hosts,
        stages=plan.stages,
        digest=plan.digest,
        text=text.text,
        planned_end=plan.typical.end,
        tenant_most=plan.tenant_most,
        most_vms=max(plan.vms, default=0),
        seen=campaign_hosts.seen(reader),
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
