"""Change the terms of a running campaign: its budgets, tolerance and blackouts.

Hosts, steps, stages and windows stay as they were reviewed. The next turn of
the campaign uses the new terms. Announced hosts stay announced: with a smaller budget,
the campaign announces nothing until fewer hosts or fault domains are in flight, and the
guard lets fault domains start one after the other with any `overlap_notice`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forewarn.campaigns import never
from forewarn.campaigns.loosening import loosened
from forewarn.campaigns.options import BUDGET, TOLERANCE
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import campaign_ends
from forewarn.control.rules import campaign_gate, second_person
from forewarn.control.transactions.work import Work
from forewarn.fleet.blackout_fields import (
    BLACKOUTS_MAX,
    blackout_of,
    line_of_blackout,
)
from forewarn.fleet.blackouts import Blackout
from forewarn.problems import listed
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.settings import forms
from forewarn.settings.forms import Option
from forewarn.store.records import AuditKind, Facts

TERMS = (
    *("in_flight", "unavailable", "overlap_notice"),
    *("failures", "in_a_row", "vms_down", "blackout", "remove_blackout"),
)
"""The keys of the terms that can change."""

NO_LIMIT = "none"
"""The word that removes a budget."""

_HINTS = {
    "in_flight": "Give a number of hosts such as 8, or a percentage such as 3%.",
    "unavailable": "Give a number of hosts such as 8, a percentage such as 3%, or none.",
    "overlap_notice": "Give a number of fault domains, such as 1.",
    "failures": "Give a number of hosts, such as 2.",
    "in_a_row": "Give a number of hosts, such as 1.",
    "vms_down": "Give a number of VMs, such as 8.",
}


def change(
    work: Work, old: CampaignRecord, values: Mapping[str, str]
) -> CampaignRecord:
    """Change some terms; raises BadRequestError for a value that is not valid.

    If the campaign has these terms, nothing happens. The starter of the campaign is
    refused a change that allows it more, if the policy demands a second person.
    """
    given = {key: value for key, value in values.items() if value}
    if not given:
        raise BadRequestError(
            "give at least one value to change",
            hint="Such as --in-flight 8, --unavailable 3%, --failures 2 or --in-a-row 1.",
        )
    new = replace(_changed(old, given), blackouts=_blackouts(old, given))
    if more := loosened(old, new):
        second_person.check(
            work.policy,
            starter=old.actor,
            actor=work.who.actor,
            act=f"loosen {', '.join(more)} of campaign {old.name}",
        )
    _check_opens(work, old, new)
    before, after = _terms(old), _terms(new)
    changes = tuple(
        (key, before[key], after[key]) for key in before if before[key] != after[key]
    )
    if not changes:
        return old
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_CHANGED, Facts(changes=changes))
    request = work.request(old.request)
    if request.in_flight:
        before_it = max(old.overlap_before, old.budget.overlap_notice)
        new = replace(new, overlap_before=before_it)
    at_once = campaign_gate.at_once(new)
    if request.at_once != at_once:
        work.tx.replace(request, replace(request, at_once=at_once))
    work.take_turn(old.request)
    if new.blackouts != old.blackouts:
        work.free_campaign(old.name)
    return campaign_ends.save(work, old, new)


def _changed(old: CampaignRecord, given: Mapping[str, str]) -> CampaignRecord:
    budget = replace(
        old.budget,
        in_flight=str(_value(BUDGET, given, "in_flight", old.budget.in_flight)),
        unavailable=""
        if given.get("unavailable") == NO_LIMIT
        else str(_value(BUDGET, given, "unavailable", old.budget.unavailable)),
        overlap_notice=_value(
            BUDGET, given, "overlap_notice", old.budget.overlap_notice
        ),
    )
    tolerance = replace(
        old.tolerance,
        failures=_value(TOLERANCE, given, "failures", old.tolerance.failures),
        in_a_row=_value(TOLERANCE, given, "in_a_row", old.tolerance.in_a_row),
        vms_down=_value(TOLERANCE, given, "vms_down", old.tolerance.vms_down),
    )
    if tolerance.failures >= tolerance.of_last:
        raise BadRequestError(
            f"{tolerance.failures} failures of the last {tolerance.of_last} hosts would "
            "never halt the campaign",
            hint="Tolerate fewer failures.",
        )
    return replace(old, budget=budget, tolerance=tolerance)


def _blackouts(old: CampaignRecord, given: Mapping[str, str]) -> tuple[Blackout, ...]:
    """Return the blackouts after the change. A new one replaces one with its name."""
    kept = {each.name: each for each in old.blackouts}
    if old.is_emergency and given.keys() & {"blackout", "remove_blackout"}:
        raise RefusedError(
            f"campaign {old.name} is an emergency, which no blackout stops",
            hint=f"Run `forewarn campaign pause {old.name} --reason TEXT` to stop it for a "
            "while.",
        )
    if removed := given.get("remove_blackout", ""):
        if removed not in kept:
            raise BadRequestError(
                f"campaign {old.name} has no blackout {removed}",
                hint=f"Run `forewarn campaign show {old.name}` to see its blackouts.",
            )
        del kept[removed]
    if line := given.get("blackout", ""):
        try:
            added = blackout_of(line)
        except ValueError as error:
            raise BadRequestError(
                f"{line!r} is not a blackout: {error}",
                hint="Write it like 'year-end 2026-12-24T18:00 2027-01-02T06:00 "
                "Europe/Berlin'.",
            ) from error
        kept[added.name] = added
        if len(kept) > BLACKOUTS_MAX:
            raise BadRequestError(
                f"a campaign has at most {BLACKOUTS_MAX} blackouts",
                hint=f"Run `forewarn campaign set {old.name} --remove-blackout NAME`.",
            )
    return tuple(kept.values())


def _check_opens(work: Work, old: CampaignRecord, new: CampaignRecord) -> None:
    """Refuse a blackout after which no host of the campaign could ever begin."""
    added = [each.name for each in new.blackouts if each not in old.blackouts]
    if not added:
        return
    before, after = (campaign_gate.hours_of(work.tx, each) for each in (old, new))
    asked = never.Needs(
        at=work.now, notice=new.notice, work=after.work, windows=after.windows
    )
    closed = (*after.blackouts, *after.wide)
    if asked.fits(closed) or not asked.fits((*before.blackouts, *before.wide)):
        return
    banned = [each.name for each in never.needed(asked, closed)]
    others = [each for each in banned if each not in added]
    if others:
        raise RefusedError(
            f"with blackout {added[0]}, beside blackout {listed(others)}, no opening ever "
            f"comes for campaign {new.name}",
            hint="Leave time for a host between their times, or run `forewarn campaign "
            f"pause {new.name} --reason TEXT`.",
        )
    raise RefusedError(
        f"with blackout {added[0]}, no opening ever comes for campaign {new.name}",
        hint=f"Leave time for a host between its times, or run `forewarn campaign pause "
        f"{new.name} --reason TEXT`.",
    )


def _value(
    options: Mapping[str, Option], given: Mapping[str, str], key: str, kept: Any
) -> Any:
    """Return the given value, which must be one that a campaign file can have."""
    if key not in given:
        return kept
    try:
        return forms.from_text(options[key], given[key])
    except ValueError as error:
        raise BadRequestError(f"{key}: {error}", hint=_HINTS[key]) from None


def _terms(campaign: CampaignRecord) -> Mapping[str, str]:
    """Return the terms that can change, as a caller writes them."""
    return {
        "in_flight": campaign.budget.in_flight,
        "unavailable": campaign.budget.unavailable or NO_LIMIT,
        "overlap_notice": str(campaign.budget.overlap_notice),
        "failures": str(campaign.tolerance.failures),
        "in_a_row": str(campaign.tolerance.in_a_row),
        "vms_down": NO_LIMIT
        if campaign.tolerance.vms_down is None
        else str(campaign.tolerance.vms_down),
        "blackouts": ", ".join(map(line_of_blackout, campaign.blackouts)) or NO_LIMIT,
    }
