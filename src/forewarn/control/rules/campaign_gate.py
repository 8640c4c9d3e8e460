"""Read what the gate of a campaign depends on, and ask it.

`campaigns.gate` decides. This module only reads.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from forewarn.campaigns import commands, gate
from forewarn.campaigns.gate import Gate, Standing
from forewarn.campaigns.hours import Hours
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact
from forewarn.campaigns.record import CampaignRecord, StageTerms
from forewarn.control.rules import implied_campaigns, tallies, wide_blackouts
from forewarn.control.rules.holds import HeldTimes
from forewarn.control.rules.policy import Policy
from forewarn.fleet.calendars import MISSES_MAX
from forewarn.fleet.model import LABEL, Capacity, Host, Vm, is_at, places_of
from forewarn.fleet.room_tallies import hosts_at
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.events import EventType
from forewarn.protocol.notes import DrainStopped
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.turn_blockers import (
    BudgetKind,
    BudgetUsed,
    CampaignStopped,
    InBlackout,
    OutsideWindow,
)
from forewarn.protocol.visits import Visit, is_visit_id
from forewarn.settings.amounts import amount_of
from forewarn.store import kinds
from forewarn.store.port import Reader, count, every

CORDONED_READ_MAX = 20
"""Maximum cordoned hosts that are read to name those that use a budget: two reads each."""

VMS_DOWN_COUNTED = 1_000
"""Maximum VMs that are counted for a campaign without a limit: a number for people."""

EVENT_OF: Mapping[Impact, EventType] = {
    Impact.FREEZE: EventType.FREEZE,
    Impact.LIVE_MIGRATE: EventType.FREEZE,
    Impact.REBOOT: EventType.REBOOT,
    Impact.REDEPLOY: EventType.REDEPLOY,
}
"""The type of the events of each impact; none for work that VMs do not notice."""


def notice_of(policy: Policy, impact: Impact) -> Micros:
    """Return the notice of the events of an impact; 0 without events."""
    event_type = EVENT_OF.get(impact)
    return 0 if event_type is None else policy.notice_for(event_type)


def with_speed(
    policy: Policy, stages: tuple[StageTerms, ...]
) -> tuple[StageTerms, ...]:
    """Return the stages with their soaks divided by `speed`, for the expected times."""
    sped_up = [
        0 if policy.speed == 1 else policy.sped_up(stage.soak) for stage in stages
    ]
    if sped_up == [stage.sped_up for stage in stages]:
        return stages
    return tuple(
        replace(stage, sped_up=soak)
        for stage, soak in zip(stages, sped_up, strict=True)
    )


def campaign_of(reader: Reader, request: Request | None) -> CampaignRecord | None:
    """Return the campaign of a rollout; None: it has none."""
    if request is None or not request.campaign:
        return None
    campaign = reader.get(CampaignRecord, request.campaign)
    assert campaign is not None, f"{request.request_id} has no campaign"
    return campaign


def open_campaign_of(reader: Reader, visit: Visit) -> CampaignRecord | None:
    """Return the open campaign that a visit belongs to; None: it has none."""
    campaign = campaign_of(reader, reader.get(Request, visit.request))
    return None if campaign is None or campaign.has_ended else campaign


def name_of_open(reader: Reader, visit: Visit) -> str:
    """Return the name of the open campaign that a visit belongs to; empty: none."""
    campaign = open_campaign_of(reader, visit)
    return "" if campaign is None else campaign.name


def skip_command(reader: Reader, visit: Visit) -> str:
    """Return the command that gives up a failed visit."""
    return commands.skip_visit(visit.host, name_of_open(reader, visit))


def gate_record(reader: Reader, request: Request) -> CampaignRecord:
    """Return the campaign whose gate a rollout passes: its own, or the implied one."""
    return campaign_of(reader, request) or implied_campaigns.terms_of(request)


def at_once(campaign: CampaignRecord) -> int:
    """Return the budget `in_flight` as a number of hosts."""
    return max(1, amount_of(campaign.budget.in_flight).of(campaign.hosts))


def overlap_of(reader: Reader, request_id: str) -> int:
    """Return how many further fault domains of a scope a rollout may announce."""
    campaign = campaign_of(reader, reader.get(Request, request_id))
    return 0 if campaign is None else campaign.budget.overlap_notice


def is_used_up(blocker: AnyBlocker | None) -> bool:
    """Return whether the budget `unavailable` is what a campaign waits for."""
    return isinstance(blocker, BudgetUsed) and blocker.budget is BudgetKind.UNAVAILABLE


def ask(
    reader: Reader,
    request: Request,
    campaign: CampaignRecord,
    *,
    now: Micros,
    is_away: bool = False,
) -> Gate:
    """Return whether the campaign may announce its next host now.

    `is_away`: the host is away already, so the budget `unavailable` does not count.
    """
    most = None if is_away else away_max(campaign)
    away = 0 if most is None else count(reader, kinds.ROOMS_AWAY, limit=most + 1)
    standing = Standing(
        now=now,
        in_flight=request.in_flight,
        at_once=at_once(campaign),
        notice=campaign.notice,
        hours=hours_of(reader, campaign),
        away=away,
        away_max=most,
        cordoned=() if most is None or away < most else closed_by_people(reader),
    )
    return gate.decide(campaign, standing)


def all_failed(reader: Reader) -> set[str]:
    """Return the names of the failed hosts of all open campaigns."""
    return {
        host
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
        for host in campaign.failed_hosts
    }


def closed_by_people(reader: Reader) -> tuple[str, ...]:
    """Return cordoned hosts that stay away until an operator opens them.

    These are not the hosts in work, those of visits, which open them, and the failed hosts
    of open campaigns.
    """
    failed = all_failed(reader)
    closed: list[str] = []
    for host in reader.select(kinds.HOSTS_CORDONED, limit=CORDONED_READ_MAX):
        room = reader.get(Capacity, host.name)
        is_in_work = room is not None and room.works > 0
        is_of_visit = any(is_visit_id(cordon.by.name) for cordon in host.cordons)
        if not is_in_work and not is_of_visit and host.name not in failed:
            closed.append(host.name)
    return tuple(closed)


def hours_of(reader: Reader, campaign: CampaignRecord) -> Hours:
    """Return when a campaign can announce and start any host.

    The blackouts of a part of the fleet are holds of the hosts there. A rollout without a
    stored campaign has no timer: it waits for blackouts as for the brake.
    """
    own = own_hours(campaign)
    if campaign.is_emergency or implied_campaigns.is_implied(campaign):
        return own
    return replace(own, wide=wide_blackouts.of_fleet(reader))


def own_hours(campaign: CampaignRecord) -> Hours:
    """Return when the windows and blackouts of a campaign allow its hosts."""
    return Hours(
        campaign=campaign.name,
        work=campaign.slow,
        windows=campaign.windows,
        blackouts=campaign.blackouts,
    )


def away_max(campaign: CampaignRecord) -> int | None:
    """Return the budget `unavailable` as a number of hosts; None: no limit."""
    if not campaign.budget.unavailable:
        return None
    return amount_of(campaign.budget.unavailable).of(campaign.fleet_hosts)


def vms_down(reader: Reader, campaign: CampaignRecord) -> int:
    """Return how many VMs are down because of a campaign, as far as its limit needs it.

    An index has them, and at most one more than the limit is counted.
    """
    most = campaign.tolerance.vms_down
    limit = VMS_DOWN_COUNTED if most is None else most + 1
    return count(reader, kinds.VMS_DOWN_FOR, campaign.campaign_id, limit=limit)


def why_over_budget(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> Iterator[BudgetUsed]:
    """Yield the budgets of its campaign that the announcement of a host would exceed."""
    campaign = campaign_of(reader, reader.get(Request, operation.request))
    if campaign is None:
        return
    if campaign.budget.by:
        host = reader.get(Host, operation.host)
        if host is not None:
            yield from _groups(reader, campaign, host)
    if campaign.budget.tenant_vms:
        yield from _tenants(reader, campaign, vms)


def _groups(
    reader: Reader, campaign: CampaignRecord, host: Host
) -> Iterator[BudgetUsed]:
    places = set(places_of(host))
    for label, amount in campaign.budget.by:
        for place in sorted(key for key in places if is_at(key, label)):
            used = group_use(reader, campaign, amount, place)
            if used.used >= used.most:
                yield used


def group_use(
    reader: Reader, campaign: CampaignRecord, amount: str, place: str
) -> BudgetUsed:
    """Return how much of the budget of a place is used, whether it is used up or not.

    Hosts that have failed in other campaigns count.
    """
    most = _group_most(reader, amount, place)
    failed = _at(reader, {*campaign.failed_hosts, *all_failed(reader)}, place)
    # A failed host can still be in work: the recovery of its VMs, or another request.
    idle = sum(1 for host in failed if not _is_at_work(reader, host))
    return BudgetUsed(
        campaign=campaign.name,
        budget=BudgetKind.GROUP,
        used=count(reader, kinds.ROOMS_AT_WORK, place, limit=most + 1) + idle,
        most=most,
        subject=place.removeprefix(f"{LABEL}="),
        failed=len(failed),
        of_others=len(failed.difference(campaign.failed_hosts)),
    )


def _group_most(reader: Reader, amount: str, place: str) -> int:
    written = amount_of(amount)
    size = 0
    if written.is_percent:
        size = tallies.counted(reader, hosts_at(place))
    return max(1, written.of(size))


def _at(reader: Reader, names: Iterable[str], place: str) -> set[str]:
    """Return those of the hosts that stand at a place."""
    hosts = (reader.get(Host, name) for name in names)
    return {
        host.name for host in hosts if host is not None and place in places_of(host)
    }


def _is_at_work(reader: Reader, host: str) -> bool:
    room = reader.get(Capacity, host)
    return room is not None and room.works > 0


def _tenants(
    reader: Reader, campaign: CampaignRecord, vms: Sequence[Vm]
) -> Iterator[BudgetUsed]:
    limits = dict(campaign.tenant_most)
    written = amount_of(campaign.budget.tenant_vms)
    # A percentage was resolved for each tenant.
    usual = None if written.is_percent else int(written.value)
    for tenant, added in sorted(Counter(vm.tenant for vm in vms).items()):
        most = limits.get(tenant, usual)
        if most is None:
            continue
        used = _vms_announced(reader, tenant, most)
        # A host with more VMs than the budget is announced alone.
        if used and used + added > most:
            yield BudgetUsed(
                campaign=campaign.name,
                budget=BudgetKind.TENANT_VMS,
                used=used,
                most=most,
                subject=tenant,
            )


def _vms_announced(reader: Reader, tenant: str, most: int) -> int:
    """Return how many VMs of a tenant are announced or in work, as far as it matters."""
    used = 0
    for event in every(reader, kinds.PLANNED_EVENTS_OF_TENANT, tenant):
        used += len(event.resources)
        if used > most:
            break
    return used


def why_planned(
    reader: Reader,
    request: Request,
    campaign: CampaignRecord,
    operation: Operation,
    *,
    now: Micros,
) -> AnyBlocker | None:
    """Return why the campaign does not announce this host yet; None: it may."""
    stopped = gate.why_stopped(campaign)
    if stopped is None and campaign.stage_of(operation.position) > campaign.stage:
        blocker = ask(reader, request, campaign, now=now).blocker
        stage_waits = gate.stage_still_runs(campaign)
        return stage_waits if campaign.stage_left else blocker or stage_waits
    return stopped or ask(reader, request, campaign, now=now).blocker


def why_held(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[CampaignStopped | OutsideWindow | InBlackout, ...]:
    """Return why the campaign of an announced operation does not let it start.

    It is halted, its windows are closed, or a blackout stops it.
    """
    if not operation.position:
        return ()
    campaign = campaign_of(reader, reader.get(Request, operation.request))
    if campaign is None:
        return ()
    stopped = gate.why_stopped(campaign) if campaign.halt else None
    # The blackouts of the service are holds.
    closed = own_hours(campaign).why_held(now)
    return tuple(hold for hold in (stopped, closed) if hold is not None)


def why_drain_stops(reader: Reader, request_id: str) -> DrainStopped | None:
    """Return why a started host of a rollout gets no work any more; None: it does.

    A host whose work has begun is not asked about.
    """
    campaign = campaign_of(reader, reader.get(Request, request_id))
    if campaign is None:
        return None
    is_aborted = campaign.state is CampaignState.ABORTED
    if campaign.halt is None and not is_aborted:
        return None
    return DrainStopped(campaign=campaign.name, is_aborted=is_aborted)


def common_start(
    reader: Reader, operation: Operation, times: HeldTimes, at: Micros
) -> Micros | None:
    """Return the first instant, from `at` on, that its holds and its campaign allow.

    Return None if they have no such instant.
    """
    request = reader.get(Request, operation.request)
    campaign = campaign_of(reader, request) if operation.position else None
    if campaign is None:
        return times.first_start(at)
    hours = own_hours(campaign).calendar(at)
    for _ in range(MISSES_MAX):
        start = times.first_start(at)
        common = None if start is None else hours.next_start(start, campaign.slow)
        if common is None or common == start:
            return common
        at = common
    return None
