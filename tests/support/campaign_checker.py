"""An independent judge of campaign plans.

It reads the rows of the fleet, and shares no code with the planner. Each rule is checked
in the plainest way, for small fleets. A violation raises AssertionError.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from forewarn.campaigns.clearing import Reason, Refusal
from forewarn.campaigns.fleet_map import (
    VM_FIELDS,
    FleetMap,
    HostRow,
    VmMove,
    fleet_map,
)
from forewarn.campaigns.forecast import Forecast
from forewarn.campaigns.limits import LimitKind
from forewarn.campaigns.model import Amount, Campaign, Impact
from forewarn.campaigns.planner import CampaignPlan, Terms
from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm, VmState
from forewarn.fleet.placement import Candidate, choose_host, why_none
from forewarn.instants import DAY, MINUTE, SECOND, Micros
from forewarn.protocol.no_place import NoPlace, Unfit


class VmRow(NamedTuple):
    """A VM."""

    host: str
    scope: str
    tenant: str
    fault_domain: int = 0
    state: VmState = VmState.RUNNING
    moving_to: str = ""
    vcpu: int | None = None
    memory: int | None = None
    movable: bool = True


class Fleet:
    """The rows of a fleet, by host."""

    def __init__(
        self,
        hosts: Sequence[HostRow],
        vms: Sequence[VmRow],
        kinds: Mapping[str, ScopeKind] | None = None,
        busy: frozenset[str] = frozenset(),
    ) -> None:
        self.kinds = kinds or {}
        self.hosts = {host.name: host for host in hosts}
        self.vms = [vm for vm in vms if vm.state is not VmState.DELETED]
        self.busy = busy
        self.on: defaultdict[str, list[VmRow]] = defaultdict(list)
        for vm in self.vms:
            self.on[vm.host].append(vm)

    def mapped(self) -> FleetMap:
        """Return the fleet as the planner takes it."""
        hosts = list(self.hosts.values())
        ordered = sorted(self.vms, key=lambda vm: [*self.hosts].index(vm.host))
        rows = [[getattr(vm, name) for name in VM_FIELDS] for vm in ordered]
        return fleet_map(
            hosts,
            [list(zip(*rows, strict=True))] if rows else [],
            [
                (scope, self.kinds.get(scope, ScopeKind.AVAILABILITY_SET))
                for scope in sorted({vm.scope for vm in self.vms})
            ],
            moves=[
                VmMove(
                    vm.host,
                    vm.moving_to,
                    vm.scope,
                    vm.fault_domain,
                    vm.vcpu,
                    vm.memory,
                )
                for vm in self.vms
                if vm.moving_to and vm.moving_to != vm.host
            ],
            fixed=[vm.host for vm in self.vms if not vm.movable],
            busy=self.busy,
        )

    def label(self, host: str, label: str) -> str:
        if label in {"zone", "cluster", "rack", "pool"}:
            return str(getattr(self.hosts[host], label))
        return dict(self.hosts[host].labels).get(label, "")

    def domains(self, host: str) -> set[tuple[str, int]]:
        return {(vm.scope, vm.fault_domain) for vm in self.on[host]}

    def is_open(self, host: str) -> bool:
        return self.hosts[host].state is HostState.UP and host not in self.busy

    def free(self, host: str) -> dict[str, float]:
        """Return the free places, vCPUs and memory of a host."""
        row = self.hosts[host]
        there = [vm for vm in self.vms if host in {vm.host, vm.moving_to}]
        return {
            name: float("inf") if size is None else max(0, size - used)
            for name, size, used in (
                ("places", row.capacity, len(there)),
                ("vcpu", row.vcpu, sum(vm.vcpu or 0 for vm in there)),
                ("memory", row.memory, sum(vm.memory or 0 for vm in there)),
            )
        }


def check(plan: CampaignPlan, fleet: Fleet, terms: Terms) -> None:
    """Judge everything that a plan says."""
    campaign = plan.campaign
    refused = {refusal.host for refusal in plan.refusals}
    chosen = set(selected(fleet, campaign))
    assert len(plan.hosts) == len(set(plan.hosts)), "a host is planned twice"
    assert set(plan.hosts) | refused == chosen, "the hosts are not those selected"
    assert refused.isdisjoint(plan.hosts)
    assert plan.vms == tuple(len(fleet.on[host]) for host in plan.hosts)
    _check_stages(plan)
    _check_sets(plan, fleet)
    _check_refusals(plan, fleet)
    recovery = 0 if campaign.impact is Impact.NONE else terms.recovery
    for forecast, work in (
        (plan.typical, campaign.expect.typical),
        (plan.slow, campaign.expect.slow),
    ):
        check_forecast(plan, forecast, fleet, terms, work=work + recovery)


def selected(fleet: Fleet, campaign: Campaign) -> list[str]:
    """Return the hosts that a campaign selects."""
    select = campaign.select
    return [
        name
        for name in fleet.hosts
        if name not in select.exclude
        and (not select.host or name in select.host)
        and all(fleet.label(name, label) in of for label, of in select.criteria)
    ]


def _check_stages(plan: CampaignPlan) -> None:
    ends = [end for end, _ in plan.stages]
    assert ends == sorted(set(ends)), "stages do not increase"
    assert ends[-1] == len(plan.hosts), "the last stage has not all hosts"


def number(amount: Amount, total: int) -> int:
    if not amount.is_percent:
        return int(amount.value)
    return max(1, int(total * amount.value / 100))


def group_limits(fleet: Fleet, campaign: Campaign) -> dict[tuple[str, str], int]:
    """Return the maximum of each group: label and value."""
    limits_of: dict[tuple[str, str], int] = {}
    for budget in campaign.budget.by:
        sizes = Counter(fleet.label(host, budget.label) for host in fleet.hosts)
        for value, size in sizes.items():
            if value:
                limits_of[budget.label, value] = number(budget.most, size)
    return limits_of


def conflicts(
    together: Iterable[str], fleet: Fleet, campaign: Campaign, *, overlap: int = 0
) -> str:
    """Return why hosts must not be in work together, or an empty text.

    With an overlap: why they must not be announced together.
    """
    hosts = list(together)
    allowed = overlap + 1
    by_scope: defaultdict[str, set[object]] = defaultdict(set)
    if campaign.impact is not Impact.NONE:
        for host in hosts:
            for scope, fault_domain in fleet.domains(host):
                is_exclusive = campaign.impact is Impact.LIVE_MIGRATE
                by_scope[scope].add(host if is_exclusive else fault_domain)
    for scope, those in by_scope.items():
        if len(those) > allowed:
            return f"scope {scope}: {sorted(map(str, those))} in work together"
    limits = group_limits(fleet, campaign)
    for (label, value), most in limits.items():
        members = [host for host in hosts if fleet.label(host, label) == value]
        if len(members) > most:
            return f"{label} {value}: {members} in work together"
    return ""


def _check_sets(plan: CampaignPlan, fleet: Fleet) -> None:
    pairs = sorted(zip(plan.sets, plan.hosts, strict=True))
    for number_, members in groupby(pairs, key=lambda pair: pair[0]):
        why = conflicts((host for _, host in members), fleet, plan.campaign)
        assert not why, f"set {number_}: {why}"
    assert set(plan.sets) == set(range(max(plan.sets) + 1)), "a set is empty"
    assert max(plan.sets) + 1 >= plan.least_sets, "fewer sets than the bound"


def check_forecast(
    plan: CampaignPlan,
    forecast: Forecast,
    fleet: Fleet,
    terms: Terms,
    *,
    work: Micros,
) -> None:
    """Judge the times of all hosts: limits at every moment, stages and windows.

    `work` is the time of a host after its notice, with the recovery of its VMs.
    """
    campaign, overlap = plan.campaign, plan.campaign.budget.overlap_notice
    times = dict(
        zip(plan.hosts, zip(forecast.begins, forecast.ends, strict=True), strict=True)
    )
    for host, (begins, ends) in times.items():
        notice = terms.notices[campaign.impact] if fleet.on[host] else 0
        assert begins >= plan.planned_at
        starts = ends - work
        if overlap:
            assert starts >= begins + notice, f"{host} has a short notice"
        else:
            assert starts == begins + notice, f"{host} has another duration"
        reserved = starts + campaign.expect.slow
        assert _fits(campaign, starts, reserved), f"{host} misses the window"
        for opens, closes in _closed(host, fleet, terms):
            assert not opens <= begins < closes, f"{host} is announced in a blackout"
            is_clear = reserved <= opens or starts >= closes
            assert is_clear, f"{host} works in a blackout"
    for moment in {begins for begins, _ in times.values()}:
        running = [host for host, (b, e) in times.items() if b <= moment < e]
        assert len(running) <= plan.limits.at_once, f"{running} in flight"
        why = conflicts(running, fleet, campaign, overlap=overlap)
        assert not why, f"at {moment}: {why}"
        _check_tenants(running, fleet, campaign)
    for moment in {ends - work for _, ends in times.values()}:
        working = [host for host, (_, e) in times.items() if e - work <= moment < e]
        why = conflicts(working, fleet, campaign)
        assert not why, f"in work at {moment}: {why}"
    start = 0
    earliest = plan.planned_at
    for end, stage in plan.stages:
        members = [times[host] for host in plan.hosts[start:end]]
        assert min(b for b, _ in members) >= earliest, "a stage begins too early"
        earliest = max(e for _, e in members) + round(stage.soak / terms.speed)
        start = end
    span = max(e for _, e in times.values()) - min(b for b, _ in times.values())
    for bound in plan.bounds:
        if bound.kind is not LimitKind.ROOM or bound.at_once > 0:
            assert bound.rounds * work <= span, f"{bound} is no lower bound"


def _check_tenants(running: Sequence[str], fleet: Fleet, campaign: Campaign) -> None:
    amount = campaign.budget.tenant_vms
    if amount is None or campaign.impact is Impact.NONE:
        return
    totals = Counter(vm.tenant for vm in fleet.vms)
    now = Counter(vm.tenant for host in running for vm in fleet.on[host])
    for tenant, vms in now.items():
        assert vms <= number(amount, totals[tenant]), f"{vms} VMs of {tenant}"


def _closed(host: str, fleet: Fleet, terms: Terms) -> Iterator[tuple[Micros, Micros]]:
    """Yield the times of the blackouts of a host; each has two times, in UTC."""
    blackouts = list(terms.blackouts)
    for part in terms.parts:
        labels = {label for label, _ in part.places}
        at = {label for label, name in part.places if fleet.label(host, label) == name}
        blackouts += [part.time] if labels == at else []
    for blackout in blackouts:
        opens, closes = (
            round(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) * SECOND
            for at in (blackout.begins, blackout.ends)
        )
        yield opens, closes


def _fits(campaign: Campaign, begins: Micros, ends: Micros) -> bool:
    """Return whether a time is in the windows, which are in UTC and overlap anyhow."""
    if not campaign.windows:
        return True
    covered = begins
    for _ in range(100):
        reached = covered
        for window in campaign.windows:
            assert window.timezone == "UTC"
            day = covered // DAY * DAY
            for start in range(day - 8 * DAY, day + 2 * DAY, DAY):
                opens = start + window.start * MINUTE
                is_day = (start // DAY + 3) % 7 in window.days
                if is_day and opens <= covered < opens + window.length:
                    reached = max(reached, opens + window.length)
        if reached == covered or reached >= ends:
            return reached >= ends
        covered = reached
    return True


def _check_refusals(plan: CampaignPlan, fleet: Fleet) -> None:
    refusals = {refusal.host: refusal for refusal in plan.refusals}
    for host in selected(fleet, plan.campaign):
        reasons = set(why_refused(host, fleet, plan.campaign))
        refusal = refusals.get(host)
        if refusal is None:
            assert not reasons, f"{host} is planned in spite of {reasons}"
        else:
            assert refusal.reason in reasons, f"{host}: {refusal}, but {reasons}"
            _check_numbers(refusal)


def _check_numbers(refusal: Refusal) -> None:
    if refusal.reason in {Reason.NO_ROOM, Reason.TOO_LARGE, Reason.TENANT_VMS}:
        assert refusal.needed > refusal.free


def why_refused(host: str, fleet: Fleet, campaign: Campaign) -> Iterable[Reason]:
    """Yield every reason why a host cannot be done."""
    vms = fleet.on[host]
    impact = campaign.impact
    if fleet.hosts[host].state is HostState.DOWN:
        yield Reason.DOWN
    scopes = Counter(scope for scope, _ in fleet.domains(host))
    if (
        impact not in {Impact.NONE, Impact.LIVE_MIGRATE}
        and max(scopes.values(), default=0) > 1
    ):
        yield Reason.SHARED_SCOPE
    amount = campaign.budget.tenant_vms
    if amount is not None and impact is not Impact.NONE:
        totals = Counter(vm.tenant for vm in fleet.vms)
        for tenant, count in Counter(vm.tenant for vm in vms).items():
            if count > number(amount, totals[tenant]):
                yield Reason.TENANT_VMS
    if impact.empties_host and vms:
        yield from _why_not_emptied(host, fleet)


def _why_not_emptied(host: str, fleet: Fleet) -> Iterable[Reason]:
    """Yield every reason why the VMs of a host cannot leave it."""
    vms = fleet.on[host]
    if any(not vm.movable for vm in vms):
        yield Reason.PINNED
    pool = fleet.hosts[host].pool
    others = [
        other
        for other in fleet.hosts
        if other != host and fleet.hosts[other].pool == pool and fleet.is_open(other)
    ]
    yield from _why_no_room(vms, [fleet.free(other) for other in others])
    roomy = [
        candidate
        for candidate in others
        if all(f > 0 for f in fleet.free(candidate).values())
    ]
    if not roomy:
        yield Reason.NO_TARGET
    why = placement_refuses(host, fleet)
    if why is not None:
        unfit = {group.why for group in why.unfit}
        unfit -= {Unfit.POOL, Unfit.DOWN, Unfit.BUSY}
        if unfit & {Unfit.FULL, Unfit.VCPU, Unfit.MEMORY}:
            yield Reason.NO_FIT
        if Unfit.RACK in unfit:
            yield Reason.RACKS
        elif unfit & {Unfit.DOMAIN, Unfit.ZONE}:
            yield Reason.SCOPE_EVERYWHERE


def placement_refuses(host: str, fleet: Fleet) -> NoPlace | None:
    """Move the VMs of a host one after the other; return why one has no destination."""
    placed: dict[int, str] = {}
    origin = _host(fleet.hosts[host])
    for vm in fleet.on[host]:
        kind = fleet.kinds.get(vm.scope, ScopeKind.AVAILABILITY_SET)
        scope = Scope(name=vm.scope, tenant="", kind=kind)
        candidates = [
            _candidate(name, vm, fleet, placed) for name in fleet.hosts if name != host
        ]
        chosen = choose_host(_vm(vm), scope, origin=origin, candidates=candidates)
        if chosen is None:
            return why_none(_vm(vm), scope, origin=origin, candidates=candidates)
        placed[id(vm)] = chosen
    return None


def _vm(vm: VmRow) -> Vm:
    return Vm(
        name="vm",
        wire_name="vm",
        host=vm.host,
        scope=vm.scope,
        tenant=vm.tenant,
        view="",
        vm_id="",
        fault_domain=vm.fault_domain,
        vcpu=vm.vcpu,
        memory=vm.memory,
    )


def _host(row: HostRow) -> Host:
    return Host(
        name=row.name,
        zone=row.zone,
        rack=row.rack,
        pool=row.pool,
        capacity=row.capacity,
        vcpu=row.vcpu,
        memory=row.memory,
        state=row.state,
    )


def _candidate(
    name: str, vm: VmRow, fleet: Fleet, placed: Mapping[int, str]
) -> Candidate:
    """Return a host with the VMs on it; a VM that is moving counts at both ends."""
    there = [
        vm_row
        for vm_row in fleet.vms
        for place in [*{vm_row.host, vm_row.moving_to}, placed.get(id(vm_row))]
        if place == name
    ]
    return Candidate(
        host=_host(fleet.hosts[name]),
        load=len(there),
        vcpu=sum(vm_row.vcpu or 0 for vm_row in there),
        memory=sum(vm_row.memory or 0 for vm_row in there),
        domains=frozenset(
            vm_row.fault_domain for vm_row in there if vm_row.scope == vm.scope
        ),
        rack_excess=_rack_excess(name, vm, fleet, placed),
        busy=not fleet.is_open(name),
    )


def _rack_excess(name: str, vm: VmRow, fleet: Fleet, placed: Mapping[int, str]) -> int:
    """Return how many more VMs of the scope are in the rack of a host than in its own."""
    rack, own = fleet.hosts[name].rack, fleet.hosts[vm.host].rack
    if not rack or not own or rack == own:
        return 0
    if sum(vm_.scope == vm.scope for vm_ in fleet.vms) == 1:
        return 0
    # The VM itself does not count in its rack. A plan counts it where it is moving to.
    excess = 1
    for vm_row in fleet.vms:
        if vm_row.scope == vm.scope:
            racks = {
                fleet.hosts[host].rack
                for host in (vm_row.host, vm_row.moving_to)
                if host
            }
            excess += (rack in racks) - (own in racks)
            if id(vm_row) in placed:
                excess += fleet.hosts[placed[id(vm_row)]].rack == rack
    return excess


def _why_no_room(
    vms: Sequence[VmRow], free: Sequence[Mapping[str, float]]
) -> Iterable[Reason]:
    for name in ("places", "vcpu", "memory"):
        sizes = [1 if name == "places" else getattr(vm, name) or 0 for vm in vms]
        if sum(sizes) > sum(capacity[name] for capacity in free):
            yield Reason.NO_ROOM
        if max(sizes) > max((capacity[name] for capacity in free), default=0):
            yield Reason.TOO_LARGE
