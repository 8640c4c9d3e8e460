"""Plans of campaign files with the fleet of a store, and what their start stores."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from forewarn.campaigns.durations import Sample
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
    past_work,
    told,
    wide_blackouts,
)
from forewarn.control.rules.policy import Policy
from forewarn.instants import Micros
from forewarn.protocol.abilities import Able
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.port import Columns, Reader, columns, every

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


def plan_of(
    reader: Reader,
    request: PlanRequest,
    *,
    past: Collection[Sample] | None = None,
) -> CampaignPlan:
    """Return the plan of a campaign file; raises CampaignFileError and RefusedError.

    `past` has the durations of past work; None: those that the store has.
    """
    plan, _ = plan_and_size(reader, request, past)
    return plan


def plan_and_size(
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
    return DriftedError(now, drift=drift, hint=again)


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
