"""An emergency campaign takes its hosts over from other campaigns.

It goes before planned work: a host that waits or is announced in another campaign is left
out there when it gets its turn in the emergency, without impact on its VMs. A host in work
ends there first. Until then the other campaign announces none of these hosts
(`rolling`). Each transaction takes over the few hosts that it looks at, so the start of an
emergency does not grow with the list.
"""

from collections.abc import Iterable

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends, ending
from forewarn.control.rules import campaign_gate, holds, rolling
from forewarn.control.transactions.work import Work
from forewarn.protocol.blockers import bounded
from forewarn.protocol.notes import HostSkipped
from forewarn.protocol.operations import UNSTARTED_STATES, Operation
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind, Facts


def take_over(
    work: Work, campaign: CampaignRecord, waiting: Iterable[Operation]
) -> None:
    """Leave the hosts of these operations of an emergency out of other campaigns."""
    for own in waiting:
        for other in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, own.host)):
            is_routine = other.request != own.request and not other.is_emergency
            if is_routine and other.state in UNSTARTED_STATES and other.position:
                _leave_out(work, campaign, own, other)


def _leave_out(
    work: Work, campaign: CampaignRecord, mine: Operation, operation: Operation
) -> None:
    request = work.request(operation.request)
    if not request.campaign and not request.implies_campaign:
        return
    owner = campaign_gate.gate_record(work.tx, request)
    note = HostSkipped(
        campaign=owner.name,
        by=campaign.actor,
        reason=campaign.reason,
        taken_by=campaign.name,
    )
    _note_deferrals(work, campaign, mine, operation)
    work.lock_scopes(operation.scopes)
    ending.cancel(work, operation, note=note, by=campaign.actor)
    if request.campaign:
        campaign_ends.note(
            work, owner, AuditKind.CAMPAIGN_HOSTS_SKIPPED, hosts=(operation.host,)
        )
    work.take_turn(request.request_id)


def _note_deferrals(
    work: Work, campaign: CampaignRecord, mine: Operation, operation: Operation
) -> None:
    """Note the deferrals of the other maintenance, which end with it."""
    vms = rolling.vms_of(work.tx, mine)
    deferrals = list(holds.deferrals_in(work.tx, operation.request, vms))
    if ignored := bounded(holds.why_held(deferrals, work.now)):
        facts, hosts = Facts(blockers=ignored), (mine.host,)
        kind = AuditKind.CAMPAIGN_WINDOWS_IGNORED
        campaign_ends.note(work, campaign, kind, facts, hosts=hosts)
