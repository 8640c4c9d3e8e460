"""The expected end of a campaign, and its limits now, for operators.

The service computes all of it, so that a page repeats no rule. The cost depends on the
hosts in flight and on the windows of some days, and not on the size of the campaign.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any, TypeAlias

from forewarn.campaigns import gate, pace
from forewarn.campaigns.lifecycle import CAMPAIGN_STEPS, CampaignInput, CampaignState
from forewarn.campaigns.progress import failures_of, vms_down_max
from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.steering import revision_of
from forewarn.control.rules import (
    brake,
    campaign_gate,
    second_person,
    steerable,
    wide_blackouts,
)
from forewarn.control.rules.second_person import Asker
from forewarn.fleet.blackouts import Blackout, coming
from forewarn.fleet.model import Host, is_at, places_of
from forewarn.fleet.windows import openings
from forewarn.instants import DAY, SECOND, Micros, format_instant, instant_or_none
from forewarn.reporting.campaign_rows import hosts_in_flight
from forewarn.reporting.campaigns import deferred_count
from forewarn.reporting.expected import Expected
from forewarn.reporting.reports import brake_report
from forewarn.reporting.uptime import seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, count

Json: TypeAlias = dict[str, Any]

AHEAD: Micros = 3 * DAY
"""Default time of the windows and blackouts that are shown after now."""

BEHIND: Micros = DAY
"""The same before now."""

TIMES_MAX = 200
"""Maximum windows, and blackouts, in one answer: more than a screen shows."""

GROUPS_MAX = 50
"""Maximum groups of one label whose budgets are shown, those with the most use first."""

GROUP_HOSTS_MAX = 200
"""Maximum hosts in flight that are read to find the groups in use: some 20 ms."""


def outlook(expected: Expected, asker: Asker, *, first: Micros, last: Micros) -> Json:
    """Return the outlook of a campaign, with its windows in a time; 0: the usual time.

    Its verbs are those that the service accepts from `asker`.
    """
    campaign, now = expected.campaign, expected.now
    first, last = first or now - BEHIND, last or now + AHEAD
    return {
        "campaign": campaign.campaign_id,
        "name": campaign.name,
        "at": format_instant(now),
        "state": campaign.state.value,
        "revision": revision_of(campaign),
        "counts": _counts(expected),
        "eta": _eta(expected),
        "stages": [_stage(expected, number) for number in _numbers(campaign)],
        "budgets": [
            *_budgets(expected),
            *_groups(expected),
            *_tolerance(expected.reader, campaign),
        ],
        "windows": _windows(campaign, first, last),
        "blackouts": _blackouts(expected.reader, campaign, first, last),
        "brake": brake_report(expected.reader),
        "verbs": _verbs(expected, asker),
    }


def _numbers(campaign: CampaignRecord) -> range:
    return range(1, len(campaign.stages) + 1)


def _counts(expected: Expected) -> Json:
    """Return the hosts by their course; they add up to all."""
    campaign, request = expected.campaign, expected.request
    announced = count(
        expected.reader,
        kinds.ANNOUNCED_OF_REQUEST,
        request.request_id,
        limit=max(1, campaign.hosts),
    )
    deferred = deferred_count(expected.reader, campaign)
    left = 0 if campaign.has_ended else campaign.left
    in_flight = min(left, max(request.in_flight, announced))
    return {
        "hosts": campaign.hosts,
        "done": campaign.done,
        "running": in_flight - min(announced, in_flight),
        "announced": min(announced, in_flight),
        "failed": len(campaign.failed),
        "skipped": campaign.hosts - campaign.done - len(campaign.failed) - left,
        "deferred": min(deferred, left - in_flight),
        "waiting": max(0, left - in_flight - deferred),
    }


def _eta(expected: Expected) -> Json:
    """Return when the campaign is expected to end, and by what that was computed."""
    campaign, found = expected.campaign, expected.pace
    end = expected.end()
    coming_stages = campaign.stages[campaign.stage - 1 : -1]
    soaks = expected.soaks_before(len(campaign.stages))
    return {
        "at": None if end is None else format_instant(pace.whole_minute(end)),
        "unknown": None if end is not None else _why_unknown(expected),
        "hosts": 0 if found is None else found.hosts,
        "turn_seconds": None if found is None else seconds(found.turn),
        "slots": expected.slots,
        "soak_seconds": seconds(soaks),
        "approvals": sum(stage.approval for stage in coming_stages),
    }


def _why_unknown(expected: Expected) -> str:
    campaign = expected.campaign
    if campaign.has_ended:
        return "ended"
    if campaign.state is not CampaignState.RUNNING:
        return campaign.state.value.lower()
    if list(brake.why_braked(expected.reader, expected.request.verb)):
        return "brake"
    if gate.is_only_failed(campaign):
        return "only failed hosts"
    return "no host is done" if expected.pace is None else "no opening"


def _stage(expected: Expected, number: int) -> Json:
    campaign, now = expected.campaign, expected.now
    stage = campaign.stages[number - 1]
    is_current = number == campaign.stage and not campaign.has_ended
    is_past = number < campaign.stage or campaign.has_ended
    left = stage.hosts - dict(campaign.skipped_ahead).get(number, 0)
    if is_past:
        left = 0
    elif is_current:
        left = max(0, campaign.stage_left)
    begins = expected.stage_begins(number) if not is_past and not is_current else None
    soaks = is_current and campaign.soaks_until > now
    return {
        "stage": number,
        "course": "past" if is_past else "current" if is_current else "coming",
        "hosts": stage.hosts,
        "left": left,
        "failed": len(campaign.failed) if is_current else 0,
        "soak_seconds": stage.soak / SECOND,
        "soaks_until": format_instant(campaign.soaks_until) if soaks else None,
        "approval": stage.approval,
        "approved": is_past or (is_current and campaign.is_approved),
        "needs_approval": is_current and gate.needs_approval(campaign, now=now),
        "begins": None if begins is None else format_instant(pace.whole_minute(begins)),
    }


def _budget(
    kind: str, used: int, most: int, *, subject: str = "", failed: int = 0
) -> Json:
    return {
        "kind": kind,
        "subject": subject or None,
        "used": used,
        "most": most,
        "failed": failed,
        "full": used >= most,
    }


def _budgets(expected: Expected) -> Iterator[Json]:
    """Yield the budgets of the whole campaign, with their use."""
    campaign = expected.campaign
    failed = len(campaign.failed)
    most = campaign_gate.at_once(campaign)
    used = expected.request.in_flight + failed
    yield _budget("in-flight", used, most, failed=failed)
    if campaign.ramp < most:
        yield _budget("ramp", used, campaign.ramp, failed=failed)
    away_max = campaign_gate.away_max(campaign)
    if away_max is not None:
        away = count(expected.reader, kinds.ROOMS_AWAY, limit=away_max + 1)
        yield _budget("unavailable", away, away_max)


def _groups(expected: Expected) -> Iterator[Json]:
    """Yield the budgets of groups of hosts that are in use."""
    reader, campaign = expected.reader, expected.campaign
    if not campaign.budget.by or campaign.has_ended:
        return
    names = sorted({*campaign.failed_hosts, *hosts_in_flight(expected)})
    hosts = (reader.get(Host, name) for name in names[:GROUP_HOSTS_MAX])
    places = {place for host in hosts if host is not None for place in places_of(host)}
    for label, amount in campaign.budget.by:
        groups = [
            campaign_gate.group_use(reader, campaign, amount, place)
            for place in sorted(place for place in places if is_at(place, label))
        ]
        groups.sort(key=lambda group: group.used - group.most, reverse=True)
        for group in groups[:GROUPS_MAX]:
            yield _budget(
                "group",
                group.used,
                group.most,
                subject=group.subject,
                failed=group.failed,
            )


def _tolerance(reader: Reader, campaign: CampaignRecord) -> Iterator[Json]:
    """Yield the failures that are tolerated: one more halts the campaign.

    No stage but the last one tolerates a failure.
    """
    failures, in_a_row = failures_of(campaign)
    tolerance, is_last = campaign.tolerance, campaign.is_last_stage
    yield _budget("failures", failures, tolerance.failures if is_last else 0)
    yield _budget("failures-in-a-row", in_a_row, tolerance.in_a_row if is_last else 0)
    most = vms_down_max(campaign)
    if most is not None:
        yield _budget("vms-down", campaign_gate.vms_down(reader, campaign), most)


def _windows(campaign: CampaignRecord, first: Micros, last: Micros) -> list[Json]:
    if not campaign.windows:
        return []
    coming = takewhile(
        lambda window: window.opens < last, openings(campaign.windows, first)
    )
    return [
        {
            "opens": format_instant(opening.opens),
            "closes": format_instant(opening.closes),
        }
        for opening in islice(coming, TIMES_MAX)
        if opening.closes > first
    ]


def _blackouts(
    reader: Reader, campaign: CampaignRecord, first: Micros, last: Micros
) -> list[Json]:
    """Return the times of the campaign's blackouts and of those of the service."""
    if campaign.is_emergency:
        return []
    wide = wide_blackouts.of_fleet(reader)
    times = [
        *_times(campaign.blackouts, campaign.name, first, last),
        *_times(wide, None, first, last),
    ]
    return sorted(times, key=lambda blackout: blackout["begins"])[:TIMES_MAX]


