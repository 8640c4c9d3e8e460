"""The plan of a campaign for one fleet: values in, values out."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from forewarn.campaigns import bounds, clearing, limits, never
from forewarn.campaigns.bounds import Bound
from forewarn.campaigns.clearing import Refusal
from forewarn.campaigns.durations import MODEL_LABEL, Measured, Sample, measured
from forewarn.campaigns.fleet_map import FleetMap
from forewarn.campaigns.forecast import Forecast, Pace, forecast
from forewarn.campaigns.grouping import SETS_MAX, Rules
from forewarn.campaigns.limits import GroupLimit, Limits
from forewarn.campaigns.model import Campaign, Impact, Phase, Stage
from forewarn.campaigns.ordering import Ordered, arrange
from forewarn.campaigns.part_blackouts import (
    Calendars,
    PartBlackout,
    StoppedPart,
    stopped_parts,
)
from forewarn.campaigns.selection import select
from forewarn.fleet.blackouts import Blackout, Clash, coming
from forewarn.fleet.model import PLACES
from forewarn.fleet.reserve import NO_RESERVE
from forewarn.fleet.windows import Opening, openings
from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.settings.amounts import Amount

OPENINGS_TOLD = 3
"""Number of the next openings in a plan."""

BLACKOUTS_TOLD_MAX = 100
"""Maximum times of blackouts in a plan: one can recur each day for months."""

DIGEST_DIGITS = 16
"""Hexadecimal digits of a plan's digest: enough to notice every change of the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The service's settings that a plan depends on."""

    notices: Mapping[Impact, Micros]
    """The notice of each impact."""
    speed: float = 1.0
    """Divides soaks."""
    recovery: Micros = 0
    """Time from the end of the impact on VMs until their events are removed."""
    reserve: Amount = NO_RESERVE
    """Free capacity that stays free in each pool."""
    driver_chooses: bool = False
    """Whether the driver chooses the destinations of VMs, and decides about capacity."""
    blackouts: tuple[Blackout, ...] = ()
    """The blackouts of the service that stop the whole fleet."""
    parts: tuple[PartBlackout, ...] = ()
    """Those that stop a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """The course of a campaign that starts now, if nothing goes wrong."""

    campaign: Campaign
    planned_at: Micros
    hosts: tuple[str, ...]
    """The hosts in the order in which they are announced."""
    sets: tuple[int, ...]
    """The set of each host; hosts of a set can be in work together."""
    least_sets: int
    """A lower bound of the number of sets."""
    vms: tuple[int, ...]
    """The number of VMs of each host."""
    places: tuple[tuple[str, str], ...]
    """Cluster and rack of each host; can be empty."""
    stages: tuple[tuple[int, Stage], ...]
    """The number of hosts up to the end of each stage."""
    limits: Limits
    rooms: GroupLimit | None
    """The number of hosts of each pool that can be emptied together; None: VMs stay."""
    bounds: tuple[Bound, ...]
    """The lower bounds of the rounds; the constraint that binds is first."""
    refusals: tuple[Refusal, ...]
    """The selected hosts that cannot be done now."""
    counts: Mapping[str, Mapping[str, int]]
    """The number of hosts for each value of a label."""
    tenants: tuple[tuple[str, int], ...]
    """The tenants with VMs on the hosts, and their VMs, the most first."""
    tenant_most: tuple[tuple[str, int], ...]
    """Maximum VMs of each of these tenants that are announced or in work; empty: no
    limit."""
    openings: tuple[Opening, ...]
    """The next openings of the windows; empty: there are no windows."""
    blackouts: tuple[Clash, ...]
    """The next times of the blackouts."""
    closed: tuple[Blackout, ...] = ()
    """The blackouts that stop the campaign: its own, and those of the service."""
    parts: tuple[StoppedPart, ...] = ()
    """The blackouts of the service that stop only some of the hosts."""
    typical: Forecast
    """If every host takes the typical time."""
    slow: Forecast
    """If every host takes the time of a slow one."""
    measured: Measured | None = None
    """Durations of past work, which the forecasts use instead of those of the file."""
    digest: str
    untold: int = 0
    """Hosts of which the driver does not know whether the work is possible on them."""
    late_models: tuple[tuple[str, int], ...] = ()
    """The models that no stage before the last one has, and their hosts."""

    @property
    def all_blackouts(self) -> tuple[Blackout, ...]:
        """Return the blackouts that stop any host of the campaign."""
        return (*self.closed, *(part.blackout.time for part in self.parts))


