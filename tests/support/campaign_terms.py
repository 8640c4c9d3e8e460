"""Checks by `campaign_watcher` of the terms of campaigns, except their counts.

Like the watcher, it reads the rows of each commit and shares no code with what it judges:
blackouts, the VMs of a tenant, the reserve of a pool, added hosts, drift and the brake.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact
from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import Host, HostState, Vm
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, MINUTE, SECOND, Micros
from forewarn.protocol.operations import MOVING_ACTIONS, WAITING_STATES, Operation
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.protocol.visits import Visit, VisitState
from forewarn.store.records import Brake
from tests.support.moments import Moment

RESOURCES = {"capacity": lambda _vm: 1, "vcpu": lambda vm: vm.vcpu or 0}
"""The resources of a pool, and how much of each a VM uses."""


def number(amount: str, total: int) -> int:
    """2.3: a percentage is rounded down, but to at least 1."""
    if amount.endswith("%"):
        return max(1, int(total * float(amount[:-1]) / 100))
    return int(amount)


def k1_places(moment: Moment, operation: Operation) -> None:
    """2.4: all VMs of an announced host have their places reserved together.

    A driver that chooses the destinations reserves none.
    """
    if operation.action not in MOVING_ACTIONS or operation.driver_chooses:
        return
    homeless = sorted(
        move.vm for move in operation.moves if not moment.mirror.vms[move.vm].moving_to
    )
    assert not homeless, f"K1: {operation} is announced, and {homeless} have no place"


# Blackouts


def opened(window: Window, first: Micros, last: Micros) -> Iterator[tuple[int, int]]:
    """Yield the openings of a window that overlap a time; windows of lives are in UTC."""
    assert window.timezone == "UTC"
    for day in range(first // DAY - 2, last // DAY + 1):
        opens = day * DAY + window.start * MINUTE
        is_met = opens <= last and opens + window.length > first
        if is_met and (day + 3) % 7 in window.days:
            yield opens, opens + window.length


def banned(
    blackouts: tuple[Blackout, ...], first: Micros, end: Micros
) -> list[Blackout]:
    """Return the blackouts that overlap a time; of an instant, those that it is in."""
    last = max(first, end - 1)
    overlapping: list[Blackout] = []
    for blackout in blackouts:
        if blackout.window is not None:
            times = list(opened(blackout.window, first, last))
        else:
            begins, ends = (
                round(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp())
                for at in (blackout.begins, blackout.ends)
            )
            is_met = begins * SECOND <= last and ends * SECOND > first
            times = [(begins, ends)] if is_met else []
        overlapping += [blackout] if times else []
    return overlapping


def k1_blackouts(
    moment: Moment, operation: Operation, campaign: CampaignRecord
) -> None:
    """K1: no host is announced in a blackout, nor for a time that overlaps one."""
    now = banned(campaign.blackouts, moment.now, moment.now)
    assert not now, f"K1: {operation} is announced in {now}"
    if moment.mirror.events_of(operation.operation_id):
        starts = operation.not_before
        overlapping = banned(campaign.blackouts, starts, starts + campaign.slow)
        assert not overlapping, f"K1: {operation} would be in work in {overlapping}"


def k9_blackouts(
    moment: Moment, operation: Operation, campaign: CampaignRecord
) -> None:
    """K9: no host starts in a blackout, or so late that its work would reach into one."""
    overlapping = banned(campaign.blackouts, moment.now, moment.now + campaign.slow)
    assert not overlapping, f"K9: {operation} started beside {overlapping}"


def k1_fits_blackouts(
    moment: Moment, campaign: CampaignRecord, operations: list[Operation]
) -> None:
    """2.5: what would start in a blackout is withdrawn when the blackout is added."""
    for operation in operations:
        if operation.state in WAITING_STATES:
            starts = max(moment.now, operation.not_before)
            overlapping = banned(campaign.blackouts, starts, starts + campaign.slow)
            assert not overlapping, (
                f"K1: {operation} is still announced for {overlapping}"
            )


# Tenants and room


def k1_tenants(moment: Moment, operation: Operation, campaign: CampaignRecord) -> None:
    """2.3: a limit on the VMs of a tenant under notice or in work, of any caller.

    A host with more VMs than that is announced alone.
    """
    if not campaign.budget.tenant_vms or campaign.impact is Impact.NONE:
        return
    limits = dict(campaign.tenant_most)
    used = _under_notice(moment)
    own = set(operation.vms)
    for tenant in {moment.mirror.vms[name].tenant for name in own}:
        vms = used.get(tenant, set()) | {
            name for name in own if moment.mirror.vms[name].tenant == tenant
        }
        # A VM that came to the host since the start can be of a tenant without a limit.
        is_within = tenant not in limits or len(vms) <= limits[tenant] or vms <= own
        assert is_within, f"K1: {sorted(vms)} of {tenant}, and {limits} may be"


def _under_notice(moment: Moment) -> dict[str, set[str]]:
    """Return the VMs of each tenant that planned work names in events."""
    hosts_of: dict[str, set[str]] = {}
    for event in moment.mirror.live_events:
        if moment.mirror.operations[event.operation].verb in PLANNED_VERBS:
            for resource in event.resources:
                vm = moment.mirror.vms[resource.vm]
                hosts_of.setdefault(vm.tenant, set()).add(vm.name)
    return hosts_of


def k1_tenant_limits(moment: Moment, campaign: CampaignRecord) -> None:
    """2.3: a limit in percent is of all VMs of the tenant, when the campaign starts."""
    totals = Counter(vm.tenant for vm in moment.mirror.live_vms)
    for tenant, most in campaign.tenant_most:
        wanted = number(campaign.budget.tenant_vms, totals[tenant])
        assert most == wanted, f"K1: {most} VMs of {tenant}, instead of {wanted}"


def reserve_is_kept(moment: Moment, operation: Operation) -> None:
    """2.4: routine work that empties a host leaves the reserve of its pool free.

    Its VMs have their places already, so what is left is the reserve, or more.
    """
    amount = moment.policy.reserve
    is_routine = operation.verb is Verb.MAINTAIN and not operation.is_emergency
    if not is_routine or operation.action not in MOVING_ACTIONS:
        return
    hosts = moment.mirror.hosts
    own = hosts[operation.host]
    pool = [host for host in hosts.values() if host.pool == own.pool]
    moved = [moment.mirror.vms[name] for name in operation.vms]
    for key, use in RESOURCES.items():
        limits = {host.name: getattr(host, key) for host in pool}
        if None in limits.values() or not sum(map(use, moved)):
            continue
        reserved = (
            amount.of(sum(limits.values()))
            if amount.is_percent
            else int(amount.value) * max(limits.values())
        )
        free = sum(
            max(0, limits[host.name] - sum(map(use, _vms_at(moment, host.name))))
            for host in pool
            if host is not own and host.state is HostState.UP and not host.cordons
        )
        assert not reserved or free >= reserved, (
            f"2.4: {free} of {key} is left, not {reserved}"
        )


def _vms_at(moment: Moment, host: str) -> list[Vm]:
    return [vm for vm in moment.mirror.live_vms if host in {vm.host, vm.moving_to}]


# Hosts that come later


def hosts_are_added(
    moment: Moment, before: CampaignRecord, after: CampaignRecord
) -> None:
    """2.1: added hosts come last in the last stage, and nothing else changes."""
    more = after.hosts - before.hosts
    assert more >= 0, f"2.1: a host is lost: {before}, {after}"
    if not more:
        return
    *first, last = before.stages
    assert list(after.stages[:-1]) == first, f"2.1: an earlier stage grew: {after}"
    assert after.stages[-1].hosts == last.hosts + more, f"2.1: {after}"
    assert not before.is_emergency, f"2.1: hosts are added to an emergency: {after}"
    places = sorted(
        change.after.position
        for change in moment.changes
        if change.before is None
        and isinstance(change.after, Operation)
        and change.after.request == after.request
    )
    wanted = list(range(before.hosts + 1, after.hosts + 1))
    assert places == wanted, f"2.1: {places} are the places of added hosts: {after}"


def drift_is_marked(moment: Moment) -> None:
    """2.1: a host that the fleet gains is drift of a campaign that selects all hosts."""
    campaigns = [
        campaign.campaign_id
        for campaign in moment.mirror.table(CampaignRecord).values()
        if not campaign.has_ended
        and campaign.text
        and tomllib.loads(campaign.text)["campaign"]["select"].get("all")
    ]
    for change in moment.changes:
        host = change.after
        if isinstance(host, Host) and change.before is None and campaigns:
            assert host.drift_of in campaigns, f"2.1: {host} is no drift of {campaigns}"


# The brake


def k3_no_work_after_a_halt(moment: Moment) -> None:
    """K3: no host of a halted or aborted campaign begins its work after its start."""
    for change in moment.changes:
        old, new = change.before, change.after
        if not isinstance(old, Visit) or not isinstance(new, Visit):
            continue
        if (old.state, new.state) != (VisitState.DRAINING, VisitState.WORKING):
            continue
        request = moment.mirror.requests[new.request]
        campaign = moment.mirror.table(CampaignRecord).get(request.campaign)
        if campaign is not None:
            is_stopped = campaign.halt or campaign.state is CampaignState.ABORTED
            assert not is_stopped, f"K3: {new} begins its work in {campaign}"


def brake_halts_all(moment: Moment) -> None:
    """2.6: a brake that withdraws work halts all campaigns in the same commit."""
    for change in moment.changes:
        old, new = change.before, change.after
        is_old = isinstance(old, Brake) and old.withdraws
        if isinstance(new, Brake) and new.withdraws and not is_old:
            for campaign in moment.mirror.table(CampaignRecord).values():
                is_halted = campaign.has_ended or campaign.halt is not None
                assert is_halted, f"K3: the brake is on, and {campaign} runs"
