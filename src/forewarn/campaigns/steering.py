"""The last decision about a campaign, as a string to compare.

An order can name the one that its operator saw, so that it is refused after another
decision. The progress of hosts does not change it.
"""

from forewarn.campaigns.record import CampaignRecord


def revision_of(campaign: CampaignRecord) -> str:
    """Return the revision of a campaign: it differs after each decision about it."""
    # Never empty: an order with an empty revision compares nothing.
    return campaign.last_decision or campaign.campaign_id
