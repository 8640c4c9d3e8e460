"""Change the terms of a running campaign.

`campaigns.changes` has the terms. The next turn of the campaign uses the new ones.
Announced hosts stay announced: with a smaller budget, the campaign announces nothing until
fewer hosts or fault domains are in flight, and the guard lets fault domains start one after
the other with any `overlap_notice`. Only those that the new windows or a new blackout do
not allow any more are withdrawn.
"""

from collections.abc import Mapping
from dataclasses import replace

from forewarn.campaigns import changes, never
from forewarn.campaigns.loosening import loosened
from forewarn.campaigns.record import (
    TERMS_CHANGED,
    WINDOWS_CHANGED,
    CampaignRecord,
)
from forewarn.control.execution import campaign_checks, campaign_ends
from forewarn.control.rules import campaign_gate, second_person
from forewarn.control.transactions.work import Work
from forewarn.instants import describe_duration
from forewarn.problems import listed
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.store.records import AuditKind, Facts


def change(
    work: Work, old: CampaignRecord, values: Mapping[str, str]
) -> CampaignRecord:
    """Change some terms; raises BadRequestError for a value that is not valid.

    If the campaign has these terms, nothing happens. The starter of the campaign is
    refused a change that allows it more, if the policy demands a second person.
    """
    changed_values = {key: value for key, value in values.items() if value}
    if not changed_values:
        raise BadRequestError(
            "give at least one value to change",
            hint="Such as --in-flight 8, --unavailable 3%, --failures 2 or --in-a-row 1.",
        )
    new = changes.changed(old, changed_values)
    new = replace(new, stages=campaign_gate.with_speed(work.policy, new.stages))
    if more := loosened(old, new):
        second_person.check(
            work.policy,
            starter=old.actor,
            actor=work.who.actor,
            act=f"loosen {', '.join(more)} of campaign {old.name}",
        )
    campaign_checks.refuse_unknown(work.checks.names, set(new.checks) - set(old.checks))
    _check_opens(work, old, new)
    before, after = changes.terms_of(old), changes.terms_of(new)
    altered = tuple(
        (key, before[key], after[key]) for key in before if before[key] != after[key]
    )
    if not altered:
        return old
    campaign_ends.note(work, old, AuditKind.CAMPAIGN_CHANGED, Facts(changes=altered))
    return _take_effect(work, old, _soaked(work, old, new))


def _soaked(work: Work, old: CampaignRecord, new: CampaignRecord) -> CampaignRecord:
    """Return the campaign with the end of a soak that has begun and has another length."""
    place = old.stage - 1
    if not old.soaks_until or new.stages[place].soak == old.stages[place].soak:
        return new
    began = old.soaks_until - work.policy.sped_up(old.stages[place].soak)
    ends = began + work.policy.sped_up(new.stages[place].soak)
    # It may have been long enough already.
    ends = max(ends, min(old.soaks_until, work.now))
    return replace(new, soaks_until=ends, due_at=ends)


def _take_effect(
    work: Work, old: CampaignRecord, new: CampaignRecord
) -> CampaignRecord:
    """Store the campaign, and let everything that waits for its terms look again."""
    request = work.request(old.request)
    if request.in_flight:
        before_it = max(old.overlap_before, old.budget.overlap_notice)
        new = replace(new, overlap_before=before_it)
    at_once = campaign_gate.at_once(new)
    if request.at_once != at_once:
        work.tx.replace(request, replace(request, at_once=at_once))
    work.take_turn(old.request)
    has_other_hours = (new.windows, new.blackouts) != (old.windows, old.blackouts)
    if has_other_hours:
        work.free_campaign(old.name)
    if new.windows != old.windows:
        new = replace(new, fitted=WINDOWS_CHANGED)
    elif old.fitted != WINDOWS_CHANGED and (
        has_other_hours or new.budget != old.budget
    ):
        new = replace(new, fitted=TERMS_CHANGED)
    if new.priority != old.priority:
        work.share()
    saved = campaign_ends.save(work, old, new)
    if new.checks != old.checks:
        campaign_ends.need_checks(work)
    return saved


def _check_opens(work: Work, old: CampaignRecord, new: CampaignRecord) -> None:
    """Refuse windows or a blackout after which no host of the campaign could ever begin."""
    added = [
        blackout.name for blackout in new.blackouts if blackout not in old.blackouts
    ]
    if not added and new.windows == old.windows:
        return
    before, after = (
        campaign_gate.hours_of(work.tx, campaign) for campaign in (old, new)
    )
    asked, was = (
        never.Needs(
            at=work.now, notice=new.notice, work=campaign.work, windows=campaign.windows
        )
        for campaign in (after, before)
    )
    closed = (*after.blackouts, *after.wide)
    if asked.fits(closed) or not was.fits((*before.blackouts, *before.wide)):
        return
    if not asked.fits(()):
        raise RefusedError(
            f"no window of campaign {new.name} would be long enough for a host, which "
            f"takes up to {describe_duration(after.work)} after its notice",
            hint="Add a longer window.",
        )
    banned = [blackout.name for blackout in never.needed(asked, closed)]
    others = [name for name in banned if name not in added]
    if not added:
        raise RefusedError(
            f"with these windows, beside blackout {listed(others)}, no opening ever comes "
            f"for campaign {new.name}",
            hint="Leave time for a host between the blackouts.",
        )
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
