"""Take hosts into a campaign that runs: `forewarn campaign add`.

The hosts are checked as they are now, with the checks of `maintain`, so no transaction
reads the whole fleet. They come last in the order, in the last stage, so a campaign never
proves its work on hosts outside the reviewed plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forewarn.campaigns import progress
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends, replanning
from forewarn.control.requests import campaigns, rollouts
from forewarn.control.requests.verbs.changes import check_targets, free_hosts
from forewarn.control.requests.verbs.emptying import fit_host
from forewarn.control.rules import (
    campaign_gate,
    campaign_hosts,
    destinations,
    implied_campaigns,
    steerable,
)
from forewarn.control.rules.guard import shared_hosts
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.ids import place_of
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    Operation,
)
from forewarn.settings.amounts import amount_of
from forewarn.store import kinds, sequence
from forewarn.store.port import count, every
from forewarn.store.records import AuditKind, Facts
from forewarn.verbs.model import Kind

ADDED_MAX = 25
"""Maximum hosts of one request: each takes a search for destinations, about 2 ms, in one
transaction."""

SCOPE_VMS_MAX = 100_000
"""Maximum VMs of a scope that are counted for a percentage: a large fleet."""


def add_hosts(
    work: Work, name: str, hosts: Sequence[str], *, with_drift: bool
) -> CampaignRecord:
    """Take hosts into a campaign, at the end of its order.

    `with_drift`: the first hosts that match its selection and were added to the fleet
    since its start. Raises BadRequestError and RefusedError.
    """
    old = campaigns.find_open(work, name)
    if bool(hosts) == with_drift:
        raise BadRequestError(
            "name hosts, or all hosts that the fleet has gained",
            hint="Give the names of hosts, or --drift.",
        )
    campaigns.check_reason(work, "an added host")
    if with_drift:
        records = work.tx.select(
            kinds.DRIFT_OF_CAMPAIGN, old.campaign_id, limit=ADDED_MAX
        )
        hosts = [host.name for host in records]
        if not hosts:
            raise RefusedError(f"campaign {old.name} has no drift")
    check_targets(hosts, Kind.HOST)
    if len(hosts) > ADDED_MAX:
        raise RefusedError(
            f"one request can add at most {ADDED_MAX} hosts, not {len(hosts):,}",
            hint="Split it into several requests, or start another campaign.",
        )
    request = work.request(old.request)
    if why := steerable.why_no_more_hosts(old, request):
        raise why
    pattern = rollouts.like_the_first(work, request)
    failed = campaign_hosts.failed_in(work.tx)
    names = {
        campaign.request: campaign.name
        for campaign in implied_campaigns.open_ones(work.tx)
    }

    def outside(host: str) -> str:
        campaign_hosts.check_not_failed(failed, host)
        return _outside(work, old, host, names)

    hosts = work.parts.each(hosts, outside)
    hosts = free_hosts(work, hosts)
    steps = request.steps
    hosts = work.parts.each(hosts, lambda host: _clearable(work, pattern, host, steps))
    new = _with(work, progress.hosts_added(old, len(hosts)), hosts)
    work.tx.replace(
        request,
        replace(request, hosts=new.hosts, at_once=campaign_gate.at_once(new)),
    )
    saved = campaign_ends.save(work, old, new)
    for position, host in enumerate(hosts, start=old.hosts + 1):
        planned = replace(pattern, target=host, host=host, position=position)
        place = place_of(*sequence.parts_of(work.next_key()))
        replanning.plan_again(work, request.request_id, planned, place=place)
        _forget_drift(work, host)
    facts = Facts(count=len(hosts))
    campaign_ends.note(
        work, old, AuditKind.CAMPAIGN_HOSTS_ADDED, facts, hosts=tuple(hosts)
    )
    work.take_turn(old.request)
    return saved


def _outside(
    work: Work, campaign: CampaignRecord, name: str, open_ones: Mapping[str, str]
) -> str:
    """Return the host; refuse one that a campaign has, or that this one has done.

    `open_ones` has the names of the open campaigns by their requests.
    """
    for operation in every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if operation.request in open_ones:
            raise RefusedError(
                f"host {name} is in campaign {open_ones[operation.request]}, which has not "
                "ended",
                hint=f"Run `forewarn explain {name}` to see what it waits for.",
            )
    if campaign_hosts.is_done_in(work.tx, campaign.request, name):
        raise RefusedError(f"host {name} is done in campaign {campaign.name}")
    return name


def _clearable(
    work: Work, pattern: Operation, name: str, steps: Sequence[HostStep]
) -> str:
    """Return the host; refuse one that could never be announced as it is now."""
    if pattern.action is Action.NONE:
        return name
    vms = list(every(work.tx, kinds.VMS_ON_HOST, name))
    blockers = shared_hosts(replace(pattern, host=name), vms)
    if not blockers:
        fit_host(work, name, pattern.action, steps)
        if pattern.action in MOVING_ACTIONS and not work.policy.driver_chooses:
            blockers = destinations.find_in_time(work.tx, vms, request=pattern.request)
    if blockers:
        raise HinderedError(f"host {name} cannot be cleared", because=blockers[:1])
    return name


def _with(work: Work, campaign: CampaignRecord, hosts: Sequence[str]) -> CampaignRecord:
    """Return the campaign with the budgets of tenants that it had no VMs of."""
    if not campaign.budget.tenant_vms:
        return campaign
    amount = amount_of(campaign.budget.tenant_vms)
    most = dict(campaign.tenant_most)
    vms: list[Vm] = []
    for host in hosts:
        vms += every(work.tx, kinds.VMS_ON_HOST, host)
    for tenant in sorted({vm.tenant for vm in vms} - most.keys()):
        total = 0
        if amount.is_percent:
            total = sum(
                count(work.tx, kinds.VMS_OF_SCOPE, scope.name, limit=SCOPE_VMS_MAX)
                for scope in every(work.tx, kinds.SCOPES_OF_TENANT, tenant)
            )
        most[tenant] = max(1, amount.of(total))
    return replace(campaign, tenant_most=tuple(most.items()))


def _forget_drift(work: Work, name: str) -> None:
    host = work.host(name)
    if host.drift_of:
        work.tx.replace(host, replace(host, drift_of=""))
