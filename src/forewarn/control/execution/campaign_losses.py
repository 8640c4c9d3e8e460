"""Count the VMs that do not run after the work of a campaign, and halt it above its limit.

A VM that goes down belongs to the open campaign whose work it met last, or whose work has
started on its host. It counts until it runs again. The VM's row has the campaign, so that
an index counts such VMs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forewarn.campaigns import progress
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends
from forewarn.control.rules import campaign_gate
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import sortable
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.port import every


def after_loss(work: Work, host: str, vms: Sequence[str]) -> None:
    """Count VMs of one host that went down, and halt campaigns above their limit."""
    open_ = {
        campaign.request: campaign for campaign in every(work.tx, kinds.CAMPAIGNS_OPEN)
    }
    if not open_:
        return
    of_host = _worked_on(work, host, open_)
    blamed: dict[str, CampaignRecord] = {}
    for name in vms:
        vm = work.vm(name)
        campaign = _last_met(work, vm, open_) or of_host
        if campaign is not None and vm.state is VmState.DOWN:
            work.save_vm(vm, replace(vm, down_for=campaign.campaign_id))
            blamed[campaign.campaign_id] = campaign
    for campaign_id in blamed:
        _judge(work, work.campaign(campaign_id), host)


def _worked_on(
    work: Work, host: str, open_: Mapping[str, CampaignRecord]
) -> CampaignRecord | None:
    """Return the open campaign whose work has started on a host last; None: none has."""
    campaign = None
    for operation in every(work.tx, kinds.WORKED_ON_HOST, host):
        campaign = open_.get(operation.request, campaign)
    return campaign


def _last_met(
    work: Work, vm: Vm, open_: Mapping[str, CampaignRecord]
) -> CampaignRecord | None:
    """Return the open campaign that interrupted a VM last; None: none did."""
    earliest = min(campaign.created for campaign in open_.values())
    after = f"{vm.name}/{sortable(earliest)}"
    spans = work.tx.select(kinds.SPANS_OF_VM, vm.name, after=after)
    for span in reversed(spans):
        operation = work.tx.get(Operation, span.operation) if span.operation else None
        if operation is not None and operation.request in open_:
            return open_[operation.request]
    return None


def _judge(work: Work, campaign: CampaignRecord, host: str) -> None:
    most = progress.vms_down_max(campaign)
    if most is None or campaign.halt is not None:
        return
    down = campaign_gate.vms_down(work.tx, campaign)
    if down > most:
        why = progress.halt_for_vms(host, down, most, by=work.who.actor, now=work.now)
        campaign_ends.save(work, campaign, campaign_ends.halt(work, campaign, why))