def plan_campaign(
    campaign: Campaign,
    fleet: FleetMap,
    *,
    terms: Terms,
    now: Micros,
    past: Collection[Sample] = (),
) -> CampaignPlan:
    """Return the plan of a campaign. `past` has the durations of past work.

    Raises RefusedError if the fleet does not have the selected hosts, if none of them
    can be done, or if no window outside the blackouts is ever long enough for a host.
    """
    selected = select(fleet, campaign.select)
    reserve = _reserve(campaign, terms)
    budget = limits.resolve(fleet, selected, campaign.budget, reserve=reserve)
    pools = _pools(campaign, fleet, terms, reserve)
    most = budget.tenant_most
    refused = clearing.refusals(fleet, selected, campaign.impact, most, pools=pools)
    hosts = [host for host in selected if host not in refused]
    if not hosts:
        raise _nothing_left(list(refused.values()))
    rooms = None if pools is None else clearing.room_limit(fleet, hosts, pools)
    rules = _rules(campaign, budget, rooms)
    ordered = _arranged(campaign, fleet, hosts, budget, rules)
    stages = limits.stage_ends(campaign.stages, len(hosts))
    times = _measured(campaign, past, _models(fleet, hosts))
    expected = campaign if times is None else replace(campaign, expect=times.work)
    closed, parts = _closed_times(campaign, terms, fleet, hosts)
    typical, slow = _forecasts(
        expected,
        fleet,
        ordered,
        stages,
        budget,
        rules,
        terms=terms,
        now=now,
        times=times,
        closed=closed,
        parts=parts,
    )
    names = tuple(fleet.names[host] for host in ordered.hosts)
    refusals = tuple(refused[host] for host in sorted(refused))
    return CampaignPlan(
        campaign=expected,
        measured=times,
        planned_at=now,
        hosts=names,
        sets=tuple(ordered.sets),
        least_sets=ordered.least,
        vms=tuple(fleet.vms[host] for host in ordered.hosts),
        places=tuple(_place(fleet, host) for host in ordered.hosts),
        stages=tuple(stages),
        limits=budget,
        rooms=rooms,
        bounds=tuple(bounds.bounds(fleet, hosts, budget, rules)),
        refusals=refusals,
        counts=_counts(campaign, fleet, hosts),
        tenants=_tenants(fleet, hosts),
        tenant_most=_tenant_most(fleet, hosts, budget),
        openings=tuple(islice(openings(campaign.windows, now), OPENINGS_TOLD)),
        blackouts=_blackouts(closed, parts, now, slow.end),
        closed=closed,
        parts=parts,
        typical=typical,
        slow=slow,
        digest=_digest(campaign, names, stages, budget, refusals),
        late_models=_late_models(fleet, ordered.hosts, stages),
    )


def _place(fleet: FleetMap, host: int) -> tuple[str, str]:
    """Return the cluster and the rack of a host."""
    cluster, rack = fleet.cluster, fleet.rack
    return cluster.names[cluster.of[host]], rack.names[rack.of[host]]


def _closed_times(
    campaign: Campaign, terms: Terms, fleet: FleetMap, hosts: Sequence[int]
) -> tuple[tuple[Blackout, ...], tuple[StoppedPart, ...]]:
    """Return the blackouts that stop a campaign, and those that stop some of its hosts.

    An emergency ignores all of them.
    """
    if campaign.is_emergency:
        return (), ()
    parts = stopped_parts(fleet, hosts, terms.parts)
    return (*campaign.blackouts, *terms.blackouts), parts


