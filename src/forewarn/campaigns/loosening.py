"""Find the changed terms of a campaign that allow more than was reviewed: values in,
values out.

If a second person is demanded, the starter of a campaign must not allow it more. To allow
it less is an act of caution, like a pause.
"""

from forewarn.campaigns.record import CampaignRecord
from forewarn.settings.amounts import amount_of

NO_LIMIT = float("inf")


def loosened(before: CampaignRecord, after: CampaignRecord) -> tuple[str, ...]:
    """Return the terms that allow more after a change, in the order of `campaign set`.

    A percentage counts from the hosts of the campaign or the fleet, so that `5%` and `8`
    can be compared. A blackout that is removed or replaced allows more.
    """
    less, more = _amounts(before), _amounts(after)
    terms = [term for term in less if more[term] > less[term]]
    if set(before.blackouts) - set(after.blackouts):
        terms.append("blackouts")
    return tuple(terms)


def _amounts(campaign: CampaignRecord) -> dict[str, float]:
    budget, tolerance = campaign.budget, campaign.tolerance
    unavailable, down = budget.unavailable, tolerance.vms_down
    return {
        "in_flight": amount_of(budget.in_flight).of(campaign.hosts),
        "unavailable": amount_of(unavailable).of(campaign.fleet_hosts)
        if unavailable
        else NO_LIMIT,
        "overlap_notice": budget.overlap_notice,
        "failures": tolerance.failures,
        "in_a_row": tolerance.in_a_row,
        "vms_down": NO_LIMIT if down is None else down,
    }
