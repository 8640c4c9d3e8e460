"""Find the changed terms of a campaign that allow more than was reviewed: values in,
values out.

If a second person is demanded, the starter of a campaign must not allow it more. To allow
it less is an act of caution, like a pause.
"""

from collections.abc import Mapping

from forewarn.campaigns.record import CampaignRecord
from forewarn.settings.amounts import Amount, amount_of

NO_LIMIT = float("inf")


def loosened(before: CampaignRecord, after: CampaignRecord) -> tuple[str, ...]:
    """Return the terms that allow more after a change.

    A percentage counts from the hosts of the campaign or the fleet, so that `5%` and `8`
    can be compared. A blackout that is removed or replaced allows more.
    """
    less, more = _amounts(before), _amounts(after)
    terms = [term for term in less if more[term] > less[term]]
    has_more = {
        "by": _by_allows_more(dict(before.budget.by), dict(after.budget.by)),
        "windows": _windows_allow_more(before, after),
        "soaks": any(
            new.soak < old.soak
            for old, new in zip(before.stages, after.stages, strict=True)
        ),
        "approvals": any(
            old.approval and not new.approval
            for old, new in zip(before.stages, after.stages, strict=True)
        ),
        "checks": bool(set(before.checks) - set(after.checks)),
        "blackouts": bool(set(before.blackouts) - set(after.blackouts)),
    }
    return (*terms, *(term for term, is_more in has_more.items() if is_more))


def _amounts(campaign: CampaignRecord) -> dict[str, float]:
    budget, tolerance = campaign.budget, campaign.tolerance
    unavailable, down = budget.unavailable, tolerance.vms_down
    return {
        "in_flight": amount_of(budget.in_flight).of(campaign.hosts),
        "unavailable": amount_of(unavailable).of(campaign.fleet_hosts)
        if unavailable
        else NO_LIMIT,
        "tenant_vms": _tenant_vms(campaign),
        "overlap_notice": budget.overlap_notice,
        "failures": tolerance.failures,
        # Failures among fewer hosts are fewer.
        "of_last": -tolerance.of_last,
        "in_a_row": tolerance.in_a_row,
        "vms_down": NO_LIMIT if down is None else down,
    }


def _tenant_vms(campaign: CampaignRecord) -> float:
    """Return the budget of tenants; a percentage counts as that of the smallest one."""
    written = campaign.budget.tenant_vms
    if not written:
        return NO_LIMIT
    resolved = [most for _, most in campaign.tenant_most]
    return min(resolved) if resolved else amount_of(written).value


def _by_allows_more(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a group can have more hosts in flight.

    A number and a percentage of groups of any size cannot be compared: the new one then
    counts as more.
    """
    return any(
        label not in after or _is_more(amount_of(most), amount_of(after[label]))
        for label, most in before.items()
    )


def _is_more(old: Amount, new: Amount) -> bool:
    return new.is_percent != old.is_percent or new.value > old.value


def _windows_allow_more(before: CampaignRecord, after: CampaignRecord) -> bool:
    """Return whether hosts can begin at more times. Without windows, that is any time."""
    if not before.windows:
        return False
    return not after.windows or bool(set(after.windows) - set(before.windows))