def _times(
    blackouts: tuple[Blackout, ...], campaign: str | None, first: Micros, last: Micros
) -> Iterator[Json]:
    for blackout in islice(coming(list(blackouts), first, last), TIMES_MAX):
        yield {
            "name": blackout.name,
            "campaign": campaign,
            "begins": format_instant(blackout.begins),
            "ends": instant_or_none(blackout.ends),
        }


def _verbs(expected: Expected, asker: Asker) -> list[str]:
    """Return the verbs that the state of the campaign allows to the actor."""
    campaign = expected.campaign
    if campaign.has_ended:
        return []
    steps = CAMPAIGN_STEPS[campaign.state]
    is_deferred = deferred_count(expected.reader, campaign) > 0
    stage = steerable.stage_to_approve(campaign)
    started = count(
        expected.reader,
        kinds.STARTED_OF_REQUEST,
        campaign.request,
        limit=max(1, campaign.hosts),
    )
    allowed = {
        "campaign-pause": CampaignInput.PAUSE in steps,
        "campaign-halt": CampaignInput.HALT in steps
        and steerable.why_no_halt(campaign) is None,
        "campaign-resume": CampaignInput.RESUME in steps,
        "campaign-override": CampaignInput.RESUME in steps
        and bool(campaign.checks)
        and second_person.why_not(
            asker, starter=campaign.actor, act="override its checks"
        )
        is None,
        "campaign-abort": CampaignInput.ABORT in steps,
        "campaign-approve": steerable.why_no_approval(campaign, stage, asker) is None,
        "campaign-retry": bool(campaign.failed) or is_deferred,
        "campaign-skip": steerable.why_no_skip(campaign, started) is None,
        "campaign-add": steerable.why_no_more_hosts(campaign, expected.request) is None,
        "campaign-set": True,
    }
    return [verb for verb, is_allowed in allowed.items() if is_allowed]