def _reserve(campaign: Campaign, terms: Terms) -> Amount:
    # The moves of an emergency may use the reserve (`control.rules.reserves`).
    is_kept = campaign.impact.empties_host and not campaign.is_emergency
    return terms.reserve if is_kept else NO_RESERVE


def _pools(
    campaign: Campaign, fleet: FleetMap, terms: Terms, reserve: Amount
) -> dict[int, clearing.Pool] | None:
    """Return the pools that must have places for the VMs; None: no VM needs one."""
    is_placed = campaign.impact.empties_host and not terms.driver_chooses
    return clearing.pools_of(fleet, reserve) if is_placed else None


def _arranged(
    campaign: Campaign,
    fleet: FleetMap,
    hosts: Sequence[int],
    budget: Limits,
    rules: Rules,
) -> Ordered:
    """Return the hosts in the order of the campaign."""
    return arrange(
        fleet,
        hosts,
        order=campaign.order,
        listed=campaign.select.host,
        impact=campaign.impact,
        rules=_within_sets(hosts, rules),
        at_once=budget.at_once,
    )


def _blackouts(
    closed: Sequence[Blackout], parts: Sequence[StoppedPart], now: Micros, end: Micros
) -> tuple[Clash, ...]:
    """Return the next times of the blackouts until the end of the campaign."""
    blackouts = coming([*closed, *(part.blackout.time for part in parts)], now, end)
    return tuple(islice(blackouts, BLACKOUTS_TOLD_MAX))


def _rules(campaign: Campaign, budget: Limits, rooms: GroupLimit | None) -> Rules:
    return Rules(
        domains=campaign.impact is not Impact.NONE,
        is_exclusive=campaign.impact is Impact.LIVE_MIGRATE,
        groups=(*budget.groups, *([] if rooms is None else [rooms])),
    )


def _within_sets(hosts: Sequence[int], rules: Rules) -> Rules:
    """Return the rules without limits that would need very many sets."""
    return Rules(
        domains=rules.domains,
        is_exclusive=rules.is_exclusive,
        groups=tuple(
            limit
            for limit in rules.groups
            if bounds.least_sets_of(hosts, limit) <= SETS_MAX
        ),
    )


def _forecasts(
    campaign: Campaign,
    fleet: FleetMap,
    ordered: Ordered,
    stages: Sequence[tuple[int, Stage]],
    budget: Limits,
    rules: Rules,
    *,
    terms: Terms,
    now: Micros,
    times: Measured | None,
    closed: Sequence[Blackout],
    parts: Sequence[StoppedPart],
) -> tuple[Forecast, Forecast]:
    """Return the forecasts with typical and with slow hosts; raises RefusedError."""
    expect = campaign.expect
    forecasts: list[Forecast] = []
    used = (None, None) if times is None else (times.notice_typical, times.notice_slow)
    for work, passes in zip((expect.typical, expect.slow), used, strict=True):
        recovers = _recovers(campaign, work, terms.recovery, times)
        played = forecast(
            fleet,
            ordered.hosts,
            stages,
            budget,
            rules,
            calendars=Calendars(campaign.windows, now, closed, parts),
            pace=Pace(
                notice=terms.notices[campaign.impact],
                passes=passes,
                needed=0 if times is None or not campaign.steps else times.needed,
                work=work,
                after=0 if campaign.steps else recovers,
                recovers=recovers,
                reserved=expect.slow,
                speed=terms.speed,
            ),
            now=now,
        )
        if played is None:
            raise never.refusal(
                never.Needs(
                    at=now,
                    notice=terms.notices[campaign.impact],
                    work=expect.slow,
                    windows=campaign.windows,
                    own=campaign.blackouts,
                    wide=terms.blackouts,
                ),
                parts,
            )
        forecasts.append(played)
    typical, slow = forecasts
    return typical, slow


def _recovers(
    campaign: Campaign, work: Micros, recovery: Micros, times: Measured | None
) -> Micros:
    """Return how long VMs recover after the work on their host.

    VMs that moved away for host steps recover while these run.
    """
    if campaign.impact is Impact.NONE:
        return 0
    if not campaign.steps or not campaign.impact.empties_host:
        return recovery
    moving = 0 if times is None or times.moving is None else times.moving
    return max(0, min(moving, work) + recovery - work)


