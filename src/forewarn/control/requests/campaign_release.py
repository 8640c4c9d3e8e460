"""The release of an emergency campaign by a second person.

An emergency ignores windows, blackouts and deferrals. If the service demands a second
person, its start announces nothing: another operator must approve its first stage.
"""

from dataclasses import replace

from forewarn.campaigns.prepared import Prepared
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.steerable import FIRST_STAGE
from forewarn.control.transactions.work import Work
from forewarn.store.records import AuditKind, Facts


def is_released(policy: Policy, prepared: Prepared) -> bool:
    """Return whether a campaign may announce hosts from its start on."""
    return not (policy.second_person and prepared.is_emergency)


def ask(work: Work, campaign: CampaignRecord) -> None:
    """Note that a campaign needs its release, if it does."""
    if not campaign.is_released:
        facts = Facts(stage=FIRST_STAGE)
        campaign_ends.note(work, campaign, AuditKind.CAMPAIGN_APPROVAL_NEEDED, facts)


def release(work: Work, old: CampaignRecord) -> CampaignRecord:
    """Release a campaign whose first stage is approved."""
    facts = Facts(stage=FIRST_STAGE)
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_STAGE_APPROVED, facts)
    work.take_turn(old.request)
    return campaign_ends.save(work, old, replace(old, is_released=True))
