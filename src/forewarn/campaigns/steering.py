"""The part of a campaign that only decisions change, as a text to compare.

An order can name the one that its operator saw, so that it is refused after another
decision. The progress of hosts does not change it.
"""

import hashlib

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord

DIGITS = 12
"""Hexadecimal digits of a revision: enough to notice every change."""


def revision_of(campaign: CampaignRecord) -> str:
    """Return the revision of a campaign: it differs after each decision about it."""
    decided = (
        *(campaign.pauses, campaign.halt, campaign.despite),
        *(campaign.budget, campaign.tolerance, campaign.blackouts),
        *(campaign.is_released, campaign.hosts),
        campaign.state is CampaignState.ABORTED,
    )
    return hashlib.sha256(repr(decided).encode()).hexdigest()[:DIGITS]