def _nothing_left(refusals: Sequence[Refusal]) -> RefusedError:
    reasons = Counter(refusal.reason.value for refusal in refusals)
    counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    return RefusedError(
        f"none of the {len(refusals):,} selected hosts can be done: {counts}",
        hint="`forewarn capacity` shows the free capacity; the page 'Campaign file' "
        "explains each reason.",
    )


def _counts(
    campaign: Campaign, fleet: FleetMap, hosts: Sequence[int]
) -> Mapping[str, Mapping[str, int]]:
    """Return the hosts of each zone, cluster, rack, pool and model, and of named labels."""
    named = [label for label, _ in campaign.select.labels]
    named += [budget.label for budget in campaign.budget.by]
    counted: dict[str, Mapping[str, int]] = {}
    for label in dict.fromkeys([*PLACES, MODEL_LABEL, *named]):
        column = fleet.column(label)
        numbers = column.counts(hosts)
        counts = {
            name: count
            for name, count in zip(column.names, numbers, strict=True)
            if count
        }
        if counts.keys() != {""}:
            counted[label] = dict(sorted(counts.items()))
    return counted


def _tenants(fleet: FleetMap, hosts: Sequence[int]) -> tuple[tuple[str, int], ...]:
    vms = fleet.vms_by_tenant(hosts)
    tenants = [
        (fleet.tenants[index], count) for index, count in enumerate(vms) if count
    ]
    return tuple(sorted(tenants, key=lambda item: (-item[1], item[0])))


def _tenant_most(
    fleet: FleetMap, hosts: Sequence[int], budget: Limits
) -> tuple[tuple[str, int], ...]:
    if not budget.tenant_most:
        return ()
    most = dict(zip(fleet.tenants, budget.tenant_most, strict=True))
    return tuple((name, most[name]) for name, _ in _tenants(fleet, hosts))


def _measured(
    campaign: Campaign, past: Collection[Sample], models: set[str]
) -> Measured | None:
    """Return the durations that the same work had; None: there is too little of it."""
    work = [step.name for step in campaign.steps if step.phase is Phase.WORK]
    return measured(
        past,
        models,
        step=next(iter(work), ""),
        moves_vms=campaign.impact.empties_host,
        slow_min=campaign.expect.slow_min,
    )


def _models(fleet: FleetMap, hosts: Sequence[int]) -> set[str]:
    # Many hosts have the same labels.
    different = set(map(fleet.labels.__getitem__, hosts))
    return {dict(labels).get(MODEL_LABEL, "") for labels in different}


def _late_models(
    fleet: FleetMap, hosts: Sequence[int], stages: Sequence[tuple[int, Stage]]
) -> tuple[tuple[str, int], ...]:
    """Return the models that only the last stage has, with their hosts.

    `hosts` are in the order of the campaign, and `stages` have their numbers up to the end
    of each.
    """
    *canaries, _ = stages
    if not canaries:
        return ()
    column = fleet.column(MODEL_LABEL)
    before, _ = canaries[-1]
    canary_models = {column.of[host] for host in hosts[:before]}
    last = Counter(column.of[host] for host in hosts[before:])
    return tuple(
        sorted(
            (column.names[model], count)
            for model, count in last.items()
            if model not in canary_models and column.names[model]
        )
    )


def _digest(
    campaign: Campaign,
    names: Sequence[str],
    stages: Sequence[tuple[int, Stage]],
    budget: Limits,
    refusals: Sequence[Refusal],
) -> str:
    """Return a digest of everything that an operator agrees to with the plan."""
    most = [[int(number) for number in limit.most] for limit in budget.groups]
    parts = (
        repr(campaign),
        "\n".join(names),
        repr([end for end, _ in stages]),
        repr((budget.in_flight, budget.unavailable, budget.tenant_most, most)),
        repr(refusals),
    )
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(f"{len(part)}:{part}".encode())
    return hashed.hexdigest()[:DIGEST_DIGITS]
