"""Make a rollout of `maintain` a stored campaign, when the first verb steers it.

From then on it is a campaign of one stage, with the ID of the rollout as its name. It
tolerates no failed host: the next failure halts it, and does not stop it.
"""

from dataclasses import replace

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends
from forewarn.control.rules import campaign_gate, tallies
from forewarn.control.transactions.work import Work
from forewarn.ids import place_in
from forewarn.store.records import FLEET_HOSTS, AuditKind, Facts


def adopt(work: Work, implied: CampaignRecord) -> CampaignRecord:
    """Store the campaign that an open rollout implies."""
    request = work.request(implied.request)
    campaign = work.tx.add(
        replace(
            implied,
            campaign_id=work.ids.short("ca", place=place_in(request.request_id)),
            fleet_hosts=tallies.counted(work.tx, FLEET_HOSTS),
            notice=campaign_gate.notice_of(work.policy, implied.impact),
        )
    )
    work.tx.replace(request, replace(request, campaign=campaign.campaign_id))
    campaign_ends.note(
        work, campaign, AuditKind.CAMPAIGN_STARTED, Facts(count=campaign.hosts)
    )
    return campaign
